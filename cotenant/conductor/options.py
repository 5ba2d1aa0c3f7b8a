"""What `cotenant run` was asked for, as one frozen value: the conductor's whole input."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cotenant.verdict.summary import JudgeOptions


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """One run. `scenario` is a packaged name or a path, `overrides` are `path=value` texts, applied in order.

    The judging flags are in `overrides` too, so that the recorded player and the manifest are those that judge.
    """

    scenario: str
    overrides: tuple[str, ...]
    out: Path
    quick: bool
    judge: JudgeOptions
    inconclusive: Literal["fail", "pass"] | None
    mqtt_url: str | None
    json: bool
