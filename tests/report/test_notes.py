"""Notes and the GPU's table: what is grouped, what is cut, and that no terminal is too narrow."""

from typing import Any

import pytest

from cotenant.records import Recording
from cotenant.report import markdown
from cotenant.report.console import render
from cotenant.report.gpu import gpu_lines
from cotenant.report.notes import MOST, notes, stages_named
from cotenant.report.table import display_width
from cotenant.verdict.caveats import caveat
from cotenant.verdict.summary import JudgeOptions, judge
from tests.verdict.recordings import good_run

STAGES = ("tts-alone", "talking-head", "llm-decode", "llm-long-prefill", "all-together")


def _summary(**by_stage: list[dict[str, Any]]) -> dict[str, Any]:
    summary = judge(good_run(device="gpu").build(), JudgeOptions(decision="point"))
    template = summary["stages"][1]
    summary["stages"] = [
        {
            **template,
            "name": name,
            "baseline": index == 0,
            "caveats": by_stage.get(name.replace("-", "_"), []),
        }
        for index, name in enumerate(STAGES)
    ]
    summary["a_a"]["stage"]["caveats"] = by_stage.get("again", [])
    return summary


def _power(share: float) -> dict[str, Any]:
    return caveat("throttle-power", f"held down for {share:.0%}", "mend it", throttled_share=share)


def test_names_beyond_two_are_counted() -> None:
    assert stages_named(STAGES[:2]) == "tts-alone, talking-head"
    assert stages_named(STAGES) == "tts-alone, talking-head and 3 more"


def test_the_same_caveat_of_several_stages_is_one_line() -> None:
    same = caveat("reordered", "rows were sorted")
    found = notes(_summary(**{name.replace("-", "_"): [same] for name in STAGES}))
    assert "tts-alone, talking-head and 3 more: rows were sorted" in found
    assert sum("rows were sorted" in line for line in found) == 1


def test_where_numbers_differ_the_worst_stage_is_named() -> None:
    found = notes(_summary(llm_decode=[_power(0.1)], all_together=[_power(0.7)], talking_head=[_power(0.2)]))
    assert "talking-head, llm-decode and 1 more: held down for 70% (all-together); mend it" in found
    low = [caveat("canary-lost", f"{share}", coverage=share) for share in (0.7, 0.2)]
    found = notes(_summary(llm_decode=[low[0]], all_together=[low[1]]))
    assert "llm-decode, all-together: 0.2 (all-together)" in found


def test_the_closing_baseline_has_its_caveats_told_too() -> None:
    assert "alone/again: held down for 10%; mend it" in notes(_summary(again=[_power(0.1)]))


def test_what_made_a_stage_invalid_is_not_told_again_as_a_caveat() -> None:
    summary = _summary(all_together=[_power(0.5)], llm_decode=[_power(0.4)])
    summary["stages"][4] |= {"validity": "invalid", "invalid_because": ["held down for 50%; mend it"]}
    found = notes(summary)
    assert "all-together is INVALID: held down for 50%; mend it" in found
    assert "llm-decode: held down for 40%; mend it" in found
    assert sum("50%" in line for line in found) == 1


def test_of_baselines_that_agree_there_is_no_note() -> None:
    assert not any("baseline" in line for line in notes(_summary()))


def test_caveats_of_the_run_come_with_their_advice_and_replace_the_line_on_the_baseline() -> None:
    summary = _summary()
    summary["a_a"] = {"ttfa_p95_ratio": None, "why": {"ttfa_p95_ratio": "no pairs"}, "stage": None}
    assert "the baseline once more at the end tells nothing: no pairs" in notes(summary)
    summary["caveats"] = [caveat("a-a", "the closing baseline differs", "measure longer")]
    found = notes(summary)
    assert "the closing baseline differs; measure longer" in found
    assert not any(line.startswith("the baseline once more") for line in found)


def test_waits_that_no_ttfa_holds_are_told_with_the_stage_where_they_are_longest() -> None:
    summary = _summary()
    summary["stages"] = summary["stages"][:2]
    for stage, count, wait in zip(summary["stages"], (1, 11), (None, 3200.4), strict=True):
        stage["speech"] = {"streams": 20, "failed": 0, "delayed": count, "delay_ms": {"p95": wait}}
    told = "12 utterances waited for the one before them to end (p95 in talking-head: 3200 ms); "
    assert notes(summary)[-1] == told + "TTFA does not hold that wait"


