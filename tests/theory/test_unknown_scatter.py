"""Theory without a stated scatter, or without any scatter: by scipy, in closed form, or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize
from tests.program import bestarm

import bestarm as ba
from bestarm.noises import Noise
from bestarm.noises.shapes import within
from bestarm.theory import analyze
from bestarm.theory.allocation import oracle


def two_arms(noise: Noise, spread: Any = None, means: tuple[float, float] = (1.0, 0.4)) -> ba.Problem:
    arms = [
        ba.Arm(f"arm {k}", {"x": mean}, spreads={} if spread is None else {"x": spread}) for k, mean in enumerate(means)
    ]
    return ba.Problem(arms=arms, objective=ba.maximize("x", noise=noise))


def constrained(noise: Noise, mean: float, spread: Any = None) -> ba.Problem:
    """One arm whose constraint "at most 0.5" is all there is to find out."""
    arm = ba.Arm("a", {"x": 0.0, "y": mean}, spreads={} if spread is None else {"y": spread})
    return ba.Problem([arm], ba.maximize("x", noise=ba.Gaussian(1.0)), [ba.at_most("y", 0.5, noise=noise)])


first, second = (1.0 / power for power in within(0.4, 0.15))
ROOT_3 = math.sqrt(3.0)
KNOWN: dict[str, tuple[Any, Any, float, tuple[float, float]]] = {
    "as simulated, unless stated": (None, lambda x: 1.5 * (1 - x) ** 0.5, 0.4, (0.0, 1.0)),
    "as simulated, above one half": (None, lambda x: 1.5 * x**0.5, 0.6, (0.0, 1.0)),
    "normal": (0.02, NormalDist(0.45, 0.02).pdf, 0.45, (0.25, 0.65)),
    "uniform": ({"uniform": 0.1}, lambda x: 5.0 / ROOT_3, 0.4, (0.4 - 0.1 * ROOT_3, 0.4 + 0.1 * ROOT_3)),
    "in a range": (0.15, lambda x: first * second * x ** (first - 1) * (1 - x**first) ** (second - 1), 0.4, (0.0, 1.0)),
}


@pytest.mark.parametrize("case", KNOWN)
def test_the_kl_infimum(case: str) -> None:
    spread, density, mean, support = KNOWN[case]
    side = 1.0 if mean < 0.5 else -1.0

    def growth(rate: float) -> float:
        return -float(integrate.quad(lambda x: density(x) * math.log(1 - side * rate * (x - 0.5)), *support)[0])

    minimize: Any = optimize.minimize_scalar
    best = -minimize(growth, bounds=(0.0, 2.0), method="bounded", options={"xatol": 1e-9}).fun
    scaled = {kind: 10.0 * size for kind, size in spread.items()} if isinstance(spread, dict) else spread
    scaled = 10.0 * spread if isinstance(spread, float) else scaled
    found = ba.Bounded(-3.0, 7.0).information(10.0 * mean - 3.0, np.array([2.0]), scaled)
    assert found[0] == pytest.approx(best, rel=1e-6)
    # A test tells as much against the constraint as against the mean.
    theory = analyze(constrained(ba.Bounded(0.0, 1.0), mean, spread), 0.1)
    assert pytest.approx(0.5 / best, rel=1e-6) == theory.H


def test_unknown_variance() -> None:
    problem = constrained(ba.Symmetric(), 0.2, 0.4)
    assert pytest.approx(1.0 / math.log1p(0.3**2 / 0.4**2)) == analyze(problem, 0.1).H
    theory = analyze(two_arms(ba.Symmetric(), 0.5), 0.1)
    assert pytest.approx(2.0 / math.log1p(0.6**2 / 0.5**2)) == theory.H
    # By symmetry both arms are tested as often, and are mistaken for each other in the middle.
    assert theory.characteristic_time == pytest.approx(2.0 / math.log1p(0.3**2 / 0.5**2), rel=1e-6)
    assert theory.allocation == pytest.approx(np.full((2, 1), 0.5), abs=1e-4)


def test_two_arms_that_scatter_differently() -> None:
    problem = two_arms(ba.Symmetric()).with_spreads({"arm 0": {"x": 1.0}, "arm 1": {"x": 0.2}})

    def cost(share: float) -> float:
        m = np.linspace(0.4, 1.0, 20_001)
        of_both = (1 - share) * np.log1p((1.0 - m) ** 2) + share * np.log1p(((m - 0.4) / 0.2) ** 2)
        return float(2.0 / of_both.min())

    minimize: Any = optimize.minimize_scalar
    best = minimize(cost, bounds=(0.01, 0.99), method="bounded", options={"xatol": 1e-9})
    found = oracle(problem)
    assert found.characteristic_time == pytest.approx(best.fun, rel=1e-5)
    assert found.allocation[1, 0] == pytest.approx(best.x, abs=2e-3)


@pytest.mark.torture
def test_tables_agree_with_the_closed_form() -> None:
    """A Gaussian metric whose spreads are stated as its sigma is computed the other way."""
    plain = ba.instance("exp2-k4")
    stated = plain.with_spreads({name: {plain.metrics[0]: 1.0} for name in plain.arm_names})
    assert oracle(stated).characteristic_time == pytest.approx(oracle(plain).characteristic_time, rel=1e-6)
    assert oracle(stated).allocation == pytest.approx(oracle(plain).allocation, abs=1e-5)
    assert pytest.approx(analyze(plain, 0.1).H) == analyze(stated, 0.1).H


def test_what_never_varies_costs_nothing() -> None:
    for means in ((1.0, 0.4), (1.0, 1.0)):
        theory = analyze(two_arms(ba.Exact(), means=means), 0.1)
        assert (theory.H, theory.lower_bound, theory.characteristic_time) == (0.0, 0.0, 0.0)
    for mean in (0.4, 0.5, 0.6):
        theory = analyze(constrained(ba.Exact(), mean), 0.1)
        assert (theory.H, theory.characteristic_time) == (0.0, 0.0)
        # "At most" allows the threshold itself.
        assert theory.answer == (None if mean > 0.5 else "a")


def test_a_quantile_is_a_rate() -> None:
    constraint = ba.at_most("y", 200.0, noise=ba.Quantile(0.9))
    arm = ba.Arm("a", {"x": 0.0, "y": 0.04})
    problem = ba.Problem([arm], ba.maximize("x", noise=ba.Gaussian(1.0)), [constraint])
    kl = 0.04 * math.log(0.4) + 0.96 * math.log(0.96 / 0.9)
    assert pytest.approx(0.5 / kl) == analyze(problem, 0.1).H


@pytest.mark.parametrize(
    ("noise", "spread"),
    [
        (ba.Symmetric(), {"laplace": 1.0}),
        (ba.Symmetric(), 0.0),
        (ba.Gaussian(2.0), 1.0),
        (ba.Bounded(0.0, 1.1), {"lognormal": 0.3}),
    ],
)
def test_unknown_bounds_are_not_computed(noise: Noise, spread: Any, tmp_path: Path) -> None:
    problem = two_arms(noise, spread)
    theory = analyze(problem, 0.1)
    assert "how much a test of 'x' tells, if its results scatter as the spreads of 'arm 0'" in theory.not_computed[0]
    summary = theory.summary()
    for figure in ("H", "lower_bound", "characteristic_time", "kl_bound"):
        assert math.isnan(getattr(theory, figure))
        assert summary[figure] is None
    assert summary["not_computed"] == list(theory.not_computed)
    (tmp_path / "x.toml").write_text(ba.Plan.of(problem).to_toml())
    assert bestarm("theory", "x.toml", "--delta", "0.1", cwd=tmp_path).out.count("not computed") >= 4
    assert json.loads(bestarm("theory", "x.toml", "--delta", "0.1", "--json", cwd=tmp_path).out) == summary
