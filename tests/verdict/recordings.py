"""Small recordings built by hand: rows in, tables out; nothing is measured."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from cotenant.records import TABLES, Recording

MS = 1_000_000
S = 1_000_000_000
PROCESS = 1_000_000
LISTENERS, ASKERS = 1 * PROCESS, 2 * PROCESS

SCENARIO: Mapping[str, Any] = {
    "name": "by-hand",
    "device": "cpu",
    "lookahead": "400ms",
    "tenants": {
        "tts": {"kind": "speech", "engine": "builtin", "shape": "tiny"},
        "head": {"kind": "face", "engine": "builtin", "shape": "tiny"},
        "llm": {"kind": "completions", "engine": "builtin", "shape": "tiny", "model": "tiny"},
    },
    "load": {
        "voices": {"tenant": "tts", "kind": "voices", "listeners": 2, "every": "4s"},
        "faces": {"tenant": "head", "kind": "faces", "follows": "voices", "listeners": 1},
        "decode": {"tenant": "llm", "kind": "completions", "streams": 2, "prompt": 128, "output": 40},
    },
    "stages": [
        {"name": "alone", "load": ["voices"], "baseline": True},
        {"name": "crowd", "load": ["voices", "faces", "decode"]},
    ],
    "timing": {"measure": "60s", "solo": "5s", "extend": "0ms"},
    "gate": ["voice"],
}


@dataclass(slots=True)
class Builder:
    """Rows of a recording, added one after another; `build` makes the tables."""

    scenario: dict[str, Any] = field(default_factory=lambda: copy.deepcopy(dict(SCENARIO)))
    device: str = "cpu"
    status: str = "complete"
    rows: dict[str, list[dict[str, Any]]] = field(default_factory=lambda: {name: [] for name in TABLES})
    counters: dict[int, int] = field(default_factory=dict)

    def window(self, stage: str, start_ns: int, end_ns: int) -> None:
        """A stage with its measure window; it settles for 1 s before."""
        for what, edge, t in (
            ("stage", "start", start_ns - S), ("measure", "start", start_ns),
            ("measure", "end", end_ns), ("stage", "end", end_ns + S),
        ):  # fmt: skip
            self.rows["marks"].append({"t": t, "what": what, "name": stage, "edge": edge})

    def fault(self, name: str, t_ns: int) -> None:
        self.rows["marks"].append({"t": t_ns, "what": "fault", "name": name, "edge": "start"})

    def stamps(self, start_ns: int, end_ns: int, *, bracket_ns: float = 1e4, lag_ns: float = 1e4) -> None:
        """What both load processes say of their own exactness, once a second."""
        for t in range(start_ns, end_ns, S):
            for source in ("listeners", "askers"):
                self.rows["host"].append(
                    {"t": t, "source": source, "metric": "offset_bracket_ns", "value": bracket_ns}
                )
                self.rows["host"].append({"t": t, "source": source, "metric": "loop_lag_ns", "value": lag_ns})

    def others_use(self, cores: float, last_s: int = 200) -> None:
        """By what is not this run."""
        self.rows["host"] += [
            {"t": t_s * S, "source": "host", "metric": "others_cpu_s", "value": 1000.0 + cores * t_s}
            for t_s in range(0, last_s, 5)
        ]

    def stream(self, process: int, **columns: Any) -> int:
        """One row of `streams`; returns its id."""
        self.counters[process] = self.counters.get(process, 0) + 1
        number = process + self.counters[process]
        due = columns.get("due", 0)
        row = {
            "stream": number, "round": 0, "connected": due - 50 * MS, "sent": due, "end": "eos",
            "status": 200, "stamp": "kernel", "delayed": 0,
        }  # fmt: skip
        self.rows["streams"].append({**row, **columns})
        return number

    def voice(
        self,
        stage: str,
        due_ns: int,
        arrivals_ms: Iterable[float],
        media_ms: Iterable[float],
        *,
        listener: int = 0,
        utterance: int = 0,
        end: str = "eos",
        done_ms: float | None = None,
        **columns: Any,
    ) -> int:
        """An utterance: arrivals after `due`, durations."""
        arrivals, media = list(arrivals_ms), list(media_ms)
        last = done_ms if done_ms is not None else arrivals[-1] if arrivals else 1000.0
        kind = {"eos": None}.get(end, "truncated")
        number = self.stream(
            LISTENERS, tenant="tts", load="voices", kind="voices", stage=stage, listener=listener,
            utterance=utterance, due=due_ns, done=due_ns + round(last * MS), end=end, error_kind=kind,
            first_byte=due_ns + round(arrivals[0] * MS) if arrivals else None, **columns,
        )  # fmt: skip
        for seq, (at, length) in enumerate(zip(arrivals, media, strict=True)):
            self.rows["chunks"].append(
                {
                    "stream": number,
                    "seq": seq,
                    "arrival": due_ns + round(at * MS),
                    "media": round(length * MS),
                    "bytes": round(length * 48),
                    "shared_read": False,
                }
            )
        return number

    def face(
        self,
        stage: str,
        due_ns: int,
        arrivals_ms: Iterable[float],
        *,
        handed_ms: float | None = 0.0,
        fps: int = 25,
        listener: int = 0,
        utterance: int = 0,
        end: str = "eos",
    ) -> int:
        """A clip: a frame at each time after `due`, all of their audio handed over at `handed_ms`."""
        arrivals = list(arrivals_ms)
        done = due_ns + round((arrivals[-1] if arrivals else 1000.0) * MS)
        number = self.stream(
            LISTENERS, tenant="head", load="faces", kind="faces", stage=stage, listener=listener,
            utterance=utterance, due=due_ns, done=done, end=end, error_kind=None if end == "eos" else "empty",
            stamp="user",
        )  # fmt: skip
        for seq, at in enumerate(arrivals):
            handed = None if handed_ms is None else due_ns + round(handed_ms * MS)
            self.rows["frames"].append(
                {
                    "stream": number, "seq": seq, "arrival": due_ns + round(at * MS), "bytes": 4000,
                    "media_time": seq * S // fps, "audio_handed": handed, "shared_read": False,
                }
            )  # fmt: skip
        return number

    def asked(
        self,
        stage: str,
        due_ns: int,
        token_ms: Iterable[float],
        *,
        load: str = "decode",
        done_ms: float | None,
        **columns: Any,
    ) -> int:
        """An LLM request with a token at each time after `due`."""
        done = None if done_ms is None else due_ns + round(done_ms * MS)
        number = self.stream(
            ASKERS,
            **{
                "tenant": "llm",
                "load": load,
                "kind": "completions",
                "stage": stage,
                "listener": 0,
                "utterance": 0,
                "due": due_ns,
                "done": done,
                "prompt_tokens": 128,
                **columns,
            },
        )
        for seq, at in enumerate(token_ms):
            self.rows["tokens"].append(
                {
                    "stream": number,
                    "seq": seq,
                    "arrival": due_ns + round(at * MS),
                    "tokens": 1,
                    "shared_read": False,
                }
            )
        return number

    def build(self) -> Recording:
        tables = {name: pa.Table.from_pylist(rows, schema=TABLES[name]) for name, rows in self.rows.items()}
        manifest = {
            "schema": 1, "tool": "cotenant", "run_id": "r1", "status": self.status, "scenario": self.scenario,
            "device": {"kind": self.device, "name": "test", "cpu_count": 2},
        }  # fmt: skip
        return Recording(manifest=manifest, tables=tables)


def steady(first_ms: float, count: int, step_ms: float = 100.0) -> list[float]:
    """Arrivals at a constant rate."""
    return [first_ms + step_ms * index for index in range(count)]


def good_run(
    *,
    utterances: int = 12,
    every_ns: int = 5 * S,
    device: str = "cpu",
    late_ms: float = 0.0,
    share: float = 0.0,
    faces: bool = True,
    seconds: int = 60,
) -> Builder:
    """The baseline, a crowd and the baseline again, 60 s each, two listeners; in the crowd, of each `share`
    of the utterances, one chunk comes `late_ms` too late."""
    builder = Builder(device=device)
    stages = ("alone", "crowd", "alone/again")
    builder.stamps(0, (3 * seconds + 70) * S)
    for number, stage in enumerate(stages):
        start = (10 + (seconds + 10) * number) * S
        builder.window(stage, start, start + seconds * S)
        for listener in (0, 1):
            for utterance in range(utterances):
                due = start + utterance * every_ns + listener * S
                arrivals = steady(200.0 + 3 * listener + utterance % 5, 20)
                if (
                    stage == "crowd"
                    and late_ms
                    and (utterance * 2 + listener) % max(1, round(1 / share)) == 0
                ):
                    arrivals = [at + (late_ms if index >= 10 else 0) for index, at in enumerate(arrivals)]
                builder.voice(stage, due, arrivals, [160.0] * 20, listener=listener, utterance=utterance)
        if stage == "crowd":
            for utterance in range(utterances if faces else 0):
                due = start + utterance * every_ns
                builder.face(stage, due, steady(250.0, 80, 40.0), utterance=utterance)
            for stream in (0, 1):
                for index in range(seconds // 10 + 1):
                    due = start - S + index * 10 * S
                    builder.asked(
                        stage,
                        due,
                        steady(100.0, 198, 50.0),
                        done_ms=10_000.0,
                        listener=stream,
                        utterance=index,
                    )
    return builder
