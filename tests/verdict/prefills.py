"""Recordings of voices beside an LLM that reads a prompt now and then, with stalls whose cause is known."""

import copy
from functools import cache
from typing import Any, Literal

import numpy as np

from cotenant.records import Recording
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import MS, SCENARIO, Builder, S

Kind = Literal["prefill", "chunks", "incidents", "utterances", "none"]
POINT = JudgeOptions(decision="point")
CHUNKS, GAP_MS, MEDIA_MS = 30, 150, 160
START_S = 10


def scenario(*, faces: bool = False) -> dict[str, Any]:
    """Voices alone, then beside long prompts."""
    plan = copy.deepcopy(dict(SCENARIO))
    plan["load"]["voices"]["listeners"] = 8
    plan["load"]["prefill"] = {
        "tenant": "llm",
        "kind": "completions",
        "streams": 1,
        "prompt": 4000,
        "output": 4,
    }
    loads = ["voices", *(["faces"] if faces else []), "prefill"]
    plan["stages"] = [
        {"name": "alone", "load": ["voices"], "baseline": True},
        {"name": "crowd", "load": loads},
    ]
    return plan


def watched(builder: Builder, start_ns: int, end_ns: int, lag_ms: float = 0.2) -> None:
    """A host canary that saw nothing, or a host that is late all the time."""
    builder.stamps(start_ns, end_ns)
    for t in range(start_ns, end_ns, S):
        row = {"t": t, "source": "host", "metric": "sleep_lag_ns", "value": lag_ms * MS}
        builder.rows["host"].append(row)


def prompts(rng: np.random.Generator, seconds: float, duty: float = 0.35) -> list[tuple[float, float]]:
    """(Begin, end) of each prompt's reading, ms from the stage's start: about 1 s, with pauses."""
    found, at = [], 0.0
    while at < seconds * 1000:
        length = float(rng.uniform(500, 1500))
        found.append((at, at + length))
        at += length + float(rng.exponential(length * (1 - duty) / duty)) + 20
    return found


def run(
    kind: Kind,
    seed: int,
    *,
    seconds: int = 60,
    voices: int = 8,
    share: float = 0.12,
    lag_ms: float = 0.2,
    always: bool = False,
) -> Recording:
    """In the crowd some chunks come 500 to 900 ms late: of those made beside a prompt (`prefill`), of all
    (`chunks`), all that are made in some half second (`incidents`), or several of some utterance."""
    rng = np.random.default_rng(seed)
    builder = Builder(scenario=scenario())
    watched(builder, 0, (3 * seconds + 100) * S, lag_ms)
    for number, stage in enumerate(("alone", "crowd", "alone/again")):
        start = (START_S + (seconds + 20) * number) * S
        builder.window(stage, start, start + seconds * S)
        spans: list[tuple[float, float]] = []
        if stage == "crowd":
            spans = [(0.0, seconds * 1000.0 + 9000)] if always else prompts(rng, seconds + 8)
            for index, (begin, end) in enumerate(spans):
                _ask(builder, start, begin, end, index)
        incidents = rng.uniform(0, seconds * 1000, 12)
        for listener in range(voices):
            at, utterance = float(rng.uniform(0, 3000)), 0
            while at < seconds * 1000 - 1:
                crowd = kind if stage == "crowd" else "none"
                arrivals = _arrivals(rng, crowd, at, spans, incidents, share)
                builder.voice(
                    stage, start + round(at * MS), arrivals, [MEDIA_MS] * CHUNKS,
                    listener=listener, utterance=utterance,
                )  # fmt: skip
                at += max(5500.0, arrivals[-1] + 500) + float(rng.uniform(0, 1000))
                utterance += 1
    return builder.build()


def _ask(builder: Builder, start_ns: int, begin_ms: float, end_ms: float, index: int) -> None:
    builder.asked(
        "crowd",
        start_ns + round(begin_ms * MS),
        [end_ms - begin_ms + extra for extra in (0, 3, 6, 9)],
        load="prefill",
        done_ms=end_ms - begin_ms + 10,
        utterance=index,
        prompt_tokens=4000,
    )


def _arrivals(
    rng: np.random.Generator,
    kind: Kind,
    due_ms: float,
    spans: list[tuple[float, float]],
    incidents: np.typing.NDArray[np.float64],
    share: float,
) -> list[float]:
    found = [float(rng.uniform(90, 130))]
    bad = rng.random() < 0.3
    for _ in range(CHUNKS - 1):
        at, made = due_ms + found[-1], GAP_MS + float(rng.normal(0, 3))
        hit = {
            "none": False,
            "prefill": any(begin <= at + 20 < end for begin, end in spans) and rng.random() < share,
            "chunks": rng.random() < share * 0.35,
            "incidents": bool(((at <= incidents) & (incidents < at + 150)).any()),
            "utterances": bad and rng.random() < share,
        }[kind]
        found.append(found[-1] + made + (float(rng.uniform(500, 900)) if hit else 0.0))
    return found


def crowd_of(summary: dict[str, Any]) -> dict[str, Any]:
    """The entry of the crowd."""
    return next(stage for stage in summary["stages"] if stage["name"] == "crowd")


@cache
def known() -> tuple[Recording, dict[str, Any]]:
    """A recording with stalls beside prompts only, and its summary."""
    recording = run("prefill", 3)
    return recording, judge(recording, POINT)
