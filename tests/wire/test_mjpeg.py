"""MJPEG as cameras and heads send it: boundaries of all kinds, lengths or none, any split of the reads."""

import contextlib

import pytest

from cotenant.errors import ServiceError
from cotenant.resources import data_dir
from cotenant.wire.http1 import Body, End, Event, Head, Http1Client
from cotenant.wire.mjpeg import MjpegDecoder, Picture

# A thumbnail inside ends like the picture, and a line in it looks like half of a boundary.
JPEG = b"\xff\xd8\xff\xe0" + bytes(40) + b"\xff\xd9\r\n--fram" + bytes(700) + b"\n--\r\n" + b"\xff\xd9"
SIZES = [len(JPEG), len(JPEG) + 9, len(JPEG) + 600]


def pictures() -> list[bytes]:
    return [JPEG[:-2] + bytes(size - len(JPEG)) + b"\xff\xd9" for size in SIZES]


def stream(
    line: bytes = b"--frame",
    *,
    length: bool = True,
    newline: bytes = b"\r\n",
    end: bytes = b"--",
    extra: bytes = b"",
) -> bytes:
    """Three pictures; `end` closes the last one's delimiter."""
    body = b""
    for picture in pictures():
        body += line + newline + b"Content-Type: image/jpeg" + newline + extra
        body += (b"content-LENGTH: " + str(len(picture)).encode() + newline) if length else b""
        body += newline + picture + newline
    return body + line + end + newline


def decode(
    data: bytes,
    content_type: str = "multipart/x-mixed-replace; boundary=frame",
    step: int | None = None,
    fps: int = 25,
) -> tuple[list[Picture], bool]:
    """What comes of reads of `step` bytes, the n-th at n ns; and whether the stream said that it ends."""
    decoder, found = MjpegDecoder(content_type, fps=fps), []
    step = step or len(data)
    for number, start in enumerate(range(0, len(data), step)):
        found += decoder.feed(data[start : start + step], number)
    ended = decoder.ended
    return found + decoder.close(), ended


TYPES = [
    ("multipart/x-mixed-replace; boundary=frame", b"--frame"),
    ('multipart/x-mixed-replace;boundary="frame"', b"--frame"),
    ("multipart/x-mixed-replace; charset=x; BOUNDARY=--frame", b"--frame"),
    ("multipart/x-mixed-replace; boundary=--frame", b"----frame"),
    ("Multipart/X-Mixed-Replace; boundary=boundarydonotcross", b"--boundarydonotcross"),
    ("multipart/x-mixed-replace", b"--what ever"),
    ('multipart/x-mixed-replace; boundary=""', b"--frame"),
    ("multipart/x-mixed-replace; boundary=a.b+c", b"--a.b+c"),
]


@pytest.mark.parametrize(("content_type", "line"), TYPES)
@pytest.mark.parametrize("length", [True, False], ids=["length", "no length"])
@pytest.mark.parametrize("newline", [b"\r\n", b"\n"], ids=["CRLF", "LF"])
def test_every_boundary_whole_and_split(content_type: str, line: bytes, length: bool, newline: bytes) -> None:
    data = stream(line, length=length, newline=newline)
    for step in (None, 1, 7, 512):
        found, ended = decode(b"junk\r\n" + data if "frame" in content_type else data, content_type, step)
        assert [picture.header.payload_bytes for picture in found] == SIZES
        assert [picture.header.media_time_ns for picture in found] == [0, 40_000_000, 80_000_000]
        assert ended


@pytest.mark.parametrize("length", [True, False])
def test_a_picture_came_with_its_last_byte_not_with_the_boundary_behind_it(length: bool) -> None:
    data = stream(length=length)
    found, _ = decode(data, step=1)
    ends, at = [], 0
    for picture in pictures():
        at = data.index(picture, at) + len(picture)
        ends.append(at - 1)
    assert [picture.arrival_ns for picture in found] == ends


def test_nothing_after_the_closing_boundary() -> None:
    whole = decode(stream() + stream() + b"trailing")
    assert len(whole[0]) == 3
    assert decode(stream() + stream() + b"trailing", step=1)[1]


@pytest.mark.parametrize(("length", "count"), [(True, 3), (False, 3)])
def test_the_close_ends_the_last_picture_if_it_is_whole(length: bool, count: int) -> None:
    data = stream(length=length)
    assert len(decode(data[: data.rindex(b"\r\n--frame")])[0]) == count
    assert len(decode(data[: data.rindex(b"\xff\xd9")], step=3)[0]) == count - 1


def test_a_part_that_is_no_picture_is_none() -> None:
    note = b"--frame\r\nContent-Type: text/plain\r\n\r\n\r\n"
    assert len(decode(note + stream(), step=5)[0]) == 3


def test_time_by_a_header() -> None:
    decoder = MjpegDecoder("multipart/x-mixed-replace; boundary=f", fps=25, time_header="X-Timestamp")
    data = b"".join(
        b"--f\r\nX-timestamp: %s\r\nContent-Length: 4\r\n\r\n\xff\xd8\xff\xd9\r\n" % at
        for at in (b"1700000000.25", b"1700000000.29", b"1700000000.41")
    )
    found = decoder.feed(data, 1)
    # To the microsecond: a float has no more of an epoch's seconds.
    assert [round(picture.header.media_time_ns / 1000) for picture in found] == [0, 40_000, 160_000]
    with pytest.raises(ServiceError, match="no later time"):
        decoder.feed(data.replace(b"1700000000", b"1600000000"), 2)


