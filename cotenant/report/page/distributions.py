"""The `distributions` of the page's data: how the utterances of each stage are spread."""

from typing import Any, Final

import numpy as np

from cotenant.playback.arrivals import PLUS_INF_NS
from cotenant.report.page.base import Base, numbers
from cotenant.units import NS_PER_MS

# Of one metric in one stage: what a line can show.
_MOST: Final = 512


def distributions(base: Base) -> dict[str, Any]:
    """For each metric and stage the values of its utterances, at most 512 quantiles of them."""
    played = base.facts.voices.played
    metrics: dict[str, dict[str, Any]] = {}
    for metric in ("ttfa_ms", "playback_ms", "headroom_ms", "chunk_gap_max_ms", "stall_ms"):
        metrics[metric] = {}
        for stage in _paired_order(base):
            own = base.own[stage]
            if metric == "stall_ms":
                total = played.stall_total_ns[own.rows]
                heard = played.began[own.rows]
                value = np.where(heard, np.minimum(total, PLUS_INF_NS) / NS_PER_MS, np.inf)
            else:
                value = own.values["time_to_playback_ms" if metric == "playback_ms" else metric]
            metrics[metric][stage] = spread(value[~np.isnan(value)])
    return metrics


def _paired_order(base: Base) -> list[str]:
    """The stages in order, the closing baseline right after the first."""
    names = [stage.name for stage in base.stages if stage.name in base.own]
    again = base.facts.plan.again
    if again is not None and again.name in names and base.facts.plan.baseline is not None:
        names.remove(again.name)
        if base.facts.plan.baseline.name in names:
            names.insert(names.index(base.facts.plan.baseline.name) + 1, again.name)
    return names


def spread(values: Any) -> dict[str, Any]:
    """Sorted values, or as many quantiles of them; infinities, which `n` counts too, apart."""
    finite = np.sort(values[np.isfinite(values)])
    shown = finite
    if len(finite) > _MOST:
        ranks = (np.arange(_MOST) + 0.5) / _MOST * len(finite)
        shown = finite[np.minimum(ranks.astype(np.int64), len(finite) - 1)]
    return {
        "values": numbers(shown, 2),
        "n": len(values),
        "infinite": {
            "plus": int(np.count_nonzero(values == np.inf)),
            "minus": int(np.count_nonzero(values == -np.inf)),
        },
    }
