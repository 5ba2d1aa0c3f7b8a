"""The pages in a window as wide as a telephone: nothing is cut off that cannot be scrolled to."""

from pathlib import Path

import pytest

from tests.by_hand import cotenant, write_run
from tests.page.browser import Page
from tests.page.runs import data_of, page_with
from tests.verdict.recordings import good_run

Crowd = tuple[Path, Path]
WIDTH = 400


@pytest.fixture
def narrow(tab: Page) -> Page:
    tab.look(width=WIDTH, height=800)
    return tab


def test_wide_tables_scroll_in_their_box_and_keep_their_first_column(
    narrow: Page, blank_crowd: Crowd
) -> None:
    narrow.open(blank_crowd[1])
    for box in ("#stages > .scroll", "#lookahead-table", "#utterances .scroll"):
        moved = narrow.evaluate(
            f"(() => {{ const box = document.querySelector('{box}');"
            "const first = [...box.querySelectorAll('tr > :first-child:not([colspan])')];"
            "const left = () => first.map((one) => Math.round(one.getBoundingClientRect().left));"
            "box.scrollLeft = 0; const before = left(); box.scrollLeft = 1e6;"
            "const last = box.querySelector('thead th:last-child').getBoundingClientRect().right;"
            "return [box.scrollLeft, before, left(), box.getBoundingClientRect().right - last,"
            "box.getBoundingClientRect().left]; })()"
        )
        assert moved[0] > 20, box
        edge = round(moved[4])
        # Cells with a thick left edge may move by it, no more.
        assert all(edge - 1 <= place <= edge + 6 for place in moved[1] + moved[2]), box
        assert abs(moved[3]) <= 3, box


def test_the_lines_under_a_stage_end_inside_of_the_table(narrow: Page, blank_crowd: Crowd) -> None:
    narrow.open(blank_crowd[1])
    for left in (0, 1_000_000):
        outside = narrow.evaluate(
            "(() => { const box = document.querySelector('#stages > .scroll');"
            f"box.scrollLeft = {left}; const frame = box.getBoundingClientRect();"
            "return [...box.querySelectorAll('.because .line')].filter((line) => {"
            "const at = line.getBoundingClientRect();"
            "return at.left < frame.left || at.right > frame.right; }).length; })()"
        )
        assert outside == 0


def test_rows_of_the_lookahead_stay_one_line_high_with_many_gates(narrow: Page, blank_crowd: Crowd) -> None:
    narrow.open(blank_crowd[1])
    heights = narrow.evaluate(
        "(() => { for (const one of document.querySelectorAll('#lookahead-table .broken'))"
        "one.textContent = 'time with unacceptable skew, '.repeat(12);"
        "return [...document.querySelectorAll('#lookahead-table tbody tr')]"
        ".map((one) => one.offsetHeight); })()"
    )
    assert max(heights) < 50


def test_headings_that_are_jumped_to_stand_clear_of_the_bar(narrow: Page, blank_crowd: Crowd) -> None:
    narrow.open(blank_crowd[1])
    gaps = narrow.evaluate(
        "(async () => { const found = [];"
        "for (const link of document.querySelectorAll('#nav a')) { link.click();"
        "await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));"
        "const head = document.querySelector(link.getAttribute('href') + ' h2');"
        "found.push(head.getBoundingClientRect().top - document.querySelector('.bar').offsetHeight); }"
        "return found; })()"
    )
    assert len(gaps) == 8
    assert min(gaps) >= 8
    assert narrow.evaluate("getComputedStyle(document.getElementById('nav')).scrollbarWidth") == "none"


def test_the_drill_down_is_as_wide_as_a_window_with_a_scroll_bar_lets_it(
    narrow: Page, blank_crowd: Crowd
) -> None:
    stream = data_of(blank_crowd[1])["utterances"][0]["stream"]
    narrow.open(blank_crowd[1], f"stream={stream}")
    # A body of its own width stands for what a scroll bar of 15 pixels leaves: this browser hides its bars.
    left, right, head = narrow.evaluate(
        "(() => { const shown = document.getElementById('drill'); const copy = shown.cloneNode(true);"
        f"document.body.style.cssText = 'width: {WIDTH - 15}px; transform: translate(0)';"
        "document.body.append(copy); copy.show(); shown.close();"
        "const at = (one) => one.getBoundingClientRect();"
        "return [at(copy).left, at(copy).right, at(copy.querySelector('h2')).left]; })()"
    )
    assert (left, right) == (0, WIDTH - 15)
    assert head >= 10


def test_two_runs_show_a_b_and_difference_without_scrolling(
    narrow: Page, crowd: Crowd, tmp_path: Path
) -> None:
    other = write_run(good_run(), tmp_path / "other")
    page = tmp_path / "compare.html"
    cotenant("compare", str(other), str(crowd[0]), "--html", str(page))
    narrow.open(page)
    outside = narrow.evaluate(
        "[...document.querySelectorAll('#differences tbody tr > *')].filter((one) =>"
        f"one.getBoundingClientRect().right > {WIDTH} || one.getBoundingClientRect().width < 20).length"
    )
    assert outside == 0
    heads = narrow.evaluate(
        "[...document.querySelectorAll('#differences thead th')].map((one) => one.textContent)"
    )
    assert heads == ["stage", "metric", "A", "B", "difference", "95 % interval", ""]
    words = narrow.evaluate(
        "[...document.querySelectorAll('#differences tbody tr:first-child td')]"
        ".map((one) => getComputedStyle(one, '::before').content)"
    )
    assert [word.strip('"').strip() for word in words[1:5]] == ["A", "B", "difference", "95 % interval"]
    assert narrow.evaluate("document.documentElement.scrollWidth") == WIDTH


def test_a_long_name_of_a_stage_leaves_room_for_the_figures(
    narrow: Page, crowd: Crowd, tmp_path: Path
) -> None:
    data = data_of(crowd[1])
    data["summary"]["stages"][0]["name"] = "a-stage-with-quite-a-long-name-of-fifty-letters-in"
    narrow.open(page_with(data, tmp_path / "page.html", drawn=False))
    assert narrow.evaluate("document.querySelector('#stages-table tbody th').offsetWidth") < WIDTH / 2
