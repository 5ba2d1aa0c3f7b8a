"""HTTP/1.1: requests out, events in, and which bytes of a read came after a message."""

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.http1 import Body, End, Event, Head, Http1Client, status_kind

CHUNKED = (
    b"HTTP/1.1 200 OK\r\nContent-Type: audio/pcm\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n5;ext=1\r\ndefgh\r\n0\r\n\r\n"
)


def client() -> Http1Client:
    http = Http1Client()
    http.request("POST", "host:1", "/", {}, b"{}")
    return http


def messages(events: list[Event]) -> list[bytes]:
    """Body pieces joined up to each end of a message."""
    result, part = [], b""
    for event in events:
        if isinstance(event, Body):
            part += event.data
            if event.closes:
                result.append(part)
                part = b""
    return result


def test_the_request_is_what_was_asked_for() -> None:
    data = Http1Client().request("POST", "host:8", "/v1/x?y=1", {"X-Request-Id": "r-7"}, b"{}")
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.split(b"\r\n")
    assert lines[0] == b"POST /v1/x?y=1 HTTP/1.1"
    fields = dict(line.lower().split(b": ") for line in lines[1:])
    assert fields == {
        b"host": b"host:8",
        b"connection": b"close",
        b"accept-encoding": b"identity",
        b"x-request-id": b"r-7",
        b"content-length": b"2",
    }
    assert body == b"{}"


def test_transfer_chunks_are_messages_however_they_are_cut() -> None:
    for cut in range(1, len(CHUNKED)):
        http = client()
        events = http.feed(CHUNKED[:cut]) + http.feed(CHUNKED[cut:])
        assert messages(events) == [b"abc", b"defgh"]
        assert isinstance(events[0], Head)
        assert isinstance(events[-1], End)
    http = client()
    events = [event for i in range(len(CHUNKED)) for event in http.feed(CHUNKED[i : i + 1])]
    assert messages(events) == [b"abc", b"defgh"]


def test_what_follows_a_chunk_in_its_read() -> None:
    http = client()
    head, _, _rest = CHUNKED.partition(b"\r\n\r\n")
    http.feed(head + b"\r\n\r\n")
    first, second = http.feed(b"3\r\nabc\r\n3\r\nabc\r\n")
    assert isinstance(first, Body)
    assert isinstance(second, Body)
    assert (first.after_bytes, second.after_bytes) == (8, 0)
    (alone,) = http.feed(b"3\r\nabc\r")
    assert isinstance(alone, Body)
    assert (alone.closes, alone.after_bytes) == (True, 0)


def test_a_body_of_known_length_has_a_message_a_read() -> None:
    http = client()
    events = http.feed(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab") + http.feed(b"cdef")
    assert messages(events) == [b"ab", b"cdef"]
    assert isinstance(events[-1], End)


def test_a_body_that_ends_with_the_connection() -> None:
    http = client()
    events = http.feed(b"HTTP/1.0 200 OK\r\n\r\nab") + http.feed(b"")
    assert messages(events) == [b"ab"]
    assert isinstance(events[-1], End)


def test_interim_responses_are_skipped() -> None:
    events = client().feed(b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + CHUNKED)
    assert isinstance(events[0], Head)
    assert events[0].status == 200


def test_trailing_data_is_ignored() -> None:
    events = client().feed(CHUNKED + b"HTTP/1.1 400 Bad\r\n\r\n")
    assert isinstance(events[-1], End)
    assert messages(events) == [b"abc", b"defgh"]


@pytest.mark.parametrize(
    ("reads", "kind", "found"),
    [
        ([CHUNKED[:-20], b""], "truncated", 1),
        ([b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nab", b""], "truncated", 1),
        ([b""], "protocol", 0),
        ([b"HTTP/1.1 2", b""], "protocol", 0),
        ([b"SSH-2.0-OpenSSH_9.6\r\n\r\n"], "protocol", 0),
        ([CHUNKED.replace(b"5;ext=1", b"zz")], "protocol", 1),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"y" * (1 << 17)], "protocol", 0),
    ],
    ids=[
        "cut chunk",
        "cut length",
        "no answer",
        "half a head",
        "other protocol",
        "bad chunk",
        "endless head",
    ],
)
def test_faults_come_last_and_lose_nothing(reads: list[bytes], kind: str, found: int) -> None:
    http = client()
    events = [event for read in reads for event in http.feed(read)]
    assert isinstance(events[-1], ServiceError)
    assert events[-1].kind == kind
    assert len(messages(events)) == found
    assert http.feed(b"more") == []


def test_status_kinds() -> None:
    kinds = {
        status: status_kind(status) for status in (200, 204, 302, 400, 401, 403, 404, 429, 500, 502, 503)
    }
    assert kinds == {
        200: None, 204: None, 302: "protocol", 400: "protocol", 401: "unauthorized", 403: "forbidden",
        404: "not_found", 429: "rate_limited", 500: "server_error", 502: "server_error", 503: "overloaded",
    }  # fmt: skip
