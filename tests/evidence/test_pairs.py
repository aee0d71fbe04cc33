"""Evidence about pairs of streams, and evidence put together."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from tests.streams import summed_stream

import bestarm as ba
from bestarm.evidence.claims import constraint_evidence
from bestarm.evidence.combine import independent_evidence, infeasible_evidence, rival_evidence
from bestarm.evidence.pairs import GAP, evidence_between, pair_evidence, product, product_ceiling
from bestarm.kernel.state import Setting, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bets import BETS, EVEN_ROOT_WEIGHT, LIKENESS, ROOT_WEIGHT, STAKE
from bestarm.noises.bounded import Bounded
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.mixture import add_logs
from bestarm.noises.registry import numbered
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.policies.setting import new_setting
from bestarm.testing.noise_streams import stream_of_values


def random_stream(rng: np.random.Generator, noise: type[NoiseModel]) -> Stream:
    n = int(rng.integers(1, 400))
    if noise is Gaussian:
        return summed_stream(Gaussian(float(rng.uniform(0.3, 3))), n, float(n * rng.normal()))
    if noise is Bernoulli:
        return summed_stream(Bernoulli(), n, float(round(n * rng.uniform(0.05, 0.95))))
    low, width = float(rng.uniform(-2, 0)), float(rng.uniform(1, 4))
    values = low + width * rng.beta(rng.uniform(0.5, 8.0), rng.uniform(0.5, 8.0), size=n % 40 + 1)
    return stream_of_values(Bounded(low, low + width), values)


@pytest.mark.parametrize("kind", [Gaussian, Bernoulli, Bounded])
def test_pair_evidence_never_overstates_the_infimum_and_hardly_understates_it(kind: type[NoiseModel]) -> None:
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(60):
        high, low = random_stream(rng, kind), random_stream(rng, kind)
        margin = float(rng.choice([0.0, 0.3, -0.1]))
        first, last = max(high.low + margin, low.low, -8.0), min(high.high + margin, low.high, 8.0)

        def at(c: float, pair: tuple[Stream, Stream, float] = (high, low, margin)) -> float:
            return product(pair[0], pair[1], c - pair[2], c)[0]

        if first >= last:
            continue  # ranges that do not overlap need no test
        infimum = minimize_scalar(at, bounds=(first, last), method="bounded", options={"xatol": 1e-9}).fun
        evidence = pair_evidence(high, low, margin)
        assert evidence <= infimum + 1e-6
        assert evidence_between(high, low, margin) >= evidence
        if high.total / high.n + margin > low.total / low.n:
            assert evidence >= infimum - GAP - 1e-6
            found += 1
        else:
            assert evidence == -math.inf
    assert found > 12


@pytest.mark.parametrize("kind", [Bernoulli, Bounded])
def test_pairs_of_bets(kind: type[NoiseModel]) -> None:
    """One pass over the bets adds up all pairs of them; the weights of the pairs add up to 1."""
    rng = np.random.default_rng(3)
    steps = np.abs(np.subtract.outer(np.arange(BETS), np.arange(BETS)))
    roots = ROOT_WEIGHT if kind is Bernoulli else EVEN_ROOT_WEIGHT
    weights = np.outer(roots, roots) * LIKENESS**steps
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    for _ in range(30):
        high, low = random_stream(rng, kind), random_stream(rng, kind)
        c, d = (s.low + s.width * float(rng.uniform(0.02, 0.98)) for s in (high, low))
        above = np.array([_bet(high, ABOVE, c, k) for k in range(BETS)])
        below = np.array([_bet(low, BELOW, d, k) for k in range(BETS)])
        exact = logsumexp(np.add.outer(above, below), b=weights)
        found, fall, rise = product(high, low, c, d)
        assert found == pytest.approx(exact, rel=1e-9, abs=1e-9)
        step = 1e-6 * high.width
        assert fall == pytest.approx((product(high, low, c + step, d)[0] - found) / step, rel=1e-3, abs=1e-3)
        step = 1e-6 * low.width
        assert rise == pytest.approx((product(high, low, c, d + step)[0] - found) / step, rel=1e-3, abs=1e-3)
        assert product_ceiling(high, low, c, d) >= found


def _bet(s: Stream, side: int, c: float, k: int) -> float:
    position = (c - s.low) / s.width
    if numbered()[s.kind] is Bernoulli:
        total = s.total if side == ABOVE else s.n - s.total
        gained = math.log1p(STAKE[k]) * total
    else:
        gained = float(s.kept[s.arm, s.metric, k if side == ABOVE else BETS + k])
    return gained - s.n * math.log1p((position if side == ABOVE else 1.0 - position) * STAKE[k])


def test_combination_is_a_weighted_mean() -> None:
    assert add_logs(math.log(2), math.log(3)) == pytest.approx(math.log(5))
    assert add_logs(-math.inf, 1.0) == 1.0
    exact = 0.9 * 11 + 0.1 * 77
    setting, alone = setting_with(2), setting_with(0)
    assert rival_evidence(setting, math.log(7), math.log(11)) == pytest.approx(math.log(exact))
    assert rival_evidence(alone, -math.inf, 1.3) == 1.3
    # Half a proof and half a proof make a whole one.
    assert rival_evidence(setting, 4.0, 4.0) > 5.0


def setting_with(constraints: int, *together: str) -> Setting:
    """Of a problem with so many constraints, of which some metrics are measured together."""
    noise = ba.Gaussian(1.0)
    problem = ba.Problem(
        arms=["a", "b"],
        objective=ba.maximize("gain", noise=noise),
        constraints=[ba.at_most(f"risk {k}", 1.0, noise=noise) for k in range(constraints)],
        measurements=[ba.measurement(*together)] if together else [],
    )
    return new_setting(problem, 0.1, "paper")


def test_evidence_from_one_test_is_not_multiplied() -> None:
    """Results of one test may depend on each other in any way."""
    streams = new_streams(2, 3)
    streams.counts[:] = 9
    streams.sums[:] = 30.0
    none, some, all_of_them = (
        setting_with(2),
        setting_with(2, "gain", "risk 0"),
        setting_with(2, "gain", "risk 0", "risk 1"),
    )
    infeasible = infeasible_evidence(none, streams, 0)
    assert infeasible == infeasible_evidence(some, streams, 0) == infeasible_evidence(all_of_them, streams, 0)
    assert independent_evidence(none, streams, 0, infeasible) == infeasible
    # The second constraint has half of the weight.
    half = constraint_evidence(some, streams, 0, 2, ABOVE) + math.log(0.5)
    assert independent_evidence(some, streams, 0, infeasible) == pytest.approx(half)
    assert independent_evidence(all_of_them, streams, 0, infeasible) == -math.inf
    assert rival_evidence(all_of_them, -math.inf, math.log(11)) == pytest.approx(math.log(11))
