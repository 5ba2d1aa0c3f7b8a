"""What stalls are blamed on, where the truth is known."""

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from cotenant.records import TABLES, Recording
from cotenant.verdict.causes.blame import compare
from cotenant.verdict.causes.stalls import stalls
from cotenant.verdict.causes.units import voice_units
from cotenant.verdict.causes.work import besides, works_of
from cotenant.verdict.facts import Facts, read_facts
from cotenant.verdict.plan import player_of, read_plan
from cotenant.verdict.summary import JudgeOptions, judge, to_json
from tests.verdict import prefills
from tests.verdict.prefills import POINT, crowd_of, known
from tests.verdict.recordings import MS, Builder, S, good_run

Json = dict[str, Any]


def _facts(recording: Recording) -> Facts:
    plan = read_plan(recording)
    return read_facts(recording, plan, player_of(plan.scenario), 0.05)


def _named(recording: Recording) -> tuple[str, ...]:
    facts = _facts(recording)
    units, _ = voice_units(facts, "crowd")
    found = besides(facts, facts.plan.stages[1], units, works_of(facts, facts.plan.stages[1]))
    return compare("voice", units, found)[1]


def _without(recording: Recording, table: str, keep: pa.Array | None = None) -> Recording:
    rows = recording.tables[table]
    less = TABLES[table].empty_table() if keep is None else rows.filter(keep)
    return Recording(manifest=recording.manifest, tables={**recording.tables, table: less})


def _whats(summary: Json) -> set[str]:
    return {cause["what"] for cause in crowd_of(summary)["causes"]} - {"unattributed"}


def test_stalls_beside_prompts_only_are_blamed_on_them() -> None:
    _, summary = known()
    cause = crowd_of(summary)["causes"][0]
    assert (cause["what"], cause["who"], cause["of"]) == ("llm_prefill", "prefill", "voice")
    assert cause["risk_ratio"]["low"] > 2
    assert cause["share"] > 0.95 > 0.5 > cause["control_share"]
    assert cause["stalls"] == crowd_of(summary)["speech"]["underruns"]
    assert "the LLM read prompts of prefill" in cause["text"]
    late, in_time = (cause["evidence"][f"llm_prefill:prefill.prompt_tokens{end}"] for end in ("", "_in_time"))
    assert late > 1.5 * in_time
    assert cause["evidence"]["making_ms"] > 2 * cause["evidence"]["making_ms_in_time"]


def test_the_same_recording_gives_the_same_bytes() -> None:
    recording, summary = known()
    assert to_json(judge(recording, POINT)) == to_json(summary)


@pytest.mark.parametrize("kind", ["chunks", "incidents", "utterances"])
def test_stalls_at_random_beside_the_same_prompts_are_blamed_on_nothing(kind: prefills.Kind) -> None:
    summary = judge(prefills.run(kind, 2), POINT)
    (cause,) = [cause for cause in crowd_of(summary)["causes"] if cause["of"] == "voice"]
    assert cause["what"] == "unattributed"
    assert cause["share"] == 1
    told = cause["evidence"]["llm_prefill:prefill"]
    assert "in time" in told or "not enough" in told


@pytest.mark.parametrize("kind", ["chunks", "incidents", "utterances"])
def test_of_many_runs_with_random_stalls_few_name_anything(kind: prefills.Kind) -> None:
    """Under 5 % of 200 (`bench_causes rates`); here of 12, one at most."""
    named = [bool(_named(prefills.run(kind, seed))) for seed in range(100, 112)]
    assert sum(named) <= 1


def test_of_many_runs_with_stalls_beside_prompts_most_name_them() -> None:
    named = [_named(prefills.run("prefill", seed, voices=4)) for seed in range(100, 110)]
    assert sum(names == ("llm_prefill:prefill",) for names in named) >= 8


def test_a_host_that_stood_still_takes_the_blame() -> None:
    summary = judge(prefills.run("prefill", 3, lag_ms=600), POINT)
    causes = crowd_of(summary)["causes"]
    assert causes[0]["what"] == "host"
    assert causes[0]["share"] > 0.5
    assert not _whats(summary) - {"host", "llm_prefill"}


def test_our_own_load_process_takes_the_blame() -> None:
    recording, _ = known()
    host = recording.tables["host"]
    bracket = pc.equal(host["metric"], "offset_bracket_ns")
    value = pc.if_else(bracket, 2e9, host["value"])
    slow = host.set_column(host.column_names.index("value"), "value", value)
    summary = judge(Recording(manifest=recording.manifest, tables={**recording.tables, "host": slow}), POINT)
    assert {cause["what"] for cause in crowd_of(summary)["causes"]} == {"own_load"}


@pytest.mark.parametrize("metric", ["sleep_lag_ns", "offset_bracket_ns"])
def test_what_nobody_watched_is_blamed_on_nothing(metric: str) -> None:
    recording, _ = known()
    host = recording.tables["host"]
    less = _without(recording, "host", pc.not_equal(host["metric"], metric))
    assert _whats(judge(less, POINT)) == set()


