"""What a lost service leaves of a run: no number without a reason, and no verdict that is better for it."""

from typing import Any

from cotenant.errors import ExitCode
from cotenant.records import Recording
from cotenant.report.console import render
from cotenant.report.junit import render as junit
from cotenant.report.markdown import render as markdown
from cotenant.report.text import not_measured
from cotenant.verdict.compare_runs import compare_runs
from cotenant.verdict.options import JudgeOptions
from cotenant.verdict.summary import exit_code, judge
from tests.verdict.recordings import Builder, S, good_run

POINT = JudgeOptions(decision="point")
WHY = "it needs llm, which ended (SIGKILL) in alone; see logs/llm.log"
ENDED = "the tenant 'llm' ended (SIGKILL) in alone; not run without it: crowd"


def without(
    builder: Builder, *stages: str, status: str = "failed", rounds: tuple[int, ...] = (0,)
) -> Recording:
    """The run as it is recorded when these stages are left out, or these rounds of them."""
    if rounds == (0,):
        for table in ("marks", "streams"):
            key = "name" if table == "marks" else "stage"
            builder.rows[table] = [row for row in builder.rows[table] if row[key] not in stages]
    builder.status = status
    recording = builder.build()
    left_out = [
        {"stage": name, "round": one, "tenant": "llm", "why": WHY} for name in stages for one in rounds
    ]
    manifest = {**recording.manifest, "not_run": left_out, "error": ENDED}
    return Recording(manifest=manifest, tables=recording.tables)


def test_a_stage_that_was_not_run_says_why_wherever_it_is_shown() -> None:
    recording = without(good_run(), "crowd")
    summary = judge(recording, POINT)
    alone, crowd = summary["stages"]
    assert (alone["verdict"], crowd["verdict"], crowd["validity"]) == ("pass", "inconclusive", "valid")
    assert crowd["why"]["verdict"] == f"this stage was not measured: {WHY}"
    assert not_measured(crowd)
    assert crowd["speech"]["ttfa_ms"]["p95"] is None
    for gate in crowd["gates"]:
        assert (gate["verdict"], gate["value"]) == ("inconclusive", None)
        assert gate["why"]["verdict"] == f"not measured: {WHY}"
    shown = " ".join(render(summary, recording.manifest, 160).split())
    assert "not measured" in shown
    assert ENDED in shown
    assert WHY in junit(summary).replace("&apos;", "'")
    assert "which ended" in markdown(summary, recording.manifest)


def test_the_verdict_of_a_run_is_not_better_for_what_was_left_out() -> None:
    summary = judge(without(good_run(), "crowd"), POINT)
    assert exit_code(summary) == ExitCode.INCONCLUSIVE
    assert exit_code(summary, "fail") == ExitCode.FAIL
    # Nor is one in which every stage that was left passes.
    full = judge(without(good_run(), status="failed"), POINT)
    assert full["verdict"] == "pass"
    assert exit_code(full) == ExitCode.INCONCLUSIVE
    bad = good_run(late_ms=1300.0, share=0.5)
    assert exit_code(judge(without(bad, "alone/again"), POINT)) == ExitCode.FAIL
    missing = judge(without(good_run(), "alone"), POINT)
    assert exit_code(missing) == ExitCode.INVALID
    assert missing["stages"][0]["invalid_because"] == [f"the baseline is missing: it was not measured: {WHY}"]


def test_references_that_were_not_run_are_null_with_the_reason() -> None:
    summary = judge(without(good_run(), "alone/again", "solo:decode"), POINT)
    assert summary["a_a"]["stage"] is None
    assert summary["a_a"]["why"]["stage"] == f"the closing baseline was not measured: {WHY}"
    crowd = summary["stages"][1]
    own = crowd["vs_reference"]["llm"]["decode"]["tokens_per_s"]
    assert own["ratio"] is None
    assert crowd["why"]["vs_reference.llm.decode.tokens_per_s.ratio"].endswith(WHY)


def test_rounds_that_are_missing_are_told_of_a_stage_that_was_measured() -> None:
    builder = good_run()
    builder.scenario["timing"]["rounds"] = 3
    recording = without(builder, "crowd", rounds=(1, 2))
    crowd = judge(recording, POINT)["stages"][1]
    found = [one["text"] for one in crowd["caveats"] if one["kind"] == "round-not-run"]
    assert found == [f"round {number} of 3 was not run: {WHY}" for number in (2, 3)]


def kinds(summary: Any, stage: int) -> list[str]:
    return [one["kind"] for one in summary["stages"][stage]["caveats"]]


def test_a_stage_without_a_neighbour_that_had_ended_says_so() -> None:
    builder = good_run()
    builder.scenario["stages"].append({"name": "after", "load": ["voices"]})
    builder.window("after", 300 * S, 360 * S)
    for second in (100, 101):  # two replicas
        builder.fault("tenant:llm", second * S)
    summary = judge(builder.build(), POINT)
    assert kinds(summary, 0).count("neighbour-gone") == 0  # it began before
    assert kinds(summary, 1).count("neighbour-gone") == 0  # it needs it
    assert kinds(summary, 2).count("neighbour-gone") == 1


def test_a_stage_whose_settling_was_cut_does_not_speak_of_the_limit() -> None:
    def invalid(*faults: tuple[str, int]) -> list[str]:
        builder = good_run()
        (begun,) = [
            row["t"]
            for row in builder.rows["marks"]
            if (row["what"], row["name"], row["edge"]) == ("stage", "crowd", "start")
        ]
        for name, after_s in faults:
            builder.fault(name, begun + after_s * S)
        builder.rows["tokens"].clear()
        found: list[str] = judge(builder.build(), POINT)["stages"][1]["invalid_because"]
        return [
            text.removeprefix("not every load had its first output ") for text in found if "first" in text
        ]

    assert invalid(("settle:crowd", 60)) == ["within the settle limit of 1m"]
    assert invalid(("tenant:llm", 2), ("settle:crowd", 3)) == ["before llm ended"]
    # It ended, but others were waited for until the limit.
    assert invalid(("tenant:llm", 2), ("settle:crowd", 60)) == ["within the settle limit of 1m"]
    assert invalid(("refused:llm", -20), ("settle:crowd", 0)) == ["for nothing listened at llm any more"]


def test_compare_says_why_a_stage_is_missing() -> None:
    comparison = compare_runs(good_run().build(), without(good_run(), "crowd"))
    (crowd,) = [stage for stage in comparison["stages"] if stage["name"] == "crowd"]
    assert crowd["verdict"] == "inconclusive"
    assert f"B: this stage was not measured: {WHY}" in crowd["why"]["verdict"]
    assert comparison["verdict"] != "pass"
