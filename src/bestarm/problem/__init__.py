"""What is asked and how it is to be decided: problems and plans. Frozen, checked when made, alike in TOML and JSON."""

from bestarm.problem.arm import Arm
from bestarm.problem.blocks import Blocks
from bestarm.problem.budget import Amount, Budget
from bestarm.problem.measurements import Measurement
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.problem import DEFAULT_BOUND, DEFAULT_POLICY, NEWEST_RULES, Order, Plan, Problem
from bestarm.problem.stating import at_least, at_most, maximize, minimize

__all__ = [
    "DEFAULT_BOUND",
    "DEFAULT_POLICY",
    "NEWEST_RULES",
    "Amount",
    "Arm",
    "Blocks",
    "Budget",
    "Constraint",
    "Measurement",
    "Objective",
    "Order",
    "Plan",
    "Problem",
    "at_least",
    "at_most",
    "maximize",
    "minimize",
]
