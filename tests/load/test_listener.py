"""Who speaks when, in virtual time: turns, closed, open; numbers, texts, what is followed."""

import asyncio
import itertools
import time
from collections.abc import Iterator

import pytest

from cotenant.load.stage import LateWindow, Stage
from cotenant.load.transport import sleep_until
from cotenant.testing.virtual_loop import VirtualLoop
from cotenant.units import NS_PER_MS, NS_PER_S
from tests.load.rig import voices
from tests.load.virtual_stage import START, ended, play_stage


@pytest.fixture
def loop(monkeypatch: pytest.MonkeyPatch) -> Iterator[VirtualLoop]:
    with asyncio.Runner(loop_factory=lambda: VirtualLoop(START)) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        monkeypatch.setattr(time, "monotonic_ns", loop.now_ns)
        yield loop


def quick(_: int) -> tuple[list[int], bool]:
    """300 ms of audio, at once."""
    return [0, 0, 0], True


async def sleep_to(at_ns: int) -> None:
    await sleep_until(START + at_ns)


def test_turns_keep_the_schedule_while_the_voice_keeps_up(loop: VirtualLoop) -> None:
    async def script(stage: Stage) -> None:
        await sleep_to(60 * NS_PER_S)

    rows, _ = play_stage(loop, voices(listeners=2), quick, script)
    for listener in (0, 1):
        dues = [row["due"] - START for row in ended(rows) if row["listener"] == listener]
        assert dues[0] == listener * 2 * NS_PER_S
        gaps = [b - a for a, b in itertools.pairwise(dues)]
        assert 13 <= len(gaps) <= 17
        assert all(2.8 <= gap / NS_PER_S <= 5.2 for gap in gaps)
    assert all(row["delayed"] == 0 for row in ended(rows))
    # A timer of the loop may be a nanosecond late, never early.
    assert all(0 <= row["sent"] - row["due"] <= NS_PER_MS for row in ended(rows))


def test_a_turn_waits_until_the_last_one_was_heard(loop: VirtualLoop) -> None:
    def slow(_: int) -> tuple[list[int], bool]:
        """Chunks of 100 ms a second apart: it stalls in every gap."""
        return [i * NS_PER_S for i in range(5)], True

    async def script(stage: Stage) -> None:
        await sleep_to(30 * NS_PER_S)

    rows, _ = play_stage(loop, voices(), slow, script)
    turns = ended(rows)
    for before, after in itertools.pairwise(turns):
        # 500 ms of audio, 400 ms of lookahead: it starts at the fourth chunk and ends 100 ms after the last.
        heard_ns = before["done"] + 100 * NS_PER_MS
        assert after["due"] >= heard_ns + 500 * NS_PER_MS
        if after["delayed"]:
            assert after["due"] == heard_ns + 500 * NS_PER_MS
    assert sum(row["delayed"] > 0 for row in turns) >= len(turns) - 2


def test_numbers_and_texts_begin_with_the_window(loop: VirtualLoop) -> None:
    start, end = START + 9 * NS_PER_S, START + 24 * NS_PER_S

    async def script(stage: Stage) -> None:
        await sleep_to(8 * NS_PER_S)
        stage.open_window(start, end)
        await sleep_to(40 * NS_PER_S)

    load = voices(listeners=2)
    rows, transport = play_stage(loop, load, quick, script)
    said = {sent: text for sent, text in transport.asked}
    for listener in (0, 1):
        mine = [row for row in ended(rows) if row["listener"] == listener]
        settling = [row for row in mine if row["due"] < start]
        measured = [row for row in mine if row["due"] >= start]
        assert settling
        assert all(row["utterance"] == -1 for row in settling)
        assert all(said[row["sent"]].startswith("settling") for row in settling)
        assert [row["utterance"] for row in measured] == list(range(len(measured)))
        lines = [load.measured[(listener * 7 + k) % 18] for k in range(len(measured))]
        assert [said[row["sent"]] for row in measured] == lines
        # The loads go on after the window.
        assert measured[-1]["due"] > end


def test_a_window_that_is_told_late_holds_nothing_that_began_as_settling(loop: VirtualLoop) -> None:
    """Told 100 ms after its start: refused only if something was due in between."""
    refused: list[int] = []

    async def script(stage: Stage) -> None:
        for second in range(1, 30):
            start_ns = START + second * NS_PER_S
            await sleep_until(start_ns + 100 * NS_PER_MS)
            try:
                stage.open_window(start_ns, start_ns + NS_PER_S)
            except LateWindow:
                refused.append(start_ns)
            stage.window_start_ns = None

    rows, _ = play_stage(loop, voices(listeners=4), quick, script)
    begun = [row["due"] for row in ended(rows)]
    windows = [START + second * NS_PER_S for second in range(1, 30)]
    assert refused == [at for at in windows if any(at <= due <= at + 100 * NS_PER_MS for due in begun)]
    assert 0 < len(refused) < len(windows)
    assert {row["utterance"] for row in ended(rows)} == {-1}


