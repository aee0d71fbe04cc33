"""How results of simulated arms scatter: means, deviations and limits as stated."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bestarm as ba
from bestarm.kernel.compile import compiled
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.noises.shapes import within
from bestarm.simulation.item_worlds import fill_draws
from bestarm.simulation.nature import new_nature

N = 100_000
SHAPES: dict[str, Any] = {
    "normal": stats.norm(),
    "uniform": stats.uniform(-math.sqrt(3.0), 2.0 * math.sqrt(3.0)),
    "laplace": stats.laplace(scale=math.sqrt(0.5)),
    "exponential": stats.expon(loc=-1.0),
}


def drawn(noise: NoiseModel, mean: float, spread: Any, goal: Any = "maximize") -> Floats:
    """Draws in the user's terms, whatever the goal."""
    arm = ba.Arm("a", {"m": mean}, spreads={"m": spread})
    problem = ba.Problem(arms=(arm,), objective=ba.Objective("m", goal, noise))
    values, generator = np.zeros(N), np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, 7, 0, NOISE)
    compiled(fill_draws)(new_nature(problem), generator, values.reshape(-1, 1, 1))
    return values if goal == "maximize" else -values


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
@pytest.mark.parametrize("shape", SHAPES)
def test_named_shapes(shape: str, goal: str) -> None:
    values = (drawn(ba.Symmetric(), 5.0, {shape: 2.0}, goal) - 5.0) / 2.0
    assert stats.kstest(values, SHAPES[shape].cdf).pvalue > 1e-6


def test_lognormal() -> None:
    values = drawn(ba.Symmetric(), 5.0, {"lognormal": 2.0})
    s = math.sqrt(math.log1p(0.16))
    assert stats.kstest(values, stats.lognorm(s, scale=5.0 * math.exp(-0.5 * s * s)).cdf).pvalue > 1e-6


@pytest.mark.parametrize(
    ("mean", "deviation"), [(5.0, 1.2), (5.0, 2.9), (0.5, 0.3), (9.9, 0.1), (5.0, 0.1), (2.0, 3.5)]
)
def test_in_a_range(mean: float, deviation: float) -> None:
    """Within 5 standard errors: a false failure has probability 6e-7 for the mean, and about that for the deviation."""
    values = drawn(ba.Bounded(0.0, 10.0), mean, deviation)
    assert values.min() >= 0.0
    assert values.max() <= 10.0
    assert abs(values.mean() - mean) < 5.0 * deviation / math.sqrt(N)
    fourth = float(((values - mean) ** 4).mean())
    assert abs(values.var() - deviation**2) < 5.0 * math.sqrt((fourth - deviation**4) / N) + 1e-3 * deviation**2


def test_the_kumaraswamy_distribution() -> None:
    first, second = within(0.3, 0.15)
    values = drawn(ba.Bounded(0.0, 1.0), 0.3, 0.15)
    assert stats.kstest(values, lambda x: 1.0 - (1.0 - x ** (1.0 / first)) ** (1.0 / second)).pvalue > 1e-6


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_what_lies_beyond_the_range_is_cut_off_there(goal: str) -> None:
    values = drawn(ba.Bounded(0.0, 6.0), 5.0, {"lognormal": 2.0}, goal)
    assert values.max() == 6.0
    assert 0.05 < (values == 6.0).mean() < 0.6


def test_no_spread_is_always_the_mean() -> None:
    assert set(drawn(ba.Symmetric(), 5.0, 0.0).tolist()) == {5.0}


@pytest.mark.parametrize(
    ("noise", "spread", "reason"),
    [
        (ba.Bounded(0.0, 10.0), 5.0, r"must be less than 4.6, for values between 0 and 10 with a mean of 5"),
        (ba.Bernoulli(), 0.1, "cannot be stated"),
        (ba.Exact(), 0.1, "cannot be stated"),
        (ba.Symmetric(), -1.0, "must be 0, or lie between 1e-50"),
        (ba.Symmetric(), {"cauchy": 1.0}, "one of the shapes normal, uniform, laplace, exponential, lognormal"),
        (ba.Symmetric(), "wide", "must be a standard deviation"),
    ],
)
def test_what_is_refused(noise: NoiseModel, spread: Any, reason: str) -> None:
    mean = 0.5 if isinstance(noise, ba.Bernoulli) else 5.0
    with pytest.raises(ba.InvalidInput, match=reason):
        ba.Problem(
            arms=(ba.Arm("a", {"m": mean}, spreads={"m": spread}),), objective=ba.Objective("m", "maximize", noise)
        )
