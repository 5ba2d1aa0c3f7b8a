"""What the verdict needs to know of the scenario and of the marks: stages, loads, player, windows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

import numpy as np

from cotenant.errors import UserError
from cotenant.playback.options import PlayerOptions
from cotenant.records import AGAIN_SUFFIX, SOLO_PREFIX, Recording
from cotenant.scenario.load import parse
from cotenant.scenario.schema import Completions, Faces, Scenario
from cotenant.units import NS_PER_S
from cotenant.verdict import columns
from cotenant.verdict.columns import NULL, Bools, Ints, Streams

# Sixty days: a damaged mark may be at any time, and all that is cut into seconds would fill the memory.
_LONGEST_NS: Final = 60 * 86_400 * NS_PER_S


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """One load. `streams` and `rate_per_s` are of completions, the three last of faces."""

    name: str
    kind: str
    mode: str = ""
    streams: int | None = None
    rate_per_s: float | None = None
    follows: str = ""
    fps: int = 25
    face_buffer_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """A stage of the ladder and the names of its loads."""

    name: str
    loads: tuple[str, ...]
    baseline: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A span of time in which something was measured, [start, end)."""

    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NotRun:
    """A planned window that was left out, and why."""

    stage: str
    round: int
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The scenario of a run as the verdict reads it, and its windows by stage name (rounds in order).

    `away`: the tenants that were on another machine than the one that measured."""

    scenario: Scenario
    loads: Mapping[str, Load]
    stages: tuple[StagePlan, ...]
    measured: Mapping[str, tuple[Window, ...]]
    lived: Mapping[str, tuple[Window, ...]]
    faults: tuple[tuple[int, str], ...]
    last_ns: int
    has_gpu: bool
    not_run: tuple[NotRun, ...] = ()
    away: frozenset[str] = frozenset()

    @property
    def used(self) -> frozenset[str]:
        """The tenants that a stage needs."""
        return frozenset(self.scenario.load[name].tenant for stage in self.stages for name in stage.loads)

    @property
    def none_here(self) -> bool:
        """Whether every tenant was on another machine: this one's GPU had no part in what was measured."""
        return self.used <= self.away

    @property
    def baseline(self) -> StagePlan | None:
        return next((stage for stage in self.stages if stage.baseline), None)

    def of_kind(self, stage: StagePlan, kind: str) -> tuple[Load, ...]:
        """The stage's loads of a kind."""
        return tuple(self.loads[name] for name in stage.loads if self.loads[name].kind == kind)

    @property
    def solos(self) -> tuple[StagePlan, ...]:
        """The solo windows that a run of this scenario has, one for each load in use that is no voices."""
        used = {load for stage in self.stages for load in stage.loads}
        return tuple(
            StagePlan(name=SOLO_PREFIX + name, loads=(name,), baseline=False)
            for name, load in self.loads.items()
            if load.kind != "voices" and name in used
        )

    @property
    def again(self) -> StagePlan | None:
        """The closing baseline."""
        if (stage := self.baseline) is None:
            return None
        return StagePlan(name=stage.name + AGAIN_SUFFIX, loads=stage.loads, baseline=False)


def player_of(scenario: Scenario) -> PlayerOptions:
    """The player of a scenario."""
    return PlayerOptions(
        lookahead_ns=scenario.lookahead_ns,
        start=scenario.player.start,
        after_underrun=scenario.player.after_underrun,
        quantum_ns=scenario.player.quantum_ns,
    )


def read_plan(recording: Recording) -> Plan:
    """Raises UserError where the manifest holds no scenario that this version reads."""
    dump = recording.manifest.get("scenario")
    if not isinstance(dump, dict):
        raise UserError("the run's manifest.json holds no scenario; is this a run of cotenant?")
    scenario = parse(dump)
    last_ns = _last_ns(recording)
    return Plan(
        scenario=scenario,
        loads={name: _load(name, load) for name, load in scenario.load.items()},
        stages=tuple(
            StagePlan(name=s.name, loads=tuple(dict.fromkeys(s.load)), baseline=s.baseline)
            for s in scenario.stages
        ),
        measured=_windows(recording, "measure", last_ns),
        lived=_windows(recording, "stage", last_ns),
        faults=_faults(recording),
        last_ns=last_ns,
        has_gpu=_device_kind(recording.manifest) == "gpu",
        not_run=_not_run(recording.manifest),
        away=frozenset(away_of(recording.manifest)),
    )


