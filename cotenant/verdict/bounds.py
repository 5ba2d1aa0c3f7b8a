"""The interval of the metric that a gate reads, from the sample the metric was computed from."""

import math

from cotenant.verdict.sample import LEVELS, Exact, Part, Quantiles, Ratio, Sample, Share, number_of
from cotenant.verdict.stats import Bounds, quantile_bounds, ratio_bounds, share_bounds

# Metrics that are a quantile under another name: where their sample lies, and the level.
_NAMED: dict[str, tuple[str, float]] = {"face.fps_p5": ("face.fps", 0.05)}


def sample_of(samples: dict[str, Sample], path: str) -> tuple[Sample | None, float | None]:
    """The sample behind a path, and the level where the metric is a quantile of it."""
    if path in _NAMED:
        place, level = _NAMED[path]
        return samples.get(place), level
    if path in samples:
        return samples[path], None
    parent, _, leaf = path.rpartition(".")
    return samples.get(parent), LEVELS.get(leaf)


def bounds_of(part: Part, path: str, tail: float) -> Bounds:
    """One-sided bounds, each wrong with probability at most `tail`."""
    if path.startswith("vs_reference."):
        return _of_comparison(part, path)
    sample, level = sample_of(part.samples, path)
    if isinstance(sample, Exact):
        value, _ = number_of(part, path)
        return Bounds(low=value, high=value, n=sample.n, n_eff=float(sample.n), blocks=0)
    if isinstance(sample, Share) and len(sample.good):
        return share_bounds(sample.good, sample.blocks, tail)
    if isinstance(sample, Ratio) and len(sample.numerators) and sample.denominators.sum() > 0:
        return ratio_bounds(sample.numerators, sample.denominators, sample.blocks, tail, rare=sample.rare)
    if isinstance(sample, Quantiles) and level is not None and len(sample.values):
        return quantile_bounds(
            sample.values,
            sample.blocks,
            level,
            weights=sample.weights,
            independent=sample.independent,
            tail=tail,
        )
    if isinstance(sample, Ratio) and (size := len(sample.numerators)):
        value, _ = number_of(part, path)
        if value is not None and math.isinf(value):
            # Not one of the units was finite, so nothing of it is uncertain.
            return Bounds(low=value, high=value, n=size, n_eff=float(size), blocks=0)
    lacking = "no interval is computed for this metric" if sample is None else "no data"
    return Bounds(low=None, high=None, n=0, n_eff=0.0, blocks=0, why=lacking)


def _of_comparison(part: Part, path: str) -> Bounds:
    parent, _, leaf = path.rpartition(".")
    low, why = number_of(part, f"{parent}.low")
    high, _ = number_of(part, f"{parent}.high")
    number, _ = number_of(part, f"{parent}.n")
    place: object = part.entry
    for step in parent.split("."):
        place = place.get(step) if isinstance(place, dict) else None
    kind = place.get("bounds_of") if isinstance(place, dict) else None
    n = int(number or 0)
    if kind is None or not leaf.startswith(str(kind)):
        why = why or "no interval is computed for this metric"
        return Bounds(low=None, high=None, n=n, n_eff=float(n), blocks=0, why=why)
    return Bounds(low=low, high=high, n=n, n_eff=float(n), blocks=0, why=why)
