"""Nothing passes because something was deleted."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from cotenant.errors import ExitCode
from cotenant.records import TABLES, Recording
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import good_run

ALL = JudgeOptions(decision="point", gates=("voice", "face", "llm.decode.tokens_per_s >= 10"))

# Worse is larger.
_ORDER = {"pass": 0, "inconclusive": 1, "fail": 2}


def _without(recording: Recording, table: str, column: str | None) -> Recording:
    rows = recording.tables[table]
    emptied = rows.drop_columns([column]) if column else TABLES[table].empty_table()
    return Recording(manifest=recording.manifest, tables={**recording.tables, table: emptied})


@cache
def _whole(bad: bool) -> tuple[Recording, dict[str, Any]]:
    recording = good_run(late_ms=1500 if bad else 0, share=0.5).build()
    return recording, judge(recording, ALL)


def _deletions() -> Iterator[tuple[str, str | None]]:
    for table in ("streams", "chunks", "frames", "tokens", "marks", "host"):
        yield table, None
        for column in TABLES[table].names:
            yield table, column


@pytest.mark.parametrize(("table", "column"), list(_deletions()))
@pytest.mark.parametrize("bad", [False, True])
def test_deleting_an_input_makes_nothing_pass_that_did_not(table: str, column: str | None, bad: bool) -> None:
    recording, whole = _whole(bad)
    less = judge(_without(recording, table, column), ALL)
    for before, after in zip(whole["stages"], less["stages"], strict=True):
        gates = {gate["metric"]: gate["verdict"] for gate in before["gates"]}
        for gate in after["gates"]:
            assert gate["verdict"] != "pass" or gates[gate["metric"]] == "pass", gate
    assert whole["verdict"] == "pass" or less["verdict"] != "pass"
    if not bad:
        assert _ORDER[less["verdict"]] >= _ORDER[whole["verdict"]]


@pytest.mark.parametrize("stage", ["alone", "crowd"])
def test_deleting_the_streams_of_a_stage_leaves_none_of_its_gates_passing(stage: str) -> None:
    builder = good_run()
    builder.rows["streams"] = [row for row in builder.rows["streams"] if row["stage"] != stage]
    summary = judge(builder.build(), ALL)
    entry = next(entry for entry in summary["stages"] if entry["name"] == stage)
    assert all(gate["verdict"] != "pass" for gate in entry["gates"])
    assert summary["verdict"] == "inconclusive"
    assert exit_code(summary) in (ExitCode.INCONCLUSIVE, ExitCode.INVALID)
