"""Whether any service of a run was on the machine that measured."""

from collections.abc import Mapping
from typing import Any

from cotenant.verdict.caveats_run import ELSEWHERE


def none_here(summary: Mapping[str, Any]) -> bool:
    """Whether no service was on the machine that measured: its CPU and GPU had no part in what was heard."""
    return any(one["kind"] == ELSEWHERE and one["tenants_here"] == 0 for one in summary["caveats"])
