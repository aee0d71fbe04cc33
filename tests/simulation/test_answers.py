"""Which sets of arms are right answers, and what simulations say of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import bestarm as ba
from bestarm.kernel.state import NONE, UNFINISHED
from bestarm.simulation.answers import named_answers, wrong_answers
from bestarm.simulation.device import chosen_device
from bestarm.simulation.engine import Job

ROWS = {"a": (5.0, 2.9), "b": (4.0, 3.2), "c": (3.0, 1.0), "d": (2.8, 1.0), "e": (1.0, 1.0)}


Rows = dict[str, tuple[float, float]]


def plan(rows: Rows = ROWS, *, tolerance: float = 0.0, slack: float = 0.0, **goal: Any) -> ba.Plan:
    return ba.Plan(
        arms=[ba.Arm(name, {"gain": gain, "price": price}) for name, (gain, price) in rows.items()],
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0), tolerance=tolerance),
        constraints=[ba.at_most("price", 3, noise=ba.Gaussian(1.0), slack=slack)],
        **goal,
    )


def is_right(problem: ba.Plan, arms: str) -> bool:
    sets = np.array([[name in arms for name in problem.arm_names]], np.int8)
    answer = problem.arm_names.index(arms[0]) if arms else NONE
    return wrong_answers(problem, np.array([answer]), sets) == 0


@pytest.mark.parametrize(
    ("arms", "fields", "expected"),
    [
        ("ac", {}, True),
        ("ad", {}, False),
        ("ab", {}, False),
        ("a", {}, False),
        ("", {}, False),
        ("ad", {"tolerance": 0.2}, True),
        ("ae", {"tolerance": 0.2}, False),
        ("ab", {"slack": 0.3}, True),
        # Within the slack b is allowed, and need not be found.
        ("ac", {"slack": 0.3}, True),
        ("bd", {"slack": 0.3}, False),
        ("bc", {"slack": 0.3}, False),
        ("bc", {"slack": 0.3, "tolerance": 1.0}, True),
    ],
)
def test_the_two_best(arms: str, fields: dict[str, Any], expected: bool) -> None:
    assert is_right(plan(goal="top", top=2, **fields), arms) == expected


def test_fewer_feasible_arms_than_asked_for() -> None:
    rows = {"a": (5.0, 2.0), "b": (4.0, 3.2), "c": (3.0, 3.2)}
    assert is_right(plan(rows, goal="top", top=2), "a")
    assert not is_right(plan(rows, goal="top", top=2), "ab")
    assert is_right(plan(rows, goal="top", top=3, slack=0.5), "ab")
    assert not is_right(plan(rows, goal="top", top=3, slack=0.5), "bc")
    none = dict.fromkeys("abc", (1.0, 4.0))
    assert is_right(plan(none, goal="top", top=2), "")
    assert not is_right(plan(none, goal="top", top=2), "a")


def test_short_lists() -> None:
    assert is_right(plan(top=2), "ab")
    assert is_right(plan(top=2), "a")
    assert not is_right(plan(top=3), "bcd")
    assert not is_right(plan(top=3), "")
    none = dict.fromkeys("abc", (1.0, 4.0))
    # What it says is about the case that some arm is feasible.
    assert is_right(plan(none, top=2), "ab")
    assert is_right(plan(none, top=2), "")


def test_names_of_sets_and_of_runs_without_an_answer() -> None:
    sets = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [0, 0, 0, 0, 0]], np.int8)
    answers = np.array([0, NONE, UNFINISHED])
    problem = plan(goal="top", top=2)
    assert named_answers(problem, answers, sets) == ["a, c", "none", None]
    assert wrong_answers(problem, answers, sets) == 1


def test_cards_and_campaigns_refuse_them_by_name() -> None:
    problem = plan(goal="top", top=2, name="five")
    job = Job.of(problem, ba.policies.find_policy("certify"), seed=1, max_tests=100)
    with pytest.raises(ba.InvalidInput, match=r"five with certify: a card finds the best arm, not 'top'"):
        chosen_device("cuda", [job], [[(0, 10**6)]], elsewhere=False)
    assert chosen_device("auto", [job], [[(0, 10**6)]], elsewhere=False) == "cpu"
    with pytest.raises(ba.InvalidInput, match=r"goal = 'top': five: a campaign keeps one arm of each answer"):
        ba.Campaign.grid([problem], policies=["certify"])
