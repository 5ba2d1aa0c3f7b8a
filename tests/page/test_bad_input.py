"""Pages of runs that lack something, that are huge, or whose names are markup and script."""

import copy
import json
from pathlib import Path
from typing import Any

from cotenant.report.console import verdict_line
from tests.by_hand import write_run
from tests.page.browser import Page
from tests.page.runs import data_of, judged, page_of, page_with
from tests.page.test_page import DRAW_ALL, OPEN, text
from tests.verdict.recordings import Builder, S, good_run

HOSTILE = (
    '<img src=x onerror="window.pwned=1"></script><script>window.pwned=2</script>{{7*7}}%{x}<b>&amp;\'"`${1}'
)
# Of CPU time, and the least of some tries: what else the machine does is not the page's fault.
QUICK_MS = 200.0


def marked() -> Builder:
    """A run whose names, texts and errors all hold the mark `zz`."""
    builder = good_run(late_ms=1300.0, share=0.5)
    names = {"alone": "alonezz", "alone/again": "alonezz/again", "crowd": "crowdzz"}
    names |= {name: f"{name}zz" for name in ("tts", "head", "llm", "voices", "faces", "decode")}
    scenario = builder.scenario
    scenario["name"], scenario["about"] = "by-hand-zz", "about zz"
    scenario["tenants"] = {names[name]: tenant for name, tenant in scenario["tenants"].items()}
    scenario["tenants"]["llmzz"]["model"] = "modelzz"
    scenario["load"] = {names[name]: load for name, load in scenario["load"].items()}
    for load in scenario["load"].values():
        load["tenant"] = names[load["tenant"]]
        if "follows" in load:
            load["follows"] = names[load["follows"]]
    for stage in scenario["stages"]:
        stage["name"], stage["load"] = names[stage["name"]], [names[name] for name in stage["load"]]
    builder.voice(
        "crowd", 95 * S, [200.0], [160.0], end="truncated", listener=1, utterance=90, error="500 zz"
    )
    for row in builder.rows["streams"]:
        row.update({key: names[row[key]] for key in ("stage", "load", "tenant")})
    for row in builder.rows["marks"]:
        row["name"] = names[row["name"]]
    for t in range(80 * S, 140 * S, S):
        row = {"t": t, "source": "listeners", "metric": "cpu_zz", "value": 1.0}
        builder.rows["host"].append(row)
    return builder


def test_markup_and_script_in_every_text_is_shown_as_text(tab: Page, tmp_path: Path) -> None:
    data = json.dumps(data_of(page_of(write_run(marked(), tmp_path / "run"))))
    assert data.count("zz") > 200
    hostile: dict[str, Any] = json.loads(data.replace("zz", json.dumps(HOSTILE)[1:-1]))
    hostile["run"]["device"] = hostile["run"]["status"] = HOSTILE
    hostile["run"]["versions"] = {HOSTILE: HOSTILE}
    hostile["timeline"]["missing"].append({"what": HOSTILE, "why": HOSTILE})
    for row in hostile["utterances"]:
        row.update(text=HOSTILE, audio_why=HOSTILE, causes=[{"what": HOSTILE, "text": HOSTILE}])
        row.update(audio="javascript:window.pwned=3")
    tab.open(page_with(hostile, tmp_path / "hostile.html"))
    tab.evaluate(DRAW_ALL)
    tab.evaluate("PLOTS.forEach((plot) => { plot.fold.open = true; plot.fillTable(); })")
    failed = next(row for row in hostile["utterances"] if row["error"])
    tab.evaluate(f"openUtterance(RUN.byStream.get('{failed['stream']}'))")
    tab.wait("document.querySelector('#staircase-plot .main-svg')")
    assert text(tab, "#drill .says .outside") == f"500 {HOSTILE}"
    tab.evaluate("filterStage(RUN.stageNames[1], true)")
    assert tab.evaluate("window.pwned === undefined")
    # The page makes none of these itself; plotly's own drawing holds no image and no link either.
    assert (
        tab.evaluate(
            "document.querySelectorAll('main img, main script, dialog img, dialog b i, audio, main a').length"
        )
        == 0
    )
    assert text(tab, "#stages-table tr[data-stage] .name") == f"alone{HOSTILE}"
    assert HOSTILE in text(tab, "#verdict .sentence")
    assert tab.evaluate("document.querySelectorAll('svg a, svg image[href^=x], foreignObject').length") == 0


def without(builder: Builder, kinds: set[str]) -> Builder:
    """The same run without the loads of these kinds."""
    loads = builder.scenario["load"]
    gone = {name for name, load in loads.items() if load["kind"] in kinds}
    builder.scenario["load"] = {name: load for name, load in loads.items() if name not in gone}
    for stage in builder.scenario["stages"]:
        stage["load"] = [name for name in stage["load"] if name not in gone]
    builder.scenario["stages"] = [stage for stage in builder.scenario["stages"] if stage["load"]]
    builder.scenario["gate"] = []
    streams = [row for row in builder.rows["streams"] if row["load"] not in gone]
    builder.rows["streams"] = streams
    kept = {row["stream"] for row in streams}
    for table in ("chunks", "frames", "tokens"):
        builder.rows[table] = [row for row in builder.rows[table] if row["stream"] in kept]
    return builder


