"""The runs of fixtures/runs, judged as their scenarios say, each once for all tests: to be read only."""

import functools
from typing import Any

from cotenant.resources import data_dir
from cotenant.run_dir.reader import read
from cotenant.verdict.summary import JudgeOptions, judge

RUNS = tuple(path.name for path in sorted((data_dir("fixtures") / "runs").iterdir()) if path.is_dir())


@functools.cache
def judged(name: str) -> dict[str, Any]:
    """Its summary."""
    return judge(read(data_dir("fixtures") / "runs" / name), JudgeOptions())
