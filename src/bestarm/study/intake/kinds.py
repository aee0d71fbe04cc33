"""What can be typed as a value of a metric: its range, and the words that stand for 0 and 1."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bestarm.problem import Constraint, Objective, Problem
from bestarm.texts import listed
from bestarm.validation import MOST

_HAPPENED = {"yes": 1.0, "no": 0.0, "true": 1.0, "false": 0.0}
_PASSED = {"pass": 1.0, "fail": 0.0, "passed": 1.0, "failed": 0.0}


class ValueKind(NamedTuple):
    """What the values of a metric are: from `low` to `high`, perhaps whole numbers, perhaps said in words."""

    low: float
    high: float
    is_whole: bool
    words: Mapping[str, float]
    """Words for values. A form offers the first two for a metric of 0 and 1."""

    @property
    def is_rate(self) -> bool:
        """Whether values lie between 0 and 1, so that 90% can only be 0.9."""
        return self.low >= 0.0 and self.high <= 1.0

    @property
    def offered(self) -> list[str]:
        """The words to offer; none for metrics without any.

        >>> kind_of(Problem(arms=["a"], objective=Objective("cure", "maximize", "bernoulli")), "cure").offered
        ['pass', 'fail']
        """
        return [*self.words][:2] if self.is_whole else [*self.words]

    @property
    def said(self) -> str:
        """What people can type, in words."""
        return f"{listed(self.offered, 'or')}, or {'1 or 0' if self.is_whole else 'a number from 0 to 1'}"

    def accepted(self, reason: str) -> str:
        """Why a text is no value, with the words that would be one."""
        return f"must be {self.said}" if self.words else reason


def kind_of(plan: Problem, metric: str) -> ValueKind:
    """What the values of a metric are, by all that the plan says of it."""
    # The scores of a judge are on the scale of what it judges, but need not be whole.
    judged = plan.judged.get(metric)
    parts = [part for part in plan.parts if part.measures == (metric,)] if judged is None else []
    of_scale = parts if judged is None else [plan.parts[k] for k in judged]
    low = max([-MOST, *(part.noise.value_range[0] for part in of_scale)])
    high = min([MOST, *(part.noise.value_range[1] for part in of_scale)])
    is_whole = any(part.noise.is_whole for part in parts)
    words = dict(next((part.noise.words for part in of_scale if part.noise.words), {}))
    if is_whole and (low, high) == (0.0, 1.0):
        # Where less is better, such as of "adverse event", it is open whether "pass" means that there was one.
        words = _PASSED | _HAPPENED if all(map(_is_wanted, parts)) else _HAPPENED
    return ValueKind(low, high, is_whole, words)


def _is_wanted(part: Objective | Constraint) -> bool:
    """Whether more of it is better."""
    return part.at_least is not None if isinstance(part, Constraint) else part.goal == "maximize"
