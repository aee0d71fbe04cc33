"""How delta is shared: whichever arm is the best, what can go wrong adds up to delta at most."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples

import bestarm as ba
from bestarm.kernel.state import Floats
from bestarm.policies.levels import levels_in_words, levels_of, weights_of

GAUSSIAN = ba.Gaussian(1.0)


def problem(weights: list[float], constraints: int = 2) -> ba.Problem:
    return ba.Problem(
        arms=[ba.Arm(f"arm {k}", weight=weight) for k, weight in enumerate(weights)],
        objective=ba.maximize("p", noise=GAUSSIAN),
        constraints=[ba.at_most(f"c{k}", 0.0, noise=GAUSSIAN) for k in range(constraints)],
    )


def shares(asked: ba.Problem) -> tuple[Floats, Floats]:
    certifying, rejecting = levels_of(asked, 0.1)
    return np.exp(-certifying) / 0.1, np.exp(-rejecting) / 0.1


@examples(50, 500)
@given(st.lists(st.floats(1e-3, 1e3), min_size=1, max_size=30), st.integers(0, 2))
def test_whichever_arm_is_the_best(weights: list[float], constraints: int) -> None:
    certifying, rejecting = shares(problem(weights, constraints))
    for best in range(len(weights)):
        others = certifying.sum() - certifying[best]
        assert others + (rejecting[best] if constraints else 0.0) <= 1.0 + 1e-9
    # No arm is feasible, and each may be certified to be.
    if constraints:
        assert certifying.sum() <= 1.0 + 1e-9


@given(st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=30))
def test_where_several_rejections_can_be_wrong(weights: list[float]) -> None:
    asked = dataclasses.replace(problem(weights), goal="top", top=2)
    certifying, rejecting = shares(asked)
    assert certifying == pytest.approx(weights_of(asked))
    assert rejecting == pytest.approx(weights_of(asked))


@pytest.mark.parametrize(("arms", "certifying", "rejecting"), [(2, 2, 2), (4, 4, 4), (5, 16 / 3, 4), (64, 84, 4)])
def test_with_equal_weights(arms: int, certifying: float, rejecting: float) -> None:
    found = shares(problem([1.0] * arms))
    assert 1.0 / found[0] == pytest.approx(np.full(arms, certifying))
    assert 1.0 / found[1] == pytest.approx(np.full(arms, rejecting))
    alone = shares(problem([1.0] * arms, 0))[0]
    assert 1.0 / alone == pytest.approx(np.full(arms, arms - 1))


def test_in_words() -> None:
    assert levels_in_words(problem([1.0, 1.0, 1.0], 0), 0.1) == "1 : 20"
    first, second = levels_in_words(problem([1.0, 3.0]), 0.1).split(". ")
    assert first == "1 : 13 to 1 : 40 by the arm's weight, and 1 : 80 that a constraint is violated"
    assert second.endswith("all constraints together, their weighted mean: it had to reach 1 : 40")


@pytest.mark.parametrize("violation", [-0.01, 0.0])
def test_many_arms_err_with_probability_delta_at_most(violation: float) -> None:
    """The best of 16 arms is on its limits: if it is feasible it must not be rejected, if not, not be answered.

    One or two in a hundred err, where δ = 20% may. If as many did, 250 or more of 1,000 would with probability 1e-4.
    """
    rows = [(1.0, violation)] + [(0.0, -1.0)] + [(0.5, 1.0)] * 14
    asked = ba.Problem(
        arms=[ba.Arm(f"arm {k}", {"p": p, "c": c}) for k, (p, c) in enumerate(rows)],
        objective=ba.maximize("p", noise=GAUSSIAN),
        constraints=[ba.at_most("c", 0.0, noise=GAUSSIAN)],
    )
    result = ba.simulate(asked, delta=0.2, runs=1000, max_tests=2_000, seed=5, keep_streams=False)
    assert result.wrong < 250
    assert result.wrong >= 5
