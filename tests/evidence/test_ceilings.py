"""Ceilings: never below the evidence, and close enough to it to be of use."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.lengths import cases, first, lengths
from tests.streams import summed_stream

import bestarm as ba
from bestarm.evidence.combine import infeasible_evidence, rival_evidence
from bestarm.evidence.pairs import pair_evidence, product, product_ceiling
from bestarm.evidence.reaching import (
    add_logs_ceiling,
    infeasible_ceiling,
    pair_ceiling,
    rival_ceiling,
)
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.bernoulli import divergence_ceiling, numbers_of_rates, rate_ceiling, rate_divergence, rate_evidence
from bestarm.noises.bets import BETS, LIKENESS, ROOT_WEIGHT, STAKE, log_weights
from bestarm.noises.dispatch import ceiling, evidence
from bestarm.noises.mixture import add_logs
from bestarm.noises.streams import ABOVE, BELOW, TUNING, stream_of
from bestarm.policies.setting import new_setting

NOISES: list[ba.Noise] = [ba.Gaussian(0.3), ba.Bernoulli(), ba.Bounded(-1.0, 3.0)]


def setting_of(objective: ba.Noise, constraint: ba.Noise, constraints: int = 3) -> Setting:
    problem = ba.Problem(
        arms=("a", "b"),
        objective=ba.maximize("m", noise=objective, tolerance=0.02),
        constraints=tuple(ba.at_most(f"c{k}", 0.4, noise=constraint, weight=float(1 + k)) for k in range(constraints)),
    )
    return new_setting(problem, 0.05, "paper")


def random_streams(rng: np.random.Generator, constraints: int) -> Streams:
    """Results of two arms; some counts lie beyond the dense part of the tables."""
    counts = rng.choice([1, 2, 7, 40, 300, 5_000, 65_535, 65_536, 90_001, 3_000_000], (2, 1 + constraints))
    spread = 2.0 / np.sqrt(counts)
    means = np.clip(rng.uniform(0.3, 0.5, counts.shape) + rng.normal(size=counts.shape) * spread, 0.0, 1.0)
    sums = np.round(means * counts)
    # What the streams of a bounded metric keep if all their values are equal.
    position = ((sums / counts + 1.0) / 4.0)[..., np.newaxis]
    bets = [np.log1p(np.array(STAKE) * share) * counts[..., np.newaxis] for share in (position, 1.0 - position)]
    kept = np.concatenate([*bets, np.zeros((*counts.shape, 1))], axis=2)
    return Streams(counts.astype(np.int64), sums / counts, sums, kept)


@example(0.0, 3.4261)  # where a series of fewer terms is worst
@given(st.floats(-50, 50), st.floats(-50, 50))
def test_a_sum_of_logarithms_without_a_logarithm(a: float, b: float) -> None:
    assert add_logs(a, b) <= add_logs_ceiling(a, b) <= add_logs(a, b) + 0.007


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_divergence_without_a_logarithm(p: float, q: float) -> None:
    exact = rate_divergence(p, q)
    assert divergence_ceiling(p, q) >= exact * (1 - 1e-9) - 1e-15
    if max(p, q) < 2 * min(p, q) < 0.8:
        assert divergence_ceiling(p, q) <= 1.15 * exact + 1e-12


def test_a_sum_with_nothing() -> None:
    assert add_logs_ceiling(-math.inf, 1.5) == pytest.approx(1.5)
    assert add_logs_ceiling(-math.inf, -math.inf) == -math.inf


def test_a_sum_with_all_there_can_be() -> None:
    assert add_logs_ceiling(math.inf, 1.5) == math.inf
    assert add_logs_ceiling(math.inf, math.inf) == math.inf
    assert rival_ceiling(setting_of(ba.Gaussian(1.0), ba.Gaussian(1.0), 3), 1.5, math.inf) == math.inf


@functools.cache
def shortfalls(tried: int) -> Floats:
    """By best tilt and tilt: how much less of the divergence this tilt has, in the limit of c toward 1."""
    tilts = 0.05 * 1.5 ** np.arange(-8.0, 14.0)
    best = np.linspace(0.01, 40.0, tried)[:, None]
    gain = -np.expm1(-tilts) - tilts * np.exp(-best)
    most = -np.expm1(-best) - best * np.exp(-best)
    return np.array(gain / most - 1.0)


def least_cost(divergence: float, weights: Floats, tried: int) -> float:
    """By how much the evidence of values in [0, 1] falls short of n times the divergence, at the least.

    The least is in the limit of c toward 1, as `tilt_costs` proves; there it depends on the best tilt alone.
    """
    assert len(weights) == shortfalls(tried).shape[1] == BETS
    return float(-np.log((np.exp(divergence * shortfalls(tried)) @ weights).max()))


@pytest.mark.parametrize("tried", lengths(4_000, 40_000))
def test_what_the_tilts_cost(tried: int) -> None:
    """Those of one stream, and those of a stream in a pair if the best tilt of the other were known."""
    alone = [np.exp(log_weights(position)) for position in (None, 0.5, 0.2, 0.05, 0.01, 1e-3, 1e-4, 0.0, 0.999)]
    steps = np.abs(np.subtract.outer(np.arange(BETS), np.arange(BETS)))
    in_a_pair = (np.outer(ROOT_WEIGHT, ROOT_WEIGHT) * LIKENESS**steps).sum(axis=1)
    assert least_cost(1.0 / 0.17, in_a_pair, tried) == pytest.approx(1.212, abs=0.001)
    assert least_cost(1.0 / 0.17, alone[0], tried) == pytest.approx(1.149, abs=0.001)
    assert min(least_cost(1.0 / 0.17, weights, tried) for weights in alone) == pytest.approx(1.017, abs=0.001)
    assert least_cost(5.0, alone[-2], tried) < 1.0  # a step down by 1 at 5 is no ceiling
    for weights in (*alone, in_a_pair):
        assert weights.sum() == pytest.approx(1.0, abs=1e-12)
        for divergence in np.linspace(0.001, 30.0, 60):
            assert least_cost(divergence, weights, tried) > min(0.17 * divergence, 1.0)


def test_of_values_in_a_range_where_the_tilts_cost_least() -> None:
    """With c near 1, and a mean that the tilt `best` makes of it."""
    weightings = [numbers_of_rates(threshold) for threshold in (None, 0.05, 0.0)]
    for n in (100, 10_000, 1_000_000):
        for divergence in np.linspace(0.05, 8.0, 60):
            for best in (3.8, 4.5, 4.87, 5.0, 5.3, 6.0, 40.0):
                gap = divergence / (n * (1.0 - (1.0 + best) * math.exp(-best)))
                total, c = n * (1.0 - gap * math.exp(-best)), 1.0 - gap
                for numbers in weightings:
                    assert rate_ceiling(n, total, c, numbers, 0) >= rate_evidence(n, total, c, numbers, 0)


@pytest.mark.parametrize("threshold", [None, 0.0])
def test_of_values_in_a_range(threshold: float | None) -> None:
    """Everywhere: few and many values, c near the ends of the range, totals from n c to n."""
    numbers = numbers_of_rates(threshold)
    near = [10.0**power for power in range(-12, 0)]
    limits = [0.0, *near, *np.linspace(0.1, 0.9, 17), *(1.0 - x for x in near), 1.0]
    for n in (1, 2, 3, 10, 100, 3_000, 65_536, 1_000_000):
        for c in limits:
            # From below n c, where the ceiling is flat, to n.
            for share in (-1e-6, 0.0, *near, *np.linspace(0.1, 1.0, 10)):
                total = min(max(n * (c + share * (1.0 - c)), 0.0), float(n))
                assert rate_ceiling(n, total, c, numbers, 0) >= rate_evidence(n, total, c, numbers, 0)


def where_it_matters(rng: np.random.Generator, c: float, share: float = 1.0) -> tuple[int, float]:
    """Results whose log-evidence above c is about what certificates must reach, or a share of it."""
    n = int(10.0 ** rng.uniform(2.0, 5.0))
    return n, round(n * min(c + math.sqrt(2.0 * c * (1.0 - c) * share * rng.uniform(5.0, 12.0) / n), 1.0))


@pytest.mark.parametrize(("c", "mean_gap"), [(0.01, 0.55), (0.05, 0.4), (0.2, 0.3), (0.5, 0.25), (0.95, 0.2)])
def test_of_rates_is_close_where_it_matters(c: float, mean_gap: float) -> None:
    numbers, rng = numbers_of_rates(c), np.random.default_rng(11)
    gaps = []
    for _ in range(500):
        n, total = where_it_matters(rng, c)
        gaps.append(rate_ceiling(n, total, c, numbers, 0) - rate_evidence(n, total, c, numbers, 0))
    assert min(gaps) >= 0.0
    assert np.mean(gaps) < mean_gap


def test_of_rates_without_a_table_is_rough() -> None:
    n, total, numbers = 1_000, 600.0, numbers_of_rates(0.5)
    few = np.ascontiguousarray(numbers[:, : TUNING + BETS])
    rough, close, found = (
        rate_ceiling(n, total, 0.5, few, 0),
        rate_ceiling(n, total, 0.5, numbers, 0),
        rate_evidence(n, total, 0.5, few, 0),
    )
    assert rough > close >= found == rate_evidence(n, total, 0.5, numbers, 0)


@pytest.mark.parametrize("c", [0.05, 0.3, 0.5, 0.9])
def test_of_pairs_of_rates_is_close_where_it_matters(c: float) -> None:
    rng = np.random.default_rng(12)
    gaps = []
    for _ in range(300):
        n, total = where_it_matters(rng, c, share=0.5)
        high = summed_stream(ba.Bernoulli(), n, total)
        low = summed_stream(ba.Bernoulli(), n, max(round(2 * n * c - total), 0))
        gaps.append(product_ceiling(high, low, c, c) - product(high, low, c, c)[0])
    assert min(gaps) >= 0.0
    assert np.mean(gaps) < 1.0


@given(*[st.integers(1, 100_000)] * 2, *[st.floats(0, 1)] * 3)
def test_of_pairs_of_rates(n: int, m: int, share: float, other: float, c: float) -> None:
    """However far apart their tilts are, and on whichever side of c."""
    high, low = (
        summed_stream(ba.Bernoulli(), count, float(round(count * mean))) for count, mean in ((n, share), (m, other))
    )
    limit, found = product_ceiling(high, low, c, c), product(high, low, c, c)[0]
    assert limit >= found or math.isnan(found)


@pytest.mark.parametrize("sigma", [1e-6, 0.3, 1e6])
def test_of_more_evidence_than_rounding_keeps(sigma: float) -> None:
    rng = np.random.default_rng(8)
    for _ in range(1_000):
        n = int(rng.choice([1, 7, 300, 65_535, 3_000_000]))
        total = n * sigma * float(rng.normal()) * 10.0 ** float(rng.uniform(0.0, 8.0))
        s = summed_stream(ba.Gaussian(sigma), n, total)
        assert ceiling(s, ABOVE, 0.4) >= evidence(s, ABOVE, 0.4)
        assert ceiling(s, BELOW, 0.4) >= evidence(s, BELOW, 0.4)


@pytest.mark.parametrize("noise", NOISES, ids=repr)
def test_of_one_stream(noise: ba.Noise) -> None:
    setting, rng = setting_of(noise, noise), np.random.default_rng(3)
    close = 0
    for _ in range(300):
        streams = random_streams(rng, 3)
        for metric in range(4):
            s, c = stream_of(setting, streams, 0, metric), float(rng.uniform(0.05, 0.95))
            for side in (ABOVE, BELOW):
                exact, limit = evidence(s, side, c), ceiling(s, side, c)
                assert limit >= exact
                # Beyond the dense part of the tables a count is rounded down by up to 1 in 4,096.
                close += limit < 1.001 * max(exact, 0.0) + 4.0
    # The ceiling of values in a range knows nothing of how coarse the tilts are.
    assert close > (0.99 if isinstance(noise, ba.Gaussian) else 0.65) * 300 * 4 * 2


@cases(6)
@pytest.mark.parametrize("objective", NOISES, ids=repr)
@pytest.mark.parametrize("constraint", NOISES, ids=repr)
@pytest.mark.parametrize("constraints", first(2, [0, 5, 1]))
def test_of_arms_and_pairs(objective: ba.Noise, constraint: ba.Noise, constraints: int) -> None:
    setting, rng = setting_of(objective, constraint, constraints), np.random.default_rng(constraints)
    ahead = 0
    for _ in range(60):
        streams = random_streams(rng, constraints)
        infeasible, infeasible_limit = infeasible_evidence(setting, streams, 1), infeasible_ceiling(setting, streams, 1)
        assert infeasible_limit >= infeasible
        high, low = stream_of(setting, streams, 0, 0), stream_of(setting, streams, 1, 0)
        worse, worse_limit = pair_evidence(high, low, setting.tolerance), pair_ceiling(setting, streams, 0, 1)
        assert worse_limit >= worse
        ahead += worse > -math.inf
        exact = rival_evidence(setting, infeasible, worse)
        assert rival_ceiling(setting, infeasible_limit, worse_limit) >= exact
        assert rival_ceiling(setting, infeasible, worse) <= exact + 0.014
    assert 10 < ahead < 60
