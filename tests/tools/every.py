"""What no procedure can do without that decides every arm."""

from __future__ import annotations

import dataclasses

import bestarm as ba
from bestarm.theory.bounds import divergence_bound
from bestarm.theory.information import truth


def least_tests(problem: ba.Problem, delta: float) -> float:
    """The bound of Proposition G.4 in `docs/certificates/goals.md` on the expected cost of the tests: of a feasible
    arm, each constraint must be told from a violated one; of another arm, the violated constraint that costs least."""
    facts, total = truth(dataclasses.replace(problem, goal="best")), 0.0
    for cost, feasible, violated, margin in zip(
        problem.arm_costs, facts.feasible, facts.violated, facts.margin, strict=True
    ):
        costs = cost[1:] / margin
        total += costs.sum() if feasible else costs[violated].min()
    return divergence_bound(total, delta)
