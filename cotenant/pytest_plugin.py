"""The pytest fixture `cotenant_run`, and what a test that used it shows where it fails.

Nothing of cotenant is imported before a test asks for it.
"""

from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from cotenant.api import Run
    from cotenant.live.progress import PlainProgress

FIXTURE: Final = "cotenant_run"
# Of each run that a test of this session opened, in turn: its folder and the options it was judged with.
_OPENED: Final = pytest.StashKey[list[tuple[Path, dict[str, Any]]]]()
# How many there were when a test began.
_BEFORE: Final = pytest.StashKey[int]()
_MOST_RUNS: Final = 3
_WIDTH: Final = 120


@pytest.fixture(scope="session")
def cotenant_run(
    tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> "Callable[..., Run]":
    """`cotenant_run(SCENARIO or RUN, **options)` -> `cotenant.api.Run`.

    A directory is opened as a recorded run; anything else is run as a scenario, once a session for the same
    options. `options` are those of `cotenant.open_run`, and for a scenario `overrides` (as `--set`), `quick`
    and `out` (the run directory is made in it; a temporary one unless given). How the run goes on is told on
    the terminal (not with `-q`); a test that fails shows the table, why, and where the run is.
    """
    recorded: dict[str, Path] = {}
    opened = pytestconfig.stash.setdefault(_OPENED, [])

    def run(
        scenario: str | Path,
        *,
        overrides: Sequence[str] = (),
        quick: bool = False,
        out: Path | None = None,
        **options: Any,
    ) -> "Run":
        from cotenant.api import open_run

        if _is_run(scenario):
            if overrides or quick or out:
                raise TypeError("overrides, quick and out are for a scenario, not for a recorded run")
            path = Path(scenario)
        else:
            key = repr((str(scenario), tuple(overrides), quick, str(out), sorted(options.items())))
            if key not in recorded:
                folder = tmp_path_factory.mktemp("cotenant") if out is None else out
                recorded[key] = _record(str(scenario), overrides, quick, folder, options, pytestconfig)
            path = recorded[key]
        found = open_run(path, **options)
        opened.append((path, options))
        return found

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remembers what was opened before this test."""
    item.stash[_BEFORE] = len(item.config.stash.get(_OPENED, []))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, Any, None]:
    """Adds the runs of a test to the report of its failure."""
    outcome = yield
    report = outcome.get_result()
    if report.failed and FIXTURE in getattr(item, "fixturenames", ()):
        # pytest-xdist's workers have no terminal.
        reporter = item.config.pluginmanager.get_plugin("terminalreporter")
        width = _WIDTH if reporter is None else item.config.get_terminal_writer().fullwidth
        report.sections += [("cotenant", _told(path, options, width)) for path, options in _runs_of(item)]


def _runs_of(item: pytest.Item) -> list[tuple[Path, dict[str, Any]]]:
    """Those that the test opened; of one that got its run from a fixture, those of the session."""
    opened = item.config.stash.get(_OPENED, [])
    own = opened[item.stash.get(_BEFORE, 0) :] or opened
    last = {repr(one): one for one in own}
    return list(last.values())[-_MOST_RUNS:]


def _told(path: Path, options: dict[str, Any], width: int) -> str:
    """The table of a run, why it is so, and where it is."""
    import shlex

    from cotenant.api import open_run
    from cotenant.report.console import render

    try:
        run = open_run(path, **options)
        told = render(run.summary.raw, run.manifest, width)
    except Exception as error:  # noqa: BLE001 - whatever it is, the test's own failure must be seen
        told = f"it cannot be judged: {error}\n"
    page: Path | str = path / "report.html"
    if not (path / "report.html").exists():
        page = f"cotenant report {shlex.quote(str(path))} writes it"
    return f"{told}\nrun    {path}\npage   {page}"


def _is_run(scenario: str | Path) -> bool:
    """A folder, unless a name of a scenario happens to be one of a folder that holds no run."""
    path = Path(scenario)
    named = isinstance(scenario, Path) or path.name != scenario
    return path.is_dir() and (named or (path / "manifest.json").exists())


def _record(
    scenario: str,
    overrides: Sequence[str],
    quick: bool,
    out: Path,
    options: dict[str, Any],
    config: pytest.Config,
) -> Path:
    """Runs a scenario as `cotenant run` does. Raises UserError, CouldNotRun where it was not completed."""
    from cotenant.conductor.prepare import prepare
    from cotenant.conductor.run import record
    from cotenant.errors import CouldNotRun
    from cotenant.verdict.options import read_options, scenario_overrides

    judging = scenario_overrides(read_options(**options))
    progress = _progress(config)
    resolved, device = prepare(scenario, (*overrides, *judging), quick=quick, tell=progress.line)
    done = record(resolved, device=device, out=out, make_progress=lambda: progress)
    progress.line(f"run    {done.run_dir}")
    if done.signal is not None:
        raise KeyboardInterrupt
    if done.status != "complete":
        raise CouldNotRun(f"{scenario} was not completed: {done.why}; what was recorded is in {done.run_dir}")
    return done.run_dir


def _progress(config: pytest.Config) -> "PlainProgress":
    """A line for each stage past pytest's capture: a ladder takes minutes. With `-q`, or where there is no
    terminal of this process (pytest-xdist), into what is captured."""
    import sys

    from cotenant.live.progress import PlainProgress

    reporter = config.pluginmanager.get_plugin("terminalreporter")
    capture = config.pluginmanager.get_plugin("capturemanager")
    if reporter is None or capture is None or config.option.verbose < 0:
        return PlainProgress(lambda text: print(text, file=sys.stderr))  # noqa: T201 - pytest keeps it

    def write(text: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.ensure_newline()
            reporter.write_line(f"cotenant: {text}")

    return PlainProgress(write)
