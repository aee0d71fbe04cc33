"""Symmetric noise: what is special about evidence that is not log-convex."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from scipy import integrate, stats

import bestarm as ba
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.pairs import pair_evidence
from bestarm.noises.dispatch import evidence
from bestarm.noises.mixture import RHO
from bestarm.noises.streams import ABOVE, BELOW
from bestarm.testing.noise_streams import stream_of_values

SYMMETRIC = ba.Symmetric()


def by_definition(values: list[float], c: float) -> float:
    """The evidence that the mean is above c, from the values one by one, by numerical integration over kappa."""
    z = []
    for n in range(4, len(values)):
        before = np.array(values[:n])
        squares = float(((before - before.mean()) ** 2).sum())
        if squares > 0.0:
            z.append((values[n] - c) / math.sqrt(squares / (n - 1) * (1.0 + 2.0 / n)))
    deviations, squares = sum(z), sum(x * x for x in z)
    prior = stats.halfnorm(scale=RHO**-0.5)
    mixture = integrate.quad(
        lambda k: prior.pdf(k) * math.exp(k * deviations - 0.5 * k * k * squares), 0.0, 4.0, limit=200
    )[0]
    return math.log(0.9 * mixture + 0.05 + 0.05 * 2.0 ** len(values) * (c < min(values)))


@pytest.mark.parametrize("n", [1, 4, 5, 6, 40])
def test_evidence_against_numerical_integration(n: int) -> None:
    values = np.random.default_rng(n).normal(3.0, 2.0, n).tolist()
    s = stream_of_values(SYMMETRIC, np.array(values))
    for c in np.linspace(-2.0, 6.0, 9).tolist():
        assert evidence(s, ABOVE, c) == pytest.approx(by_definition(values, c), rel=1e-6, abs=1e-6)
        mirrored = by_definition([-value for value in values], -c)
        assert evidence(s, BELOW, c) == pytest.approx(mirrored, rel=1e-6, abs=1e-6)


def test_values_that_are_all_the_same_are_no_evidence_but_by_their_signs() -> None:
    s = stream_of_values(SYMMETRIC, np.full(50, 0.1))
    assert evidence(s, ABOVE, 0.1) < 0.0
    assert evidence(s, BELOW, 0.1) < 0.0
    assert evidence(s, ABOVE, 0.0999) > 30.0


def test_a_cell_without_width() -> None:
    """The least value of the one lies an ulp below the largest of the other: rounding leaves nothing of a step."""
    high = stream_of_values(SYMMETRIC, np.array([0.3, 1, 2, 3, 1, 2, 3, 1, 2]))
    low = stream_of_values(SYMMETRIC, np.array([0.1 + 0.2, -5, -6, -7, -5, -6, -5, -4.5, -7]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = pair_evidence(high, low, 0.0)
    products = [evidence(high, ABOVE, c) + evidence(low, BELOW, c) for c in np.linspace(-8.0, 4.0, 4_001).tolist()]
    assert 0.0 < found <= min(products) + 1e-9


def test_few_results_give_no_interval() -> None:
    values = np.random.default_rng(2).normal(size=40)
    few, many = (stream_of_values(SYMMETRIC, values[:n]) for n in (8, 40))
    assert (interval_end(few, ABOVE, 5.0), interval_end(few, BELOW, 5.0)) == (-math.inf, math.inf)
    low, high = interval_end(many, ABOVE, 5.0), interval_end(many, BELOW, 5.0)
    assert values.min() < low < values.mean() < high < values.max()


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_units_do_not_matter(scale: float) -> None:
    values = np.random.default_rng(5).standard_t(3, 60)
    plain, scaled = stream_of_values(SYMMETRIC, values), stream_of_values(SYMMETRIC, scale * values)
    for c in (-0.5, 0.0, 0.7):
        assert evidence(scaled, ABOVE, scale * c) == pytest.approx(evidence(plain, ABOVE, c), rel=1e-9)
