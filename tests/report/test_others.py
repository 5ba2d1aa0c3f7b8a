"""A run on a machine that others use: no verdict is told without that."""

import pytest

from cotenant.report.console import verdict_line
from cotenant.verdict.summary import JudgeOptions, exit_code, judge
from tests.verdict.recordings import MS, good_run


@pytest.mark.parametrize(
    ("cores_used", "meanwhile"), [(1.66, " (while others used 83 % of this machine's CPU)"), (0.9, "")]
)
def test_a_voice_that_fails_on_a_machine_of_others_is_not_said_to_fail_flatly(
    cores_used: float, meanwhile: str
) -> None:
    builder = good_run()
    builder.others_use(cores_used)
    for row in builder.rows["chunks"]:
        row["arrival"] += 900 * MS if row["seq"] >= 10 else 0
    summary = judge(builder.build(), JudgeOptions(decision="point"))
    word, sentence = verdict_line(summary)
    assert word == "FAIL"
    assert sentence.startswith(f"the voice does not live here even alone{meanwhile}: alone: ")
    assert exit_code(summary) == 1


def test_a_stage_that_fails_while_others_use_the_machine_says_so_last() -> None:
    builder = good_run(late_ms=1500, share=1.0)
    builder.others_use(1.66)
    summary = judge(builder.build(), JudgeOptions(decision="point"))
    assert "asked (n = 24), while others used 83 % of this machine's CPU; " in verdict_line(summary)[1]
