"""Prometheus's text exposition, incrementally: lines of samples; comments, stamps and exemplars are skipped.

Formats: https://prometheus.io/docs/instrumenting/exposition_formats (text, 0.0.4) and OpenMetrics 1.0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from cotenant.errors import ServiceError

_LINE_LIMIT_BYTES: Final = 1 << 20
_NAME: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL: Final = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*=\s*"((?:[^"\\]|\\.)*)"\s*(,|(?=}))')
_ESCAPE: Final = re.compile(r"\\(.)")
_ESCAPED: Final = {"n": "\n", "\\": "\\", '"': '"'}
_NUMBER: Final = re.compile(r"[+-]?(?:inf|nan|[0-9.][0-9.eE+-]*)", re.IGNORECASE)
_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricSample:
    """One line: a histogram's `_bucket`, `_sum` and `_count` are samples of their own."""

    name: str
    labels: Mapping[str, str]
    value: float


class PrometheusDecoder:
    """Bytes -> samples. Feed what was read; `close` gives the last line's, which may lack its newline."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._offset = 0

    def feed(self, data: bytes) -> list[MetricSample]:
        """The samples whose lines end with `data`. Raises ServiceError("protocol") for any other text."""
        self._buffer += data
        *lines, rest = self._buffer.split(b"\n")
        samples = [sample for line in lines if (sample := self._line(bytes(line), 1)) is not None]
        self._buffer = bytearray(rest)
        if len(rest) > _LINE_LIMIT_BYTES:
            raise ServiceError("protocol", "a metrics line of more than 1 MiB", offset=self._offset)
        return samples

    def close(self) -> list[MetricSample]:
        """Of a text that ended without a newline. Raises as `feed` does: a cut line is mostly none."""
        sample = self._line(bytes(self._buffer), 0)
        self._buffer.clear()
        return [] if sample is None else [sample]

    def _line(self, line: bytes, ending_bytes: int) -> MetricSample | None:
        start, self._offset = self._offset, self._offset + len(line) + ending_bytes
        text = line.decode(errors="replace").strip()
        if not text or text.startswith("#"):
            return None
        sample = _parse(text)
        if sample is None:
            raise ServiceError("protocol", f"not a line of metrics: {text[:80]!r}", offset=start)
        return sample


def _parse(text: str) -> MetricSample | None:
    name = _NAME.match(text)
    if name is None:
        return None
    place, labels = name.end(), _NO_LABELS
    if text[place:].lstrip().startswith("{"):
        found = _labels(text, text.index("{", place) + 1)
        if found is None:
            return None
        labels, place = found
    words = text[place:].split(maxsplit=1)
    if not words or _NUMBER.fullmatch(words[0]) is None:
        return None
    try:
        value = float(words[0])
    except ValueError:
        return None
    if len(words) == 2 and not words[1].startswith("#") and _NUMBER.match(words[1]) is None:
        return None  # only a stamp or an exemplar may follow
    return MetricSample(name=name.group(), labels=labels, value=value)


def _labels(text: str, place: int) -> tuple[Mapping[str, str], int] | None:
    """The labels from just behind the brace, and where the closing one ends."""
    labels: dict[str, str] = {}
    while match := _LABEL.match(text, place):
        labels[match[1]] = _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[0]), match[2])
        place = match.end()
    rest = text[place:].lstrip()
    return (labels, len(text) - len(rest) + 1) if rest.startswith("}") else None
