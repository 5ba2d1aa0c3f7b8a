"""Whether the one-sided 95 % bounds hold as often as they promise, for streams that stall together.

python -m tests.bench.bench_coverage [TRIALS]
"""

import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np

from cotenant.verdict.stats import Bounds, quantile_bounds, ratio_bounds, share_bounds


def coverage(trials: int = 1000) -> None:
    """Share of one-sided 95 % bounds that hold, and their mean distance, for streams that stall together."""
    generator = np.random.default_rng(7)
    for blocks, per_block in ((6, 14), (12, 20), (30, 10)):
        _cover_share(generator, blocks, per_block, trials)
        _cover_values(generator, blocks, per_block, trials)


def _cover_share(generator: np.random.Generator, blocks: int, per_block: int, trials: int) -> None:
    index = np.repeat(np.arange(blocks), per_block)
    for share, together in ((0.95, 2.0), (0.9, 4.0), (0.7, 4.0)):
        # The share of a block is drawn from a beta distribution: intra-block correlation 1 / (1 + a + b).
        a, b = share * together * 5, (1 - share) * together * 5
        held = {"low": 0, "high": 0}
        width = 0.0
        for _ in range(trials):
            good = generator.random(len(index)) < generator.beta(a, b, blocks)[index]
            bounds = share_bounds(good, index)
            assert bounds.low is not None
            assert bounds.high is not None
            held["low"] += bounds.low <= share
            held["high"] += bounds.high >= share
            width += bounds.high - bounds.low
        _say(f"share {share:.2f}", blocks, per_block, held, trials, width)


def _cover_values(generator: np.random.Generator, blocks: int, per_block: int, trials: int) -> None:
    index = np.repeat(np.arange(blocks), per_block)
    true = {0.5: 0.0, 0.95: 1.6448536 * 2**0.5}
    cases: list[tuple[str, float, Callable[[Any], Bounds]]] = [
        (f"p{round(level * 100)}", value, partial(quantile_bounds, blocks=index, level=level))
        for level, value in true.items()
    ]
    cases.append(("mean", 0.0, partial(ratio_bounds, denominators=np.ones(len(index)), blocks=index)))
    for name, value, bounds_of in cases:
        held = {"low": 0, "high": 0}
        width, bounded = 0.0, 0
        for _ in range(trials):
            shared = generator.normal(size=blocks)[index]
            bounds = bounds_of(shared + generator.normal(size=len(index)))
            assert bounds.low is not None
            assert bounds.high is not None
            held["low"] += bounds.low <= value
            held["high"] += bounds.high >= value
            if np.isfinite(bounds.high) and np.isfinite(bounds.low):
                width += bounds.high - bounds.low
                bounded += 1
        _say(name, blocks, per_block, held, trials, width * trials / max(1, bounded))


def _say(name: str, blocks: int, per_block: int, held: Mapping[str, int], trials: int, width: float) -> None:
    print(
        f"{name:<11} {blocks:>2} blocks of {per_block:>2}: low holds {100 * held['low'] / trials:.1f} %, "
        f"high {100 * held['high'] / trials:.1f} %, mean width {width / trials:.3f}"
    )


def main() -> None:
    coverage(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)


if __name__ == "__main__":
    main()
