"""SSE: the same events however the bytes are cut, and how much followed each in its piece."""

import pytest

from cotenant.wire.sse import SseDecoder

BODIES = {
    "newlines": b"data: a\n\nevent: x\ndata: b\n\n",
    "carriage returns": b"data: a\r\revent: x\rdata: b\r\r",
    "both": b"data: a\r\n\r\nevent: x\r\ndata: b\r\n\r\n",
    "mixed": b"data: a\n\r\nevent: x\rdata: b\r\n\n",
    "byte order mark": b"\xef\xbb\xbfdata: a\n\nevent: x\ndata: b\n\n",
    "other fields": b": keep-alive\n\nid: 7\nretry: 3\ndata: a\n\n\n\nevent: x\ndata:b\nnonsense\n\n",
    "trailing part": b"data: a\n\nevent: x\ndata: b\n\ndata: never ended\n",
}


def events(pieces: list[bytes]) -> list[tuple[str, bytes]]:
    decoder = SseDecoder()
    return [(event.name, event.data) for piece in pieces for event in decoder.feed(piece)]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_same_events_whole_byte_by_byte_and_cut_anywhere(body: bytes) -> None:
    expected = [("message", b"a"), ("x", b"b")]
    assert events([body]) == expected
    assert events([body[i : i + 1] for i in range(len(body))]) == expected
    for cut in range(len(body)):
        assert events([body[:cut], body[cut:]]) == expected


def test_data_lines_are_joined_and_one_space_is_taken_off() -> None:
    assert events([b"data: one\ndata:  two\ndata\n\n"]) == [("message", b"one\n two\n")]


def test_event_name_does_not_outlive_its_event() -> None:
    assert events([b"event: x\n\ndata: a\n\n"]) == [("message", b"a")]


def test_what_follows_an_event_in_its_piece() -> None:
    decoder = SseDecoder()
    first, second = decoder.feed(b"data: a\n\ndata: b\n\n")
    assert (first.after_bytes, second.after_bytes) == (9, 0)
    (third,) = decoder.feed(b"data: c\r\n\r\n")
    assert third.after_bytes == 0
    (fourth,) = decoder.feed(b"data: d\n\n:")
    assert fourth.after_bytes == 1