@pytest.mark.parametrize("table", sorted(TABLES))
def test_without_a_table_nothing_else_is_blamed(table: str) -> None:
    recording, summary = known()
    less = judge(_without(recording, table), POINT)
    assert _whats(less) <= _whats(summary)


@pytest.mark.parametrize("column", ["done", "sent", "prompt_tokens", "load", "end", "due"])
def test_without_a_column_of_the_streams_nothing_else_is_blamed(column: str) -> None:
    recording, summary = known()
    rows = recording.tables["streams"].drop_columns([column])
    less = Recording(manifest=recording.manifest, tables={**recording.tables, "streams": rows})
    assert _whats(judge(less, POINT)) <= _whats(summary)


def test_a_prompt_that_is_always_there_leaves_nothing_to_compare_within_the_stage() -> None:
    summary = judge(prefills.run("prefill", 4, always=True), POINT)
    causes = crowd_of(summary)["causes"]
    assert causes[0]["what"] == "llm_prefill"
    assert causes[0]["who"] == "prefill"
    assert "times as long as alone" in causes[0]["text"]
    assert causes[0]["control_share"] is None


def test_a_baseline_that_fails_is_no_witness() -> None:
    recording = prefills.run("prefill", 4, always=True)
    failing = JudgeOptions(decision="point", gates=("speech.ttfa_ms.p95 <= 1ms",))
    (cause,) = crowd_of(judge(recording, failing))["causes"]
    assert cause["what"] == "unattributed"
    assert "baseline itself fails" in cause["why"]["against_baseline"]


def test_without_stalls_there_is_no_cause() -> None:
    summary = judge(prefills.run("none", 1, voices=2), POINT)
    for stage in summary["stages"]:
        assert stage["causes"] == []
        assert stage["why"]["causes"] == "no stall"


def test_without_an_llm_what_is_slower_than_real_time_is_the_service() -> None:
    builder = Builder(scenario=prefills.scenario())
    builder.scenario["stages"] = builder.scenario["stages"][:1]
    prefills.watched(builder, 0, 100 * S)
    builder.window("alone", 10 * S, 70 * S)
    for index in range(8):
        arrivals = [200.0 + 220 * chunk for chunk in range(20)]
        builder.voice("alone", 10 * S + index * 6 * S, arrivals, [160.0] * 20, utterance=index)
    (stage,) = judge(builder.build(), POINT)["stages"]
    (cause,) = stage["causes"]
    assert (cause["what"], cause["who"]) == ("service_slow", "tts")
    assert "1.3" in cause["text"] or "1.4" in cause["text"]


def _slowcrowd_of() -> Builder:
    """Beside the crowd a chunk of 160 ms takes 190 ms instead of 100."""
    builder = good_run(faces=True)
    prefills.watched(builder, 0, 250 * S)
    crowd = {row["stream"] for row in builder.rows["streams"] if row["stage"] == "crowd"}
    for row in builder.rows["chunks"]:
        row["arrival"] += row["seq"] * 90 * MS * (row["stream"] in crowd)
    return builder


def test_a_voice_slower_than_real_time_is_blamed_on_what_was_always_there() -> None:
    cause = crowd_of(judge(_slowcrowd_of().build(), POINT))["causes"][0]
    assert (cause["what"], cause["who"]) == ("llm_decode", "decode")
    assert "faces came and went within the stage" in cause["text"]
    assert cause["evidence"]["slower_than_baseline"] == pytest.approx(1.81, abs=0.01)


def test_what_is_always_there_together_is_blamed_together() -> None:
    builder = _slowcrowd_of()
    builder.scenario["load"]["chat"] = dict(builder.scenario["load"]["decode"])
    builder.scenario["stages"][1]["load"].append("chat")
    for row in [row for row in builder.rows["streams"] if row["load"] == "decode"]:
        tokens = [one for one in builder.rows["tokens"] if one["stream"] == row["stream"]]
        builder.rows["streams"].append({**row, "load": "chat", "stream": row["stream"] + 1000})
        builder.rows["tokens"] += [{**one, "stream": row["stream"] + 1000} for one in tokens]
    cause = crowd_of(judge(builder.build(), POINT))["causes"][0]
    assert (cause["what"], cause["who"]) == ("co_tenancy", None)
    assert "beside decode and chat" in cause["text"]
    assert "nothing within this stage tells them apart" in cause["text"]


def test_each_stall_says_what_it_waited_for() -> None:
    recording, summary = known()
    facts = _facts(recording)
    rows = stalls(facts, facts.plan.stages[1], crowd_of(summary)["causes"])
    assert len(rows) == crowd_of(summary)["speech"]["underruns"]
    for row in rows:
        assert row.making_start_ns is not None
        assert row.making_start_ns < row.start_ns + row.duration_ns == row.making_end_ns
        assert row.usual_ns == pytest.approx(150 * MS, rel=0.05)
    blamed = [row for row in rows if row.what == "llm_prefill"]
    assert len(blamed) == len(rows)
    assert all("llm_prefill:prefill" in row.beside for row in blamed)
