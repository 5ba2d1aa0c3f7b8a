"""Which services of a run were on another machine, and whether any was on this one."""

from collections.abc import Mapping
from typing import Any

from cotenant.verdict.caveats_run import ELSEWHERE


def none_here(summary: Mapping[str, Any]) -> bool:
    """Whether no service was on the machine that measured: its CPU and GPU had no part in what was heard."""
    return any(one["kind"] == ELSEWHERE and one["tenants_here"] == 0 for one in summary["caveats"])


def names(manifest: Mapping[str, Any]) -> list[str]:
    """The tenants that were on another machine."""
    tenants = manifest.get("tenants")
    items = tenants.items() if isinstance(tenants, Mapping) else ()
    return [str(name) for name, told in items if isinstance(told, Mapping) and told.get("elsewhere") is True]
