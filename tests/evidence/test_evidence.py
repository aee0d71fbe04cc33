"""Evidence: against independent values in the far tails, and how often each process lies."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from bestarm.evidence.bounded import (
    TILTS,
    bounded_ceiling,
    bounded_evidence,
    bounded_evidence_and_slope,
    rate_divergence,
)
from bestarm.evidence.gaussian import (
    RHO,
    gaussian_evidence,
    gaussian_evidence_and_slope,
    log_scaled_phi,
)
from bestarm.evidence.streams import (
    BOUNDED,
    GAUSSIAN,
    evidence_above,
    evidence_and_slope_above,
    evidence_and_slope_below,
    evidence_below,
)
from scipy.optimize import minimize_scalar
from scipy.stats import binom

from bestarm.evidence.ceilings import ceiling_above
from bestarm.evidence.combine import add_logs, rival_evidence
from bestarm.evidence.pairs import GAP, Stream, evidence_between, pair_evidence
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import Ints, Setting
from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.gaussian import Gaussian
from bestarm.policies.setting import new_setting
from bestarm.problem import Arm, Problem, maximize
from bestarm.simulation.nature import Nature, draw, new_nature

mpmath.mp.dps = 60


@pytest.mark.parametrize("x", [-1e6, -5000, -100, -40, -35.1, -34.9, -20, -5, -1, -1e-3, 0, 0.5, 3, 8, 30, 500])
def test_log_scaled_phi_in_the_far_tails(x: float) -> None:
    exact = mpmath.mpf(x) ** 2 / 2 + mpmath.log(mpmath.ncdf(x))
    assert log_scaled_phi(x) == pytest.approx(float(exact), rel=1e-10)
    assert compiled(log_scaled_phi)(float(x)) == pytest.approx(float(exact), rel=1e-10)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("scale", [-300.0, -20.0, -1.0, 0.0, 1.0, 5.0, 40.0])
def test_gaussian_evidence(n: int, scale: float) -> None:
    deviation = scale * math.sqrt(n)
    x = mpmath.mpf(deviation) / mpmath.sqrt(n + RHO)
    exact = mpmath.log(2 * mpmath.sqrt(RHO / (n + mpmath.mpf(RHO))) * mpmath.ncdf(x)) + x**2 / 2
    assert gaussian_evidence(n, deviation) == pytest.approx(float(exact), rel=1e-10, abs=1e-10)
    slope = (x + mpmath.npdf(x) / mpmath.ncdf(x)) / mpmath.sqrt(n + RHO)
    assert gaussian_evidence_and_slope(n, deviation)[1] == pytest.approx(float(slope), rel=1e-5)


@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("mean", [0.0, 0.003, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("c", [1e-6, 0.01, 0.25, 0.5, 0.9, 1 - 1e-6])
def test_bounded_evidence(n: int, mean: float, c: float) -> None:
    total = float(round(n * mean))
    terms, slope = [], mpmath.mpf(0)
    for k in range(TILTS):
        tilt = mpmath.mpf(0.05) * mpmath.mpf(1.5) ** (k - 8)
        weight = mpmath.mpf("0.1") / 8 if k < 8 else mpmath.mpf("0.9") / 14
        terms.append(weight * mpmath.exp(tilt * total - n * mpmath.log(1 - mpmath.mpf(c) + c * mpmath.exp(tilt))))
        slope -= terms[-1] * n * mpmath.expm1(tilt) / (1 + c * mpmath.expm1(tilt))
    exact = mpmath.log(sum(terms))
    assert bounded_evidence(n, total, c) == pytest.approx(float(exact), rel=1e-10, abs=1e-10)
    assert compiled(bounded_evidence)(n, total, c) == pytest.approx(float(exact), rel=1e-10, abs=1e-10)
    assert bounded_evidence_and_slope(n, total, c)[1] == pytest.approx(float(slope / sum(terms)), rel=1e-9)
    assert bounded_ceiling(n, total, c) >= float(exact) - 1e-12


def test_rate_divergence() -> None:
    assert rate_divergence(0.3, 0.6) == pytest.approx(0.3 * math.log(0.5) + 0.7 * math.log(0.7 / 0.4))
    assert rate_divergence(0.0, 0.5) == pytest.approx(math.log(2))
    assert rate_divergence(1.0, 1.0) == 0.0
    assert rate_divergence(0.5, 1.0) == math.inf


@pytest.mark.parametrize(("kind", "low", "width"), [(GAUSSIAN, 0.0, 2.0), (BOUNDED, -3.0, 5.0)])
def test_one_interface_in_both_directions(kind: int, low: float, width: float) -> None:
    """Below is above mirrored; slopes are derivatives; evidence is monotone and convex in c."""
    n, total = 37, 37 * 0.4
    points = np.linspace(-2.5, 1.6, 42)
    above = np.array([evidence_above(kind, low, width, n, total, c) for c in points])
    below = np.array([evidence_below(kind, low, width, n, total, c) for c in points])
    assert (np.diff(above) < 0).all()
    assert (np.diff(below) > 0).all()
    assert (np.diff(above, 2) > -1e-9).all()
    assert (np.diff(below, 2) > -1e-9).all()
    step = 1e-6
    for c, up, down in zip(points, above, below, strict=True):
        derivative = (evidence_above(kind, low, width, n, total, c + step) - up) / step
        assert evidence_and_slope_above(kind, low, width, n, total, c)[1] == pytest.approx(
            derivative, rel=1e-3, abs=1e-3
        )
        derivative = (evidence_below(kind, low, width, n, total, c + step) - down) / step
        assert evidence_and_slope_below(kind, low, width, n, total, c)[1] == pytest.approx(
            derivative, rel=1e-3, abs=1e-3
        )
    mirror = evidence_below(kind, -low - width if kind == BOUNDED else 0.0, width, n, -total, -0.7)
    assert mirror == pytest.approx(evidence_above(kind, low, width, n, total, 0.7), rel=1e-12)


def random_stream(rng: np.random.Generator, kind: int) -> Stream:
    n = int(rng.integers(1, 400))
    if kind == GAUSSIAN:
        return Stream(kind, 0.0, float(rng.uniform(0.3, 3)), n, float(n * rng.normal()))
    low, width = float(rng.uniform(-2, 0)), float(rng.uniform(1, 4))
    return Stream(kind, low, width, n, float(n * (low + width * rng.uniform(0.05, 0.95))))


@pytest.mark.parametrize("kinds", [(GAUSSIAN, GAUSSIAN), (BOUNDED, BOUNDED), (GAUSSIAN, BOUNDED), (BOUNDED, GAUSSIAN)])
def test_pair_evidence_never_overstates_the_infimum_and_hardly_understates_it(kinds: tuple[int, int]) -> None:
    rng = np.random.default_rng(7)
    found = 0
    for _ in range(150):
        high, low = random_stream(rng, kinds[0]), random_stream(rng, kinds[1])
        margin = float(rng.choice([0.0, 0.3, -0.1]))
        ends = [(-8.0, 8.0), (-8.0, 8.0)]
        for k, (stream, shift) in enumerate(((high, margin), (low, 0.0))):
            if stream.kind == BOUNDED:
                ends[k] = (stream.low + shift, stream.low + stream.width + shift)
        first, last = max(ends[0][0], ends[1][0]), min(ends[0][1], ends[1][1])

        def product(c: float, pair: tuple[Stream, Stream, float] = (high, low, margin)) -> float:
            return evidence_above(*pair[0], c - pair[2]) + evidence_below(*pair[1], c)

        if first >= last:
            continue  # ranges that do not overlap need no test
        infimum = minimize_scalar(product, bounds=(first, last), method="bounded", options={"xatol": 1e-9}).fun
        evidence = pair_evidence(high, low, margin)
        assert evidence <= infimum + 1e-6
        assert evidence_between(high, low, margin) >= evidence
        if high.total / high.n + margin > low.total / low.n:
            assert evidence >= infimum - GAP - 1e-6
            found += 1
        else:
            assert evidence == -math.inf
    assert found > 40


def test_combination_is_a_weighted_mean() -> None:
    assert add_logs(math.log(2), math.log(3)) == pytest.approx(math.log(5))
    assert add_logs(-math.inf, 1.0) == 1.0
    exact = 0.45 * 7 + 0.45 * 11 + 0.1 * 77
    assert rival_evidence(2, math.log(7), math.log(11)) == pytest.approx(math.log(exact))
    assert rival_evidence(0, -math.inf, 1.3) == 1.3
    # Half a proof and half a proof make a whole one.
    assert rival_evidence(2, 4.0, 4.0) > 5.0


@kernel
def reaches(
    setting: Setting,
    nature: Nature,
    generator: Generator,
    c: float,
    level: float,
    samples: int,
    reached: Ints,
) -> None:
    """For each path of stream (0, 0), whether the evidence that its mean lies above c ever reaches the level."""
    for path in range(reached.shape[0]):
        seed_generator(generator, 5, path, NOISE)
        total = 0.0
        for n in range(1, samples + 1):
            total += draw(nature, generator, 0, 0)
            # Without its ceiling, evidence would have to be computed so often that this took minutes.
            if (
                ceiling_above(setting, 0, n, total, c) >= level
                and evidence_above(setting.kind[0], setting.low[0], setting.width[0], n, total, c) >= level
            ):
                reached[path] = 1
                break


@pytest.mark.parametrize("alpha", [0.2, 0.05])
@pytest.mark.parametrize(
    ("noise", "mean"),
    [
        (Gaussian(2.0), 0.7),
        (Bernoulli(), 0.5),
        (Bernoulli(), 0.02),
        (Bernoulli(), 0.98),
        (Bounded(-2.0, 6.0), 1.0),
        (Bounded(-2.0, 6.0), -1.9),
    ],
    ids=repr,
)
def test_evidence_ever_lies_with_probability_at_most_alpha(noise: Noise, mean: float, alpha: float) -> None:
    """At the boundary of the null, 4,000 paths of 3,000 samples; a process that just held would fail with 1e-6."""
    problem = Problem(arms=(Arm("a", {"m": mean}),), objective=maximize("m", noise=noise))
    reached = np.zeros(4_000, np.int64)
    generator = np.zeros(4, np.uint64)
    level = math.log(1 / alpha)
    setting = new_setting(problem, alpha, "paper")
    compiled(reaches)(setting, new_nature(problem), generator, mean, level, 3_000, reached)
    assert reached.sum() <= binom.isf(1e-6, len(reached), alpha)
    # And it is of use: a good part of alpha is spent.
    if isinstance(noise, Gaussian) or noise == Bernoulli():
        assert reached.sum() >= 0.1 * alpha * len(reached)
