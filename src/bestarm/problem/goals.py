"""What a study is to find: the best feasible arm, a short list that holds it, the m best, any feasible arm, or every
feasible arm."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BeforeValidator

from bestarm.validation import described, finite_number

Goal = Literal["best", "any feasible", "every feasible", "top"]
Asked = Literal["best", "short list", "any feasible", "top", "every feasible"]
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
Top = Annotated[int, BeforeValidator(_top), described(minimum=1, maximum=MOST_TOP)]


def answers_sets(asked: Asked) -> bool:
    """Whether the answer is a set of arms."""
    return asked in ("short list", "top", "every feasible")


def ignores_performance(asked: Asked) -> bool:
    """Whether an arm is asked for by its constraints alone, whatever its performance."""
    return asked in ("any feasible", "every feasible")
