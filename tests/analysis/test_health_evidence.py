"""The mathematics of the health checks: each process keeps the promise on which the rate of false alarms rests."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable

import numpy as np
import pytest
from scipy import integrate, optimize, stats

from bestarm.analysis.health import symmetric
from bestarm.analysis.health.bets import (
    DEPENDENCE,
    DRIFT,
    ORDER_CHECKS,
    TOGETHER,
    Bets,
    RankBets,
    Result,
    Scale,
    StreamState,
    SubGaussianBets,
    Weights,
    Won,
    is_ranked,
    rank_score,
)
from bestarm.analysis.health.evidence import SQUARE_BETS, Scatter, in_any, jointly, log_mean, log_outlier_limit
from bestarm.analysis.health.symmetric import SymmetricBets
from bestarm.kernel.state import Floats

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SYMMETRIC: dict[str, Draw] = {
    "normal": lambda rng, shape: rng.standard_normal(shape),
    "uniform": lambda rng, shape: rng.uniform(-1.0, 1.0, shape),
    "Laplace": lambda rng, shape: rng.laplace(size=shape),
    "Student t₃": lambda rng, shape: rng.standard_t(3, shape),
    "two values": lambda rng, shape: rng.choice([-1.0, 1.0], shape),
    "scatter that grows": lambda rng, shape: rng.standard_normal(shape) * np.arange(1, shape[-1] + 1) / shape[-1],
    "bursts": lambda rng, shape: rng.standard_normal(shape) * np.where(np.arange(shape[-1]) % 20 < 10, 1.0, 0.01),
}
SUB_GAUSSIAN = ("normal", "uniform", "two values", "scatter that grows", "bursts")
"""Those that are sub-Gaussian with scale 1."""

LEVEL = math.log(10.0)


def results_of(values: Floats, arm: int = 0, group: int = 6) -> list[Result]:
    """Results of one arm, in groups, by two workers in turn."""
    rows = enumerate(values.tolist())
    return [Result(k + 1, arm, value, k // 3 % 2, float(k // group)) for k, value in rows]


def evidence(won: Won) -> dict[str, float]:
    """By check: the mean of all bets, in one arm."""
    return {kind: float(log_mean(part.ravel())) for kind, part in won.items()}


def peaks(engine: Bets, results: list[Result], every: int = 7) -> dict[str, float]:
    """By check: the largest evidence ever seen."""
    found: dict[str, float] = {}
    for k, result in enumerate(results, start=1):
        engine.enter(result)
        if k % every == 0:
            for kind, now in evidence(engine.won()).items():
                found[kind] = max(found.get(kind, -math.inf), now)
    return found


def shares(all_peaks: list[dict[str, float]]) -> dict[str, float]:
    """By check: in which share of the streams the evidence ever reached the level."""
    return {kind: float(np.mean([one[kind] >= LEVEL for one in all_peaks])) for kind in all_peaks[0]}


@pytest.mark.parametrize("name", SUB_GAUSSIAN)
def test_bets_on_sub_gaussian_results_rarely_reach_a_level(name: str) -> None:
    """However the scatter changes. With a rate of 0.1, more than 34 of 150 have a probability of 3e-6, and there are
    four checks."""
    rng = np.random.default_rng(1)
    drawn = 7.0 + SYMMETRIC[name](rng, (150, 84))
    assert max(shares([peaks(SubGaussianBets(1.0), results_of(row)) for row in drawn]).values()) <= 34 / 150


@pytest.mark.parametrize("name", SYMMETRIC)
def test_bets_on_symmetric_results_rarely_reach_a_level(name: str) -> None:
    """However the scatter changes. With a rate of 0.1, more than 17 of 60 have a probability of 1e-5, and there are
    five checks."""
    rng = np.random.default_rng(2)
    drawn = 3.0 + SYMMETRIC[name](rng, (60, 84))
    found = [peaks(SymmetricBets(), results_of(row), every=14) for row in drawn]
    assert max(shares(found).values()) <= 17 / 60


@pytest.mark.parametrize("ties", [False, True])
def test_bets_on_the_order_of_exchangeable_results_rarely_reach_a_level(ties: bool) -> None:
    """With a rate of 0.1, more than 34 of 150 have a probability of 3e-6, and there are four checks."""
    rng = np.random.default_rng(13)
    found = []
    for _ in range(150):
        values = rng.integers(0, 2, 84).astype(float) if ties else rng.standard_t(2, 84)
        found.append(peaks(RankBets(rng.random, own_groups=True), results_of(values)))
    assert max(shares(found).values()) <= 34 / 150


@pytest.mark.parametrize("name", SYMMETRIC)
def test_squares_of_sub_gaussian_values_rarely_reach_a_level(name: str) -> None:
    """Around a mean that the check does not know. Laplace and Student's t are not sub-Gaussian with scale 1, and there
    scatter is found."""
    rng = np.random.default_rng(3)
    reached = []
    for row in SYMMETRIC[name](rng, (200, 60)) + 7.0:
        scatter, peak = Scatter(1, 1.0, math.inf), -math.inf
        for result in results_of(row):
            scatter.enter(result)
            peak = max(peak, float(log_mean(scatter.won().ravel())))
        reached.append(peak >= LEVEL)
    if name in ("Laplace", "Student t₃"):
        assert np.mean(reached) > 0.5
    else:
        # With a rate of 0.1, more than 40 of 200 have a probability of 1e-5.
        assert sum(reached) <= 40
    assert len(SQUARE_BETS) == 4


def weights_of(results: list[Result], start: float) -> tuple[Floats, Floats]:
    """By the definition: the weights of all results of one arm, [column, result], and their values."""
    weights, place, scale, found = Weights(start=start), StreamState(), Scale(), []
    for result in results:
        found.append(weights.of_next(place, result)[: TOGETHER.last])
        _, off = scale.next(0, result.value)
        weights.update(place, result, off)
    return np.array(found).T, np.array([result.value for result in results])


def test_sub_gaussian_evidence_is_the_least_over_all_means() -> None:
    """The formula, by numerical integration over c and minimization over the mean."""
    rng = np.random.default_rng(4)
    results = results_of(0.9 * rng.standard_normal(30))
    engine = SubGaussianBets(1.0)
    for result in results:
        engine.enter(result)
    weights, values = weights_of(results, -1.0)
    won = engine.won()
    for check, prior in ((DRIFT, 0.05), (DEPENDENCE, 0.01)):
        g, t = weights[check.first], check.bets[1]

        def product(mean: float, g: Floats = g, t: float = t, prior: float = prior) -> float:
            def integrand(c: float) -> float:
                a = c + t * g
                exponent = float(np.sum(a * (values - mean) - 0.5 * a * a))
                return math.exp(exponent) * stats.norm.pdf(c, scale=math.sqrt(prior))

            return math.log(integrate.quad(integrand, -2.0, 2.0, limit=200)[0])

        least = optimize.minimize_scalar(product, bounds=(-3.0, 3.0), method="bounded").fun
        assert won[check.kind][1, 0, 0, 0] == pytest.approx(least, abs=1e-4)


def test_symmetric_evidence_is_the_least_over_all_means() -> None:
    """The bets at every mean, by their definition, on a fine grid: none is less, and the least is reached."""
    rng = np.random.default_rng(5)
    engine = SymmetricBets()
    for result in results_of(rng.standard_normal(40)):
        engine.enter(result)
    stream = engine._streams[0]
    x, scale = np.array(stream.values), np.array(stream.scales)
    means = np.linspace(x.min() - 4.0, x.max() + 4.0, 20_001)
    u = (x - means[:, None]) / scale

    def score(levels: Floats) -> Floats:
        found: Floats = np.sign(u) * levels[np.searchsorted([0.6, 1.4], np.abs(u))]
        return found

    def logs(stakes: Floats, levels: Floats) -> Floats:
        found: Floats = (stakes * score(levels) - 0.5 * np.square(stakes * score(levels))).sum(axis=1)
        return found

    center = log_mean(np.array([logs(np.full(len(x), bet), symmetric._SCORES) for bet in symmetric._MEANS]))
    rest = np.log(0.1) + np.logaddexp(center, 0.0)
    won = engine.won()
    for check in (DRIFT, DEPENDENCE, TOGETHER):
        for k, bet in enumerate(check.bets):
            column = np.array(stream.columns[check.first])
            by_hand = np.logaddexp(np.log(0.8) + logs(bet * column, symmetric._SCORES), rest).min()
            assert won[check.kind][k, 0, 0, 0] == pytest.approx(by_hand, abs=1e-9)
    by_hand = np.logaddexp(np.log(0.8) + logs(np.full(len(x), symmetric.SKEWNESS[0]), symmetric._LEAN), rest).min()
    assert won["skewness"][0, 0, 0, 0] == pytest.approx(by_hand, abs=1e-9)


def test_symmetric_evidence_is_no_larger_at_means_that_are_results() -> None:
    """Of whole numbers several bets step at once. At such a mean, a result that equals it wins nothing."""
    rng = np.random.default_rng(6)
    engine = SymmetricBets()
    for result in results_of(rng.integers(0, 3, 40).astype(float)):
        engine.enter(result)
    stream = engine._streams[0]
    x, scale = np.array(stream.values), np.array(stream.scales)
    column = np.array(stream.columns[DEPENDENCE.first])
    for mean in np.unique(np.concatenate([x, x - 0.6 * scale, x + 1.4 * scale])).tolist():
        u = (x - mean) / scale
        psi = np.sign(u) * symmetric._SCORES[np.searchsorted([0.6, 1.4], np.abs(u))]
        bets = [DEPENDENCE.bets[0] * column * psi, *(bet * psi for bet in symmetric._MEANS)]
        main, *center = [float(np.sum(stake - 0.5 * stake * stake)) for stake in bets]
        rest = np.log(0.1) + np.logaddexp(log_mean(np.array(center)), 0.0)
        assert engine.won()["dependence"][0, 0, 0, 0] <= np.logaddexp(np.log(0.8) + main, rest) + 1e-9


def test_weights_do_not_depend_on_the_result() -> None:
    weights, place = Weights(start=0.0), StreamState()
    for k, value in enumerate((1.0, -2.0, 0.5)):
        weights.update(place, Result(k, 0, value, k % 2, 1.0), value)
    low, high = (Result(9, 0, value, 0, 1.0) for value in (-5.0, 5.0))
    assert weights.of_next(place, low) == weights.of_next(place, high)
    assert weights.of_next(place, low)[DEPENDENCE.first] == 0.5
    assert weights.of_next(place, low)[TOGETHER.first] == pytest.approx(-0.5 / 5.0)
    assert weights.of_next(place, low._replace(group=2.0))[TOGETHER.first] == 0.0


def test_on_items_a_group_is_of_one_arm() -> None:
    weights = Weights(start=0.0, own_groups=True)
    weights.update(StreamState(), Result(1, 0, 0.0, 0, 1.0), 2.0)
    others = [weights.of_next(StreamState(), Result(2, arm, 0.0, 0, 1.0))[TOGETHER.first] for arm in (0, 1)]
    assert others == [pytest.approx(2.0 / 3.0), 0.0]


@pytest.mark.parametrize("ties", [False, True])
def test_scores_of_exchangeable_results_are_independent_and_normal(ties: bool) -> None:
    """A test of 4,000 scores, and one of the products of successive ones; each fails by chance in 1 of 10,000."""
    rng = np.random.default_rng(4)
    scores = []
    for _ in range(100):
        ranked = array("d")
        values = rng.integers(0, 2, 40) if ties else rng.exponential(size=40)
        scores.append([rank_score(ranked, float(value), rng.random()) for value in values])
    found = np.array(scores)
    assert stats.kstest(found.ravel(), "norm").pvalue > 1e-4
    products = (found[:, 1:] * found[:, :-1]).ravel()
    assert abs(products.mean()) * math.sqrt(len(products)) < 3.9


def test_a_long_stream_is_ranked_in_part_and_never_stops() -> None:
    ranked = np.array([is_ranked(place) for place in range(200_000)])
    assert ranked[:4096].all()
    assert 4096 * 3 < ranked.sum() < 4096 * 6
    assert ranked[-20_000:].any()


def test_arms_together_reach_a_level_rarely() -> None:
    """The worst evidence of an arm: it is 1/p with probability p, and else 0. With a rate of 0.05, more than 0.056 of
    20,000 have a probability of 6e-5. For evidence in any arm, arms may all be the same."""
    rng = np.random.default_rng(5)
    for arms in (1, 3, 30):
        chance = 0.05 / arms
        won = np.where(rng.random((20_000, arms)) < chance, -math.log(chance), -1e9)
        assert (jointly(won, arms) >= math.log(20.0)).mean() <= 0.056
        peak = rng.exponential(size=(20_000, 1)) * np.ones(arms)  # 1/U, the worst largest value
        assert (in_any(peak, arms) >= math.log(20.0)).mean() <= 0.056


def test_evidence_that_arms_share_adds_up_and_idle_arms_cost_little() -> None:
    assert float(jointly(np.full(4, math.log(1e3)), 4)) > math.log(1e11)
    one = np.zeros(1000)
    one[17] = math.log(1e12)
    assert float(jointly(one, 1000)) > math.log(1e8)
    assert float(in_any(one, 1000)) == pytest.approx(math.log(1e9))
    # Arms without results need not be there.
    assert float(jointly(one[17:18], 1000)) == pytest.approx(float(jointly(one, 1000)))
    assert float(in_any(one[17:18], 1000)) == float(in_any(one, 1000))
    assert float(log_mean(np.array([0.0, math.log(3.0)]))) == pytest.approx(math.log(2.0))


def test_every_check_has_columns_of_its_own() -> None:
    assert [check.first for check in ORDER_CHECKS] == [0, *(check.last for check in ORDER_CHECKS[:-1])]


def test_shares_of_far_values_add_up() -> None:
    """2 exp(-limit) over all arms and results is at most 1."""
    shares_of_alpha = [2.0 * math.exp(-log_outlier_limit(5, count)) for count in range(1, 10_000)]
    assert 0.999 < 5 * sum(shares_of_alpha) <= 1.0
