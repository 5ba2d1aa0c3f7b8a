"""What a real vLLM sent, byte for byte, through the HTTP and the completion decoder."""

from collections.abc import Sequence

import pytest

from cotenant.errors import ServiceError
from cotenant.resources import data_dir
from cotenant.wire.completions import CompletionDecoder, CompletionEvent, Tokens, Usage
from cotenant.wire.http1 import Body, End, Head, Http1Client
from cotenant.wire.speech import Finished

FOLDER = data_dir("fixtures") / "wire" / "vllm-0.32.0"


def decode(pieces: Sequence[bytes]) -> tuple[Head, list[CompletionEvent], bytes, bool]:
    """The head, the events of a stream (or the body of what is none), and whether the body is complete."""
    client = Http1Client()
    client.request("POST", "127.0.0.1", "/v1/completions", {}, b"{}")
    head: Head | None = None
    decoder: CompletionDecoder | None = None
    events: list[CompletionEvent] = []
    plain, complete = b"", False
    for piece in pieces:
        for event in client.feed(piece):
            if isinstance(event, Head):
                head = event
                decoder = CompletionDecoder(event) if event.status == 200 else None
            elif isinstance(event, Body):
                plain += event.data
                events += decoder.feed(event) if decoder is not None else []
            elif isinstance(event, End):
                complete = True
            else:
                raise event
    assert head is not None
    return head, events, plain, complete


def captured(name: str) -> bytes:
    return (FOLDER / f"{name}.http").read_bytes()


def counts(events: Sequence[CompletionEvent]) -> list[int]:
    return [event.tokens for event in events if isinstance(event, Tokens)]


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("no-tokenizer", [1] * 6),
        ("usage-at-end", [1] * 6),
        ("no-usage", [1] * 6),
        ("token-ids", [1] * 6),
        ("interval", [1, 3, 3]),
    ],
)
def test_every_token_is_counted_though_no_chunk_has_a_text(name: str, tokens: list[int]) -> None:
    data = captured(name)
    assert b'"text":""' in data
    assert b'"text":"' not in data.replace(b'"text":""', b"")
    _, events, _, complete = decode([data])
    assert counts(events) == tokens
    assert isinstance(events[-1], Finished)
    assert complete


@pytest.mark.parametrize("name", ["no-tokenizer", "interval", "engine-killed", "token-ids"])
def test_the_same_in_pieces_of_any_size(name: str) -> None:
    data = captured(name)
    whole = [event for event in decode([data])[1] if not isinstance(event, ServiceError)]
    for size in (1, 7, 100, 1000):
        pieces = [data[start : start + size] for start in range(0, len(data), size)]
        found = [event for event in decode(pieces)[1] if not isinstance(event, ServiceError)]
        assert counts(found) == counts(whole)
        assert [e for e in found if isinstance(e, Usage)] == [e for e in whole if isinstance(e, Usage)]


def test_the_last_usage_has_the_servers_own_times() -> None:
    _, events, _, _ = decode([captured("no-tokenizer")])
    usages = [event for event in events if isinstance(event, Usage)]
    assert [usage.output_tokens for usage in usages] == [1, 2, 3, 4, 5, 6, 6]
    assert {usage.prompt_tokens for usage in usages} == {8}
    assert (usages[-1].queue_ns, usages[-1].first_token_ns) == (46_949, 16_287_948)
    assert all(usage.queue_ns is None for usage in usages[:-1])
    assert not [event for event in decode([captured("no-usage")])[1] if isinstance(event, Usage)]


def test_an_engine_that_dies_is_an_error_in_the_stream_and_not_an_end() -> None:
    _, events, _, complete = decode([captured("engine-killed")])
    assert counts(events) == [1] * 7
    assert isinstance(events[-1], ServiceError)
    assert (events[-1].kind, "EngineCore encountered an issue" in str(events[-1])) == ("in_stream", True)
    assert complete  # the server ends its answer in order, with [DONE]: only the event tells
    assert not [event for event in events if isinstance(event, Finished)]


@pytest.mark.parametrize(
    ("name", "words"),
    [("too-long", b"maximum context length is 8192"), ("text-prompt", b"Tokenizer not available")],
)
def test_a_refused_request_is_no_stream(name: str, words: bytes) -> None:
    head, events, plain, complete = decode([captured(name)])
    assert (head.status, events, complete) == (400, [], True)
    assert words in plain


@pytest.mark.parametrize(
    "metrics", ['"no"', "[1]", '{"queue_time_ms":"fast"}', '{"queue_time_ms":Infinity}', "null"]
)
def test_times_that_are_none_do_not_spoil_the_count(metrics: str) -> None:
    usage = '{"prompt_tokens":8,"completion_tokens":1}'
    data = f'data: {{"choices":[],"usage":{usage},"metrics":{metrics}}}\n\n'.encode()
    decoder = CompletionDecoder(Head(status=200, headers={"content-type": "text/event-stream"}, chunked=True))
    assert decoder.feed(Body(data=data, closes=True, after_bytes=0)) == [
        Usage(prompt_tokens=8, output_tokens=1)
    ]


@pytest.mark.parametrize(
    ("name", "tokens", "prompt_tokens"),
    [
        ("chat", [0, 1, 1, 1, 1, 1, 1], 5),
        ("chat-usage-at-end", [0, 1, 1, 1, 1, 1, 1], 5),
        ("chat-no-usage", [0, 1, 1, 1, 1, 1, 1], None),
        ("text-completion", [1, 1, 1, 1, 1, 1], 4),
    ],
)
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_chats_and_texts(name: str, tokens: list[int], prompt_tokens: int | None, size: int) -> None:
    data = captured(name)
    _, events, _, complete = decode([data[start : start + size] for start in range(0, len(data), size)])
    assert counts(events) == tokens
    assert isinstance(events[-1], Finished)
    assert complete
    usages = [event for event in events if isinstance(event, Usage)]
    last = (usages[-1].prompt_tokens, usages[-1].output_tokens) if usages else (None, None)
    assert last == (prompt_tokens, None if prompt_tokens is None else 6)
