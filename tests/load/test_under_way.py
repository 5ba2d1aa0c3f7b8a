"""The figures of a window while it goes on, in a talk too slow for it, beside those of the verdict."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from cotenant.load.settings import VoicesLoad
from cotenant.load.stage import Stage
from cotenant.load.transport import sleep_until
from cotenant.load.under_way import Figures
from cotenant.playback.options import PlayerOptions
from cotenant.records import TABLES, Recording
from cotenant.testing.virtual_loop import VirtualLoop
from cotenant.units import NS_PER_MS, NS_PER_S
from cotenant.verdict.summary import JudgeOptions, judge
from tests.load.rig import KeptRows, voices
from tests.load.virtual_stage import START, play_stage
from tests.verdict.recordings import SCENARIO

PLAYER = PlayerOptions(lookahead_ns=400 * NS_PER_MS)
MEASURE = (START + 10 * NS_PER_S, START + 20 * NS_PER_S)


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualLoop]:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        monkeypatch.setattr(time, "monotonic_ns", loop.now_ns)
        yield loop


def every(gap_ms: int, count: int) -> tuple[list[int], bool]:
    """Pieces of 100 ms so far apart."""
    return [number * gap_ms * NS_PER_MS for number in range(count)], True


def watched(
    loop: VirtualLoop,
    load: VoicesLoad,
    answer: Callable[[int], tuple[list[int], bool]],
    player: PlayerOptions = PLAYER,
) -> tuple[list[Figures], KeptRows]:
    """The figures each second of a window, and at its end; the rows of it all."""
    seen: list[Figures] = []

    async def script(stage: Stage) -> None:
        await sleep_until(MEASURE[0] - NS_PER_S)
        stage.open_window(*MEASURE)
        seen.append(stage.voices.figures(time.monotonic_ns(), *MEASURE, player))
        for second in range(1, 11):
            await sleep_until(MEASURE[0] + second * NS_PER_S)
            seen.append(stage.voices.figures(time.monotonic_ns(), *MEASURE, player))
        await sleep_until(MEASURE[1] + NS_PER_S)
        seen.append(stage.voices.figures(time.monotonic_ns(), *MEASURE, player))

    rows, _ = play_stage(loop, load, answer, script)
    return seen, rows


def judged(rows: KeptRows, policy: Any = "resume") -> dict[str, Any]:
    """What the verdict says of that stage's voices."""
    marks = [
        {"t": t_ns, "what": what, "name": "one", "edge": edge}
        for what, edge, t_ns in (
            ("stage", "start", START), ("measure", "start", MEASURE[0]), ("measure", "end", MEASURE[1]),
            ("stage", "end", MEASURE[1] + 2 * NS_PER_S),
        )
    ]  # fmt: skip
    scenario = {
        **SCENARIO,
        "load": {"voices": {"tenant": "tts", "kind": "voices", "listeners": 1, "pause": "500ms"}},
        "stages": [{"name": "one", "load": ["voices"], "baseline": True}],
    }
    streams = {row["stream"]: row for row in rows.rows["streams"]}  # the last row of each wins
    tables = {"streams": list(streams.values()), "chunks": rows.rows["chunks"], "marks": marks}
    recording = Recording(
        manifest={"schema": 1, "tool": "cotenant", "scenario": scenario, "device": {"kind": "cpu"}},
        tables={
            name: pa.Table.from_pylist(tables.get(name, []), schema=schema) for name, schema in TABLES.items()
        },
    )
    found: dict[str, Any] = judge(recording, JudgeOptions(after_underrun=policy))["stages"][0]["speech"]
    return found


def test_a_window_in_which_nothing_falls_due_counts_as_the_verdict_does(loop: VirtualLoop) -> None:
    seen, rows = watched(loop, voices(), lambda _: every(500, 100))
    assert seen[0] == Figures()
    underruns = [figures.underruns for figures in seen[1:]]
    assert underruns == sorted(underruns)
    assert underruns[0] < underruns[4] < underruns[-1]
    assert seen[-1] == seen[-2]  # what is heard after the window is not of it
    told = judged(rows)
    assert (told["streams"], told["underruns"]) == (seen[-1].streams, seen[-1].underruns)
    assert told["under_way"] == 1


def test_of_a_service_that_keeps_up_nothing_is_left_once_the_next_falls_due(loop: VirtualLoop) -> None:
    seen, rows = watched(loop, voices(), lambda _: every(50, 30))
    assert seen[-1] == Figures()
    assert "under_way" not in judged(rows)


def test_one_that_ends_badly_is_counted_with_its_listeners_wait(loop: VirtualLoop) -> None:
    def answer(number: int) -> tuple[list[int], bool]:
        return ([0] * 5 + [18 * NS_PER_S], False) if number == 0 else ([0], True)

    seen, rows = watched(loop, voices(every_ns=60 * NS_PER_S), answer)
    assert seen[5] == Figures(streams=1, failed=0, underruns=1)
    assert seen[-1] == Figures(streams=1, failed=1, underruns=1)
    told = judged(rows)
    assert (told["streams"], told["failed"], told["underruns"]) == (1, 1, 1)


def test_one_that_says_nothing_at_all_is_a_stream_without_underruns(loop: VirtualLoop) -> None:
    seen, _ = watched(loop, voices(), lambda _: ([60 * NS_PER_S], True))
    assert seen[-1] == Figures(streams=1)


@pytest.mark.parametrize("policy", ["resume", "refill", "drop"])
def test_beside_a_listener_that_gets_its_turns_only_the_one_kept_waiting_counts(
    loop: VirtualLoop, policy: Any
) -> None:
    def answer(number: int) -> tuple[list[int], bool]:
        return every(400, 100) if number == 0 else every(20, 10)

    player = PlayerOptions(lookahead_ns=400 * NS_PER_MS, after_underrun=policy)
    seen, rows = watched(loop, voices(listeners=2), answer, player)
    assert seen[-1].streams == 1
    assert seen[-1].underruns > 0
    told = judged(rows, policy)
    assert (told["under_way"], told["underruns"]) == (1, seen[-1].underruns)


def test_what_was_due_after_a_window_counts_once_that_goes_on_so_long() -> None:
    stage = Stage(name="one", round=0, start_ns=0)
    stage.count(50, streams=1, underruns=9)  # settling
    stage.open_window(100, 200)
    stage.count(150, streams=1, underruns=2)
    stage.count(250, streams=1, failed=1)
    stage.count(350, streams=1)
    counted = []
    for end_ns in (200, 300, 400):
        stage.open_window(100, end_ns)
        counted.append((stage.counts.streams, stage.counts.failed, stage.counts.underruns))
    assert counted == [(1, 0, 2), (2, 1, 2), (3, 1, 2)]
