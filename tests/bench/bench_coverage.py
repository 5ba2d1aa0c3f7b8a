"""How often the one-sided 95 % bounds hold, and how wide they are, for streams that stall together.

    python -m tests.bench.bench_coverage [TRIALS] [shares | quantiles | stalls | comparisons]

Utterances of one time block are correlated by ICC. A row is a design (time blocks, utterances in each, ICC);
`low` and `high` are the lowest coverage of each bound over all values of the design, in %, `width` the mean
distance of the bounds over the values (of those that are bounded at all). The worst row of all is said last.
"""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cotenant.verdict.stats import Bounds, Rare, paired_bounds, quantile_bounds, ratio_bounds, share_bounds

Floats = NDArray[np.float64]
Draw = Callable[[], tuple[Bounds, float]]

CORRELATIONS = (0.0, 0.05, 0.1, 0.2)
SHARES = (0.5, 0.9, 0.95, 0.98, 0.995)
# Normal quantiles of the levels that are bounded.
LEVELS = {0.5: 0.0, 0.95: 1.6448536269514722}
_SPREAD = 0.5
_STALL_SPREAD = 0.7


@dataclass(slots=True)
class Tally:
    """Bounds that held, of a number of trials, and the distance of those that are finite on both sides."""

    trials: int = 0
    low: int = 0
    high: int = 0
    widths: list[float] = field(default_factory=list)

    def add(self, bounds: Bounds, true: float) -> None:
        assert bounds.low is not None
        assert bounds.high is not None
        self.trials += 1
        self.low += bounds.low <= true + 1e-12
        self.high += bounds.high >= true - 1e-12
        if np.isfinite(bounds.low) and np.isfinite(bounds.high):
            self.widths.append(bounds.high - bounds.low)


def _hits(generator: np.random.Generator, share: float, blocks: int, size: int, icc: float) -> Floats:
    """Zeros and ones by unit: the share of a block is drawn from a beta distribution."""
    if icc == 0:
        return (generator.random(blocks * size) < share).astype(np.float64)
    total = 1 / icc - 1
    of_block = generator.beta(share * total, (1 - share) * total, blocks)
    return (generator.random(blocks * size) < np.repeat(of_block, size)).astype(np.float64)


def _latencies(generator: np.random.Generator, blocks: int, size: int, icc: float) -> Floats:
    """Lognormal, half of the median apart by one standard deviation."""
    shared = np.repeat(generator.normal(size=blocks), size)
    own = generator.normal(size=blocks * size)
    values: Floats = np.exp(_SPREAD * (np.sqrt(icc) * shared + np.sqrt(1 - icc) * own))
    return values


def shares(generator: np.random.Generator, blocks: int, size: int, icc: float) -> Iterator[tuple[str, Draw]]:
    """Shares of clean utterances."""
    index = np.repeat(np.arange(blocks), size)
    for share in SHARES:

        def draw(share: float = share) -> tuple[Bounds, float]:
            return share_bounds(_hits(generator, share, blocks, size, icc) > 0, index), share

        yield f"{share:g}", draw


def quantiles(
    generator: np.random.Generator, blocks: int, size: int, icc: float
) -> Iterator[tuple[str, Draw]]:
    """p50 and p95 of latencies, in units of the median."""
    index = np.repeat(np.arange(blocks), size)
    for level, z in LEVELS.items():

        def draw(level: float = level, z: float = z) -> tuple[Bounds, float]:
            values = _latencies(generator, blocks, size, icc)
            return quantile_bounds(values, index, level), float(np.exp(_SPREAD * z))

        yield f"p{100 * level:g}", draw


def comparisons(
    generator: np.random.Generator, blocks: int, size: int, icc: float
) -> Iterator[tuple[str, Draw]]:
    """Ratio of two p50 of utterances paired across stages that share half of their spread."""
    index = np.repeat(np.arange(blocks), size)

    def draw() -> tuple[Bounds, float]:
        both = np.sqrt(_latencies(generator, 1, blocks * size, 0.0))
        own = 2 * both * _latencies(generator, blocks, size, icc)
        reference = both * _latencies(generator, blocks, size, icc)
        return paired_bounds(own, reference, index, 0.5, ratio=True), 2.0

    yield "ratio of p50", draw


def stalls(generator: np.random.Generator, blocks: int, size: int, icc: float) -> Iterator[tuple[str, Draw]]:
    """Stall ratios: few utterances stall, for a tenth of their length (lognormal)."""
    index = np.repeat(np.arange(blocks), size)
    for share in (0.005, 0.02, 0.1):

        def draw(share: float = share) -> tuple[Bounds, float]:
            lengths = generator.uniform(3, 7, blocks * size)
            each = generator.lognormal(-(_STALL_SPREAD**2) / 2, _STALL_SPREAD, blocks * size) * 5 / 10
            stalled = _hits(generator, share, blocks, size, icc) * each
            rare = Rare(size=float(lengths.mean()) / 10)
            return ratio_bounds(stalled, lengths, index, rare=rare), share / 10

        yield f"{share:g} stall", draw


def cover(of: Callable[..., Iterator[tuple[str, Draw]]], trials: int) -> None:
    """Prints a row a design, and the worst."""
    print(of.__doc__)
    print("blocks  each   ICC    low   high   width  bounded")
    worst = (101.0, "")
    generator = np.random.default_rng(7)
    for blocks in (6, 12, 30, 60):
        for size in (5, 20):
            for icc in CORRELATIONS:
                tallies = {}
                for value, draw in of(generator, blocks, size, icc):
                    tally = tallies[value] = Tally()
                    for _ in range(trials):
                        tally.add(*draw())
                    held = 100 * min(tally.low, tally.high) / trials
                    worst = min(worst, (held, f"{value}, {blocks} blocks of {size}, ICC {icc:g}"))
                low, high = (
                    100 * min(getattr(tally, side) for tally in tallies.values()) / trials
                    for side in ("low", "high")
                )
                widths = [width for tally in tallies.values() for width in tally.widths]
                bounded = 100 * len(widths) / (trials * len(tallies))
                print(
                    f"{blocks:>6}  {size:>4}  {icc:>4.2f}  {low:>5.1f}  {high:>5.1f}  "
                    f"{np.mean(widths) if widths else np.nan:>6.3f}  {bounded:>5.0f} %"
                )
    print(f"lowest: {worst[0]:.1f} % ({worst[1]})\n")


def main() -> None:
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    for of in (shares, quantiles, stalls, comparisons):
        if len(sys.argv) < 3 or of.__name__ == sys.argv[2]:
            cover(of, trials)


if __name__ == "__main__":
    main()
