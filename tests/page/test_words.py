"""What the page says in words: why at the first look, what is not decided, what is not there."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.page.browser import Page
from tests.page.runs import data_of, page_with
from tests.page.test_page import DRAW_ALL, text

Crowd = tuple[Path, Path]
BANNER = "document.querySelector('#verdict .first-cause')?.textContent ?? null"
LINES = (
    "Object.fromEntries([...document.querySelectorAll('tr.because .line')].map((line) =>"
    "[line.querySelector('.label').textContent,"
    "[...line.querySelectorAll('li')].map((one) => one.textContent)]))"
)


def crowd_stage(data: dict[str, Any]) -> dict[str, Any]:
    return dict(next(stage for stage in data["summary"]["stages"] if stage["name"] == "crowd"))


@pytest.mark.parametrize("said", ["beside decode a second of speech takes 1.35 s to make", None])
def test_the_banner_holds_the_first_reason_and_all_of_them_stand_below(
    tab: Page, crowd: Crowd, tmp_path: Path, said: str | None
) -> None:
    data = data_of(crowd[1])
    data["console"].update(first_why=said, why=["crowd: one", "two"])
    tab.open(page_with(data, tmp_path / "page.html", drawn=False))
    assert tab.evaluate(BANNER) == (None if said is None else f"why {said}")
    shown = "[...document.querySelectorAll('#reasons li')].map((one) => one.textContent)"
    assert {"crowd: one", "two"} <= set(tab.evaluate(shown))


def undecided(data: dict[str, Any], stages: list[dict[str, Any]]) -> None:
    """Every gate of the crowd is left open for one reason, but the last one for another."""
    stage = next(one for one in stages if one["name"] == "crowd")
    stage["verdict"] = "inconclusive"
    for gate in stage["gates"]:
        gate.update(verdict="inconclusive", value=None, why={"verdict": "too few blocks"})
    stage["gates"][-1]["why"] = {"verdict": "another reason"}


def test_a_stage_that_was_not_run_is_called_not_measured_with_the_reason(
    tab: Page, blank_crowd: Crowd, tmp_path: Path
) -> None:
    data = data_of(blank_crowd[1])
    stage = next(one for one in data["summary"]["stages"] if one["name"] == "crowd")
    undecided(data, data["summary"]["stages"])
    why = "this stage was not measured: it needs llm, which ended (SIGKILL) in alone; see logs/llm.log"
    stage["why"]["verdict"] = why
    tab.open(page_with(data, tmp_path / "page.html", drawn=False))
    assert tab.evaluate(LINES)["not decided"] == [why]
    assert "not measured" in text(tab, "#stages-table tr[data-stage=crowd]")
    assert "not measured" not in text(tab, "#stages-table tr[data-stage=alone]")


def test_gates_left_open_for_one_reason_are_one_line_and_not_called_broken(
    tab: Page, blank_crowd: Crowd, tmp_path: Path
) -> None:
    data = data_of(blank_crowd[1])
    tab.open(blank_crowd[1])
    assert "broke" in tab.evaluate(LINES)
    assert "not decided" not in tab.evaluate(LINES)
    undecided(data, data["summary"]["stages"])
    count = len(crowd_stage(data)["gates"])
    assert count >= 3
    tab.open(page_with(data, tmp_path / "page.html", drawn=False))
    lines = tab.evaluate(LINES)
    assert "broke" not in lines
    first, second = lines["not decided"]
    assert first.startswith(f"{count - 1} gates: too few blocks (")
    assert first.count(",") == count - 2
    assert second.endswith(": another reason")
    data["summary"]["stages"][1]["gates"][0]["level"] = "warn"
    tab.open(page_with(data, tmp_path / "warned.html", drawn=False))
    lines = tab.evaluate(LINES)
    assert lines["warning"][0].startswith("not decided: ")
    assert lines["not decided"][0].startswith(f"{count - 2} gates: ")


def test_a_load_in_flight_is_called_so_and_what_has_no_data_says_why(
    tab: Page, crowd: Crowd, tmp_path: Path
) -> None:
    data = data_of(crowd[1])
    figures = crowd_stage(data)["llm"]["decode"]
    stages = data["llm"]["decode"]
    names = list(stages)
    cells = f"[...document.querySelectorAll('#llm tbody tr')][{names.index('crowd')}].lastChild.textContent"
    for told, said in (
        ({"delivered": True, "finished": 0, "open": 2}, "✓ in flight, none finished"),
        ({"delivered": True, "finished": 3, "open": 2}, "✓ as planned"),
        ({"delivered": False, "delivered_share": 0.6}, "✗ 60 % of the plan"),
        ({"delivered": None}, "\u2013"),
    ):
        figures.update(told)
        tab.open(page_with(data, tmp_path / "page.html", drawn=False))
        assert tab.evaluate(cells) == said
    nothing = {"q": [], "v": [], "n": 0}
    why = "no request was due in the measure window"
    crowd_stage(data)["why"]["llm.decode.ttft_ms.p50"] = why
    figures["ttft_ms"]["p50"] = None
    stages["crowd"]["ttft_ms"] = nothing
    stages["solo:decode"] = {**stages["crowd"], "ttft_ms": {"q": [0.0, 1.0], "v": [5.0, 9.0], "n": 2}}
    tab.open(page_with(data, tmp_path / "some.html", drawn=False))
    assert f"no data of crowd: {why}" in text(tab, "#llm-0-ttft figcaption")
    for one in stages.values():
        one["ttft_ms"] = nothing
    tab.open(page_with(data, tmp_path / "empty.html"))
    tab.evaluate(DRAW_ALL)
    said = text(tab, "#llm-0-ttft")
    assert "No data." in said
    assert why in said
    assert tab.evaluate("document.querySelector('#llm-0-ttft .main-svg')") is None
    row = f"[...document.querySelectorAll('#llm tbody tr')][{names.index('crowd')}]"
    assert tab.evaluate(f"{row}.querySelectorAll('td')[0].firstChild.title") == why


def test_an_utterance_says_what_its_lookahead_would_be_for(tab: Page, blank_crowd: Crowd) -> None:
    stream = data_of(blank_crowd[1])["utterances"][0]["stream"]
    tab.open(blank_crowd[1], f"stream={stream}")
    names = tab.evaluate("[...document.querySelectorAll('#drill dt')].map((one) => one.textContent)")
    assert "lookahead for no stall at all" in names
    assert "needs" not in names


def test_a_plot_says_that_it_is_being_drawn_until_it_is_there(tab: Page, crowd: Crowd) -> None:
    tab.open(crowd[1])
    # Opened and read in one task: nothing can have been drawn between.
    said = "(openUtterance(RUN.utterances[0]), document.querySelector('#staircase-plot').textContent)"
    assert tab.evaluate(said) == "drawing the chart …"
    tab.wait("document.querySelector('#staircase-plot .main-svg')")
    assert tab.evaluate("document.querySelector('#staircase-plot .drawing')") is None
    tab.evaluate(DRAW_ALL)
    assert tab.evaluate("document.querySelectorAll('.drawing').length") == 0


def test_a_stage_that_is_invalid_is_marked_at_every_lookahead(
    tab: Page, blank_crowd: Crowd, tmp_path: Path
) -> None:
    data = data_of(blank_crowd[1])
    next(one for one in data["summary"]["stages"] if one["name"] == "crowd")["validity"] = "invalid"
    tab.open(page_with(data, tmp_path / "page.html", drawn=False))
    tab.evaluate("tryLookahead(0)")
    row = (
        "[...document.querySelectorAll('#lookahead-table tbody tr')].find((r) => r.textContent.includes(%r))"
    )
    shown = str(tab.evaluate(f"({row % 'crowd'}).textContent"))
    assert "INVALID" in shown
    assert not {"PASS", "FAIL"} & set(re.findall("[A-Z]+", shown)), "two verdicts that exclude each other"
    stages = "document.querySelector('#stages-table tr[data-stage=crowd] td').textContent"
    assert str(tab.evaluate(stages)).endswith("INVALID")
    assert "INVALID" not in str(tab.evaluate(f"({row % 'alone'}).textContent"))
    spoken = str(tab.evaluate("document.getElementById('lookahead').getAttribute('aria-valuetext')"))
    assert spoken.count("invalid") == 1
    strips = "[...document.querySelectorAll('#strips .cells')].map((one) => one.title)"
    assert [one.startswith("INVALID 0 ms to ") for one in tab.evaluate(strips)] == [False, False, True]


def test_the_command_names_the_run(tab: Page, blank_crowd: Crowd, tmp_path: Path) -> None:
    data = data_of(blank_crowd[1])
    for name in ("runs/2026-11-30T16-39-43Z-all", "'a b; <i>rm'"):
        data["run"]["argument"] = name
        tab.open(page_with(data, tmp_path / "page.html", drawn=False))
        tab.evaluate("tryLookahead(0)")
        assert text(tab, "#lookahead-command") == f"cotenant gate {name} --lookahead 0ms"
