"""The mathematics of the health checks: each process keeps the promise on which the rate of false alarms rests."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, stats

from bestarm.analysis.health.bets import DEPENDENCE, SCATTER, SKEWNESS, STEADY, STEP, TREND, Bets, SquareBets
from bestarm.analysis.health.evidence import KEPT, log_mean, log_outlier_limit, pooled
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


LEVEL = math.log(10.0)


def reached(peaks: Floats) -> Floats:
    """For each bet and direction, the share of streams whose evidence ever reached the level."""
    share: Floats = (peaks >= LEVEL).mean(axis=(-1, -2))
    return share


@pytest.mark.parametrize("name", SYMMETRIC)
def test_squares_of_sub_gaussian_values_rarely_reach_a_level(name: str) -> None:
    """Values of scale 1 around a mean that the check does not know. Uniform and two-valued ones lie within ±1, so they
    are sub-Gaussian with scale 1; Laplace and Student's t are not, and there scatter is found."""
    rng = np.random.default_rng(1)
    streams = 1000
    peaks = np.zeros((len(SCATTER), 1, 1, streams))
    values = SYMMETRIC[name](rng, (streams, 60)) + 7.0
    count = np.arange(1, 61)
    squares = np.cumsum(values**2, axis=1) - np.cumsum(values, axis=1) ** 2 / count
    for stream, row in enumerate(squares.tolist()):
        bets = SquareBets()
        for n, s in zip(count.tolist(), row, strict=True):
            bets.note(n, s, peaks, 0, stream)
    if name in ("Laplace", "Student t₃"):
        assert reached(peaks).max() > 0.5
    else:
        # With a rate of 0.1, more than 140 of 1,000 have a probability of 2e-5.
        assert reached(peaks).max() <= 0.14


@pytest.mark.parametrize("name", SYMMETRIC)
def test_skewness_of_symmetric_blocks_rarely_reaches_a_level(name: str) -> None:
    rng = np.random.default_rng(2)
    streams = 500
    peaks = np.zeros((len(SKEWNESS), 2, 1, streams))
    for stream, blocks in enumerate((SYMMETRIC[name](rng, (streams, 40, 8)) + 3.0).tolist()):
        bets = Bets(SKEWNESS)
        for block in blocks:
            score = skewness(block)
            bets.add(score, score * score)
            bets.note(peaks, 0, stream)
    # With a rate of 0.1, more than 80 of 500 have a probability of 1e-5.
    assert reached(peaks).max() <= 0.16


@pytest.mark.parametrize("ties", [False, True])
def test_bets_on_the_order_of_exchangeable_results_rarely_reach_a_level(ties: bool) -> None:
    rng = np.random.default_rng(13)
    streams = 400
    peaks = np.zeros((len(STEP + STEADY + DEPENDENCE), 2, 1, streams))
    for stream in range(streams):
        ranks, step, steady, dependence = Ranks(), Bets(STEP), Bets(STEADY), Bets(DEPENDENCE)
        values = rng.integers(0, 2, 120).astype(float) if ties else rng.standard_t(2, 120)
        previous = ranks.score(float(values[0]), rng.random())
        for place in range(1, 120):
            score = ranks.score(float(values[place]), rng.random())
            step.add(score, 1.0)
            steady.add(place / TREND * score, (place / TREND) ** 2)
            dependence.add(previous * score, previous**2)
            previous = score
            step.note(peaks, 0, stream)
            steady.note(peaks, 0, stream, len(STEP))
            dependence.note(peaks, 0, stream, len(STEP + STEADY))
    # With a rate of 0.1, more than 68 of 400 have a probability of 6e-6, and there are 22 such counts.
    assert reached(peaks).max() <= 0.17


def test_what_a_bet_wins_is_what_it_says() -> None:
    peaks = np.zeros((2, 2, 1, 1))
    bets = Bets((0.5, 2.0))
    for score, variance in ((1.0, 1.0), (-4.0, 0.25), (0.5, 0.25)):
        bets.add(score, variance)
        bets.note(peaks, 0, 0)
    assert peaks[:, :, 0, 0].tolist() == [[0.5 - 0.125, 1.5 - 0.15625], [0.0, 6.0 - 2.5]]


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
        often = (pooled(log_peaks) >= math.log(20.0)).mean()
        # With a rate of 0.05, more than 0.056 of 20,000 have a probability of 6e-5.
        assert often <= 0.056


def test_evidence_that_arms_share_adds_up_and_idle_arms_cost_little() -> None:
    """Four arms with evidence 1 : 1,000 are better than one; among 1,000 arms, one with 1 : 10^9 is still seen."""
    four = float(pooled(np.full(4, math.log(1e3))))
    assert four > math.log(1e5)
    one = np.zeros(1000)
    one[17] = math.log(1e12)
    assert float(pooled(one)) > math.log(100.0)
    assert float(log_mean(np.array([0.0, math.log(3.0)]))) == pytest.approx(math.log(2.0))


def test_shares_of_far_values_add_up() -> None:
    """2 exp(-limit) over all arms and results is at most 1."""
    shares = [2.0 * math.exp(-log_outlier_limit(5, count)) for count in range(1, 10_000)]
    assert 0.999 < 5 * sum(shares) <= 1.0