def test_a_part_that_was_not_run_is_said_to_be_missing(tab: Page, tmp_path: Path) -> None:
    for name, kinds, part, words in (
        ("voiceless", {"voices", "faces"}, "utterances", "No utterance was measured."),
        ("faceless", {"faces"}, "faces", "No face was measured."),
        ("mute", {"completions"}, "llm", "No LLM load was measured."),
    ):
        builder = without(good_run(late_ms=1300.0, share=0.5), kinds)
        tab.open(page_of(write_run(builder, tmp_path / name)))
        tab.evaluate(DRAW_ALL)
        assert words in text(tab, f"#{part} .missing"), name
        assert "canary" in text(tab, "#timeline .missing-list")
        assert tab.evaluate("document.querySelectorAll('main > section').length") == 9
        if name == "voiceless":
            assert "No other lookahead can be tried." in text(tab, "#what-if .missing")


def test_a_run_cut_off_before_any_stage_still_opens(tab: Page, tmp_path: Path) -> None:
    builder = good_run()
    builder.status = "interrupted"
    for table, rows in builder.rows.items():
        key = "arrival" if rows and "arrival" in rows[0] else "due" if rows and "due" in rows[0] else "t"
        builder.rows[table] = [row for row in rows if row[key] < 9 * S]
    tab.open(page_of(write_run(builder, tmp_path / "run")))
    tab.evaluate(DRAW_ALL)
    assert "No utterance was measured." in text(tab, "#utterances")
    assert text(tab, "#verdict h1") == verdict_line(judged(tmp_path / "run"))[0] != "PASS"


def test_a_service_that_never_sends_sound_is_shown_as_infinite(tab: Page, tmp_path: Path) -> None:
    builder = good_run()
    stream = builder.voice("crowd", 90 * S, [], [], end="error", listener=1, utterance=91, error="503 busy")
    data = data_of(page_of(write_run(builder, tmp_path / "run")))
    tab.open(page_with(data, tmp_path / "page.html", drawn=False), f"stream={stream}")
    assert tab.evaluate(OPEN)
    assert "503 busy" in text(tab, "#drill")
    assert text(tab, "#drill .facts dd") == "\u2212∞"
    assert text(tab, "#utterances-table tbody td") == "\u2212∞"


def test_data_that_cannot_be_read_leaves_the_plain_verdict(tab: Page, tmp_path: Path) -> None:
    page = page_with({"version": 99}, tmp_path / "page.html", fallback="<p id='plain'>FAIL</p>", drawn=False)
    tab.call("Page.navigate", url=page.as_uri())
    tab.wait(
        "document.getElementById('loading') && document.getElementById('loading').textContent.includes('99')"
    )
    assert text(tab, "#plain") == "FAIL"
    assert len(tab.complaints) == 1
    tab.complaints.clear()


def many(data: dict[str, Any], count: int, underruns: int) -> dict[str, Any]:
    """The same page with so many utterances and underruns, an hour long."""
    rows = data["utterances"]
    data["utterances"] = [
        {**copy.deepcopy(rows[i % len(rows)]), "stream": 5_000_000 + i} for i in range(count)
    ]
    data["timeline"]["length_s"] = 3600.0
    data["timeline"]["underruns"] = [
        {
            "stage": "crowd",
            "stream": 5_000_000 + i % count,
            "start_s": i * 3600 / underruns,
            "duration_ms": 20.0,
        }
        for i in range(underruns)
    ]
    return data


def test_big_runs_answer_at_once(tab: Page, crowd: tuple[Path, Path], tmp_path: Path) -> None:
    count = 10_000
    page = page_with(many(data_of(crowd[1]), count, count), tmp_path / "page.html")
    tab.open(page)
    tab.wait("window.Plotly")
    tab.evaluate(DRAW_ALL)
    assert tab.evaluate("RUN.utterances.length") == count
    tab.evaluate(ACTIONS)
    spent = {name: min(spent_ms(tab, name, turn) for turn in range(5)) for name in tab.evaluate("ACTS")}
    slow = {name: ms for name, ms in spent.items() if ms >= QUICK_MS}
    assert slow == {}
    assert set(spent) == {"sort", "filter", "page", "end", "open", "close", "slider"}


def spent_ms(tab: Page, action: str, turn: int) -> float:
    """CPU time of the page for one action and the layout that it causes."""
    if action == "close":
        tab.evaluate(f"openUtterance(LIST.table.order()[{turn}])")
    tab.evaluate("document.body.getBoundingClientRect()")
    before = tab.cpu_ms()
    tab.evaluate(f"ACT['{action}']({turn}); document.body.getBoundingClientRect()")
    return tab.cpu_ms() - before


ACTIONS = """
  const heads = document.querySelectorAll('#utterances-table .sort');
  const row = () => document.querySelector('#utterances-table tbody tr');
  const key = (name) => row().dispatchEvent(new KeyboardEvent('keydown', { key: name, bubbles: true }));
  window.ACT = {
    sort: (turn) => heads[turn % 2 ? 5 : 0].click(),
    filter: (turn) => filterStage(turn % 2 ? 'crowd' : ''),
    page: () => document.querySelectorAll('.pager button')[2].click(),
    end: (turn) => key(turn % 2 ? 'End' : 'Home'),
    open: (turn) => openUtterance(LIST.table.order()[turn]),
    close: () => closeUtterance(),
    slider: (turn) => { tryLookahead(10 * turn); moveCursor(); },
  };
  window.ACTS = Object.keys(window.ACT);
"""
