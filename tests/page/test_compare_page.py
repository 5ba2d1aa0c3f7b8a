"""The page of two compared runs in a real browser."""

from pathlib import Path

from cotenant.run_dir import manifest
from tests.by_hand import cotenant, write_run
from tests.page.browser import Page
from tests.page.test_page import DRAW_ALL
from tests.verdict.recordings import good_run


def test_both_runs_are_named_in_every_plot(tab: Page, crowd: tuple[Path, Path], tmp_path: Path) -> None:
    other = write_run(good_run(), tmp_path / "other")
    page = tmp_path / "compare.html"
    cotenant("compare", str(other), str(crowd[0]), "--html", str(page))
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


def test_long_names_of_what_differs_are_no_wider_than_the_window(tab: Page, tmp_path: Path) -> None:
    runs = [str(write_run(good_run(), tmp_path / name)) for name in ("a", "b")]
    told = manifest.read(tmp_path / "b")
    manifest.write(tmp_path / "b", {**told, "device": {**told["device"], "name": "x" * 500}})
    page = tmp_path / "compare.html"
    cotenant("compare", *runs, "--html", str(page))
    tab.open(page)
    assert "xxx" in tab.evaluate("document.querySelector('.notes').textContent")
    assert tab.evaluate("document.documentElement.scrollWidth") == 1280
