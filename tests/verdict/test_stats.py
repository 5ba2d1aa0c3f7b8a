"""Quantiles and intervals: ranks by hand, sample sizes from the books, coverage by simulation."""

import numpy as np
import pytest

from cotenant.verdict.bootstrap import nearest_rank
from cotenant.verdict.effective_size import design_effect, least_effect
from cotenant.verdict.stats import (
    Rare,
    order_bounds,
    paired_bounds,
    paired_share_bounds,
    quantile_bounds,
    ratio_bounds,
    share_bounds,
)


def test_nearest_rank_is_a_recorded_value() -> None:
    values = np.array([3.0, 1.0, 2.0, 4.0])
    assert nearest_rank(values, 0.5) == 2.0
    assert nearest_rank(values, 0.75) == 3.0
    assert nearest_rank(values, 0.76) == 4.0
    assert nearest_rank(values, 0.05) == 1.0
    assert nearest_rank(np.arange(1.0, 101.0), 0.95) == 95.0
    assert nearest_rank(np.array([1.0, np.inf]), 0.95) == np.inf


def test_nearest_rank_agrees_with_numpy() -> None:
    generator = np.random.default_rng(1)
    for size in range(1, 60):
        values = generator.normal(size=size)
        for level in (0.05, 0.5, 0.95, 0.99):
            assert nearest_rank(values, level) == np.quantile(values, level, method="inverted_cdf")


def test_weights_count_like_copies() -> None:
    values, copies = np.array([5.0, 1.0, 9.0]), np.array([2, 3, 1])
    for level in (0.05, 0.4, 0.5, 0.51, 0.84, 0.99):
        assert nearest_rank(values, level, copies.astype(float)) == nearest_rank(
            np.repeat(values, copies), level
        )


def test_a_p95_has_an_upper_bound_from_59_on_and_a_p99_from_299() -> None:
    for level, least in ((0.95, 59), (0.99, 299)):
        values = np.arange(float(least))
        assert order_bounds(values, level, least)[1] == least - 1
        assert order_bounds(values[:-1], level, least - 1)[1] == np.inf
    assert order_bounds(np.arange(59.0), 0.05, 59)[0] == 0.0
    assert order_bounds(np.arange(58.0), 0.05, 58)[0] == -np.inf


def test_order_bounds_have_the_ranks_of_the_binomial() -> None:
    stats = pytest.importorskip("scipy.stats", reason="scipy is not installed")
    for size in (60, 100, 250):
        low, high = order_bounds(np.arange(1.0, size + 1), 0.95, size)
        assert low == stats.binom.ppf(0.05, size, 0.95)
        assert high == stats.binom.ppf(0.95, size, 0.95) + 1


def test_design_effect_of_blocks_that_agree_is_their_size() -> None:
    blocks = np.repeat(np.arange(40), 10)
    together = np.repeat(np.arange(40) % 2 == 0, 10)
    assert design_effect(together, blocks) == pytest.approx(10 * 40 / 39)
    apart = np.tile(np.arange(10) % 2 == 0, 40)
    assert design_effect(apart, blocks) == 1.0
    assert design_effect(np.ones(400, dtype=bool), blocks) == 1.0


def test_clustered_shares_are_less_certain() -> None:
    blocks = np.repeat(np.arange(40), 10)
    bad_together, bad_apart = np.ones(400, dtype=bool), np.ones(400, dtype=bool)
    bad_together[:20] = False
    bad_apart[::20] = False
    narrow, wide = share_bounds(bad_apart, blocks), share_bounds(bad_together, blocks)
    # 20 bad ones of 400, blocks of 10: not enough to tell that they do not go together.
    assert narrow.n_eff == pytest.approx(400 / least_effect(20, 10)) == pytest.approx(400 / 1.9)
    assert wide.n_eff < 60
    assert wide.low is not None
    assert narrow.low is not None
    assert wide.low < narrow.low


def test_units_of_the_rarer_kind_tell_how_far_blocks_go_together() -> None:
    """40 of them are believed; none, and all that is assumed is a correlation of 0.1."""
    assert least_effect(0, 11) == 2.0
    assert least_effect(40, 11) == 2.0
    assert least_effect(400, 11) == pytest.approx(1.1)
    assert least_effect(0, 1) == least_effect(0, 0.5) == 1.0
    blocks = np.repeat(np.arange(12), 11)
    clean = share_bounds(np.ones(132, dtype=bool), blocks)
    assert clean.n_eff == 66
    assert clean.high == 1.0
    assert clean.low == pytest.approx(0.05 ** (1 / 66))


def test_six_blocks_of_clean_units_prove_no_95_percent() -> None:
    for size in (10, 100, 300):
        low = share_bounds(np.ones(6 * size, dtype=bool), np.repeat(np.arange(6), size)).low
        assert low is not None
        assert low < 0.95


