"""Metrics text: the same samples however the bytes are cut, and what is no such text."""

import math

import pytest

from cotenant.errors import ServiceError
from cotenant.resources import data_dir
from cotenant.wire.prometheus import MetricSample, PrometheusDecoder

BODIES = {
    "plain": b'# TYPE a counter\na{x="1",y="2"} 3\nb 4.5\n',
    "no last newline": b'a{x="1",y="2"} 3\nb 4.5',
    "carriage returns": b'a{x="1",y="2"} 3\r\nb 4.5\r\n',
    "stamps": b'a{x="1",y="2"} 3 1395066363000\nb 4.5 -3982045\n',
    "spaces": b'  a { x = "1" , y = "2" }   3  \n\n\n\tb\t4.5\n',
    "trailing comma": b'a{x="1",y="2",} 3\nb{} 4.5\n',
    "open metrics": b'# UNIT a s\na{x="1",y="2"} 3 # {trace_id="k"} 0.67 1.2\nb 4.5\n# EOF\n',
}


def samples(pieces: list[bytes]) -> list[tuple[str, dict[str, str], float]]:
    decoder = PrometheusDecoder()
    found = [sample for piece in pieces for sample in decoder.feed(piece)] + decoder.close()
    return [(sample.name, dict(sample.labels), sample.value) for sample in found]


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_same_samples_whole_byte_by_byte_and_cut_anywhere(body: bytes) -> None:
    expected = [("a", {"x": "1", "y": "2"}, 3.0), ("b", {}, 4.5)]
    assert samples([body]) == expected
    assert samples([body[i : i + 1] for i in range(len(body))]) == expected
    for cut in range(len(body)):
        assert samples([body[:cut], body[cut:]]) == expected


def test_a_line_is_told_only_once_it_has_ended() -> None:
    decoder = PrometheusDecoder()
    assert decoder.feed(b"a 12") == []
    assert decoder.feed(b"3\nb 4") == [MetricSample(name="a", labels={}, value=123.0)]
    assert decoder.close() == [MetricSample(name="b", labels={}, value=4.0)]
    assert decoder.close() == []


def test_escapes_and_braces_in_a_label() -> None:
    ((_, labels, value),) = samples([rb'a{x="q\"b\\n\nz},{\t",y="\xff' + b'\xff"} 1'])
    assert labels["x"] == 'q"b\\n\nz},{\\t'
    assert labels["y"] == "\\xff�"
    assert value == 1.0


@pytest.mark.parametrize(
    ("text", "value"), [(b"+Inf", math.inf), (b"-inf", -math.inf), (b"1e3", 1000.0), (b"+.5", 0.5)]
)
def test_numbers(text: bytes, value: float) -> None:
    assert samples([b"a " + text]) == [("a", {}, value)]


def test_not_a_number_is_a_number_here() -> None:
    ((_, _, value),) = samples([b"a NaN\n"])
    assert math.isnan(value)


@pytest.mark.parametrize(
    "line",
    [b"<html>", b"a", b"a{", b'a{x="1"', b"a{x=1} 2", b'a{x="1"y="2"} 2', b"a one", b"a 1_0", b"1a 2",
     b"a 1.2.3", b"a 1 two", b'{"json": 1}'],
)  # fmt: skip
def test_what_is_no_such_text(line: bytes) -> None:
    decoder = PrometheusDecoder()
    decoder.feed(b"ok 1\n")
    with pytest.raises(ServiceError) as caught:
        decoder.feed(line + b"\n")
    assert (caught.value.kind, caught.value.offset) == ("protocol", 5)
    with pytest.raises(ServiceError):
        samples([line])


def test_a_line_without_end() -> None:
    decoder = PrometheusDecoder()
    with pytest.raises(ServiceError, match="1 MiB"):
        decoder.feed(b"a" * ((1 << 20) + 1))


def test_a_page_as_vllm_has_it() -> None:
    body = (data_dir("fixtures") / "wire" / "vllm_metrics.prom").read_bytes()
    whole = samples([body])
    assert samples([body[i : i + 7] for i in range(0, len(body), 7)])[:-1] == whole[:-1]  # the last is nan
    assert len(whole) == sum(not line.startswith(b"#") for line in body.splitlines())
    running = next(labels for name, labels, _ in whole if name == "vllm:num_requests_running")
    assert running == {"engine": "0", "model_name": 'a "quoted\\name",}'}
