"""The life of a window, in virtual time: order of commands, marks, limits, lost processes."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any

import pytest

from cotenant.conductor.control import LoadProcess, LoadProcessLost
from cotenant.conductor.plan import Window
from cotenant.conductor.stage import COMMAND_LEAD_NS, MEASURE_LEAD_NS, StagePorts, run_window
from cotenant.scenario.schema import Timing
from cotenant.units import NS_PER_S

WINDOW = Window(
    stage="s", round=1, loads=("voices", "faces", "decode"), looks_ns=(15 * NS_PER_S,), settle_ns=3 * NS_PER_S
)


class Clock:
    """Virtual time: every sleeper waits until nothing else can run, then the nearest one is woken."""

    def __init__(self) -> None:
        self.now_ns = 0
        self._sleepers: list[tuple[int, int, asyncio.Future[None]]] = []

    async def sleep_until_ns(self, t_ns: int) -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((t_ns, len(self._sleepers), future))
        await future

    async def turn(self, until: asyncio.Future[Any]) -> None:
        while not until.done():
            for _ in range(20):
                await asyncio.sleep(0)
            due = sorted(s for s in self._sleepers if not s[2].done())
            if until.done() or not due:
                continue
            self.now_ns = max(self.now_ns, due[0][0])
            due[0][2].set_result(None)


class Scripted(LoadProcess):
    """A load process that answers at given virtual times after a command."""

    def __init__(self, name: str, clock: Clock, answers: dict[str, list[tuple[int, dict[str, Any]]]]) -> None:
        super().__init__(name, lambda _name, _event: None)
        self.clock, self.answers = clock, answers
        self.got: list[tuple[int, dict[str, Any]]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def send(self, **command: Any) -> None:
        if self.lost:
            raise LoadProcessLost(self.name, self.lost)
        self.got.append((self.clock.now_ns, command))
        for delay_ns, event in self.answers.get(command["do"], []):
            self._tasks.append(asyncio.ensure_future(self._later(self.clock.now_ns + delay_ns, event)))

    async def _later(self, t_ns: int, event: dict[str, Any]) -> None:
        await self.clock.sleep_until_ns(t_ns)
        await self._note(event)

    async def finish(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def settled(load: str, after_s: float) -> tuple[int, dict[str, Any]]:
    return (round(after_s * NS_PER_S), {"event": "settled", "load": load})


def play(
    listeners: dict[str, list[tuple[int, dict[str, Any]]]],
    askers: dict[str, list[tuple[int, dict[str, Any]]]],
    window: Window = WINDOW,
    undecided: int = 0,
    gone_s: Mapping[str, float] | None = None,
) -> tuple[list[tuple[str, str, str, int]], list[Scripted], BaseException | None]:
    marks: list[tuple[str, str, str, int]] = []
    clock = Clock()
    processes: list[Scripted] = []

    async def idle(limit_ns: int) -> bool:
        return limit_ns >= 0

    looked: list[str] = []

    async def decided(stage: str) -> bool:
        looked.append(stage)
        return len(looked) > undecided

    async def hopeless(load: str, _window: Window) -> None:
        await clock.sleep_until_ns(round((gone_s or {}).get(load, 10**6) * NS_PER_S))

    async def unsettled(_stage: str, loads: Sequence[str]) -> None:
        marks.append(("unsettled", ",".join(loads), "", clock.now_ns))

    async def main() -> BaseException | None:
        a, b = Scripted("listeners", clock, listeners), Scripted("askers", clock, askers)
        processes.extend([a, b])
        ports = StagePorts(
            now_ns=lambda: clock.now_ns,
            sleep_until_ns=clock.sleep_until_ns,
            mark=lambda what, name, edge, t: marks.append((what, name, edge, t)),
            wait_idle=idle,
            phase=lambda _name: None,
            decided=decided,
            hopeless=hopeless,
            unsettled=unsettled,
        )
        work: Awaitable[None] = run_window(
            window, {"voices": a, "faces": a, "decode": b}, Timing.model_validate({}), ports
        )
        task = asyncio.ensure_future(work)
        await clock.turn(task)
        for process in processes:
            await process.finish()
        return task.exception()

    error = asyncio.run(asyncio.wait_for(main(), 30))
    return marks, processes, error


GOOD_LISTENERS = {
    "start": [settled("voices", 1), settled("faces", 2)],
    "measure": [(18 * NS_PER_S, {"event": "followed"})],
    "drain": [(0, {"event": "drained"})],
}
GOOD_ASKERS = {
    "start": [settled("decode", 4)],
    "measure": [(0, {"event": "followed"})],
    "drain": [(2 * NS_PER_S, {"event": "drained"})],
}


def test_a_window_settles_measures_follows_and_drains() -> None:
    marks, (listeners, askers), error = play(GOOD_LISTENERS, GOOD_ASKERS)
    assert error is None
    start = COMMAND_LEAD_NS
    measure = 4 * NS_PER_S + MEASURE_LEAD_NS  # the slowest load settles 4 s after the command
    follow = 4 * NS_PER_S + 18 * NS_PER_S
    assert marks == [
        ("stage", "s", "start", start),
        ("settle", "s", "start", start),
        ("settle", "s", "end", 4 * NS_PER_S),
        ("measure", "s", "start", measure),
        ("measure", "s", "end", measure + 15 * NS_PER_S),
        ("drain", "s", "start", follow),
        ("drain", "s", "end", follow + 2 * NS_PER_S),
        ("stage", "s", "end", follow + 2 * NS_PER_S),
    ]
    assert [c["do"] for _, c in listeners.got] == ["start", "measure", "drain"]
    assert listeners.got[0][1] == {
        "do": "start",
        "stage": "s",
        "round": 1,
        "loads": ["voices", "faces"],
        "at_ns": start,
    }
    assert askers.got[0][1]["loads"] == ["decode"]
    assert askers.got[1][1] == {"do": "measure", "start_ns": measure, "end_ns": measure + 15 * NS_PER_S}


def test_it_settles_at_least_as_long_as_asked() -> None:
    quick = {**GOOD_ASKERS, "start": [settled("decode", 0)]}
    marks, _, error = play(GOOD_LISTENERS, quick)
    assert error is None
    assert ("settle", "s", "end", COMMAND_LEAD_NS + 3 * NS_PER_S) in marks


def test_a_load_that_never_settles_is_a_fault_and_is_measured_all_the_same() -> None:
    marks, _, error = play(GOOD_LISTENERS, {**GOOD_ASKERS, "start": []})
    assert error is None
    at_ns = COMMAND_LEAD_NS + 60 * NS_PER_S
    assert ("fault", "settle:s", "start", at_ns) in marks
    assert ("unsettled", "decode", "", at_ns) in marks
    assert [m for m in marks if m[0] == "measure"]


def test_a_load_whose_service_is_gone_is_not_waited_for_and_the_others_are() -> None:
    late = {**GOOD_LISTENERS, "start": [settled("voices", 9), settled("faces", 2)]}
    marks, _, error = play(late, {**GOOD_ASKERS, "start": []}, gone_s={"decode": 5, "faces": 20})
    assert error is None
    assert ("fault", "settle:s", "start", 9 * NS_PER_S) in marks
    assert [m[1] for m in marks if m[0] == "unsettled"] == ["decode"]
    assert ("settle", "s", "end", 9 * NS_PER_S) in marks
    marks, _, error = play(late, {**GOOD_ASKERS, "start": []}, gone_s={"decode": 0.5, "voices": 0.5})
    assert error is None
    assert ("settle", "s", "end", COMMAND_LEAD_NS + 3 * NS_PER_S) in marks  # as long as asked


def test_utterances_that_never_end_and_a_load_that_does_not_stop_are_faults() -> None:
    marks, _, error = play({**GOOD_LISTENERS, "measure": []}, {**GOOD_ASKERS, "drain": []})
    assert error is None
    faults = [m[1] for m in marks if m[0] == "fault"]
    assert faults == ["follow:s", "drain:s"]


@pytest.mark.parametrize("moment", ["start", "measure", "drain"])
def test_a_lost_process_ends_the_window_whenever_it_is_lost(moment: str) -> None:
    crash = [(NS_PER_S, {"event": "crashed", "error": "boom"})]
    _, _, error = play({**GOOD_LISTENERS, moment: crash}, GOOD_ASKERS)
    assert isinstance(error, LoadProcessLost)
    assert "boom" in str(error)


LOOKS = (15 * NS_PER_S, 25 * NS_PER_S, 40 * NS_PER_S)


@pytest.mark.parametrize(
    ("undecided", "measured_ns"), [(0, LOOKS[0]), (1, LOOKS[1]), (2, LOOKS[2]), (9, LOOKS[2])]
)
def test_an_undecided_stage_is_measured_on_to_the_next_look(undecided: int, measured_ns: int) -> None:
    at_once = [(0, {"event": "followed"})]
    marks, (listeners, _), error = play(
        {**GOOD_LISTENERS, "measure": at_once},
        {**GOOD_ASKERS, "measure": at_once},
        Window(stage="s", round=0, loads=("voices", "decode"), looks_ns=LOOKS, settle_ns=0),
        undecided,
    )
    assert error is None
    (start_ns,) = [t for what, _, edge, t in marks if (what, edge) == ("measure", "start")]
    ends = [t - start_ns for what, _, edge, t in marks if (what, edge) == ("measure", "end")]
    assert ends == list(LOOKS[: len(ends)])
    assert ends[-1] == measured_ns
    commands = [command for _, command in listeners.got if command["do"] == "measure"]
    assert [(c["start_ns"], c["end_ns"] - c["start_ns"]) for c in commands] == [
        (start_ns, end) for end in ends
    ]
