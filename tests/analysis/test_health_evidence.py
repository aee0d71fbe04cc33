"""The mathematics of the health checks: each process keeps the promise on which the rate of false alarms rests."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from bestarm.analysis.health.evidence import KEPT, log_mixture, log_outlier_limit, log_scatter, mean_of, pooled
from bestarm.analysis.health.scores import Ranks, is_ranked, skewness
from bestarm.kernel.state import Floats

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SYMMETRIC: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "Student t₃": lambda rng, shape: rng.standard_t(3, shape),
    "two values": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
}


def crossed(log_evidence: Floats, level: float) -> float:
    """The share of rows that ever reach a level."""
    return float((log_evidence.max(axis=1) >= math.log(level)).mean())


@pytest.mark.parametrize(("total", "variance", "prior"), [(3.0, 10.0, 30.0), (80.0, 300.0, 30.0), (0.4, 2.0, 4.0)])
def test_the_mixture_is_the_integral_over_bets(total: float, variance: float, prior: float) -> None:
    def integrand(t: float) -> float:
        density = 2.0 * math.sqrt(prior / (2.0 * math.pi)) * math.exp(-0.5 * prior * t * t)
        return density * math.exp(t * total - 0.5 * t * t * variance)

    found = integrate.quad(integrand, 0.0, 20.0 / math.sqrt(prior), limit=200)[0]
    assert log_mixture(total, variance, prior) == pytest.approx(math.log(found), rel=1e-6)
    assert log_mixture(-total, variance, prior) == 0.0


@pytest.mark.parametrize("name", SYMMETRIC)
def test_squares_of_sub_gaussian_values_rarely_reach_a_level(name: str) -> None:
    """Values of scale 1 around a mean that the check does not know. Uniform and two-valued ones lie within ±1, so they
    are sub-Gaussian with scale 1; Laplace and Student's t are not, and there scatter is found."""
    rng = np.random.default_rng(1)
    values = SYMMETRIC[name](rng, (1000, 60)) + 7.0
    count = np.arange(1, 61)
    squares = np.cumsum(values**2, axis=1) - np.cumsum(values, axis=1) ** 2 / count
    evidence = np.array([[log_scatter(n, s) for n, s in zip(count.tolist(), row, strict=True)] for row in squares])
    if name in ("Laplace", "Student t₃"):
        assert crossed(evidence, 10.0) > 0.5
    else:
        # With a rate of 0.1, more than 140 of 1,000 have a probability of 3e-5.
        assert crossed(evidence, 10.0) <= 0.14


@pytest.mark.parametrize("name", SYMMETRIC)
def test_skewness_of_symmetric_blocks_rarely_reaches_a_level(name: str) -> None:
    rng = np.random.default_rng(2)
    blocks = SYMMETRIC[name](rng, (500, 40, 8)) + 3.0
    scores = np.array([[skewness(block) for block in row] for row in blocks.tolist()])
    total, variance = np.cumsum(scores, axis=1), np.cumsum(scores**2, axis=1)
    for sign in (1.0, -1.0):
        rows = zip((sign * total).tolist(), variance.tolist(), strict=True)
        evidence = np.array([[log_mixture(s, v, 3.0) for s, v in zip(*row, strict=True)] for row in rows])
        # With a rate of 0.1, more than 80 of 500 have a probability of 2e-5.
        assert crossed(evidence, 10.0) <= 0.16


def test_skewness_does_not_depend_on_offset_and_scale() -> None:
    block = np.random.default_rng(3).exponential(size=8)
    assert skewness(block.tolist()) == pytest.approx(stats.skew(block), rel=1e-12)
    assert skewness((1e6 + 1e-3 * block).tolist()) == pytest.approx(stats.skew(block), rel=1e-4)
    assert skewness([1e9 + 0.3] * 8) == 0.0


@pytest.mark.parametrize("ties", [False, True])
def test_scores_of_exchangeable_results_are_independent_and_normal(ties: bool) -> None:
    """A test of 4,000 scores, and one of the products of successive ones; each fails by chance in 1 of 10,000."""
    rng = np.random.default_rng(4)
    scores = []
    for _ in range(100):
        ranks = Ranks()
        values = rng.integers(0, 2, 40) if ties else rng.exponential(size=40)
        scores.append([ranks.score(float(value), rng.random()) for value in values])
    found = np.array(scores)
    assert stats.kstest(found.ravel(), "norm").pvalue > 1e-4
    products = (found[:, 1:] * found[:, :-1]).ravel()
    assert abs(products.mean()) * math.sqrt(len(products)) < 3.9


def test_a_long_stream_is_ranked_in_part_and_never_stops() -> None:
    ranked = np.array([is_ranked(place) for place in range(200_000)])
    assert ranked[:4096].all()
    assert 4096 * 3 < ranked.sum() < 4096 * 6
    assert ranked[-20_000:].any()


def test_the_adjuster_has_mean_at_most_one_for_the_worst_peaks() -> None:
    """P(S >= x) = 1/x is the worst. The integral of f(x) / x² is the mean of f(S)."""
    found = integrate.quad(lambda y: KEPT * math.exp((1.0 - KEPT) * y - y), 0.0, math.inf)[0]
    assert found == pytest.approx(1.0)


def test_arms_together_reach_a_level_rarely_even_with_the_worst_peaks() -> None:
    rng = np.random.default_rng(5)
    for arms in (1, 3, 30):
        log_peaks = rng.exponential(size=(20_000, arms))  # S = 1 / U
        reached = (pooled(log_peaks) >= math.log(20.0)).mean()
        # With a rate of 0.05, more than 0.056 of 20,000 have a probability of 6e-5.
        assert reached <= 0.056


def test_evidence_that_arms_share_adds_up_and_idle_arms_cost_little() -> None:
    """Four arms with evidence 1 : 1,000 are better than one; among 1,000 arms, one with 1 : 10^9 is still seen."""
    four = float(pooled(np.full(4, math.log(1e3))))
    assert four > math.log(1e5)
    one = np.zeros(1000)
    one[17] = math.log(1e12)
    assert float(pooled(one)) > math.log(100.0)
    assert float(mean_of([np.array(0.0), np.array(math.log(3.0))])) == pytest.approx(math.log(2.0))


def test_shares_of_far_values_add_up() -> None:
    """2 exp(-limit) over all arms and results is at most 1."""
    shares = [2.0 * math.exp(-log_outlier_limit(5, count)) for count in range(1, 10_000)]
    assert 0.999 < 5 * sum(shares) <= 1.0
