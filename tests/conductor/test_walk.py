"""The windows of a run when a process ends: which are run, what is said of the others, the time left."""

from pathlib import Path

import pytest

from cotenant.conductor.plan import LEAST_TAIL_NS
from cotenant.errors import CouldNotRun
from cotenant.run_dir import manifest
from cotenant.run_dir.reader import read
from cotenant.units import NS_PER_S
from tests.conductor.walking import AGAIN, LADDER, SOLO, Told


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


def test_the_time_by_which_a_stage_was_extended_is_left_for_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_ns = 0
    told = Told(tmp_path, "timing.extend=90s", "decision=interval")

    def take(told: Told) -> None:
        nonlocal now_ns
        window = next(one for one in told.plan if one.stage == told.ran[-1])
        longest_ns = window.looks_ns[-1] if window.stage == "tts-alone" else window.measure_ns
        now_ns += window.settle_ns + longest_ns + 4 * NS_PER_S

    monkeypatch.setattr("cotenant.conductor.reporter.time.monotonic_ns", lambda: now_ns)
    told.through({window.stage: take for window in told.plan})
    (left_ns,) = [one.left_ns for one in told.shown if (one.stage, one.phase) == ("tts-alone", "done")]
    assert left_ns == sum(window.planned_ns + 4 * NS_PER_S for window in told.plan[4:])


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
