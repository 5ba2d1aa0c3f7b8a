"""The windows of a run when services are lost: which are run, what is said of the others, the time left."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from cotenant.conductor.context import Run, State
from cotenant.conductor.plan import LEAST_TAIL_NS, Window, windows
from cotenant.conductor.preflight import Device
from cotenant.conductor.reporter import Reporter
from cotenant.conductor.walk import LadderStopped, Walk
from cotenant.errors import CouldNotRun
from cotenant.live import progress
from cotenant.run_dir import manifest
from cotenant.run_dir.reader import read
from cotenant.run_dir.writer import RunWriter
from cotenant.scenario.auto import resolve
from cotenant.scenario.load import load
from cotenant.units import NS_PER_S

ATTACHED = ("tenants.tts.engine=attach", "tenants.tts.url=http://127.0.0.1:9")
Event = Callable[["Told"], None]


class Told:
    """A walk through `all-together` in which nothing is measured: what ran, what was shown and recorded."""

    def __init__(self, folder: Path, *overrides: str, refused: Sequence[str] = ()) -> None:
        self.shown: list[progress.State] = []
        self.refused = set(refused)
        self.ran: list[str] = []
        self.given_up: list[str] = []
        (folder / "logs").mkdir()
        self.run = Run(
            scenario=resolve(load("all-together", list(overrides)), "cpu"),
            device=Device(kind="cpu", name="test", cpu_count=2),
            run_dir=folder,
            run_id="r",
            writer=RunWriter(folder, "conductor", audio_limit_bytes=None),
            progress=self,
            audio_limit_bytes=0,
            manifest={"schema": 1, "tool": "cotenant"},
        )
        self.state = State()
        self.failing = True
        self.walk = Walk(run=self.run, state=self.state, refuses=self._refuses, failed=self._failed)
        self.plan = windows(self.run.scenario)

    async def _failed(self, _run_dir: Path, stage: str) -> bool:
        assert stage in self.ran
        return self.failing

    async def _refuses(self, url: str) -> bool:
        return url in self.refused

    def show(self, state: progress.State) -> None:
        self.shown.append(state)

    def line(self, text: str) -> None:
        raise AssertionError(text)

    def close(self) -> None:
        pass

    def end(self, process: str, how: str = "SIGKILL") -> None:
        self.state.ended(self.run, process, how)

    def through(self, events: dict[str, Event]) -> str:
        """Walks; `events` happen in the window of their name. What the run ended by, `""` if by nothing."""

        async def one(window: Window) -> None:
            self.ran.append(window.stage)
            if window.stage in events:
                events[window.stage](self)
            for name in window.loads:
                hopeless = asyncio.ensure_future(self.walk.hopeless(name, window))
                for _ in range(9):
                    await asyncio.sleep(0)
                if hopeless.done():
                    self.given_up.append(f"{window.stage}: {name}")
                hopeless.cancel()
                await asyncio.gather(hopeless, return_exceptions=True)
            if self.refused and "voices" in window.loads:
                await self.walk.unsettled(window.stage, ["voices"])

        async def main() -> str:
            try:
                await self.walk.through(self.plan, one, Reporter(self.run, self.state, self.plan))
            except LadderStopped as stopped:
                return str(stopped)
            return ""

        try:
            return asyncio.run(main())
        finally:
            self.run.writer.close()

    @property
    def not_run(self) -> list[str]:
        return [one["stage"] for one in self.run.manifest.get("not_run", ())]


SOLO = ["solo:faces", "solo:decode", "solo:prefill"]
LADDER = ["tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together"]
AGAIN = "tts-alone/again"


@pytest.fixture
def told(tmp_path: Path) -> Told:
    return Told(tmp_path)


def test_nobody_is_lost(told: Told) -> None:
    assert told.through({}) == ""
    assert told.ran == [*SOLO, *LADDER, AGAIN]
    assert told.not_run == told.given_up == []


def test_a_voice_that_everything_needs_ends_the_run_after_its_stage(told: Told, tmp_path: Path) -> None:
    why = told.through({"talking-head": lambda told: told.end("tts")})
    assert told.ran == [*SOLO, *LADDER[:2]]
    assert told.not_run == [*LADDER[2:], AGAIN]
    assert why.startswith(
        "the tenant 'tts' ended (SIGKILL) in talking-head; not run without it: llm-decode, llm-long-prefill, "
        "all-together and tts-alone/again"
    )
    # A face has nothing to draw without its voice.
    assert told.given_up == ["talking-head: voices", "talking-head: faces"]
    recorded = manifest.read(tmp_path)["not_run"]
    reason = "it needs tts, which ended (SIGKILL) in talking-head; see logs/tts.log"
    assert recorded[0] == {"stage": "llm-decode", "round": 0, "tenant": "tts", "why": reason}
    faults = [row["name"] for row in read(tmp_path).tables["marks"].to_pylist()]
    assert faults == ["tenant:tts", *(f"not-run:{name}" for name in told.not_run)]
    skipped = [state for state in told.shown if state.not_run]
    assert [state.stage for state in skipped] == told.not_run
    assert [state.step for state in skipped] == [6, 7, 8, 9]
    assert {state.left_ns for state in skipped} == {0}


@pytest.mark.parametrize(
    ("lost", "stage", "left_out"),
    [
        ("head", "talking-head", ["all-together"]),
        ("llm", "llm-decode", ["llm-long-prefill", "all-together"]),
        ("llm", "tts-alone", ["llm-decode", "llm-long-prefill", "all-together"]),
        ("llm", "all-together", []),
        ("head", AGAIN, []),
    ],
)
def test_what_does_not_need_who_was_lost_is_measured(
    told: Told, lost: str, stage: str, left_out: list[str]
) -> None:
    why = told.through({stage: lambda told: told.end(lost, "code 1")})
    assert told.not_run == left_out
    assert told.ran == [name for name in [*SOLO, *LADDER, AGAIN] if name not in left_out]
    # A run that has lost a service is never complete, even if nothing was left out.
    assert why.startswith(f"the tenant {lost!r} ended (code 1) in {stage}")


def test_the_time_left_holds_only_what_will_be_run(told: Told) -> None:
    told.through({"talking-head": lambda told: told.end("llm")})
    (at,) = [index for index, window in enumerate(told.plan) if window.stage == "talking-head"]
    before, done = [state for state in told.shown if state.stage == "talking-head"]
    assert before.left_ns is not None
    assert done.left_ns is not None
    # The windows took no time at all: what is left is what is planned.
    least_ns = [window.planned_ns + LEAST_TAIL_NS for window in told.plan]
    assert done.left_ns == least_ns[-1]
    assert sum(least_ns[at + 1 :]) < before.left_ns <= sum(least_ns[at:])


def test_what_a_window_took_beyond_its_plan_is_left_for_each_that_comes_with_its_loads(
    told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    tails_s = {"solo:faces": 2, "tts-alone": 9, "talking-head": 30}

    def take(told: Told) -> None:
        nonlocal now_ns
        window = next(one for one in told.plan if one.stage == told.ran[-1])
        now_ns += window.planned_ns + tails_s.get(window.stage, 4) * NS_PER_S

    monkeypatch.setattr("cotenant.conductor.reporter.time.monotonic_ns", lambda: now_ns)
    told.through({window.stage: take for window in told.plan})
    done = {state.stage: state.left_ns for state in told.shown if state.phase == "done"}
    rest_ns = sum(window.planned_ns for window in told.plan[5:])
    # llm-decode, llm-long-prefill and the baseline as tts-alone, all-together as talking-head.
    assert done["talking-head"] == rest_ns + (9 + 9 + 30 + 9) * NS_PER_S
    assert done["tts-alone"] == rest_ns + told.plan[4].planned_ns + 5 * 9 * NS_PER_S
    assert done[AGAIN] == 0


def test_one_of_two_replicas(tmp_path: Path) -> None:
    told = Told(tmp_path, "tenants.tts.replicas=2")

    def both(told: Told) -> None:
        told.end("tts@1")
        told.end("tts@0")

    told.through({"talking-head": both})
    assert told.ran[-1] == "talking-head"
    assert {one["why"] for one in told.run.manifest["not_run"]} == {
        "it needs every replica of tts, and tts@1 ended (SIGKILL) in talking-head; see logs/tts@1.log"
    }


def test_nothing_is_run_without_who_ended_before_a_stage_was_measured(told: Told) -> None:
    with pytest.raises(CouldNotRun, match=r"'head' ended \(SIGKILL\) in solo:decode"):
        told.through({"solo:decode": lambda told: told.end("head")})
    assert told.ran == SOLO[:2]
    assert told.not_run == []


def test_a_stage_is_measured_without_an_attached_service_before_the_rest_is_left_out(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    why = told.through({"llm-decode": lambda told: told.refused.add("http://127.0.0.1:9")})
    # The whole settle limit is waited for once, in the stage that is measured without it.
    assert told.given_up == []
    assert told.ran == [*SOLO, *LADDER[:3]]
    assert told.not_run == [*LADDER[3:], AGAIN]
    assert why.startswith("the tenant 'tts' refused every connection from llm-decode on; not run without it")


def test_nothing_is_left_out_while_no_stage_has_failed_for_it(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    told.failing = False
    assert told.through({"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")}) == ""
    assert told.ran == [*SOLO, *LADDER, AGAIN]
    # But it is waited for no more.
    assert {one for one in told.given_up if "voices" in one} == {
        f"{name}: voices" for name in (*LADDER[2:], AGAIN)
    }


def test_a_launched_program_that_runs_on_without_its_server(tmp_path: Path) -> None:
    launched = ("tenants.tts.engine=launch", "tenants.tts.command=[sh]", "tenants.tts.url=http://127.0.0.1:9")
    told = Told(tmp_path, *launched)
    told.through({"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")})
    assert told.not_run == [*LADDER[2:], AGAIN]
    (tmp_path / "b").mkdir()
    told = Told(tmp_path / "b", *launched)

    def end(told: Told) -> None:
        told.end("tts")
        told.refused.add("http://127.0.0.1:9")

    assert told.through({"talking-head": end}).startswith("the tenant 'tts' ended (SIGKILL) in talking-head")
    assert told.ran[-1] == "talking-head"


def test_an_attached_service_that_is_there_again_is_measured(tmp_path: Path) -> None:
    told = Told(tmp_path, *ATTACHED)
    events: dict[str, Event] = {"talking-head": lambda told: told.refused.add("http://127.0.0.1:9")}

    async def refuses(url: str) -> bool:
        if len(told.ran) == 5 and told.not_run == ["llm-decode"]:
            told.refused.clear()
        return url in told.refused

    told.walk.refuses = refuses
    why = told.through(events)
    assert told.not_run == ["llm-decode"]
    assert told.ran[-3:] == ["llm-long-prefill", "all-together", AGAIN]
    assert "refused every connection from talking-head on; not run without it: llm-decode" in why
    assert told.given_up == []


def test_a_service_that_refuses_in_a_solo_window_is_missed_in_a_stage_and_not_waited_for(
    tmp_path: Path,
) -> None:
    told = Told(
        tmp_path, "tenants.llm.engine=attach", "tenants.llm.url=http://127.0.0.1:9", "tenants.llm.model=m"
    )
    told.refused.add("http://127.0.0.1:9")

    async def one(window: Window) -> None:
        told.ran.append(window.stage)
        await told.walk.unsettled(
            window.stage, [name for name in window.loads if name in ("decode", "prefill")]
        )

    with pytest.raises(LadderStopped):
        asyncio.run(told.walk.through(told.plan, one, Reporter(told.run, told.state, told.plan)))
    told.run.writer.close()
    assert told.not_run == ["solo:prefill", "llm-long-prefill", "all-together"]
    assert "llm-decode" in told.ran
