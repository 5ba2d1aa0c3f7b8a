"""The talking head's messages."""

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.frames import pack_frame, parse_frame, parse_text


def test_a_frame_there_and_back() -> None:
    header = parse_frame(pack_frame(7, 280_000_000, b"picture"))
    assert (header.index, header.media_time_ns, header.payload_bytes) == (7, 280_000_000, 7)


@pytest.mark.parametrize("message", [b"", b"CTF1", b"CTF2" + bytes(12), pack_frame(1, 2, b"")[:-1]])
def test_what_is_no_frame(message: bytes) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_frame(message)
    assert caught.value.kind == "protocol"


def test_text_messages() -> None:
    assert parse_text('{"type": "done", "frames": 50}') == 50
    assert parse_text('{"type": "hello"}') is None
    with pytest.raises(ServiceError, match="no memory") as caught:
        parse_text('{"type": "error", "message": "no memory"}')
    assert caught.value.kind == "in_stream"


@pytest.mark.parametrize("message", ["", "[]", "7", '{"frames": 1}', '{"type": "done", "frames": "x"}'])
def test_text_that_is_no_message(message: str) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_text(message)
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize(
    "message",
    ["[" * 100_000, '{"type": "done", "frames": Infinity}', '{"type": "done", "frames": -1}', '{"type": 5}'],
)
def test_text_that_tells_nonsense(message: str) -> None:
    with pytest.raises(ServiceError) as caught:
        parse_text(message)
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("media_time_ns", [-1, 2**62, -(2**62)])
def test_a_frame_of_no_time(media_time_ns: int) -> None:
    with pytest.raises(ServiceError):
        parse_frame(pack_frame(0, media_time_ns, b""))