def away_of(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """The tenants that were on another machine, as the run told it."""
    tenants = manifest.get("tenants")
    items = tenants.items() if isinstance(tenants, dict) else ()
    return tuple(name for name, told in items if isinstance(told, dict) and told.get("elsewhere") is True)


def decision_of(plan: Plan, asked: str | None) -> Literal["interval", "point"]:
    """What was asked, else what the scenario says, else by device: point estimates on a CPU."""
    choice = asked or plan.scenario.decision
    if choice in ("interval", "point"):
        return "interval" if choice == "interval" else "point"
    return "interval" if plan.has_gpu else "point"


def within(times: Ints, windows: tuple[Window, ...]) -> Bools:
    """Which of `times` lie in one of the windows."""
    inside = np.zeros(len(times), dtype=np.bool_)
    for window in windows:
        inside |= (times >= window.start_ns) & (times < window.end_ns)
    return inside


def measured_rows(plan: Plan, streams: Streams, stage: str) -> Ints:
    """Indices of the streams of that stage that fell due within one of its measure windows."""
    mask = (streams.stage == stage) & within(streams.due, plan.measured.get(stage, ()))
    return np.flatnonzero(mask).astype(np.int64)


def length_ns(windows: tuple[Window, ...]) -> int:
    """The time that the windows cover together."""
    return sum(window.end_ns - window.start_ns for window in windows)


def _load(name: str, load: Any) -> Load:
    if isinstance(load, Faces):
        return Load(
            name=name, kind="faces", follows=load.follows, fps=load.fps, face_buffer_ns=load.face_buffer_ns
        )
    if isinstance(load, Completions):
        streams = load.streams if isinstance(load.streams, int) else None
        return Load(
            name=name, kind="completions", mode=load.mode, streams=streams, rate_per_s=load.rate_per_s
        )
    return Load(name=name, kind="voices", mode=load.mode)


def _windows(recording: Recording, what: str, last_ns: int) -> dict[str, tuple[Window, ...]]:
    """Windows by name. One without an end (a run that was cut) ends with the last thing known; a repeated end
    (measuring went on) takes the place of the former. Raises UserError for one that nobody can have measured.
    """
    marks = columns.table(recording, "marks")
    times, names = columns.ints(marks, "t"), columns.texts(marks, "name")
    edges, kinds = columns.texts(marks, "edge"), columns.texts(marks, "what")
    found: dict[str, list[list[int]]] = {}
    for row in np.argsort(times, kind="stable"):
        if kinds[row] != what or times[row] == NULL:
            continue
        spans = found.setdefault(names[row], [])
        if edges[row] == "start":
            spans.append([int(times[row]), -1])
        elif edges[row] == "end" and spans:
            spans[-1][1] = int(times[row])
    # A window in which nothing can have happened was not measured.
    windows = {
        name: tuple(
            Window(start_ns=start, end_ns=stop)
            for start, end in spans
            if (stop := end if end >= 0 else last_ns) > start
        )
        for name, spans in found.items()
    }
    for name, spans_of in windows.items():
        if length_ns(spans_of) > _LONGEST_NS:
            raise UserError(f"the table marks is damaged: {name} lasts for months; repeat the run")
    return {name: spans for name, spans in windows.items() if spans}


def _faults(recording: Recording) -> tuple[tuple[int, str], ...]:
    marks = columns.table(recording, "marks")
    rows = np.flatnonzero(columns.texts(marks, "what") == "fault")
    times, names = columns.ints(marks, "t"), columns.texts(marks, "name")
    return tuple(sorted((int(times[row]), str(names[row])) for row in rows))


def _last_ns(recording: Recording) -> int:
    """The last instant that the recording knows of."""
    latest = 0
    for name, column in (
        ("marks", "t"), ("streams", "due"), ("streams", "done"),
        ("chunks", "arrival"), ("frames", "arrival"), ("tokens", "arrival"),
    ):  # fmt: skip
        values = columns.ints(columns.table(recording, name), column)
        if len(values):
            latest = max(latest, int(values.max()))
    return latest


def _not_run(manifest: Mapping[str, Any]) -> tuple[NotRun, ...]:
    told = manifest.get("not_run")
    return tuple(
        NotRun(stage=str(one.get("stage")), round=int(one.get("round") or 0), why=str(one.get("why")))
        for one in (told if isinstance(told, list) else ())
        if isinstance(one, dict)
    )


def _device_kind(manifest: Mapping[str, Any]) -> str:
    device = manifest.get("device")
    return str(device.get("kind", "cpu")) if isinstance(device, dict) else "cpu"
