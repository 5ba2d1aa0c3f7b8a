"""The `what_if` of the page's data: the verdict at 101 lookaheads."""

from collections.abc import Mapping
from typing import Any, Final

from cotenant.records import Recording
from cotenant.report.console import verdict_line
from cotenant.report.gate_words import title
from cotenant.units import NS_PER_MS
from cotenant.verdict.at_lookaheads import judge_at
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.sample import look_up

POSITIONS: Final = 101
_STEP_NS: Final = 50 * NS_PER_MS
Summary = Mapping[str, Any]


def what_if(
    recording: Recording, options: JudgeOptions, summary: Summary, positions: int = POSITIONS
) -> dict[str, Any]:
    """Judges the run anew at every lookahead of the grid; at its own it says what `summary` says."""
    own_ns = round(summary["lookahead_ms"] * NS_PER_MS)
    mends = {
        stage["name"]: round(stage["mend"]["lookahead_ms"] * NS_PER_MS)
        for stage in summary["stages"]
        if (mend := stage.get("mend")) and mend.get("lookahead_ms") is not None and not mend.get("left_out")
    }
    grid = grid_ns(own_ns, mends.values(), positions)
    found: dict[str, Any] = {
        "lookahead_ms": [round(at / NS_PER_MS, 6) for at in grid],
        "own": grid.index(own_ns),
        "mends": [{"stage": stage, "index": grid.index(at)} for stage, at in mends.items()],
        "run_verdict": [],
        "run_word": [],
        "run_sentence": [],
        "stages": {stage["name"]: _empty(stage) for stage in summary["stages"]},
    }
    for judged in judge_at(recording, options, grid):
        word, sentence = verdict_line(judged)
        found["run_verdict"].append(judged["verdict"])
        found["run_word"].append(word)
        found["run_sentence"].append(sentence)
        for stage in judged["stages"]:
            _add(found["stages"][stage["name"]], stage)
    return found


def grid_ns(own_ns: int, also_ns: Any, positions: int = POSITIONS) -> list[int]:
    """0 to 5 s in even steps; those asked for take the place of the nearest step (of a later one where two
    want the same), and one beyond 5 s stretches the grid."""
    wanted = sorted({own_ns, *also_ns})
    step = max(_STEP_NS, -(-max(wanted) // (positions - 1)))
    grid = {at * step for at in range(positions)}
    fixed = set(wanted)
    for one in wanted:
        if one in grid:
            continue
        free = [at for at in grid if at not in fixed and at]
        grid.discard(min(free, key=lambda at: (abs(at - one), at)))
        grid.add(one)
    return sorted(grid)


def _empty(stage: Summary) -> dict[str, Any]:
    lists = ("verdict", "clean_share", "low", "high", "playback_p95_ms", "underruns", "headroom_p5_ms")
    return {
        **{name: [] for name in lists},
        "failing_gates": [],
        "inconclusive_gates": [],
        "gates": [title(gate) for gate in stage["gates"]],
    }


def _add(lists: dict[str, Any], stage: Summary) -> None:
    speech = stage.get("speech") or {}
    lists["verdict"].append(stage["verdict"])
    for name, path in (
        ("clean_share", "clean_share"),
        ("playback_p95_ms", "time_to_playback_ms.p95"),
        ("underruns", "underruns"),
        ("headroom_p5_ms", "headroom_ms.p5"),
    ):
        value = look_up(stage, f"speech.{path}")[0] if speech else None
        lists[name].append(value if value is not None and abs(value) != float("inf") else None)
    bounds = stage["clean_bounds"] or {}
    lists["low"].append(bounds.get("low"))
    lists["high"].append(bounds.get("high"))
    for name, word in (("failing_gates", "fail"), ("inconclusive_gates", "inconclusive")):
        lists[name].append([at for at, gate in enumerate(stage["gates"]) if gate["verdict"] == word])
