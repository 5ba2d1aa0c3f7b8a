"""Tails of the binomial and its relatives: published numbers, and scipy where it is installed."""

import math

import pytest

from cotenant.verdict.binomial import at_most, beta_cdf, clopper_pearson, normal_cdf, t_quantile

# To claim a share of good ones with 95 % confidence: this many units with so many bad ones.
CLAIMS = [(0.95, 0, 59), (0.95, 1, 93), (0.95, 2, 124), (0.99, 0, 299), (0.99, 1, 473), (0.99, 2, 628)]


@pytest.mark.parametrize(("share", "bad", "n"), CLAIMS)
def test_the_smallest_number_that_proves_a_share(share: float, bad: int, n: int) -> None:
    assert clopper_pearson(n - bad, n, 0.05)[0] >= share
    assert clopper_pearson(n - 1 - bad, n - 1, 0.05)[0] < share


def test_bounds_at_the_ends() -> None:
    assert clopper_pearson(0, 10, 0.05)[0] == 0.0
    assert clopper_pearson(10, 10, 0.05)[1] == 1.0
    assert clopper_pearson(0, 10, 0.05)[1] == pytest.approx(1 - 0.05 ** (1 / 10), abs=1e-12)


def test_binomial_tail_against_a_sum() -> None:
    n, share = 23, 0.3
    for successes in range(-1, n + 1):
        direct = sum(math.comb(n, k) * share**k * (1 - share) ** (n - k) for k in range(successes + 1))
        assert at_most(successes, n, share) == pytest.approx(direct, abs=1e-12)


def test_t_and_normal_have_their_table_values() -> None:
    assert t_quantile(0.975, 5) == pytest.approx(2.570582, abs=1e-6)
    assert t_quantile(0.05, 10) == pytest.approx(-1.812461, abs=1e-6)
    assert normal_cdf(1.959963985) == pytest.approx(0.975, abs=1e-9)


def test_beta_agrees_with_scipy() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for a in (0.3, 1.0, 7.5, 59.0, 400.0, 50_000.0):
        for b in (0.5, 1.0, 12.0, 700.0):
            for x in (1e-6, 0.01, 0.3, 0.5, 0.95, 0.9999):
                assert beta_cdf(x, a, b) == pytest.approx(float(stats.beta.cdf(x, a, b)), abs=1e-9)
    for successes, n in ((3, 10), (57, 59), (0.4, 7.3), (950.5, 1000.25)):
        low, high = clopper_pearson(successes, n, 0.05)
        assert low == pytest.approx(float(stats.beta.ppf(0.05, successes, n - successes + 1)), abs=1e-9)
        assert high == pytest.approx(float(stats.beta.ppf(0.95, successes + 1, n - successes)), abs=1e-9)
