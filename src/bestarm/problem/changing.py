"""Arms that come later or are retired: what they do not go with, and where on items their measurements begin."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from bestarm.problem.arm import Arm
from bestarm.problem.items import count_of
from bestarm.problem.question import Question
from bestarm.validation import InvalidInput


def check_arms_that_change(plan: Question, reserve: float) -> None:
    """Whether arms that came later, or are retired, are as a plan with this reserve allows."""
    excluded = {
        "constraints relative to the baseline: an arm that comes later could be made to suit how the baseline has "
        "turned out so far": bool(plan.relative),
        "a judge: the scores of an arm that comes later would be told after labels": bool(plan.judged),
        "constraints on slices: tests of a slice are made far ahead in the order of items, and an arm that comes "
        "later would have to be measured on all items up to there": plan.inside is not None,
    }
    for words, is_there in excluded.items():
        if reserve and is_there:
            raise InvalidInput("reserve", reserve, f"cannot be stated with {words}")
    if reserve and plan.asks != "best":
        reason = "cannot be stated with a reserve, which shares delta for one best arm; leave out one"
        field = "top" if plan.asks == "short list" else "goal"
        raise InvalidInput(field, getattr(plan, field), reason)
    came = 0
    for index, arm in enumerate(plan.arms):
        field = f"arms[{index}].{'retired' if arm.retired else 'added'}"
        if (arm.added or arm.retired) and not reserve:
            given = arm.retired or arm.added
            raise InvalidInput(field, given, "needs a reserve: the share of delta kept for arms that come or go")
        if (arm.added or came) and arm.added != came + 1:
            raise InvalidInput(
                f"arms[{index}].added",
                arm.added,
                f"arms that came later count from 1, in order, after the others; this would be {came + 1}",
            )
        came = arm.added
        _check_since(plan, f"arms[{index}].since", arm)
    if all(arm.retired for arm in plan.arms):
        raise InvalidInput("arms[0].retired", True, "not every arm can be retired")


def _check_since(plan: Question, field: str, arm: Arm) -> None:
    """Whether so many places can have been met when an arm came."""
    if arm.since and (not arm.added or plan.items is None or plan.blocks is not None):
        raise InvalidInput(field, arm.since, "is for arms that come later in a study with items")
    if plan.items is not None and not plan.repeats and arm.since > (count := count_of(plan.items)):
        raise InvalidInput(field, arm.since, f"must be at most {count:,}, the number of items")


def first_places(problem: Question) -> npt.NDArray[np.int64]:
    """By arm, on items: the place of its first test. With repeats, nothing is learned at places that were met."""
    return np.array([arm.since if problem.repeats else 0 for arm in problem.arms])
