"""Messages of heads that are not ours, by a mapping: where the picture, its place and the audio are."""

import base64
import json
from typing import Any

import pytest

from cotenant.errors import ServiceError
from cotenant.wire.frames import FrameHeader, config_message, pack_frame
from cotenant.wire.head_codec import Done, MappedCodec, OwnCodec, at, picture_bytes, put

PICTURE = base64.b64encode(b"\xff\xd8" + bytes(99)).decode()
TOLD: dict[str, Any] = {
    "image": "data.0.frame",
    "index": "data.0.i",
    "time_ms": "t",
    "done": {"type": "over"},
    "error": "fault",
    "start": {"hello": 1},
    "end": {"bye": True},
    "audio": {
        "send": "base64",
        "path": "payload.audio",
        "fields": {"type": "audio", "payload": {"rate": 16000}},
    },
}


def test_a_mapping() -> None:
    codec = MappedCodec(TOLD, 25)
    assert codec.tells_end
    assert not codec.binary_audio
    assert (codec.start(), codec.end()) == ('{"hello": 1}', '{"bye": true}')
    assert json.loads(codec.audio(b"\1\2")) == {"type": "audio", "payload": {"rate": 16000, "audio": "AQI="}}
    message = json.dumps({"data": [{"frame": PICTURE, "i": 7}], "t": 280.5})
    frame = FrameHeader(index=7, media_time_ns=280_500_000, payload_bytes=101)
    assert codec.message(message) == frame
    assert codec.message(message.encode()) == frame
    assert codec.message('{"type": "status"}') is None
    assert codec.message('{"type": "over"}') == Done()


def test_place_by_index_and_by_count() -> None:
    by_index = MappedCodec({"image": "frame", "index": "i"}, 20)
    assert by_index.message(json.dumps({"frame": PICTURE, "i": 3})) == FrameHeader(
        index=3, media_time_ns=150_000_000, payload_bytes=101
    )
    by_count = MappedCodec({"image": "frame", "fps": 50}, 20)
    found = [by_count.message(json.dumps({"frame": "data:image/jpeg;base64," + PICTURE})) for _ in range(3)]
    assert [one.media_time_ns for one in found if isinstance(one, FrameHeader)] == [0, 20_000_000, 40_000_000]
    assert not by_count.tells_end
    assert by_count.binary_audio


def test_messages_that_are_pictures() -> None:
    codec = MappedCodec({"image": "binary", "done": {"event": "end"}}, 25)
    assert codec.message(b"\xff\xd8abc") == FrameHeader(index=0, media_time_ns=0, payload_bytes=5)
    assert codec.message('{"event": "begin"}') is None
    assert codec.message('{"event": "end"}') == Done()


@pytest.mark.parametrize(
    ("message", "kind", "words"),
    [
        ('{"fault": {"message": "no GPU"}}', "in_stream", "no GPU"),
        ("no json", "protocol", "no message"),
        ('{"data": [{"frame": 5}]}', "protocol", "not base64"),
        ('{"data": [{"frame": "!!!!"}]}', "protocol", "no base64"),
        ('{"data": [{"frame": ""}]}', "protocol", "no bytes"),
        ('{"data": [{"frame": "AAAA", "i": -1}]}', "protocol", "index at data.0.i"),
        ('{"data": [{"frame": "AAAA", "i": 2000000000}]}', "protocol", "past a day"),
        ('{"data": [{"frame": "AAAA", "i": 1}], "t": "x"}', "protocol", "time at t"),
        ('{"data": [{"frame": "AAAA", "i": 1}], "t": NaN}', "protocol", "time at t"),
        ('{"data": [{"frame": "AAAA", "i": 1}], "t": -1}', "protocol", "time at t"),
    ],
)
def test_faults(message: str, kind: str, words: str) -> None:
    with pytest.raises(ServiceError, match=words) as caught:
        MappedCodec(TOLD, 25).message(message)
    assert caught.value.kind == kind


@pytest.mark.parametrize("codec", [MappedCodec(TOLD, 25), OwnCodec(25)])
def test_where_it_went_wrong(codec: MappedCodec | OwnCodec) -> None:
    before = '{"type": "é"}'
    assert codec.message(before) is None
    with pytest.raises(ServiceError) as caught:
        codec.message("no json")
    assert caught.value.offset == len(before) + 1  # in bytes
    with pytest.raises(ServiceError) as caught:
        codec.message(b"no frame")
    assert caught.value.offset == len(before) + 1 + len("no json")


def test_paths() -> None:
    value = {"a": {"b": [1, {"c": 2}]}}
    assert (at(value, "a.b.1.c"), at(value, "a.b.0"), at(value, "a.x.y"), at(value, "a.b.9")) == (
        2,
        1,
        None,
        None,
    )
    assert put(value, "a.d.e", 3) == {"a": {"b": [1, {"c": 2}], "d": {"e": 3}}}
    assert put({"a": 1}, "a.b", 2) == {"a": {"b": 2}}
    assert value == {"a": {"b": [1, {"c": 2}]}}


@pytest.mark.parametrize("size", [1, 2, 3, 4, 1000])
def test_the_size_of_a_picture_is_that_of_its_bytes(size: int) -> None:
    assert picture_bytes(base64.b64encode(bytes(size)).decode()) == size


def test_the_built_in_head() -> None:
    codec = OwnCodec(30)
    assert codec.start() == config_message(30)
    assert codec.message(pack_frame(2, 40, b"xyz")) == FrameHeader(index=2, media_time_ns=40, payload_bytes=3)
    assert codec.message(pack_frame(0, 0, b"xyz")) is not None
    assert codec.message('{"type": "news"}') is None
    assert codec.message('{"type": "done", "frames": 2}') == Done()


@pytest.mark.parametrize("told", ["0", "2", "4", "1e9", "1000000000", "3.5", "true", "null"])
def test_a_head_that_says_another_number_of_frames_than_it_sent(told: str) -> None:
    codec = OwnCodec(25)
    for index in range(3):
        codec.message(pack_frame(index, index * 40_000_000, b"xyz"))
    with pytest.raises(ServiceError, match="frames") as caught:
        codec.message(f'{{"type": "done", "frames": {told}}}')
    assert (caught.value.kind, caught.value.offset) == ("protocol", 3 * 19)


def test_frames_come_in_any_order_and_each_once() -> None:
    codec = OwnCodec(25)
    for index in (2, 0, 1):
        assert isinstance(codec.message(pack_frame(index, index * 40_000_000, b"xyz")), FrameHeader)
    with pytest.raises(ServiceError, match="index 1 came twice") as caught:
        codec.message(pack_frame(1, 120_000_000, b"xyz"))
    assert caught.value.kind == "protocol"