def test_never_more_than_a_screen() -> None:
    many = [caveat(f"kind-{number}", f"text {number}") for number in range(40)]
    found = notes(_summary(all_together=many))
    assert len(found) == MOST
    assert found[-1].startswith("and ")
    summary = _summary()
    for stage in summary["stages"]:
        stage["invalid_because"] = [f"reason {number} of {stage['name']}" for number in range(3)]
    assert sum("INVALID" in line for line in notes(summary)) == 5


def _gpu(**means: float | None) -> dict[str, Any]:
    gpu = {name: {"mean": value, "coverage": 1.0} for name, value in means.items()}
    return {"name": "all-together", "gpu": gpu, "canary_ms": {"p99": 17.0}, "why": {}}


FULL = _gpu(
    sm_percent=47.0, tensor_percent=8.0, dram_percent=14.0, sm_clock_mhz=1980.0, power_w=320.0, processes=11.0
)


def test_the_gpu_table_has_what_is_known_and_no_empty_column() -> None:
    head, row = gpu_lines([FULL], 100)
    for heading in ("SM", "tensor", "DRAM", "SM clock", "power", "canary p99", "processes"):
        assert f"  {heading}" in head
    assert " ".join(row.split()) == "all-together 47 % 8 % 14 % 1980 MHz 320 W 17 ms 11"
    bare = {**_gpu(sm_percent=None), "canary_ms": {"p99": None}}
    assert gpu_lines([bare], 100) == []
    assert "tensor" not in gpu_lines([_gpu(sm_percent=1.0)], 100)[0]
    assert gpu_lines([FULL, bare], 100)[2].split()[1:] == ["-"] * 7


@pytest.mark.parametrize("width", range(40, 101, 3))
def test_the_gpu_table_fits_the_terminal(width: int) -> None:
    lines = gpu_lines([FULL, {**FULL, "name": "a-stage-with-a-name-that-is-long-enough"}], width)
    assert lines
    for line in lines:
        assert display_width(line) <= width


def test_a_narrow_terminal_has_all_of_it_in_a_paragraph() -> None:
    text = " ".join(gpu_lines([FULL], 44))
    assert " ".join(text.split()) == (
        "GPU all-together: SM 47 %, tensor 8 %, DRAM 14 %, SM clock 1980 MHz, power 320 W, canary p99 17 ms, "
        "processes 11"
    )


def test_a_missing_library_is_said_instead_of_a_missing_gpu() -> None:
    recording = good_run(device="gpu").build()
    refused = {"ready": False, "kind": "no_library", "message": "no libnvidia-ml", "advice": "install it"}
    manifest = {**recording.manifest, "observers": {"gpu": refused}}
    summary = judge(Recording(manifest=manifest, tables=recording.tables), JudgeOptions(decision="point"))
    assert summary["stages"][0]["why"]["gpu.sm_percent.mean"] == "no libnvidia-ml; install it"
    text = " ".join(render(summary, manifest, 100).split())
    assert "this run is without GPU readings: no libnvidia-ml; install it" in text


def test_an_observer_that_was_switched_off_is_said_to_be() -> None:
    builder = good_run(device="gpu")
    builder.scenario["observe"] = {"canary": False, "gpu": False, "host": False}
    why = judge(builder.build(), JudgeOptions(decision="point"))["stages"][0]["why"]
    assert why["canary_ms.p99"] == "switched off in the scenario (observe.canary)"
    assert why["gpu.sm_percent.mean"] == "switched off in the scenario (observe.gpu)"
    assert why["host_canary_ms.p99"] == "the host observer is switched off in the scenario (observe.host)"


def test_markdown_has_the_notes_as_plain_text() -> None:
    summary = _summary(all_together=[caveat("x", "<b>*bold*</b> @everyone", "mend it")])
    text = markdown.render(summary)
    assert "<summary>1 note</summary>" in text
    line = next(line for line in text.splitlines() if "everyone" in line)
    assert line.startswith("- all-together: &lt;b&gt;&#42;bold")
    assert line.endswith("; mend it")
