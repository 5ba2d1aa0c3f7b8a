"""The pytest fixture `cotenant_run`. Nothing of cotenant is imported before a test asks for it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cotenant.api import Run


@pytest.fixture(scope="session")
def cotenant_run(tmp_path_factory: pytest.TempPathFactory) -> "Callable[..., Run]":
    """`cotenant_run(SCENARIO or RUN, **options)` -> `cotenant.api.Run`.

    A directory is opened as a recorded run; anything else is run as a scenario, once a session for the same
    options. `options` are those of `cotenant.open_run`, and for a scenario `overrides` (as `--set`), `quick`
    and `out` (the run directory is made in it; a temporary one unless given).
    """
    recorded: dict[str, Path] = {}

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
            return open_run(scenario, **options)
        key = repr((str(scenario), tuple(overrides), quick, str(out), sorted(options.items())))
        if key not in recorded:
            folder = tmp_path_factory.mktemp("cotenant") if out is None else out
            recorded[key] = _record(str(scenario), overrides, quick, folder, options)
        return open_run(recorded[key], **options)

    return run


def _is_run(scenario: str | Path) -> bool:
    """A folder, unless a name of a scenario happens to be one of a folder that holds no run."""
    path = Path(scenario)
    named = isinstance(scenario, Path) or path.name != scenario
    return path.is_dir() and (named or (path / "manifest.json").exists())


def _record(scenario: str, overrides: Sequence[str], quick: bool, out: Path, options: dict[str, Any]) -> Path:
    """Runs a scenario as `cotenant run` does. Raises UserError, CouldNotRun where it was not completed."""
    from rich.console import Console

    from cotenant.conductor.prepare import prepare
    from cotenant.conductor.run import record
    from cotenant.errors import CouldNotRun
    from cotenant.live.progress import progress_for
    from cotenant.verdict.options import read_options, scenario_overrides

    judging = scenario_overrides(read_options(**options))
    resolved, device = prepare(scenario, (*overrides, *judging), quick=quick)
    console = Console(stderr=True, highlight=False)
    done = record(resolved, device=device, out=out, make_progress=lambda: progress_for(console))
    if done.signal is not None:
        raise KeyboardInterrupt
    if done.status != "complete":
        raise CouldNotRun(f"{scenario} was not completed: {done.why}")
    return done.run_dir
