"""A stage against its reference: voices paired by utterance with the baseline, the rest with their solo
window."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from cotenant.verdict.bootstrap import nearest_rank
from cotenant.verdict.columns import NULL, Floats, Ints, Streams
from cotenant.verdict.sample import Compared, Doubted, Part, put
from cotenant.verdict.stats import Bounds, paired_bounds, paired_share_bounds
from cotenant.verdict.utterances import Utterances, paired_quantiles

# It has a sign: a ratio of it says nothing.
SIGNED: Final = "headroom_p5"
NO_PAIRS: Final = "no utterance of this stage has a pair in the baseline"
_ROUNDS, _LISTENERS, _UTTERANCES = 1 << 8, 1 << 16, 1 << 24


def pairs(own: Streams, reference: Streams, *, by_round: bool) -> tuple[Ints, Ints]:
    """Positions (in `own`, in `reference`) of the utterances that both have: same load, listener and number,
    and the same round where `by_round`. Ascending in `own`."""
    loads = {name: index for index, name in enumerate(sorted({*own.load, *reference.load}))}
    keys = [_keys(streams, loads, by_round) for streams in (own, reference)]
    _, left, right = np.intersect1d(keys[0], keys[1], return_indices=True)
    there = keys[0][left] >= 0
    left, right = left[there], right[there]
    order = np.argsort(left)
    return left[order].astype(np.int64), right[order].astype(np.int64)


def compare_voices(own: Utterances, reference: Utterances, matched: tuple[Ints, Ints], tail: float) -> Part:
    """Ratios and differences of quantiles over the pairs, each with one-sided bounds of what is named `low`,
    `high`.

    A ratio is of the stage over its reference. Of headroom, which has a sign, of shares and of the stall
    ratio the bounds are those of the difference.
    """
    part = Part()
    left, right = matched
    blocks = own.blocks[left]
    for name, (path, level) in paired_quantiles().items():
        ours, theirs = own.values[path][left], reference.values[path][right]
        both = ~np.isnan(ours) & ~np.isnan(theirs)
        ratio = name != SIGNED
        unit = "" if path == "rtf" else "_ms"
        _put_pair(
            part, name, ours[both], theirs[both], blocks[both], level, ratio=ratio, unit=unit, tail=tail
        )
    _put_clean(part, own, reference, matched, tail)
    return part


def quantile_ratios(
    own: Utterances, reference: Utterances, matched: tuple[Ints, Ints]
) -> dict[str, float | None]:
    """The ratio of each compared quantile over the pairs; None where there is none."""
    left, right = matched
    found: dict[str, float | None] = {}
    for name, (path, level) in paired_quantiles().items():
        ours, theirs = own.values[path][left], reference.values[path][right]
        both = ~np.isnan(ours) & ~np.isnan(theirs)
        if name == SIGNED:
            continue
        found[name] = None
        if both.any():
            bottom = nearest_rank(theirs[both], level)
            top = nearest_rank(ours[both], level)
            if 0 < bottom < np.inf and top < np.inf:
                found[name] = round(top / bottom, 6)
    return found


def widen(part: Part, name: str, a_a_ratio: float | None, lacking: str) -> None:
    """Divides and multiplies the bounds of a ratio by max(r, 1/r), r the run's own A/A ratio of that metric.

    Without one (`lacking` says why) the run's own noise is not known, and a gate over the ratio cannot pass.
    """
    path, entry = f"{name}.ratio", part.entry[name]
    if entry.get("bounds_of") != "ratio":
        return
    if not a_a_ratio:
        part.doubts[path] = Doubted(reason=lacking)
        return
    factor = max(a_a_ratio, 1 / a_a_ratio)
    if isinstance(sample := part.samples.get(path), Compared):
        part.samples[path] = replace(sample, widened_by=factor)
    for bound, by in (("low", 1 / factor), ("high", factor)):
        if entry.get(bound) is not None:
            entry[bound] = round(entry[bound] * by, 6)


def put_bounds(part: Part, path: str, bounds: Bounds) -> None:
    """`low` and `high` under a path."""
    for leaf, value in (("low", bounds.low), ("high", bounds.high)):
        put(part, f"{path}.{leaf}", value, bounds.why or "no bound from so few")


def _keys(streams: Streams, loads: Mapping[str, int], by_round: bool) -> Ints:
    load = np.array([loads[name] for name in streams.load], dtype=np.int64)
    round_ = np.where(streams.round == NULL, 0, streams.round) % _ROUNDS if by_round else 0
    key = ((load * _ROUNDS + round_) * _LISTENERS + streams.listener) * _UTTERANCES + streams.utterance
    counted = (streams.utterance >= 0) & (streams.listener >= 0)
    return np.where(counted & (streams.listener < _LISTENERS) & (streams.utterance < _UTTERANCES), key, -1)


def _put_pair(
    part: Part,
    name: str,
    own: Floats,
    reference: Floats,
    blocks: Ints,
    level: float,
    *,
    ratio: bool,
    unit: str,
    tail: float,
) -> None:
    ours = nearest_rank(own, level) if len(own) else None
    theirs = nearest_rank(reference, level) if len(own) else None
    put_comparison(part, name, ours, theirs, ratio=ratio, unit=unit, reason=NO_PAIRS)
    part.entry[name]["n"] = len(own)
    part.entry[name]["bounds_of"] = "ratio" if ratio else "difference"
    if len(own):
        bounds = paired_bounds(own, reference, blocks, level, ratio=ratio, tail=tail)
        put_bounds(part, name, bounds)
        part.samples[f"{name}.{'ratio' if ratio else 'difference_ms'}"] = Compared(blocks=bounds.blocks)
    else:
        put(part, f"{name}.low", None, NO_PAIRS)
        put(part, f"{name}.high", None, NO_PAIRS)


def _put_clean(
    part: Part, own: Utterances, reference: Utterances, matched: tuple[Ints, Ints], tail: float
) -> None:
    left, right = matched
    ours, theirs = own.clean[left], reference.clean[right]
    size = len(left)
    shares = [float(np.count_nonzero(good)) / size if size else None for good in (ours, theirs)]
    put(part, "clean_share.own", shares[0], NO_PAIRS)
    put(part, "clean_share.reference", shares[1], NO_PAIRS)
    difference = shares[0] - shares[1] if shares[0] is not None and shares[1] is not None else None
    put(part, "clean_share.difference", difference, NO_PAIRS)
    part.entry["clean_share"]["n"] = size
    part.entry["clean_share"]["bounds_of"] = "difference"
    if size:
        bounds = paired_share_bounds(ours, theirs, own.blocks[left], tail=tail)
        put_bounds(part, "clean_share", bounds)
        part.samples["clean_share.difference"] = Compared(blocks=bounds.blocks)


def put_comparison(
    part: Part, name: str, own: float | None, reference: float | None, *, ratio: bool, unit: str, reason: str
) -> None:
    """A comparison of two numbers, without bounds; `reason` is that of a number that is missing."""
    put(part, f"{name}.own{unit}", own, reason)
    put(part, f"{name}.reference{unit}", reference, reason)
    quotient = difference = None
    lacking = reason
    if own is not None and reference is not None:
        with np.errstate(invalid="ignore"):
            difference = float(np.float64(own) - np.float64(reference))
        if np.isinf(reference):
            lacking = "the reference is infinite"
        elif reference > 0:
            quotient = own / reference
        else:
            lacking = "the reference is zero"
    if ratio:
        put(part, f"{name}.ratio", quotient, lacking)
    put(part, f"{name}.difference{unit}", difference, lacking)
