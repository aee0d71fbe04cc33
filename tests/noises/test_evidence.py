"""Evidence of each noise: against independent values in the far tails."""

from __future__ import annotations

import math

import mpmath
import pytest
from tests.lengths import cases

from bestarm.kernel.compile import compiled
from bestarm.noises.bernoulli import (
    numbers_of_rates,
    rate_ceiling,
    rate_divergence,
    rate_evidence,
    rate_evidence_and_slope,
)
from bestarm.noises.bets import BETS
from bestarm.noises.gaussian import gaussian_evidence, gaussian_evidence_and_slope
from bestarm.noises.mixture import RHO, log_scaled_phi

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


NUMBERS = numbers_of_rates(0.2)


@cases(35)
@pytest.mark.parametrize("n", [1, 10, 1000, 10**6])
@pytest.mark.parametrize("mean", [0.0, 0.003, 0.3, 0.5, 0.97, 1.0])
@pytest.mark.parametrize("c", [1e-6, 0.01, 0.25, 0.5, 0.9, 1 - 1e-6])
def test_rate_evidence(n: int, mean: float, c: float) -> None:
    total = float(round(n * mean))
    tilts = [mpmath.mpf(0.05) * mpmath.mpf(1.5) ** (k - 8) for k in range(BETS)]
    # At the threshold 0.2, whose standard deviation is 0.4.
    shares = [tilt / (1 + (tilt * 0.4 / 0.12) ** 2.75) for tilt in tilts]
    weights = [share / sum(shares) for share in shares]
    terms, slope = [], mpmath.mpf(0)
    for k, tilt in enumerate(tilts):
        terms.append(weights[k] * mpmath.exp(tilt * total - n * mpmath.log(1 - mpmath.mpf(c) + c * mpmath.exp(tilt))))
        slope -= terms[-1] * n * mpmath.expm1(tilt) / (1 + c * mpmath.expm1(tilt))
    exact = mpmath.log(sum(terms))
    assert rate_evidence(n, total, c, NUMBERS, 0) == pytest.approx(float(exact), rel=1e-10, abs=1e-10)
    assert compiled(rate_evidence)(n, total, c, NUMBERS, 0) == pytest.approx(float(exact), rel=1e-10, abs=1e-10)
    assert rate_evidence_and_slope(n, total, c, NUMBERS, 0)[1] == pytest.approx(float(slope / sum(terms)), rel=1e-9)
    assert rate_ceiling(n, total, c, NUMBERS, 0) >= float(exact) - 1e-12


def test_rate_divergence() -> None:
    assert rate_divergence(0.3, 0.6) == pytest.approx(0.3 * math.log(0.5) + 0.7 * math.log(0.7 / 0.4))
    assert rate_divergence(0.0, 0.5) == pytest.approx(math.log(2))
    assert rate_divergence(1.0, 1.0) == 0.0
    assert rate_divergence(0.5, 1.0) == math.inf
