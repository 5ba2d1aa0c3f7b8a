"""What a late frame is matched against: the time in which it was drawn, not that in which its head waited."""

import numpy as np
import pytest

from cotenant.records import Recording
from cotenant.verdict.causes.blame import compare
from cotenant.verdict.causes.faces import face_units, slower_than_solo
from cotenant.verdict.causes.slow import Slower
from cotenant.verdict.causes.stalls import stalls
from cotenant.verdict.causes.units import Events, units_of
from cotenant.verdict.causes.work import besides, works_of
from cotenant.verdict.columns import NULL
from cotenant.verdict.facts import Facts, read_facts
from cotenant.verdict.plan import player_of, read_plan
from cotenant.verdict.summary import judge
from tests.verdict import heads
from tests.verdict.prefills import POINT, crowd_of
from tests.verdict.recordings import MS, S, good_run

PREFILL = "llm_prefill:prefill"


def facts_of(recording: Recording) -> Facts:
    plan = read_plan(recording)
    return read_facts(recording, plan, player_of(plan.scenario), 0.05)


def named(recording: Recording) -> tuple[str, ...]:
    facts = facts_of(recording)
    units, _, waited = face_units(facts, "crowd")
    assert not waited.any()
    stage = facts.plan.stages[1]
    return compare("face", units, besides(facts, stage, units, works_of(facts, stage, faces=False)))[1]


def test_freezes_of_frames_that_a_prompt_overlapped_are_blamed_on_it() -> None:
    recording = heads.run("beside", 1)
    crowd = crowd_of(judge(recording, POINT))
    cause, *others = [cause for cause in crowd["causes"] if cause["of"] == "face"]
    assert (cause["what"], cause["who"]) == ("llm_prefill", "prefill")
    assert cause["share"] > 0.85
    # A prompt is there a fifth of the time, and beside more than that of what takes as long as a packet.
    assert cause["control_share"] < 0.4
    assert cause["risk_ratio"]["low"] > 5
    assert {other["what"] for other in others} <= {"unattributed"}
    assert cause["evidence"]["making_ms_in_time"] == pytest.approx(heads.DRAW_MS, abs=1)
    facts = facts_of(recording)
    rows = [row for row in stalls(facts, facts.plan.stages[1], crowd["causes"]) if row.of == "face"]
    assert len(rows) == crowd["face"]["freezes"]
    handed, came = (
        set(recording.tables["frames"][column].to_pylist()) for column in ("audio_handed", "arrival")
    )
    for row in rows:
        assert row.making_start_ns in (came if row.making_start_ns not in handed else handed)
    assert sum(row.making_start_ns in handed for row in rows) > len(rows) / 2


def test_freezes_at_random_beside_the_same_prompts_are_blamed_on_nothing() -> None:
    crowd = crowd_of(judge(heads.run("random", 1), POINT))
    (cause,) = [cause for cause in crowd["causes"] if cause["of"] == "face"]
    assert (cause["what"], cause["share"]) == ("unattributed", 1)
    assert "as often beside frames that came in time" in cause["evidence"][PREFILL]


def test_of_many_heads_those_beside_prompts_are_told_from_those_at_random() -> None:
    assert sum(named(heads.run("beside", seed, heads=2)) == (PREFILL,) for seed in range(10, 15)) >= 4
    assert sum(bool(named(heads.run("random", seed, heads=2))) for seed in range(10, 15)) <= 1


def test_a_prompt_while_the_head_waits_for_sound_is_beside_no_frame() -> None:
    """Per frame: it is beside one exactly where it was read while that one was drawn."""
    facts = facts_of(heads.run("beside", 2))
    stage = facts.plan.stages[1]
    units, _, _ = face_units(facts, "crowd")
    one = next(
        one
        for one in besides(facts, stage, units, works_of(facts, stage, faces=False))
        if one.work.name == PREFILL
    )
    assert one.work.cover is not None
    length, met = units.end_ns - units.start_ns, one.work.cover.within(units.start_ns, units.end_ns)
    undelayed = length < 35 * MS
    assert undelayed.mean() > 0.9
    assert np.median(length) == pytest.approx(heads.DRAW_MS * MS, rel=0.02)
    assert not one.beside[undelayed & (met == 0)].any()
    assert one.beside[undelayed & (met >= 10 * MS)].all()
    assert 0.2 < one.beside[undelayed].mean() < 0.4


def test_a_unit_begins_when_all_is_there_that_it_is_made_of() -> None:
    arrival = np.array([0, 100, 101, 200, 300, 400]) * MS
    ready = np.array([NULL // MS, 60, 61, 50, 301, NULL // MS]) * MS
    none = np.zeros(0, dtype=np.int64)
    events = Events(stream=none, start_ns=none, duration_ns=none, open=none.astype(np.bool_), unit=none)
    offsets, begin, give_up = np.array([0, 6]), np.array([-1]), np.array([10**10])
    units, _ = units_of(arrival, offsets, begin, give_up, events, ready)
    # Of a burst the first one's; what was ready too early, after it came, or is not known: the one before.
    assert (units.start_ns // MS).tolist() == [60, 101, 200, 300]
    assert (units.end_ns // MS).tolist() == [100, 200, 300, 400]
    plain, _ = units_of(arrival, offsets, begin, give_up, events)
    assert (plain.start_ns // MS).tolist() == [0, 101, 200, 300]


def test_a_head_that_waits_longer_for_sound_draws_no_slower_than_in_its_solo_window() -> None:
    builder = good_run(faces=False)
    for stage, start, gap_ms in (("crowd", 80, 400.0), ("solo:faces", 225, 150.0)):
        if stage != "crowd":
            builder.window(stage, start * S, (start + 20) * S)
        for utterance in range(3):
            handed = [100 + gap_ms * packet for packet in range(12)]
            arrivals = [at + 25 + utterance for at in handed]
            builder.face(stage, (start + utterance * 6) * S, arrivals, fps=7, utterance=utterance)
            for at, row in zip(handed, builder.rows["frames"][-len(handed) :], strict=True):
                row["audio_handed"] = (start + utterance * 6) * S + round(at * MS)
    facts = facts_of(builder.build())
    units, _, _ = face_units(facts, "crowd")
    slow = slower_than_solo(facts, facts.plan.stages[1], units)
    assert isinstance(slow, Slower)
    assert slow.value == pytest.approx(1, abs=0.05)
    assert slow.low <= 1 <= slow.high
