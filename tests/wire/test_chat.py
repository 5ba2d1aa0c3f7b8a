"""Chats and other servers' streams: what holds a token, what ends an answer; whole, split, with a tail."""

import json
from typing import Any

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.completions import CompletionDecoder, CompletionEvent, Tokens, Usage
from cotenant.wire.http1 import Body, Head

SSE = Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True)


def delta(reason: str | None = None, usage: int | None = None, **fields: Any) -> bytes:
    value: dict[str, Any] = {"choices": [{"index": 0, "delta": fields, "finish_reason": reason}]}
    if usage is not None:
        value["usage"] = {"prompt_tokens": 9, "completion_tokens": usage}
    return b"data: " + json.dumps(value, ensure_ascii=False).encode() + b"\n\n"


def bare(**choice: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, **choice}]}).encode() + b"\n\n"


def usage(count: int) -> bytes:
    value = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": count}}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
ROLE = delta(role="assistant", content="")
CALL = {"index": 0, "function": {"arguments": '{"a'}}

# Name: the stream, its tokens by event, whether it says that it ended, the output of the last usage.
STREAMS: dict[str, tuple[bytes, list[int], bool, int | None]] = {
    "vLLM, running usage": (
        delta(usage=0, role="assistant", content="")
        + delta(usage=1, content="a") + delta(usage=3, content="bc")
        + delta("length", usage=4, content="") + usage(4) + DONE,
        [0, 1, 2, 1], True, 4,
    ),
    "OpenAI, usage at the end": (
        ROLE + delta(content="a") + delta(content="b") + delta("stop") + usage(3) + DONE,
        [0, 1, 1, 0], True, 3,
    ),
    "reasoning, by its new and its old name": (
        ROLE + delta(reasoning="hm") + delta(reasoning_content="hm", content=None) + delta(content="a")
        + delta("stop", content="") + DONE,
        [0, 1, 1, 1, 1], True, None,
    ),
    "a tool is called": (
        delta(role="assistant", content=None, tool_calls=[CALL]) + delta(tool_calls=[CALL])
        + delta("tool_calls") + DONE,
        [1, 1, 0], True, None,
    ),
    "the speaker in every chunk": (
        delta(role="assistant", content="a") + delta(role="assistant", content="b")
        + delta("stop", content="") + DONE,
        [1, 1, 1], True, None,
    ),
    "an empty usage with every chunk": (
        delta(usage=0, content="a") + delta(usage=0, content="b") + delta("stop", usage=2) + DONE,
        [1, 1, 0], True, 2,
    ),
    "characters in pieces, CRLF, comments": (
        (b": keep-alive\n\n" + delta(content="süß 🎉") + b":\n\n" + delta(content="\ufffd") + delta("length"))
        .replace(b"\n", b"\r\n"),
        [1, 1, 0], True, None,
    ),
    "reasoning in a list": (
        delta(role="assistant", content="", reasoning_details=[{"type": "reasoning.text", "text": "hm"}])
        + delta(content=None, reasoning_details=[{"type": "reasoning.encrypted", "data": "x"}])
        + delta(content="", reasoning="hm", reasoning_details=[{"text": "hm"}])
        + delta(content=None, reasoning_details=[]) + delta(content="a") + delta("stop") + DONE,
        [1, 1, 1, 0, 1, 0], True, None,
    ),
    "who speaks, alone": (
        delta(role="assistant") + delta(role="assistant", content=None) + delta(role="assistant", content="")
        + delta(role="assistant", content=None, tool_calls=[]) + delta(content="a") + DONE,
        [0, 0, 0, 0, 1], True, None,
    ),
    "a text that is null, and empty lists": (
        delta(content=None) + delta(content=None, tool_calls=None) + delta(content=None, tool_calls=[])
        + delta(content=None, function_call={}) + delta(content="") + delta("stop") + DONE,
        [0, 0, 0, 0, 1, 0], True, None,
    ),
    "no delta": (
        bare() + delta(content="a") + bare(delta=None) + bare(delta={}) + bare(text=None)
        + bare(finish_reason="stop") + DONE,
        [0, 1, 0, 0, 0, 0], True, None,
    ),
    "no choice between the tokens": (
        b'data: {"choices": [], "prompt_filter_results": [1]}\n\n' + ROLE + delta(content="a")
        + b'data: {"choices": []}\n\ndata: {"choices": null}\n\ndata: {"id": "x"}\n\n' + usage(1)
        + delta(content="b") + delta("stop") + usage(2) + DONE,
        [0, 1, 1, 0], True, 2,
    ),
    "a call whose arguments come in pieces": (
        delta(role="assistant", content="", tool_calls=[{**CALL, "id": "1"}]) + delta(tool_calls=[CALL, CALL])
        + delta(function_call={"arguments": "{"}) + delta("tool_calls") + DONE,
        [1, 1, 1, 0], True, None,
    ),
    "no end but the close": (ROLE + delta(content="a"), [0, 1], False, None),
    "a reason but no [DONE]": (ROLE + delta("stop", content="a"), [0, 1], True, None),
}  # fmt: skip


