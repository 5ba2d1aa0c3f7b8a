"""Completions as vLLM streams them: empty texts are tokens, usage counts them, errors hide in a 200."""

import json

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.completions import CompletionDecoder, CompletionEvent, Tokens, Usage
from cotenant.wire.dialect import completion_request
from cotenant.wire.http1 import Body, Head
from cotenant.wire.speech import Finished

SSE = Head(status=200, headers={"content-type": "text/event-stream; charset=utf-8"}, chunked=True)


def chunk(text: str | None, completion: int | None = None, **choice: object) -> bytes:
    value: dict[str, object] = {"object": "text_completion", "choices": []}
    if text is not None:
        value["choices"] = [{"index": 0, "text": text, **choice}]
    if completion is not None:
        value["usage"] = {"prompt_tokens": 128, "completion_tokens": completion}
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def feed(*pieces: bytes) -> list[CompletionEvent]:
    decoder = CompletionDecoder(SSE)
    return [event for piece in pieces for event in decoder.feed(Body(data=piece, closes=True, after_bytes=0))]


def tokens(events: list[CompletionEvent]) -> list[int]:
    return [event.tokens for event in events if isinstance(event, Tokens)]


def test_empty_texts_are_tokens() -> None:
    assert tokens(feed(chunk(""), chunk("a"), chunk(""), b"data: [DONE]\n\n")) == [1, 1, 1]


def test_running_usage_counts_several_tokens_of_a_chunk() -> None:
    events = feed(chunk("a", 1), chunk("bc", 3), chunk("", 3, finish_reason="length"), chunk(None, 3))
    assert tokens(events) == [1, 2, 0]
    assert events[-1] == Usage(prompt_tokens=128, output_tokens=3)


def test_token_ids_count_without_usage() -> None:
    assert tokens(feed(chunk("ab", token_ids=[5, 6, 7]), chunk("", token_ids=[]))) == [3, 0]


def test_same_events_byte_by_byte_and_nothing_after_done() -> None:
    body = chunk("a", 1) + b": keep-alive\n\n" + chunk("b", 2) + b"data: [DONE]\n\n" + chunk("never", 3)
    whole = feed(body)
    pieces = feed(*(body[i : i + 1] for i in range(len(body))))
    assert tokens(whole) == tokens(pieces) == [1, 1]
    assert isinstance(whole[-1], Finished)
    assert isinstance(pieces[-1], Finished)


def test_shared_reads() -> None:
    events = feed(chunk("a") + chunk("b"))
    assert [event.shared_read for event in events if isinstance(event, Tokens)] == [True, False]


@pytest.mark.parametrize(
    ("fault", "kind", "words"),
    [
        (b'data: {"error": {"message": "out of memory", "code": 500}}\n\n', "in_stream", "out of memory"),
        (b'data: {"object": "error", "message": "engine dead"}\n\n', "in_stream", "engine dead"),
        (b"data: not json\n\n", "protocol", "no completion chunk"),
        (b"data: [1, 2]\n\n", "protocol", "no completion chunk"),
        (b'data: {"choices": [7]}\n\n', "protocol", "no completion chunk"),
    ],
)
def test_faults_inside_a_stream_come_after_what_was_good(fault: bytes, kind: str, words: str) -> None:
    events = feed(chunk("a") + fault + chunk("b"))
    assert tokens(events) == [1]
    assert isinstance(events[-1], ServiceError)
    assert events[-1].kind == kind
    assert words in str(events[-1])


def test_an_answer_that_is_no_stream() -> None:
    with pytest.raises(ServiceError, match="application/json"):
        CompletionDecoder(Head(status=200, headers={"content-type": "application/json"}, chunked=False))


def test_the_request() -> None:
    body = json.loads(completion_request(model="m", prompt=[7, 8], max_tokens=4, extra={"priority": 1}))
    assert body["prompt"] == [7, 8]
    assert (body["max_tokens"], body["ignore_eos"], body["stream"], body["priority"]) == (4, True, True, 1)
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}


@pytest.mark.parametrize("told", ["Infinity", "NaN", "1e30", "-1", "2147483648", "1.5", '"5"', "true", "[1]"])
@pytest.mark.parametrize("field", ["prompt_tokens", "completion_tokens"])
def test_a_count_that_is_none(field: str, told: str) -> None:
    (event,) = feed(f'data: {{"choices":[{{"text":"a"}}],"usage":{{"{field}":{told}}}}}\n\n'.encode())
    assert isinstance(event, ServiceError)
    assert (event.kind, field in str(event)) == ("protocol", True)


def test_where_it_went_wrong_however_it_is_cut() -> None:
    good = b': beat\n\ndata: {"choices":[{"text":"a"}]}\n\n'
    stream = good + b"data: nonsense\n\n" + good
    at = len(good) + len(b"data: nonsense\n\n")
    for size in (1, 7, len(stream)):
        decoder = CompletionDecoder(SSE)
        pieces = [stream[i : i + size] for i in range(0, len(stream), size)]
        events = [event for p in pieces for event in decoder.feed(Body(data=p, closes=True, after_bytes=0))]
        assert [error.offset for error in events if isinstance(error, ServiceError)] == [at]


@pytest.mark.parametrize("deep", [b"[" * 100_000, b'{"error":' * 100_000, b'{"choices":[' + b"[" * 100_000])
def test_json_nested_too_deeply(deep: bytes) -> None:
    (event,) = feed(b"data: " + deep + b"\n\n")
    assert isinstance(event, ServiceError)
    assert event.kind == "protocol"


def test_a_compressed_answer_is_a_protocol_error() -> None:
    headers = {**SSE.headers, "content-encoding": "gzip"}
    with pytest.raises(ServiceError, match="Content-Encoding gzip") as caught:
        CompletionDecoder(Head(status=200, headers=headers, chunked=True))
    assert caught.value.kind == "protocol"