def test_overlapping_units_count_once() -> None:
    blocks = np.repeat(np.arange(20), 100)
    values = np.arange(2000.0) % 100
    whole = quantile_bounds(values, blocks, 0.5)
    sliding = quantile_bounds(values, blocks, 0.5, independent=200)
    assert sliding.n_eff == pytest.approx(200 / least_effect(100, 10))
    assert whole.n_eff > sliding.n_eff


def test_what_was_never_seen_is_bounded_by_its_assumed_size() -> None:
    blocks, lengths = np.repeat(np.arange(12), 11), np.full(132, 4.0)
    none = ratio_bounds(np.zeros(132), lengths, blocks, rare=Rare(size=0.4))
    assert (none.low, none.n_eff) == (0.0, 66)
    assert none.high == pytest.approx((1 - 0.05 ** (1 / 66)) * 0.1)
    assert ratio_bounds(np.zeros(132), lengths, blocks).high == 0.0


def test_one_seen_may_have_been_a_small_one() -> None:
    blocks, lengths = np.repeat(np.arange(12), 11), np.full(132, 4.0)
    seen = np.where(np.arange(132) == 50, 2.0, 0.0)
    sized, alike = (
        ratio_bounds(seen, lengths, blocks, rare=Rare(size=0.4, varies=varies)).high
        for varies in (True, False)
    )
    assert sized is not None
    assert alike is not None
    assert sized > 3 * alike > 3 * 2.0 / (4 * 132)


def test_pairs_that_never_changed_may_yet() -> None:
    clean, blocks = np.ones(132, dtype=bool), np.repeat(np.arange(12), 11)
    bounds = paired_share_bounds(clean, clean, blocks)
    assert bounds.low == pytest.approx(-(1 - 0.05 ** (1 / 66)))
    assert bounds.high == pytest.approx(1 - 0.05 ** (1 / 66))


def test_fewer_than_six_blocks_have_no_interval() -> None:
    values, blocks = np.arange(100.0), np.arange(100) // 20
    bounds = quantile_bounds(values, blocks, 0.95)
    assert bounds.low is None
    assert bounds.high is None
    assert "5 time blocks" in bounds.why
    assert ratio_bounds(values, values, blocks).high is None


def test_a_quantile_is_never_bounded_tighter_than_by_order_statistics() -> None:
    values, blocks = np.arange(120.0), np.arange(120) // 10
    bounds = quantile_bounds(values, blocks, 0.5)
    low, high = order_bounds(values, 0.5, bounds.n_eff)
    assert bounds.low is not None
    assert bounds.high is not None
    assert bounds.low <= low
    assert bounds.high >= high


def test_the_same_input_gives_the_same_bounds() -> None:
    generator = np.random.default_rng(2)
    values, blocks = generator.normal(size=300), np.arange(300) // 20
    assert quantile_bounds(values, blocks, 0.95) == quantile_bounds(values.copy(), blocks.copy(), 0.95)


def test_a_constant_ratio_is_certain() -> None:
    reference = np.arange(1.0, 101.0)
    bounds = paired_bounds(reference * 2, reference, np.arange(100) // 10, 0.95, ratio=True)
    assert (bounds.low, bounds.high) == (2.0, 2.0)
    bounds = paired_bounds(reference + 3, reference, np.arange(100) // 10, 0.95, ratio=False)
    assert (bounds.low, bounds.high) == (3.0, 3.0)


def test_weights_reach_the_bootstrap() -> None:
    values = np.where(np.arange(200) % 10 == 0, 100.0, 1.0)
    heavy = np.where(values == 100.0, 99.0, 1.0)
    blocks = np.arange(200) // 20
    assert quantile_bounds(values, blocks, 0.5).high == 1.0
    assert quantile_bounds(values, blocks, 0.5, weights=heavy).high == 100.0


def test_one_sided_bounds_of_clustered_streams_cover_as_promised() -> None:
    """12 blocks of 20 streams that share a delay: at most about 5 % (and noise) of the bounds may miss."""
    generator = np.random.default_rng(3)
    blocks = np.repeat(np.arange(12), 20)
    trials, missed, missed_ratio = 150, 0, 0
    for _ in range(trials):
        shared = np.repeat(generator.normal(size=12), 20)
        values = shared + generator.normal(size=240)
        high = quantile_bounds(values, blocks, 0.5).high
        missed += high is None or high < 0.0
        high = ratio_bounds(values + 10, np.ones(240), blocks).high
        missed_ratio += high is None or high < 10.0
    assert missed / trials <= 0.09
    assert missed_ratio / trials <= 0.09