def decode(data: bytes, step: int) -> tuple[list[CompletionEvent], bool]:
    decoder = CompletionDecoder(SSE)
    found = []
    for start in range(0, len(data), step):
        piece = data[start : start + step]
        found += decoder.feed(Body(data=piece, closes=True, after_bytes=0))
    return found, decoder.ended


@pytest.mark.parametrize("name", STREAMS)
def test_whole_split_and_with_a_tail(name: str) -> None:
    data, tokens, ended, output = STREAMS[name]
    tail = delta(content="never") if data.endswith(DONE) else b": a comment"
    for stream, step in ((data, len(data)), (data, 1), (data, 5), (data + tail, len(data) + len(tail))):
        found, told = decode(stream, step)
        assert [event.tokens for event in found if isinstance(event, Tokens)] == tokens
        assert told == ended
        counts = [event.output_tokens for event in found if isinstance(event, Usage)]
        assert (counts[-1] if counts else None) == output


# Name: the stream, how far it had got at its end.
CLOSINGS: dict[str, tuple[bytes, str]] = {
    "nothing told": (ROLE + delta(content="a"), "no"),
    "a reason": (ROLE + delta(content="a") + delta("stop"), "reason"),
    "a reason with the last token": (delta("length", content="a"), "reason"),
    "usage after it": (delta("stop", content="a") + usage(1), "usage"),
    "usage before it": (delta(content="a") + usage(1) + delta("stop"), "reason"),
    "usage with it": (delta("stop", usage=1, content="a"), "reason"),
    "comments and empty chunks after it": (
        delta("stop", content="a") + b": ping\n\n" + b'data: {"choices": []}\n\n' + ROLE, "reason",
    ),
    "tokens after it": (delta("stop", content="a") + delta("stop", content="b"), "no"),
    "tokens after its usage": (delta("stop", content="a") + usage(1) + delta(content="b") + usage(2), "no"),
    "a second reason, which is not believed": (
        delta("stop", content="a") + delta(content="b") + delta("stop") + usage(2), "no",
    ),
    "an empty reason": (delta("", content="a") + usage(1), "no"),
}  # fmt: skip


@pytest.mark.parametrize("name", CLOSINGS)
@pytest.mark.parametrize("crlf", [False, True])
def test_how_far_an_answer_has_got(name: str, crlf: bool) -> None:
    data, expected = CLOSINGS[name]
    data = data.replace(b"\n", b"\r\n") if crlf else data
    for stream, step in ((data, len(data)), (data, 1), (data, 7), (data + b": tail", len(data) + 6)):
        decoder = CompletionDecoder(SSE)
        for start in range(0, len(stream), step):
            decoder.feed(Body(data=stream[start : start + step], closes=True, after_bytes=0))
        assert (decoder.closing, decoder.said_done) == (expected, False)


ERRORS = {
    "an object": b'data: {"error": {"message": "out of memory", "code": 500}}\n\n',
    "a text": b'data: {"error": "out of memory"}\n\n',
    "by its kind": b'data: {"object": "error", "message": "out of memory"}\n\n',
    "by the event's name": b'event: error\ndata: {"detail": "out of memory"}\n\n',
    "over lines": b'event: error\ndata: {"message":\ndata: "out of memory"}\n\n',
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("crlf", [False, True])
@pytest.mark.parametrize("ended", [False, True], ids=["on the way", "after its reason"])
def test_an_error_in_the_stream_whole_split_and_with_a_tail(name: str, crlf: bool, ended: bool) -> None:
    data = ROLE + delta("stop" if ended else None, content="ü") + b": ping\n\n" + ERRORS[name]
    data = data.replace(b"\n", b"\r\n") if crlf else data
    tail = delta(content="never") + DONE
    for stream, step in ((data, len(data)), (data, 1), (data, 5), (data + tail, len(data) + len(tail))):
        found, _ = decode(stream, step)
        assert [event.tokens for event in found if isinstance(event, Tokens)] == [0, 1]
        assert isinstance(found[-1], ServiceError)
        assert (found[-1].kind, str(found[-1])) == ("in_stream", "out of memory")


@pytest.mark.parametrize("reason", ["error", "abort"])
def test_a_server_that_breaks_off_and_says_so(reason: str) -> None:
    found, ended = decode(ROLE + delta(content="a") + delta(reason), 1)
    assert isinstance(found[-1], ServiceError)
    assert (found[-1].kind, reason in str(found[-1]), ended) == ("in_stream", True, False)


def test_an_error_instead_of_a_chunk() -> None:
    (*_, last), _ = decode(ROLE + b'data: {"error": {"message": "overloaded", "code": 502}}\n\n', 3)
    assert isinstance(last, ServiceError)
    assert (last.kind, str(last)) == ("in_stream", "overloaded")


def test_a_delta_that_is_none() -> None:
    (event,), _ = decode(b'data: {"choices": [{"delta": [1]}]}\n\n', 1)
    assert isinstance(event, ServiceError)
    assert event.kind == "protocol"
