"""What is asked and how it is to be decided: problems and plans. Frozen, checked when made, alike in TOML and JSON."""

from bestarm.problem.parts import Constraint, Objective, at_least, at_most, maximize, minimize
from bestarm.problem.problem import DEFAULT_BOUND, DEFAULT_POLICY, NEWEST_RULES, Budget, Order, Plan, Problem
from bestarm.problem.question import Arm

__all__ = [
    "DEFAULT_BOUND",
    "DEFAULT_POLICY",
    "NEWEST_RULES",
    "Arm",
    "Budget",
    "Constraint",
    "Objective",
    "Order",
    "Plan",
    "Problem",
    "at_least",
    "at_most",
    "maximize",
    "minimize",
]
