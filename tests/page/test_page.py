"""The page of a run in a real browser: what it says, by mouse, by keyboard, by address."""

import base64
import io
import json
import wave
from pathlib import Path
from typing import Any

import pytest

from cotenant.report.console import verdict_line
from tests.by_hand import cotenant
from tests.page.browser import Page
from tests.page.runs import data_of, judged, page_with

Crowd = tuple[Path, Path]
TEXT = "document.querySelector(%s).textContent"
ROWS = "document.querySelectorAll('#utterances-table tbody tr').length"
OPEN = "document.getElementById('drill').open"
TABLE = (
    "[...document.querySelectorAll('#lookahead-table tbody tr')].map((row) => [row.children[0].textContent,"
    "row.children[1].textContent.slice(1).toLowerCase(), row.children[2].textContent])"
)
DRAW_ALL = (
    "(async () => { for (const plot of PLOTS.slice()) { WATCH.unobserve(plot.box); drawPlot(plot); }"
    "await new Promise((done) => setTimeout(done, 50)); return PLOTS.length; })()"
)


def text(tab: Page, selector: str) -> str:
    return str(tab.evaluate(TEXT % json.dumps(selector)))


def test_says_the_verdict_of_the_terminal_first(tab: Page, crowd: Crowd) -> None:
    run, page = crowd
    tab.open(page)
    word, sentence = verdict_line(judged(run))
    assert (text(tab, "#verdict h1"), text(tab, "#verdict .sentence")) == (word, sentence)
    assert word == "FAIL"
    assert tab.evaluate("document.querySelector('main').firstElementChild.id") == "verdict"
    assert tab.evaluate("document.getElementById('fallback')") is None
    # The shape says it too, not the colour alone.
    assert text(tab, "#verdict .mark") == "✗"
    rows = tab.evaluate(
        "[...document.querySelectorAll('#stages-table tr[data-stage]')].map((r) => r.dataset.stage)"
    )
    assert rows == ["alone", "crowd", "alone/again"]
    assert "✗FAIL" in text(tab, "#stages-table tr[data-stage=crowd]")
    assert "clean 50 %, at least 95 % asked (n = 24)" in text(tab, "#stages-table tr.because.fail")


def test_every_plot_is_drawn_and_has_its_numbers_as_a_table(tab: Page, crowd: Crowd) -> None:
    tab.open(crowd[1])
    count = tab.evaluate(DRAW_ALL)
    assert count >= 12
    assert tab.evaluate("document.querySelectorAll('.plot .main-svg').length") >= count
    bare = tab.evaluate(
        "PLOTS.filter((plot) => { plot.fold.open = true; plot.fillTable();"
        "return plot.fold.querySelectorAll('table tbody tr').length === 0; }).map((plot) => plot.id)"
    )
    assert bare == []


def test_the_slider_says_what_python_computed_at_each_of_its_places(tab: Page, blank_mixed: Crowd) -> None:
    plan = data_of(blank_mixed[1])["what_if"]
    tab.open(blank_mixed[1])
    shown = tab.evaluate(
        "[...Array(101).keys()].map((place) => { const slider = document.getElementById('lookahead');"
        "slider.value = place; slider.dispatchEvent(new Event('input'));"
        "return [document.querySelector('#lookahead-says .pill').lastChild.data,"
        f"{TABLE}, "
        "slider.getAttribute('aria-valuetext'), document.getElementById('lookahead-ms').textContent]; })"
    )
    for place, (word, stages, spoken, ms) in enumerate(shown):
        assert word == plan["run_word"][place]
        assert [row[:2] for row in stages] == [
            [name, one["verdict"][place]] for name, one in plan["stages"].items()
        ]
        assert spoken.startswith(f"{ms}: {word}. alone ")
    assert {word for word, *_ in shown} == {"FAIL", "PASS", "INCONCLUSIVE"}