def test_pairs_of_two_stages_say_the_same_however_long_the_stage_settled(loop: VirtualLoop) -> None:
    said = []
    for settle_s in (5, 17):
        base_ns = loop.now_ns()

        async def script(stage: Stage, base_ns: int = base_ns, settle_s: int = settle_s) -> None:
            stage.open_window(base_ns + settle_s * NS_PER_S, 10**18)
            await sleep_until(base_ns + (settle_s + 20) * NS_PER_S)

        rows, transport = play_stage(loop, voices(), quick, script)
        by_time = dict(transport.asked)
        said.append({row["utterance"]: by_time[row["sent"]] for row in ended(rows) if row["utterance"] >= 0})
    assert len(said[0].keys() & said[1].keys()) >= 3
    assert all(said[0][k] == said[1][k] for k in said[0].keys() & said[1].keys())


def test_followed_is_told_when_the_last_one_due_in_the_window_has_ended(loop: VirtualLoop) -> None:
    told: list[int] = []

    def long(_: int) -> tuple[list[int], bool]:
        return [0, 3 * NS_PER_S], True

    async def script(stage: Stage) -> None:
        stage.open_window(START, START + 9 * NS_PER_S)
        while not stage.followed():  # noqa: ASYNC110 - it is asked, it does not tell
            await asyncio.sleep(0.02)
        told.append(loop.now_ns())

    rows, _ = play_stage(loop, voices(listeners=3), long, script)
    in_window = [row for row in ended(rows) if row["due"] < START + 9 * NS_PER_S]
    assert 0 <= told[0] - max(row["done"] for row in in_window) <= 40 * NS_PER_MS
    assert told[0] >= START + 9 * NS_PER_S


def test_settled_once_every_listener_has_had_output(loop: VirtualLoop) -> None:
    seen: list[tuple[int, bool]] = []

    def late(number: int) -> tuple[list[int], bool]:
        return [NS_PER_S], True

    async def script(stage: Stage) -> None:
        for second in (1, 2, 3, 4):
            await sleep_to(second * NS_PER_S + NS_PER_S // 2)
            seen.append((second, stage.is_settled("voices")))

    # Starts at 0 and 2 s, output a second later.
    play_stage(loop, voices(listeners=2), late, script)
    assert seen == [(1, False), (2, False), (3, True), (4, True)]


def test_closed_sends_at_the_last_byte_and_pauses_after_a_failure(loop: VirtualLoop) -> None:
    def every_third_fails(number: int) -> tuple[list[int], bool]:
        return [0, 200 * NS_PER_MS], number % 3 != 2

    async def script(stage: Stage) -> None:
        await sleep_to(5 * NS_PER_S)

    rows, _ = play_stage(loop, voices(mode="closed"), every_third_fails, script)
    turns = ended(rows)
    assert len(turns) > 10
    for before, after in itertools.pairwise(turns):
        assert after["due"] - before["done"] == (0 if before["end"] == "eos" else NS_PER_S // 2)


def test_open_sends_on_schedule_whatever_became_of_the_ones_before(loop: VirtualLoop) -> None:
    def never(_: int) -> tuple[list[int], bool]:
        return [0, 1000 * NS_PER_S], True

    async def script(stage: Stage) -> None:
        stage.open_window(START, 10**18)
        await sleep_to(30 * NS_PER_S)

    rows, transport = play_stage(loop, voices(mode="open"), never, script)
    gaps = [b[0] - a[0] for a, b in zip(transport.asked, transport.asked[1:], strict=False)]
    assert len(gaps) >= 5
    assert all(2.8 <= gap / NS_PER_S <= 5.21 for gap in gaps)
    last = [row for row in rows.rows["streams"] if row["end"] == "open"]
    assert sorted(row["utterance"] for row in last) == list(range(len(transport.asked)))


def test_counts_of_the_window(loop: VirtualLoop) -> None:
    def stalls(number: int) -> tuple[list[int], bool]:
        # The fifth chunk comes 600 ms after the fourth started playback with 400 ms in the buffer.
        return [0, 0, 0, 0, 600 * NS_PER_MS], number != 2

    stages: list[Stage] = []

    async def script(stage: Stage) -> None:
        stages.append(stage)
        stage.open_window(START, START + 14 * NS_PER_S)
        await sleep_to(20 * NS_PER_S)

    rows, _ = play_stage(loop, voices(), stalls, script)
    counts = stages[0].counts
    measured = [row for row in ended(rows) if row["due"] < START + 14 * NS_PER_S]
    assert counts.streams == len(measured)
    assert counts.failed == 1
    assert counts.underruns >= len(measured)
