"""A tab of a real browser for each test, and pages that several tests look at."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.by_hand import write_run
from tests.page.browser import Page, browser, chromium
from tests.page.runs import data_of, page_of, page_with
from tests.verdict.recordings import good_run


@pytest.fixture(autouse=True)
def _no_child_left() -> None:
    """Nothing is started here but the browser, whose processes come and go until the folder's last test."""


@pytest.fixture(scope="package")
def chrome() -> Iterator[Page]:
    """One browser for all tests of this folder: starting one takes longer than most of them."""
    if chromium() is None:
        pytest.skip("no Chromium here: apt-get install chromium")
    with browser() as page:
        yield page


@pytest.fixture
def tab(chrome: Page) -> Iterator[Page]:
    """A tab of its own that must not complain and must not ask for anything outside its file."""
    chrome.attach()
    try:
        chrome.look()
        yield chrome
        chrome.evaluate("1")  # reads what the browser still had to say
        assert chrome.complaints == []
        outside = [url for url in chrome.asked if not url.startswith(("file:", "data:", "about:", "blob:"))]
        assert outside == []
    finally:
        chrome.detach()


@pytest.fixture(scope="session")
def crowd(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The run and the page of a baseline that is clean and a crowd in which every second utterance has one
    chunk 1300 ms late."""
    run = write_run(good_run(late_ms=1300.0, share=0.5), tmp_path_factory.mktemp("crowd") / "run")
    return run, page_of(run)


@pytest.fixture(scope="session")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run whose lateness some lookaheads mend, some do not, and some leave undecided."""
    run = write_run(good_run(late_ms=700.0, share=0.5), tmp_path_factory.mktemp("mixed") / "run")
    return run, page_of(run)


@pytest.fixture(scope="session")
def blank_crowd(crowd: tuple[Path, Path]) -> tuple[Path, Path]:
    """The same, its plots left blank."""
    run, page = crowd
    return run, page_with(data_of(page), run.parent / "blank.html", drawn=False)


@pytest.fixture(scope="session")
def blank_mixed(mixed: tuple[Path, Path]) -> tuple[Path, Path]:
    """The same, its plots left blank."""
    run, page = mixed
    return run, page_with(data_of(page), run.parent / "blank.html", drawn=False)
