"""A run followed while it is written: no row twice, no underrun twice, half a batch later."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cotenant.conductor.follow import Follower
from cotenant.conductor.heard import HeardVoice
from cotenant.conductor.tail import Tail
from cotenant.playback.player import PlayerOptions, Underrun, play
from cotenant.run_dir import manifest
from cotenant.run_dir.writer import RunWriter
from cotenant.units import NS_PER_MS

MS = NS_PER_MS


def rows_of(tail: Tail) -> list[dict[str, Any]]:
    return [row for batch in tail.read() for row in batch.to_pylist()]


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[RunWriter]:
    writer = RunWriter(tmp_path, "listeners")
    yield writer
    writer.close()


def test_a_table_that_is_not_there_yet_has_no_rows(tmp_path: Path) -> None:
    assert Tail(tmp_path, "marks").read() == []


def test_each_row_comes_once_from_every_writer(tmp_path: Path, writer: RunWriter) -> None:
    tail, other = Tail(tmp_path, "marks"), RunWriter(tmp_path, "conductor")
    for t, one in enumerate((writer, other, writer, writer)):
        one.append("marks", t=t, what="stage", name="a", edge="start")
        one.flush()
        assert [row["t"] for row in rows_of(tail)] == [t]
    other.close()
    assert rows_of(tail) == []


def test_a_batch_that_is_half_written_comes_when_it_is_whole(tmp_path: Path) -> None:
    writer = RunWriter(tmp_path / "whole", "w")
    for t in range(3):
        writer.append("marks", t=t, what="stage", name="a", edge="start")
        writer.flush()
    writer.close()
    data = next((tmp_path / "whole").rglob("*.arrows")).read_bytes()
    copy = tmp_path / "tables" / "marks" / "w.arrows"
    copy.parent.mkdir(parents=True)
    tail, found = Tail(tmp_path, "marks"), []
    for size in range(0, len(data) + 1, 7):
        copy.write_bytes(data[:size])
        found += [row["t"] for row in rows_of(tail)]
    assert found == [0, 1, 2]


@pytest.mark.parametrize("after_underrun", ["resume", "refill", "drop"])
@pytest.mark.parametrize("start", ["prefill", "delay"])
def test_underruns_told_on_the_way_are_those_of_the_whole(after_underrun: Any, start: Any) -> None:
    told_in_all = 0
    for seed in range(250):
        chance = random.Random(f"{seed}/{after_underrun}/{start}")
        options = PlayerOptions(
            lookahead_ns=chance.choice([0, 50, 200, 400]) * MS,
            start=start,
            after_underrun=after_underrun,
            quantum_ns=chance.choice([0, 0, 10, 21]) * MS,
        )
        t_ns, arrival_ns, media_ns = 0, [], []
        for _ in range(chance.randint(1, 25)):
            t_ns += chance.choice([0, 1, 20, 80, 100, 300, 900]) * MS + chance.choice([0, MS // 2])
            arrival_ns.append(t_ns)
            media_ns.append(chance.choice([0, 40, 80, 160]) * MS)
        whole, done_ns = chance.random() < 0.7, t_ns + chance.choice([0, 5, 500]) * MS
        voice, told = HeardVoice(), list[Underrun]()
        for seq, (at_ns, duration_ns) in enumerate(zip(arrival_ns, media_ns, strict=True)):
            voice.add(seq, at_ns, duration_ns, options.quantum_ns)
            voice.add(seq, at_ns, duration_ns, options.quantum_ns)  # audio that was kept later
            told += voice.fresh(options) if chance.random() < 0.7 else ()
        voice.end(done_ns, whole=whole)
        told += [*voice.fresh(options), *voice.fresh(options)]
        playback = play(arrival_ns, media_ns, options, done_ns=done_ns if whole else None, give_up_ns=done_ns)
        assert [(e.start_ns, e.media_ns, e.duration_ns) for e in told] == [
            (e.start_ns, e.media_ns, e.duration_ns) for e in playback.events
        ], seed
        told_in_all += len(told)
    assert told_in_all > 100


class Followed:
    """A follower, and a load process's rows at hand."""

    def __init__(self, folder: Path, writer: RunWriter) -> None:
        self.writer = writer
        self.put: list[tuple[str, dict[str, Any]]] = []
        self.now_ms = 10_000
        self.follower = Follower(
            folder,
            PlayerOptions(lookahead_ns=0),
            wall=lambda t_ns: f"{t_ns // MS}ms",
            put=lambda kind, fields: self.put.append((kind, dict(fields))),
            now_ns=lambda: self.now_ms * MS,
            pauses_ns={"voices": 100 * MS},
        )

    def mark(self, what: str, edge: str, t_ms: int, name: str = "a") -> None:
        self.writer.append("marks", t=t_ms * MS, what=what, name=name, edge=edge)

    def stream(self, number: int, due_ms: int, end: str | None = None, done_ms: int = 0, **more: Any) -> None:
        row = {"load": "voices", "kind": "voices", "stage": "a", "round": 0, "tenant": "tts", "listener": 0,
               "utterance": 0, **more}  # fmt: skip
        done_ns = None if end is None else done_ms * MS
        self.writer.append("streams", stream=number, due=due_ms * MS, end=end, done=done_ns, **row)

    def chunk(self, number: int, seq: int, arrival_ms: int, media_ms: int = 80) -> None:
        self.writer.append("chunks", stream=number, seq=seq, arrival=arrival_ms * MS, media=media_ms * MS)

    def look(self) -> list[tuple[str, dict[str, Any]]]:
        self.writer.flush()
        self.follower.look()
        told, self.put = self.put, []
        return told

    def figures(self) -> dict[str, Any]:
        self.follower.metrics()
        ((kind, fields),) = self.put
        self.put = []
        assert kind == "metrics"
        return fields