def test_the_slider_says_what_gate_says(
    tab: Page, blank_mixed: Crowd, capsys: pytest.CaptureFixture[str]
) -> None:
    run, page = blank_mixed
    tab.open(page)
    places = [data_of(page)["what_if"]["run_word"].index(word) for word in ("FAIL", "PASS", "INCONCLUSIVE")]
    for place in places:
        tab.evaluate(f"tryLookahead({place})")
        command = text(tab, "#lookahead-command").split()
        assert command[:3] == ["cotenant", "gate", str(run)]
        cotenant(*command[1:], "--json")
        summary = json.loads(capsys.readouterr().out)
        assert text(tab, "#lookahead-says").strip().endswith(verdict_line(summary)[1])
        assert tab.evaluate(TABLE) == [
            [one["name"], one["verdict"], f"{100 * one['speech']['clean_share']:.0f}"]
            for one in summary["stages"]
        ]


def test_the_bounds_are_those_of_the_chosen_stage(tab: Page, crowd: Crowd) -> None:
    plan = data_of(crowd[1])["what_if"]["stages"]
    tab.open(crowd[1])
    tab.evaluate(DRAW_ALL)
    plot = "PLOTS.find((one) => one.id === 'whatif-clean').box"
    band = f"{plot}.data.filter((one) => one.fill).map((one) => one.y)"
    assert tab.evaluate("document.getElementById('whatif-band').value") == "crowd"
    for name in ("crowd", "alone"):
        tab.evaluate(
            "(() => { const choose = document.getElementById('whatif-band');"
            f"choose.value = '{name}'; choose.dispatchEvent(new Event('change')); }})()"
        )
        low = [[None if one is None else one * 100 for one in plan[name]["low"]]]
        assert tab.evaluate(band) == [pytest.approx(low[0])]


def test_arrow_keys_move_the_slider(tab: Page, blank_crowd: Crowd) -> None:
    tab.open(blank_crowd[1])
    own = data_of(blank_crowd[1])["what_if"]["own"]
    tab.evaluate("document.getElementById('lookahead').focus()")
    tab.press("ArrowRight")
    tab.press("ArrowRight")
    assert tab.evaluate("[WHATIF.index, location.hash]") == [
        own + 2,
        f"#lookahead={_plain(data_of(blank_crowd[1])['what_if']['lookahead_ms'][own + 2])}",
    ]


def _plain(value: float) -> str:
    return f"{value:g}"


def test_a_click_opens_an_utterance_down_to_its_chunks(tab: Page, crowd: Crowd) -> None:
    worst = data_of(crowd[1])["utterances"][0]
    tab.open(crowd[1])
    tab.click("#utterances-table tbody tr")
    assert tab.evaluate(OPEN)
    assert tab.evaluate("location.hash") == f"#stream={worst['stream']}"
    said = text(tab, "#drill")
    assert f"stream {worst['stream']}" in said
    assert "1 underrun" in said
    assert f"cotenant listen {crowd[0]} {worst['stream']}" in said
    tab.wait("document.querySelector('#staircase-plot .main-svg')")
    lines = tab.evaluate(
        "PLOTS.find((plot) => plot.id === 'staircase').box.data.map((one) => [one.name, one.y.at(-1)])"
    )
    heard = dict(line for line in lines if line[0])
    assert heard == {"received": sum(worst["media_ms"]), "heard": sum(worst["media_ms"])}
    tables = tab.evaluate(
        "(() => { const fold = document.querySelector('#drill details'); PLOTS.at(-1).fillTable();"
        "return [...fold.querySelectorAll('table')].map((one) => one.tBodies[0].rows.length); })()"
    )
    assert tables[0] == len(worst["events"]) == 1
    assert tables[-1] == len(worst["arrival_ms"])


