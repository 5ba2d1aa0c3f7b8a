"""Chrome trace JSON, which ui.perfetto.dev and chrome://tracing open: tracks, slices, counters, flows.

Format: https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format).
Times are written in microseconds with three decimals, so no nanosecond is lost.
"""

import gzip
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

_LONGEST_TEXT: Final = 200
_LINES_AT_ONCE: Final = 10_000
Args = Mapping[str, Any]
_json: Final = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


class TraceEvents:
    """Collects events in ns of one clock; `gzipped` writes them in the order of time, from 0 on.

    On one thread slices must nest. Events of one instant stay in the order in which they were added: a parent
    before its child, a flow right after the slice that it belongs to.
    """

    def __init__(self) -> None:
        self._times: list[int] = []
        # As JSON, still without its time: as dicts a trace of a long run would take gigabytes.
        self._events: list[str] = []
        self._metadata: list[str] = []
        # One row of numbers for both: to a reader, thread n of process n is the process's main thread.
        self._numbers = 0

    def process(self, name: str) -> int:
        """A new process; its pid. They are shown in the order in which they were made."""
        self._numbers += 1
        pid = self._numbers
        self._about("process_name", pid, pid, name=_text(name))
        self._about("process_sort_index", pid, pid, sort_index=pid)
        return pid

    def thread(self, pid: int, name: str) -> int:
        """A new track of a process; its tid, which no other process has."""
        self._numbers += 1
        tid = self._numbers
        self._about("thread_name", pid, tid, name=_text(name))
        self._about("thread_sort_index", pid, tid, sort_index=tid)
        return tid

    def slice(
        self, pid: int, tid: int, name: str, category: str, start_ns: int, end_ns: int, args: Args
    ) -> None:
        """A stretch of time; one that would end before it starts has no length."""
        length_ns = max(0, end_ns - start_ns)
        self._add(start_ns, ph="X", pid=pid, tid=tid, name=name, cat=category, dur=length_ns, args=args)

    def instant(self, pid: int, tid: int, name: str, category: str, t_ns: int, args: Args) -> None:
        """A moment on a track."""
        self._add(t_ns, ph="i", s="t", pid=pid, tid=tid, name=name, cat=category, args=args)

    def flow(self, phase: str, number: int, pid: int, tid: int, t_ns: int) -> None:
        """An arrow's start (`s`), step (`t`) or end (`f`), bound to the slice that was added before."""
        binding = "" if phase == "s" else ',"bp":"e"'
        self._times.append(t_ns)
        self._events.append(
            f'{{"ph":"{phase}","id":{number},"pid":{pid},"tid":{tid},"name":"chunk","cat":"flow"{binding}}}'
        )

    def counter(
        self, pid: int, name: str, unit: str, times_ns: Sequence[int], values: Sequence[float]
    ) -> int:
        """A curve, `nan` for no value; a value that repeats is written once, for it holds until the next.
        Returns how many were written."""
        before, written = None, 0
        head = f'{{"ph":"C","pid":{pid},"tid":{pid},"name":{_json(_text(name))},"args":{{{_json(unit)}:'
        for t_ns, value in zip(times_ns, values, strict=True):
            if value == before or value != value or value in (float("inf"), float("-inf")):
                continue
            self._times.append(int(t_ns))
            self._events.append(f"{head}{_json(float(value))}}}}}")
            before, written = value, written + 1
        return written

    def gzipped(self, other: Args) -> bytes:
        """The file. The same events give the same bytes."""
        start_ns = min(self._times, default=0)
        order = np.argsort(np.array(self._times, dtype=np.int64), kind="stable").tolist()
        told = {key: _text(value) if isinstance(value, str) else value for key, value in other.items()}
        head = _json({"displayTimeUnit": "ms", "otherData": {**told, "t0_ns": start_ns}})
        sink = io.BytesIO()
        with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=sink, mtime=0) as file:
            file.write((head[:-1] + ',"traceEvents":[\n' + ",\n".join(self._metadata)).encode())
            between = ",\n" if self._metadata else ""
            for at in range(0, len(order), _LINES_AT_ONCE):
                lines = [
                    f'{self._events[i][:-1]},"ts":{microseconds(self._times[i] - start_ns)}}}'
                    for i in order[at : at + _LINES_AT_ONCE]
                ]
                file.write((between + ",\n".join(lines)).encode())
                between = ",\n"
            file.write(b"\n]}\n")
        return sink.getvalue()

    def _about(self, what: str, pid: int, tid: int, **args: Any) -> None:
        self._metadata.append(_json({"ph": "M", "pid": pid, "tid": tid, "name": what, "args": args}))

    def _add(self, t_ns: int, **event: Any) -> None:
        self._times.append(t_ns)
        self._events.append(_json(_written(event)))


def microseconds(value_ns: int) -> float:
    """Nanoseconds as microseconds, three decimals.

    Readers multiply by 1000 and some cut what is behind the point, which would make of 0.123 us 122 ns and
    let slices overlap by one: where that is so, a tenth of a nanosecond is put on top.
    """
    value = value_ns / 1000
    return value if int(value * 1000.0) == value_ns else (10 * value_ns + 1) / 10_000


def _written(event: dict[str, Any]) -> dict[str, Any]:
    event["name"] = _text(event["name"])
    if "dur" in event:
        event["dur"] = microseconds(event["dur"])
    if event["ph"] in "Xi":
        event["args"] = {
            key: _text(value) if isinstance(value, str) else value
            for key, value in event["args"].items()
            if value is not None
        }
    return event


def _text(text: str) -> str:
    """At most a line of it, and what UTF-8 cannot hold written out."""
    text = text if len(text) <= _LONGEST_TEXT else text[: _LONGEST_TEXT - 3] + "..."
    return text.encode(errors="backslashreplace").decode()