@pytest.fixture
def followed(tmp_path: Path, writer: RunWriter) -> Followed:
    return Followed(tmp_path, writer)


def test_an_underrun_is_told_while_its_stream_goes_on(followed: Followed) -> None:
    followed.mark("stage", "start", 0)
    followed.mark("measure", "start", 100)
    followed.stream(7, 200)
    for seq, arrival_ms in enumerate((300, 500, 520)):
        followed.chunk(7, seq, arrival_ms)
    underruns = [fields for kind, fields in followed.look() if kind == "underrun"]
    assert underruns == [
        {"stage": "a", "round": 0, "window": "measure", "load": "voices", "tenant": "tts", "listener": 0,
         "utterance": 0, "stream": 7, "at": "380ms", "media_ms": 80.0, "duration_ms": 120.0}
    ]  # fmt: skip
    followed.stream(7, 200, "eos", 530)
    assert followed.look() == []
    assert followed.figures()["total"] == {
        "streams": 1, "open": 0, "failed": 0, "underruns": 1, "tokens": 0,
    }  # fmt: skip


def test_a_stream_belongs_to_the_part_that_it_was_due_in(followed: Followed) -> None:
    followed.mark("stage", "start", 0)
    followed.mark("measure", "start", 100)
    followed.mark("measure", "end", 300)
    for number, due_ms in enumerate((50, 100, 299, 300)):
        followed.stream(number, due_ms, "eos", due_ms + 200)
        followed.chunk(number, 0, due_ms + 10)
        followed.chunk(number, 1, due_ms + 190)
    told = followed.look()
    assert [fields["window"] for kind, fields in told if kind == "underrun"] == [
        "settle", "measure", "measure", "after",
    ]  # fmt: skip
    assert followed.figures()["total"]["streams"] == 2
    # An undecided stage is measured on: what was after the window is in it now.
    followed.mark("measure", "end", 400)
    followed.look()
    assert followed.figures()["total"] == {
        "streams": 3, "open": 0, "failed": 0, "underruns": 3, "tokens": 0,
    }  # fmt: skip