def test_the_whole_way_by_keyboard(tab: Page, blank_crowd: Crowd) -> None:
    rows = data_of(blank_crowd[1])["utterances"]
    tab.open(blank_crowd[1])
    tab.evaluate("document.querySelector('#utterances-table tbody tr').focus()")
    for key in ("ArrowDown", "ArrowDown", "ArrowUp"):
        tab.press(key)
    focused = "document.activeElement.dataset.id"
    assert tab.evaluate(focused) == str(rows[1]["stream"])
    assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
    tab.press("Enter")
    assert tab.evaluate(OPEN)
    tab.press("ArrowRight")
    assert tab.evaluate("DRILL.row.stream") == rows[2]["stream"]
    tab.press("Escape")
    tab.wait(f"!{OPEN}")
    # Focus is back in the table, on the utterance that was left last; the address no longer opens one.
    assert tab.evaluate(focused) == str(rows[2]["stream"])
    assert tab.evaluate("location.hash") == ""
    tab.press("End")
    assert tab.evaluate(focused) == str(rows[-1]["stream"])
    tab.press("Home")
    tab.press(" ")
    assert tab.evaluate(f"[{OPEN}, DRILL.row.stream]") == [True, rows[0]["stream"]]


def test_the_address_restores_what_was_open(tab: Page, blank_crowd: Crowd) -> None:
    data = data_of(blank_crowd[1])
    row = next(one for one in data["utterances"] if one["stage"] == "crowd" and not one["clean"])
    ms = data["what_if"]["lookahead_ms"][64]
    fragment = f"stage=crowd&stream={row['stream']}&lookahead={_plain(ms)}"
    tab.open(blank_crowd[1], fragment)
    shown = tab.evaluate("[DRILL.row.stream, WHATIF.index, document.getElementById('filter-stage').value]")
    assert shown == [row["stream"], 64, "crowd"]
    assert tab.evaluate(ROWS) == sum(one["stage"] == "crowd" for one in data["utterances"])
    kept = tab.evaluate("Object.fromEntries(new URLSearchParams(location.hash.slice(1)))")
    assert kept == {"stage": "crowd", "stream": str(row["stream"]), "lookahead": _plain(ms)}


def test_an_address_of_something_else_opens_nothing(tab: Page, blank_crowd: Crowd) -> None:
    tab.open(blank_crowd[1], "stage=%3Cb%3E&stream=__proto__&lookahead=lots&x=1")
    assert not tab.evaluate(OPEN)
    assert tab.evaluate("[WHATIF.index, LIST.stage]") == [data_of(blank_crowd[1])["what_if"]["own"], ""]


def test_light_dark_and_what_the_person_chose(tab: Page, crowd: Crowd) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    seen: dict[str, Any] = {}
    for dark in (False, True):
        tab.look(dark=dark)
        tab.open(crowd[1])
        seen[f"auto {dark}"] = tab.evaluate(ground)
        for theme in ("light", "dark", "auto"):
            tab.click("#theme")
            assert theme in text(tab, "#theme")
            seen[f"{theme} {dark}"] = tab.evaluate(ground)
    light, night = "rgb(255, 255, 255)", "rgb(17, 20, 24)"
    assert seen["auto False"] == seen["light False"] == seen["light True"] == light
    assert seen["auto True"] == seen["dark False"] == seen["dark True"] == night


def test_nothing_is_wider_than_the_window(tab: Page, crowd: Crowd) -> None:
    for width in (400, 1280):
        tab.look(width=width)
        tab.open(crowd[1])
        tab.evaluate(DRAW_ALL)
        assert tab.evaluate("document.documentElement.scrollWidth") == width


def test_on_paper_every_table_is_open_and_afterwards_as_before(tab: Page, crowd: Crowd) -> None:
    tab.look(dark=True)
    tab.open(crowd[1])
    during = tab.evaluate(
        "(() => { preparePrint(); const all = [...document.querySelectorAll('details')];"
        "return [all.length, all.filter((one) => !one.open).length, PLOTS.filter((one) => !one.drawn).length,"
        "getComputedStyle(document.body).backgroundColor]; })()"
    )
    assert during[0] > 10
    assert during[1:] == [0, 0, "rgb(255, 255, 255)"]
    tab.evaluate("afterPrint()")
    assert tab.evaluate("document.querySelectorAll('details[open]').length") == 0
    assert len(tab.call("Page.printToPDF")["data"]) > 20_000
    assert tab.evaluate("document.querySelectorAll('details[open]').length") == 0


