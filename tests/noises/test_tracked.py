"""The evidence about rates for `sampling = "tracking"`: what every noise must do, and how little it loses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.special import betaln
from tests.streams import summed_stream

from bestarm.evidence.pairs import pair_evidence
from bestarm.noises.bernoulli import rate_divergence
from bestarm.noises.dispatch import evidence
from bestarm.noises.streams import ABOVE
from bestarm.noises.tracked.rates import RATIO, TrackedRates, log_ratio, regret
from bestarm.testing.noises import NOISE_CHECKS, check_file_round_trip


@pytest.mark.parametrize("check", [check for check in NOISE_CHECKS if check is not check_file_round_trip])
@pytest.mark.parametrize("mean", [0.03, 0.4])
def test_keeps_the_promises_of_a_noise(check: Any, mean: float) -> None:
    check(TrackedRates(), mean)


@pytest.mark.parametrize("n", [1, 2, 15, 16, 17, 33, 1000, 10**6])
def test_the_regret_is_that_of_krichevsky_and_trofimov(n: int) -> None:
    for ones in sorted({0, 1, n // 3, n // 2, n}):
        m = ones / n
        likelihood = (ones * math.log(m) if ones else 0.0) + ((n - ones) * math.log1p(-m) if ones < n else 0.0)
        mixture = float(betaln(ones + 0.5, n - ones + 0.5)) - math.log(math.pi)
        found = regret(n, float(ones))
        assert found == pytest.approx(likelihood - mixture, abs=1e-11 + 1e-15 * n * max(math.log(n), 1.0))
        least = 0.5 * math.log(0.5 * math.pi * n)
        assert least <= found <= least + math.log(2.0) + 1.0 / (12.0 * n)


def test_the_likelihood_ratio_sums_to_one_at_the_boundary() -> None:
    """At rate c, KT / L(c) is a martingale: over all results of n tests, its mean is 1. One side is at most that."""
    n, c = 12, 0.3
    weights = [math.comb(n, ones) * c**ones * (1.0 - c) ** (n - ones) for ones in range(n + 1)]
    both = [math.exp(n * rate_divergence(ones / n, c) - regret(n, float(ones))) for ones in range(n + 1)]
    one_sided = [math.exp(log_ratio(n, float(ones), c)[0]) for ones in range(n + 1)]
    assert np.dot(weights, both) == pytest.approx(1.0, abs=1e-12)
    assert 0.4 < np.dot(weights, one_sided) < 1.0


@pytest.mark.parametrize("n", [100, 10_000, 1_000_000])
def test_evidence_loses_half_a_logarithm_per_stream(n: int) -> None:
    """So it is asymptotically exact, where 22 tilts stay up to 4% below."""
    most = 0.5 * math.log(n) + 1.0 - math.log(RATIO)
    for m, c in ((0.5, 0.1), (0.31, 0.3), (0.02, 0.001), (1.0, 0.9)):
        found = evidence(summed_stream(TrackedRates(), n, m * n), ABOVE, c)
        assert found >= n * rate_divergence(m, c) - most
    high, low = summed_stream(TrackedRates(), n, 0.6 * n), summed_stream(TrackedRates(), 2 * n, 0.4 * n)
    middle = 1.0 / 3.0
    best = n * rate_divergence(0.6, middle) + 2 * n * rate_divergence(0.2, middle)
    assert pair_evidence(high, low, 0.0) >= best - 2.0 * most - 0.4