def test_an_utterance_that_lasts_all_of_the_window_is_in_its_figures(followed: Followed) -> None:
    """As the verdict has it; in a talk so slow that nothing falls due in the window."""
    followed.mark("stage", "start", 0)
    followed.mark("measure", "start", 1000)
    followed.now_ms = 1500
    followed.stream(7, 100)
    # Silent from 380 to 600, from 680 to 1200, from 1280 to 1400 ms.
    for seq, arrival_ms in enumerate((300, 600, 1200, 1400)):
        followed.chunk(7, seq, arrival_ms)
    followed.chunk(7, 4, 1420)
    told = [fields for kind, fields in followed.look() if kind == "underrun"]
    assert [(fields["window"], fields["at"]) for fields in told] == [
        ("settle", "380ms"),
        ("under_way", "680ms"),
        ("under_way", "1280ms"),
    ]
    assert followed.figures()["total"] == {
        "streams": 1, "open": 1, "failed": 0, "underruns": 2, "tokens": 0,
    }  # fmt: skip
    followed.stream(7, 100, "truncated", 1600)
    followed.mark("measure", "end", 2000)
    followed.look()
    # Still its listener's only one: it failed, though with the pause it was over before the window was.
    assert followed.figures()["total"]["failed"] == 1
    # The next one falls due: it is judged by that.
    followed.now_ms = 1700
    followed.stream(8, 1700)
    followed.look()
    assert followed.figures()["total"]["streams"] == 1
    followed.now_ms = 1701
    assert followed.figures()["total"] == {
        "streams": 0, "open": 1, "failed": 0, "underruns": 0, "tokens": 0,
    }  # fmt: skip


def test_figures_are_of_each_load_and_of_the_window(followed: Followed) -> None:
    followed.mark("stage", "start", 0)
    followed.mark("measure", "start", 100)
    followed.stream(1, 150, "error", 160)
    followed.stream(2, 50, load="decode", kind="completions")
    for t_ms, tokens in ((90, 5), (100, 3), (110, 4)):
        followed.writer.append("tokens", stream=2, seq=t_ms, arrival=t_ms * MS, tokens=tokens)
    followed.look()
    figures = followed.figures()
    assert (figures["stage"], figures["round"], figures["phase"]) == ("a", 0, "measure")
    assert figures["loads"] == {
        "voices": {"kind": "voices", "streams": 1, "open": 0, "failed": 1, "underruns": 0, "tokens": 0},
        "decode": {"kind": "completions", "streams": 0, "open": 1, "failed": 0, "underruns": 0, "tokens": 7},
    }


def test_a_stage_that_comes_again_is_its_next_round_and_between_two_there_are_no_figures(
    followed: Followed,
) -> None:
    for t_ms in (0, 1000):
        followed.mark("stage", "start", t_ms)
        followed.mark("stage", "end", t_ms + 500)
    followed.mark("tenant", "start", 1, "tts")
    told = [(fields["round"], fields["edge"]) for kind, fields in followed.look() if kind == "stage"]
    assert told == [(0, "start"), (0, "end"), (1, "start"), (1, "end")]
    followed.follower.metrics()
    assert followed.put == []


def test_a_window_that_is_left_out_has_one_message_with_the_reason(
    followed: Followed, tmp_path: Path
) -> None:
    told = [{"stage": "a", "round": round_, "tenant": "tts", "why": f"why {round_}"} for round_ in (1, 2)]
    manifest.write(tmp_path, {"schema": 1, "tool": "cotenant", "not_run": told})
    for t_ms, name in enumerate(("a", "a", "b")):
        followed.mark("fault", "start", t_ms, f"not-run:{name}")
    assert [fields for kind, fields in followed.look() if kind == "stage"] == [
        {"name": "a", "round": 1, "phase": "not-run", "edge": "end", "at": "0ms", "why": "why 1"},
        {"name": "a", "round": 2, "phase": "not-run", "edge": "end", "at": "1ms", "why": "why 2"},
        {"name": "b", "round": 0, "phase": "not-run", "edge": "end", "at": "2ms", "why": None},
    ]
    assert followed.follower.stage is not None  # what a broker that comes back is told
    followed.follower.metrics()
    assert followed.put == []


def test_warming_up_is_nobodys_listening(followed: Followed) -> None:
    followed.stream(1, 0, "eos", 900, stage="warm")
    followed.chunk(1, 0, 10)
    followed.chunk(1, 1, 800)
    assert followed.look() == []
