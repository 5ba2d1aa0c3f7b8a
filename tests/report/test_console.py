"""What a person sees at the end of a run: the table, the notes, and nothing that steers the terminal."""

from dataclasses import replace

import pytest

from cotenant.report.console import render
from cotenant.report.notes import CPU_NOTE
from cotenant.report.table import display_width
from cotenant.report.text import safe
from cotenant.verdict.summary import JudgeOptions, judge
from tests.report.shown import shown
from tests.verdict.recordings import S, good_run


@pytest.mark.parametrize("width", [40, 60, 79, 80, 100, 120, 200])
@pytest.mark.parametrize("bad", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, bad: bool) -> None:
    builder = good_run(late_ms=900 if bad else 0, share=0.5)
    builder.scenario["gate"] = ["voice", "face"]
    for line in shown(builder, width).splitlines():
        assert display_width(line) <= width, line


def test_wide_table_has_a_row_for_each_stage() -> None:
    text = shown(good_run(late_ms=900, share=0.5), 140)
    head, alone, crowd = text.splitlines()[2:5]
    assert head.split("  ")[0] == "stage"
    for heading in (
        "TTFA p95",
        "playback p95",
        "gap p99",
        "underruns",
        "stalled",
        "clean",
        "headroom p5",
        "fps p5",
    ):
        assert heading in head
    assert alone.startswith("alone ")
    assert alone.endswith("PASS")
    assert crowd.endswith("FAIL")
    assert "+380 ms" in alone
    assert "-100 ms" in crowd
    assert "39.6" in crowd


@pytest.mark.parametrize("late_ms", [0.0, 1500.0])
@pytest.mark.parametrize("width", [60, 140])
def test_an_invalid_stage_has_no_other_word_beside_that(late_ms: float, width: int) -> None:
    builder = good_run(late_ms=late_ms, share=1.0)
    builder.fault("settle:crowd", 79 * S)
    (row,) = [line for line in shown(builder, width).splitlines() if line.startswith("crowd ")]
    assert row.endswith("  INVALID")
    assert not {"PASS", "FAIL"} & set(row.split())


def test_narrow_form_has_every_stage_with_its_verdict() -> None:
    text = shown(good_run(late_ms=900, share=0.5), 60)
    lines = text.splitlines()
    assert any(line.startswith("alone") and line.endswith("PASS") for line in lines)
    assert any(line.startswith("crowd") and line.endswith("FAIL") for line in lines)
    assert "clean 100 %" in text


def test_what_a_cpu_does_not_tell_is_said_once() -> None:
    text = " ".join(shown(good_run(), 60).split())
    assert text.count(CPU_NOTE) == 1
    assert CPU_NOTE not in " ".join(shown(good_run(device="gpu"), 60).split())


def test_of_services_on_another_machine_nothing_is_said_by_this_ones_cpu() -> None:
    recording = good_run().build()
    names = list(recording.manifest["scenario"]["tenants"])
    for away in (names[:1], names):
        tenants = {name: {"elsewhere": True} for name in away}
        changed = replace(recording, manifest={**recording.manifest, "tenants": tenants})
        summary = judge(changed, JudgeOptions())
        text = " ".join(render(summary, changed.manifest, 100).split())
        assert f"{', '.join(away)} on another machine" in text.split(", lookahead")[0]
        assert "what is said here of CPU and GPU is not of th" in text
        # Where some are here, their contention is real.
        assert (CPU_NOTE in text) is (away != names)
        assert (f"{summary['scenario']} from " in text) is (away == names)


def test_a_proven_lookahead_is_offered_and_one_that_breaks_a_gate_is_not_a_cure() -> None:
    text = " ".join(shown(good_run(late_ms=713, share=1.0)).split())
    assert "mend with a lookahead of" in text
    assert "every gate of crowd passes, playback then starts at" in text
    late = " ".join(shown(good_run(late_ms=1500, share=1.0)).split())
    assert "but that is no cure: speech.time_to_playback_ms.p95 <= 1000 ms fails" in late
    assert "untried:" in late


def test_what_a_service_did_not_do_is_said_stage_by_stage() -> None:
    builder = good_run()
    for row in builder.rows["streams"]:
        if row["stage"] == "crowd" and row["kind"] == "voices" and row["utterance"] < 3:
            row |= {"end": "error", "error_kind": "refused"}
    text = " ".join(shown(builder).split())
    assert "crowd: 6 of 24 utterances failed (refused 6)" in text


def test_a_stage_in_which_nothing_was_said_and_a_closing_baseline_without_data_are_told() -> None:
    builder = good_run()
    builder.rows["streams"] = [
        row for row in builder.rows["streams"] if row["stage"] == "alone" or row["kind"] != "voices"
    ]
    text = " ".join(shown(builder).split())
    assert "crowd: no utterance fell due while it was measured" in text
    assert "the baseline once more at the end tells nothing:" in text


def test_a_passing_run_offers_nothing() -> None:
    text = shown(good_run())
    assert "\nmend" not in text
    assert "\nPASS" in text


def test_an_interrupted_run_is_no_pass() -> None:
    builder = good_run()
    builder.status = "interrupted"
    text = shown(builder)
    assert "INCONCLUSIVE" in text.splitlines()[-1]


EVIL = "[red]\x1b[31m\x07\r\n\u202egpj.exe[/red]:boom:"


def test_names_and_errors_cannot_steer_the_terminal() -> None:
    builder = good_run()
    recording = builder.build()
    summary = judge(recording, JudgeOptions())
    summary["scenario"] = summary["stages"][0]["name"] = EVIL
    summary["stages"][1]["caveats"] = [{"kind": "x", "text": EVIL, "advice": EVIL}]
    summary["validity"], summary["invalid_because"] = "invalid", [EVIL]
    text = render(summary, {"device": {"name": EVIL}, "scenario": {}}, 100)
    for character in "\x1b\x07\r\u202e":
        assert character not in text
    assert "[red]" in text


def test_safe_text_is_one_short_line() -> None:
    assert safe("a\nb\tc") == "a b c"
    assert safe("x" * 1000, 10) == "xxxxxxx..."
    assert safe("naïve 声 🎧") == "naïve 声 🎧"
    assert safe("\x9b31m") == "?31m"


def test_a_stage_without_data_shows_dashes() -> None:
    builder = good_run()
    builder.rows["marks"].clear()
    text = shown(builder)
    assert "not measured" in text
    assert " -  " in text


def test_a_long_stage_name_is_cut() -> None:
    builder = good_run()
    recording = builder.build()
    summary = judge(recording, JudgeOptions())
    summary["stages"][0]["name"] = "x" * 300
    for width in (40, 80, 120):
        assert max(map(display_width, render(summary, recording.manifest, width).splitlines())) <= width
