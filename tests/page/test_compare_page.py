"""The page of two compared runs in a real browser."""

from pathlib import Path

import pytest

from cotenant.cli.app import make_app
from tests.page.browser import Page
from tests.page.runs import write_run
from tests.page.test_page import DRAW_ALL
from tests.verdict.recordings import good_run


def test_both_runs_are_named_in_every_plot(tab: Page, crowd: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_run(good_run(), tmp_path / "other")
    page = tmp_path / "compare.html"
    with pytest.raises(SystemExit):
        make_app()(["compare", str(other), str(crowd[0]), "--html", str(page)], prog_name="cotenant")
    tab.open(page)
    assert tab.evaluate(DRAW_ALL) >= 4
    names = tab.evaluate(
        "PLOTS.map((plot) => [...plot.box.querySelectorAll('.legendtext')]"
        ".map((one) => one.textContent[0]).join(''))"
    )
    assert set(names) == {"AB"}
    bare = tab.evaluate(
        "PLOTS.filter((plot) => { plot.fold.open = true; plot.fillTable();"
        "return !plot.fold.querySelector('tbody tr'); }).length"
    )
    assert bare == 0
