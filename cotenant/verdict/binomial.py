"""Tails of the binomial, beta and t distributions without scipy: what exact bounds of a share need."""

import math
from functools import lru_cache
from typing import Final

_TINY: Final = 1e-300
_STEPS: Final = 10_000


# Orders and bounds of many stages and lookaheads ask for the same few values.
@lru_cache(maxsize=1 << 14)
def beta_cdf(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b) for a, b > 0, to about 1e-13.

    By its continued fraction (NIST DLMF 8.17.22) in Lentz's form, on the side where it converges fast.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    if x < (a + 1) / (a + b + 2):
        return front * _fraction(x, a, b) / a
    return 1.0 - front * _fraction(1 - x, b, a) / b


@lru_cache(maxsize=1 << 12)
def beta_quantile(share: float, a: float, b: float) -> float:
    """The x with I_x(a, b) = share, by Newton's steps, and by halving where one leaves what holds it."""
    low, high = 0.0, 1.0
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    x = a / (a + b)
    for _ in range(200):
        miss = beta_cdf(x, a, b) - share
        if miss < 0:
            low = x
        else:
            high = x
        slope = math.exp(front + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x)) if 0 < x < 1 else 0.0
        step = x - miss / slope if slope > _TINY else low
        former, x = x, step if low < step < high else (low + high) / 2
        if abs(x - former) <= 1e-15 * x or x in (0.0, 1.0):
            break
    return x


def at_most(successes: int, n: float, share: float) -> float:
    """P(X <= successes) for X binomial over `n` trials; `n` may be an effective, fractional number."""
    if successes < 0:
        return 0.0
    if successes >= n:
        return 1.0
    return beta_cdf(1 - share, n - successes, successes + 1)


def clopper_pearson(successes: float, n: float, tail: float) -> tuple[float, float]:
    """One-sided exact bounds (low, high) of a share, each wrong with probability at most `tail`.

    Clopper and Pearson 1934; fractional arguments as survey statistics use them (Korn and Graubard 1998).
    """
    low = 0.0 if successes <= 0 else beta_quantile(tail, successes, n - successes + 1)
    high = 1.0 if successes >= n else beta_quantile(1 - tail, successes + 1, n - successes)
    return low, high


def t_quantile(share: float, degrees: float) -> float:
    """Quantile of Student's t, through the beta distribution."""
    if share < 0.5:
        return -t_quantile(1 - share, degrees)
    x = beta_quantile(2 * (1 - share), degrees / 2, 0.5)
    return math.sqrt(degrees * (1 - x) / x)


def normal_cdf(z: float) -> float:
    """The standard normal distribution function."""
    return 0.5 * math.erfc(-z / math.sqrt(2))


def _fraction(x: float, a: float, b: float) -> float:
    result = c = 1.0
    d = _inverse(1 - (a + b) * x / (a + 1))
    result = d
    for m in range(1, _STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        d, c = _inverse(1 + even * d), _solid(1 + even / c)
        result *= d * c
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        d, c = _inverse(1 + odd * d), _solid(1 + odd / c)
        result *= d * c
        if abs(d * c - 1) < 1e-15:
            break
    return result


def _solid(value: float) -> float:
    return value if abs(value) > _TINY else _TINY


def _inverse(value: float) -> float:
    return 1 / _solid(value)