@pytest.mark.parametrize(
    ("content_type", "data", "words"),
    [
        ("image/jpeg", b"", "not multipart/x-mixed-replace"),
        ("", b"", "of no type"),
        ("multipart/x-mixed-replace; boundary=f", b"--f\r\nContent-Length: -4\r\n\r\n", "Content-Length"),
        (
            "multipart/x-mixed-replace; boundary=f",
            b"--f\r\nContent-Length: 2000000000\r\n\r\n",
            "Content-Length",
        ),
        ("multipart/x-mixed-replace; boundary=f", b"--f\r\n\r\n<html>", "no JPEG"),
        ("multipart/x-mixed-replace; boundary=f", b"x" * (1 << 17), "64 KiB"),
        ("multipart/x-mixed-replace; boundary=f", (b"x" * 63 + b"\n") * (1 << 15), "without the boundary"),
        ("multipart/x-mixed-replace; boundary=f", b"--f\r\n" + b"A: b\r\n" * (1 << 16), "header"),
    ],
)
def test_faults(content_type: str, data: bytes, words: str) -> None:
    with pytest.raises(ServiceError, match=words) as caught:
        MjpegDecoder(content_type, fps=25).feed(data, 0)
    assert caught.value.kind == "protocol"


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_where_it_went_wrong_however_it_is_cut(size: int) -> None:
    good = b"--f\r\nContent-Length: 6\r\n\r\n\xff\xd8ab\xff\xd9\r\n"
    for bad, within in ((b"--f\r\n\r\n<html>", 7), (b"--f\r\nContent-Length: -4\r\n\r\n", 27)):
        with pytest.raises(ServiceError) as caught:
            decode(good + bad + good, "multipart/x-mixed-replace; boundary=f", size)
        assert caught.value.offset == len(good) + within


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_pictures_before_a_fault_are_kept_however_it_is_cut(size: int) -> None:
    good = b"--f\r\nContent-Length: 6\r\n\r\n\xff\xd8ab\xff\xd9\r\n"
    data = good + good + b"--f\r\n\r\n<html>" + good
    decoder = MjpegDecoder("multipart/x-mixed-replace; boundary=f", fps=25)
    found: list[Picture] = []
    for start in range(0, len(data), size):
        with contextlib.suppress(ServiceError):
            found += decoder.feed(data[start : start + size], start)
    assert len(found) == 2
    with pytest.raises(ServiceError, match="no JPEG") as caught:
        decoder.close()
    assert caught.value is decoder.fault


def test_a_last_picture_of_no_time_is_told_with_its_place() -> None:
    stream = b"--f\r\n\r\n\xff\xd8ab\xff\xd9"
    decoder = MjpegDecoder("multipart/x-mixed-replace; boundary=f", fps=25, time_header="x-t")
    decoder.feed(stream, 0)
    with pytest.raises(ServiceError, match="no later time") as caught:
        decoder.close()
    assert caught.value.offset == stream.index(b"\xff\xd8")


def test_a_long_picture_is_not_kept() -> None:
    decoder = MjpegDecoder("multipart/x-mixed-replace; boundary=f", fps=25)
    decoder.feed(b"--f\r\n\r\n\xff\xd8", 0)
    for number in range(20):
        decoder.feed(bytes(1 << 20), number)
    assert sum(len(value) for value in vars(decoder).values() if isinstance(value, bytearray)) < 4096
    with pytest.raises(ServiceError, match="64 MiB"):
        decoder.feed(bytes(50 << 20), 20)


def captured(name: str, step: int) -> tuple[str, bytes, list[Event]]:
    """What ffmpeg's server sent, read `step` bytes at a time: its content type, its body, all that came."""
    client = Http1Client()
    client.request("GET", "127.0.0.1", "/", {}, b"")
    data = (data_dir("fixtures") / "wire/faces" / name).read_bytes()
    events = [event for at in range(0, len(data), step) for event in client.feed(data[at : at + step])]
    head = next(event for event in events if isinstance(event, Head))
    return head.headers["content-type"], b"".join(one.data for one in events if isinstance(one, Body)), events


@pytest.mark.parametrize("step", [1, 1000, 1 << 20])
def test_bytes_captured_from_ffmpeg(step: int) -> None:
    content_type, body, events = captured("ffmpeg-5.1.9.http", step)
    assert isinstance(events[-1], End)
    # It opens one part more than it has pictures, and closes none.
    assert body.startswith(b"--ffmpeg\r\nContent-type: image/jpeg\r\nContent-length: 1962\r\n\r\n")
    assert body.endswith(b"\xff\xd9\r\n--ffmpeg\r\n")
    found, ended = decode(body, content_type, step)
    assert not ended
    assert len(found) == body.count(b"--ffmpeg\r\n") - 1 == 8
    assert [picture.header.index for picture in found] == list(range(8))
    assert [picture.header.media_time_ns for picture in found] == [n * 40_000_000 for n in range(8)]
    sizes = [
        int(part.split(b"Content-length: ")[1].split(b"\r\n")[0])
        for part in body.split(b"--ffmpeg\r\n")[1:-1]
    ]
    assert [picture.header.payload_bytes for picture in found] == sizes


def test_ffmpeg_that_was_not_told_what_to_call_its_pictures() -> None:
    content_type, body, _ = captured("ffmpeg-5.1.9-untold.http", 1000)
    assert body.startswith(b"--ffmpeg\r\n")
    with pytest.raises(ServiceError, match="application/octet-stream, not multipart/x-mixed-replace"):
        MjpegDecoder(content_type, fps=25)
