"""T* against another solver, in closed form, and under changes that must not matter."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.lengths import examples, first
from tests.theory.problems import Floats, kl, problem_of

import bestarm as ba
from bestarm.noises import Noise
from bestarm.theory import Theory, analyze
from bestarm.theory.allocation import oracle


def demands(problem: ba.Problem, w: Floats) -> Floats:
    """What certificates.md asks of the weights [arm, metric], written out: each must be at least 1."""
    means, form = problem.true_means(), problem.normal_form()
    noises, answers = problem.noises, problem.right_answers()

    def against_feasible(j: int) -> Any:
        return sum(
            w[j, k] * kl(noises[k], means[j, k], c.threshold)
            for k, c in enumerate(problem.constraints, start=1)
            if not c.allows(means[j, k])
        )

    best = answers[0]
    if best is None:
        return np.array([against_feasible(j) for j in range(len(means))])

    result = [
        w[best, k] * kl(noises[k], means[best, k], c.threshold) for k, c in enumerate(problem.constraints, start=1)
    ]
    for j in range(len(means)):
        if j == best:
            continue
        total = against_feasible(j)
        if means[j, 0] * form.sign[0] < means[best, 0] * form.sign[0]:
            x, y = w[best, 0], w[j, 0]
            m = (x * means[best, 0] + y * means[j, 0]) / (x + y + 1e-300)
            if x + y > 0:
                total = total + x * kl(noises[0], means[best, 0], m) + y * kl(noises[0], means[j, 0], m)
        result.append(total)
    return np.array(result)


def solver_weights(problem: ba.Problem, start: Floats) -> Floats:
    """The cheapest weights by a general solver, over all of them at once."""
    shape, cost = start.shape, problem.arm_costs.ravel()
    scale = float(cost @ start.ravel())
    unit = np.maximum(start.ravel(), 1e-9 * start.max())
    rules = {
        "jac": lambda v: cost / scale,
        "bounds": [(1e-12 * start.max(), None)] * unit.size,
        "constraints": {"type": "ineq", "fun": lambda v: demands(problem, v.reshape(shape)) - 1.0},
        "options": {"maxiter": 1000, "ftol": 1e-12},
    }
    solve: Any = minimize  # its stubs do not take lambdas
    answer = solve(lambda v: float(cost @ v) / scale, unit, method="SLSQP", **rules)
    assert demands(problem, answer.x.reshape(shape)).min() > 1.0 - 1e-6
    weights: Floats = answer.x.reshape(shape)
    return weights


def random_noise(rng: np.random.Generator, kind: str) -> Noise:
    if kind == "mixed":
        kind = rng.choice(["gaussian", "bernoulli", "wide"])
    if kind == "bernoulli":
        return ba.Bernoulli()
    return ba.Gaussian(rng.uniform(0.3, 2.0) if kind == "gaussian" else rng.uniform(1.0, 2.0))


def random_problem(rng: np.random.Generator, kind: str, constraints: int, feasible: float) -> ba.Problem:
    """A problem whose gaps are not so small that a general solver gives up; arms are feasible with that probability."""
    arms = int(rng.integers(2, 6))
    noises = [random_noise(rng, kind) for _ in range(constraints + 1)]
    means = rng.permutation(np.linspace(0.1, 0.9, arms))[:, None] + rng.uniform(-0.05, 0.05, (arms, 1))
    thresholds = rng.uniform(0.35, 0.65, constraints)
    for tau in thresholds:
        sides = np.where(rng.random((arms, 1)) < feasible ** (1 / constraints), -1.0, 1.0)
        means = np.hstack([means, tau + sides * rng.uniform(0.08, 0.3, (arms, 1))])
    costs = rng.uniform(0.3, 3.0, constraints + 1)
    at_least, minimizing = bool(rng.integers(2)), bool(rng.integers(2))
    problem = problem_of(means, thresholds.tolist(), noises, costs.tolist(), minimizing=minimizing, at_least=at_least)
    # Arms may differ fiftyfold in what their tests cost, for one metric or for all.
    times = [factor if rng.random() < 0.7 else {"metric 0": factor} for factor in 50.0 ** rng.random(arms)]
    priced = [dataclasses.replace(arm, cost=cost) for arm, cost in zip(problem.arms, times, strict=True)]
    return dataclasses.replace(problem, arms=tuple(priced)) if rng.random() < 0.5 else problem


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.torture) for seed in range(1, 6))])
@pytest.mark.parametrize("kind", first(1, ["mixed", "gaussian", "bernoulli"]))
@pytest.mark.parametrize(("constraints", "feasible"), [(0, 1.0), (1, 0.5), (3, 0.6), (2, 0.0)])
def test_t_star_is_the_minimum_a_general_solver_finds(kind: str, constraints: int, feasible: float, seed: int) -> None:
    rng = np.random.default_rng([seed, constraints, len(kind)])
    problem = random_problem(rng, kind, constraints, feasible)
    result = oracle(problem)
    assert result.allocation.sum() == pytest.approx(1.0)
    assert result.weights.min() >= 0.0
    assert result.characteristic_time == pytest.approx(float((result.weights * problem.arm_costs).sum()), rel=1e-12)
    # Enough information, and nowhere too much where it costs.
    assert demands(problem, result.weights) == pytest.approx(np.ones(len(demands(problem, result.weights))), abs=1e-8)
    # From all streams equally and from near the answer: neither finds anything cheaper, and one comes as close.
    even = np.full_like(result.weights, 1.0)
    even *= 1.0 / demands(problem, even).min() if demands(problem, even).min() > 0 else 100.0
    noise = rng.uniform(0.8, 1.3, even.shape)
    found = [solver_weights(problem, even), solver_weights(problem, (result.weights + 0.02 * even) * noise)]
    costs = [float((weights * problem.arm_costs).sum()) for weights in found]
    assert min(costs) >= result.characteristic_time * (1 - 1e-5)
    assert min(costs) == pytest.approx(result.characteristic_time, rel=1e-4)
    # The cost is flat at its minimum, so the solver's weights are less sure than their cost.
    nearest = found[int(np.argmin(costs))]
    assert nearest / nearest.sum() == pytest.approx(result.allocation, abs=0.01)


def test_t_star_of_two_gaussian_arms_in_closed_form() -> None:
    # d w x / (w + x) = 1 with d = gap² / (2 σ²) is cheapest at w = x = 2 / d.
    result = oracle(problem_of([[0.0], [3.0]], noises=[ba.Gaussian(2.0)], costs=[5.0]))
    d = 9 / 8
    assert result.weights == pytest.approx(np.array([[2 / d], [2 / d]]))
    assert result.characteristic_time == pytest.approx(5 * 4 / d)


def test_feasibility_takes_over_where_performance_gets_dear() -> None:
    # The best arm is tested because of its feasible rival, so some performance against arm 2 is cheap; the rest is not.
    both = oracle(problem_of([[1.0, 0.2], [0.0, 0.2], [0.5, 0.8]]))
    assert both.weights[2].min() > 0
    assert both.weights[1, 1] == 0
    only = oracle(problem_of([[1.0, 0.2], [0.9, 0.8], [0.9, 0.8]]))
    assert only.weights[:, 0].tolist() == [0.0, 0.0, 0.0]
    assert only.characteristic_time == pytest.approx(3 * 2 / 0.3**2)


def test_sure_rates_have_finite_times() -> None:
    coin: list[Noise] = [ba.Bernoulli(), ba.Bernoulli()]
    for means in ([[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.2], [0.5, 0.2]], [[0.5, 0.2], [0.0, 1.0]], [[0.0, 1.0]]):
        problem = problem_of(means, noises=coin)
        theory = analyze(problem, 0.1)
        assert 0 < theory.characteristic_time < math.inf
        assert theory.characteristic_time * (1 + 1e-9) >= 2 * theory.H


def numbers(theory: Theory) -> list[float]:
    sizes = [value for arm in theory.arms for value in (arm.theta, arm.phi, arm.H)]
    whole = [theory.H, theory.lower_bound, theory.upper_bound, theory.characteristic_time, theory.kl_bound]
    return whole + sizes + theory.allocation.ravel().tolist()


tables = st.integers(1, 4).flatmap(
    lambda arms: st.lists(
        st.lists(st.integers(0, 20).map(lambda k: k / 20 + 0.013), min_size=3, max_size=3), min_size=arms, max_size=arms
    )
)


@examples(20, 60)
@given(tables, st.sampled_from([0.001, 0.1, 0.3]))
def test_units_and_directions_do_not_matter(table: list[list[float]], delta: float) -> None:
    plain = numbers(analyze(problem_of(table), delta))
    scaled = np.array(table) * [3.0, 0.5, 10.0]
    noises: list[Noise] = [ba.Gaussian(3.0), ba.Gaussian(0.5), ba.Gaussian(10.0)]
    assert numbers(analyze(problem_of(scaled, [0.25, 5.0], noises), delta)) == pytest.approx(
        plain, rel=1e-7, abs=1e-9, nan_ok=True
    )
    mirrored = problem_of(-np.array(table), [-0.5, -0.5], minimizing=True, at_least=True)
    assert numbers(analyze(mirrored, delta)) == pytest.approx(plain, rel=1e-7, abs=1e-9, nan_ok=True)


@examples(15, 40)
@given(tables)
def test_rates_can_be_told_by_their_complement(table: list[list[float]]) -> None:
    rates = np.clip(np.array(table), 0.0, 1.0)
    coins: list[Noise] = [ba.Bernoulli()] * 3
    plain = numbers(analyze(problem_of(rates, [0.4, 0.5], coins), 0.1))
    mirrored = problem_of(1.0 - rates, [0.6, 0.5], coins, minimizing=True, at_least=True)
    assert numbers(analyze(mirrored, 0.1)) == pytest.approx(plain, rel=1e-6, abs=1e-8, nan_ok=True)


@examples(15, 40)
@given(tables)
def test_costs_scale_the_characteristic_time_and_nothing_else(table: list[list[float]]) -> None:
    plain, dear = analyze(problem_of(table), 0.1), analyze(problem_of(table, costs=[2.0] * 3), 0.1)
    assert dear.characteristic_time == pytest.approx(2 * plain.characteristic_time)
    assert dear.allocation == pytest.approx(plain.allocation, nan_ok=True)
    assert (dear.H, dear.lower_bound, dear.upper_bound) == (plain.H, plain.lower_bound, plain.upper_bound)


@examples(20, 60)
@given(tables, st.booleans())
def test_t_star_is_at_least_twice_h(table: list[list[float]], coins: bool) -> None:
    rates = np.clip(np.array(table), 0.0, 1.0)
    theory = analyze(problem_of(rates, noises=[ba.Bernoulli()] * 3 if coins else None), 0.1)
    assert theory.characteristic_time * (1 + 1e-9) >= 2 * theory.H
    assert theory.lower_bound <= theory.kl_bound * (1 + 1e-9)
