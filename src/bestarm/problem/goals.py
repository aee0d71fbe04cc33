"""What a study is to find: the best feasible arm, a short list that holds it, the m best, or any feasible arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

from bestarm.validation import exact, finite_number

Goal = Literal["best", "any feasible", "top"]
Asked = Literal["best", "short list", "any feasible", "top"]
"""What a goal comes to: "best" with `top` larger than 1 asks for a short list."""

GOALS: tuple[Goal, ...] = get_args(Goal)
ASKED: tuple[Asked, ...] = get_args(Asked)
MOST_TOP = 1000


def _top(data: object) -> int:
    number = finite_number(data)
    if number != int(number) or not 1 <= number <= MOST_TOP:
        raise ValueError(f"must be a whole number from 1 to {MOST_TOP:,}")
    return int(number)


GoalField = Goal
Top = Annotated[int, BeforeValidator(_top)]


def asked_by(goal: Goal, top: int) -> Asked:
    """What a goal asks for.

    >>> asked_by("best", 1), asked_by("best", 3), asked_by("top", 1)
    ('best', 'short list', 'top')
    """
    return "short list" if goal == "best" and top > 1 else goal


def answers_sets(asked: Asked) -> bool:
    """Whether the answer is a set of arms."""
    return asked in ("short list", "top")


def set_words(asked: Asked, arms: Sequence[str], top: int, tolerance: float, is_slack: bool, is_sure: bool) -> str:
    """What a certified set is: what stands after its names. `is_sure` says that some arm is certified feasible.

    >>> set_words("short list", ["a", "b"], 2, 0.0, False, True)
    'the best feasible arm is one of these'
    >>> set_words("short list", ["a", "b"], 2, 0.5, False, False)
    'the best feasible arm, or one as good within 0.5, if any is feasible, is one of these'
    >>> set_words("top", ["a", "b", "c"], 3, 0.0, False, True), set_words("top", ["a"], 3, 0.0, True, True)
    ('the 3 best feasible arms', 'the only feasible arm, within the slack')
    """
    margins = [f"within {exact(tolerance)}"] if tolerance else []
    margins += ["within the slack"] if is_slack else []
    if asked == "any feasible":
        return "feasible within its slack" if is_slack else "feasible"
    if asked == "short list":
        near = f", or one as good {' and '.join(margins)}," if margins else ""
        perhaps = "" if is_sure else f"{'' if near else ','} if any is feasible,"
        return f"the best feasible arm{near}{perhaps} is one of these"
    what = "only feasible arm" if len(arms) < top else "best feasible arm" if top == 1 else f"{top} best feasible arm"
    margins = margins[-1:] if is_slack and len(arms) < top else [] if len(arms) < top else margins
    return f"the {what}{'' if len(arms) == 1 else 's'}{', ' if margins else ''}{' and '.join(margins)}"