def test_without_scripts_the_verdict_stands_in_the_page(tab: Page, crowd: Crowd) -> None:
    run, page = crowd
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    tab.call("Page.navigate", url=page.as_uri())
    tab.reach("document.readyState === 'complete' && document.getElementById('verdict') !== null")
    said = str(tab.evaluate("document.getElementById('verdict').innerText"))
    word, sentence = verdict_line(judged(run))
    assert word in said
    assert sentence in said


def test_one_time_axis_for_all_rows_by_button_and_by_key(tab: Page, crowd: Crowd) -> None:
    line = data_of(crowd[1])["timeline"]
    stage = next(one for one in line["stages"] if one["name"] == "crowd")
    tab.open(crowd[1])
    tab.evaluate(DRAW_ALL)
    axes = "[...new Set(TIMELINE.plot.box.data.map((one) => one.xaxis || 'x'))]"
    rows = "Object.keys(TIMELINE.plot.box._fullLayout).filter((key) => key.startsWith('yaxis')).length"
    seen = "TIMELINE.plot.box._fullLayout.xaxis.range.map((one) => Math.round(one * 10) / 10)"
    assert tab.evaluate(axes) == ["x"]
    assert tab.evaluate(rows) == 4  # who worked, playable ahead, gaps, frames: no GPU here
    tab.evaluate(
        "[...document.querySelectorAll('#timeline .chips button')]"
        ".find((one) => one.textContent.includes('crowd')).click()"
    )
    assert tab.evaluate(seen) == [round(stage["start_s"], 1), round(stage["end_s"], 1)]
    tab.evaluate("TIMELINE.plot.box.focus()")
    tab.press("ArrowRight")
    step = (stage["end_s"] - stage["start_s"]) / 5
    assert tab.evaluate(seen)[0] == pytest.approx(stage["start_s"] + step, abs=0.2)
    tab.click("#timeline .check input:not(:checked)")
    assert tab.evaluate(rows) == 5
    # Another row does not lose the place.
    assert tab.evaluate(seen)[0] == pytest.approx(stage["start_s"] + step, abs=0.2)


def test_a_click_on_an_underrun_of_the_timeline_opens_its_utterance(tab: Page, crowd: Crowd) -> None:
    first = data_of(crowd[1])["timeline"]["underruns"][0]
    tab.open(crowd[1])
    tab.evaluate(DRAW_ALL)
    tab.evaluate(
        "(() => { const box = TIMELINE.plot.box;"
        "const marks = box.data.find((one) => one.name === 'underrun' && one.mode === 'markers');"
        "box.emit('plotly_click', {points: [{customdata: marks.customdata[0]}]}); })()"
    )
    assert tab.evaluate("DRILL.row.stream") == first["stream"]
    tab.evaluate("[...document.querySelectorAll('#drill button')].at(-1).click()")
    tab.wait(f"!{OPEN}")
    low, high = tab.evaluate("TIMELINE.plot.box._fullLayout.xaxis.range")
    assert low < first["start_s"] < high
    assert high - low < 60


def test_the_sound_is_there_where_it_was_kept(tab: Page, crowd: Crowd, tmp_path: Path) -> None:
    data = data_of(crowd[1])
    sound = io.BytesIO()
    with wave.open(sound, "wb") as file:
        file.setparams((1, 2, 24_000, 0, "NONE", ""))
        file.writeframes(bytes(48_000))
    row = data["utterances"][0]
    row.update(audio="data:audio/wav;base64," + base64.b64encode(sound.getvalue()).decode(), audio_why="")
    tab.open(page_with(data, tmp_path / "page.html"), f"stream={row['stream']}")
    tab.wait("document.querySelector('#drill audio').readyState >= 1")
    assert tab.evaluate("document.querySelector('#drill audio').duration") == pytest.approx(1.0)
    assert "not in this page" not in text(tab, "#drill")
