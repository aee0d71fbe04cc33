"""How delta is shared among the certificates of `certify`: what the evidence for each must reach.

Let i* be the best truly feasible arm. An answer is wrong only if i* was rejected, or if another arm's certificates went
wrong; that any other arm is rejected does no harm. So rejections need no union over arms: all of them have one share of
delta, `REJECTING`, and the certificates of each arm have its share of the rest. If a single arm is asked about, as by
a gate, it is certified wrongly only if it is infeasible, and rejected wrongly only if it is feasible: each has all of
delta. If every feasible arm is asked for, each arm has its share of delta for the same reason, whichever way it is
decided. The proofs are in `docs/certificates`: Theorem C.2, Theorem G.7 and Theorem G.3.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.answer import odds
from bestarm.kernel.elementary import log
from bestarm.kernel.state import Floats
from bestarm.problem import NEWEST_RULES, Problem
from bestarm.validation import exact

REJECTING = 0.25
"""The share of delta for the rejection of an arm, or the least weight of an arm if that is more."""


class Levels(NamedTuple):
    """By arm, the logs of what evidence must reach."""

    certifying: Floats
    """That a constraint of the arm holds, or that the arm is better than another."""
    rejecting: Floats
    """That the arm is infeasible."""


def rules_of(problem: Problem) -> int:
    """The edition of the rules by which a problem is decided: the plan's, or the newest."""
    rules: int = getattr(problem, "rules", NEWEST_RULES)
    return rules


def weights_of(problem: Problem) -> Floats:
    """The prior weights of the arms that are asked about, which add up to 1. An arm that is set aside gets the least of
    them, so that its intervals are as wide as any."""
    weights = np.array([arm.weight for arm in problem.arms])
    asked = np.arange(len(weights)) != problem.set_aside
    weights[~asked] = weights[asked].min()
    share: Floats = weights / weights[asked].sum()
    return share


def levels_of(problem: Problem, delta: float) -> Levels:
    """The levels for what the problem asks."""
    weights = weights_of(problem)
    if problem.goal in ("top", "every feasible"):
        # The rejection of any of several arms would be wrong: each arm has its share for everything.
        level = -log(delta * weights)
        return Levels(level, level)
    # At worst i* is the arm with the least weight: all others can be answered wrongly.
    others = 1.0 - weights.min()
    if not problem.constraints:
        # No arm is infeasible, and "none" is never the answer.
        certifying = weights / others if others > 0.0 else weights
        return Levels(-log(delta * certifying), np.full(len(weights), -math.log(delta)))
    rejecting = max(REJECTING, weights.min())
    rest = min((1.0 - rejecting) / others, 1.0) if others > 0.0 else 1.0
    return Levels(-log(delta * rest * weights), np.full(len(weights), -math.log(delta * rejecting)))


def shares_with_reserve(plan: Problem) -> Floats:
    """By arm: its share. What is reserved goes to the arms that come later, 6 / (π k)² of it to number k."""
    reserve: float = getattr(plan, "reserve", 0.0)
    came = np.array([arm.added for arm in plan.arms])
    weights = np.array([arm.weight for arm in plan.arms])
    first = (1.0 - reserve) * weights / weights[came == 0].sum()
    share: Floats = np.where(came == 0, first, reserve * 6.0 / (math.pi * np.maximum(came, 1)) ** 2)
    return share


def levels_in_words(problem: Problem, delta: float) -> str:
    """What the evidence in one stream must reach, as odds; and what that of several constraints together must, which
    is what the reason of an arm that is infeasible states.

    >>> import bestarm as ba
    >>> print(levels_in_words(ba.instance("exp2-k64"), 0.1).replace(". ", ".\\n"))
    1 : 840, and 1 : 200 that a constraint is violated.
    Beside "infeasible" stands the evidence of all constraints together, their weighted mean: it had to reach 1 : 40
    """
    certifying, rejecting = levels_of(problem, delta)
    of_arm = f"the {problem.noun.one}'s weight"
    words = _range_of_odds(certifying, of_arm)
    if not problem.constraints:
        return words
    weights = np.array([constraint.weight for constraint in problem.constraints])
    violated = np.subtract.outer(rejecting, log(weights / weights.sum()))
    words = f"{words}, and {_range_of_odds(violated, 'the weight')} that a constraint is violated"
    if len(weights) == 1:
        return words
    together = 'Beside "infeasible" stands the evidence of all constraints together, their weighted mean'
    return f"{words}. {together}: it had to reach {_range_of_odds(rejecting, of_arm)}"


def up_to_tolerance(problem: Problem) -> str:
    """What "as good or better" allows for, in words; empty without a tolerance."""
    margin = problem.objective.tolerance
    return f" (up to the tolerance of {exact(margin)})" if margin else ""


def _range_of_odds(levels: Floats, reason: str) -> str:
    least, most = odds(float(levels.min())), odds(float(levels.max()))
    return least if least == most else f"{least} to {most} by {reason}"
