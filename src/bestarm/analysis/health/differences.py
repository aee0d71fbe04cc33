"""Differences between arms on the same item: what the guarantee rests on where arms are compared item by item.

A study on items compares two arms, or an arm with its limit relative to the baseline, by differences alone. The values
themselves may be skewed and drift: what all arms share cancels out. So the checks look at the differences between each
arm and one reference, the baseline or the first arm.
"""

from __future__ import annotations

from bestarm.analysis.health.weights import Result
from bestarm.problem import Problem
from bestarm.problem.parts import Constraint


class Differences:
    """Turns results into differences, in the order in which both of their results are known."""

    def __init__(self, reference: int, factor: float) -> None:
        self._reference, self._factor = reference, factor
        self._counts: dict[int, int] = {}
        self._references: dict[int, float] = {}
        """By place in the order of items."""
        self._waiting: dict[int, list[Result]] = {}

    def of(self, result: Result) -> list[Result]:
        """The differences that are complete with this result."""
        count = self._counts.get(result.arm, 0)
        self._counts[result.arm] = count + 1
        # The n-th result of every arm is of the same item, unless a test was given up.
        place = result.place if result.place >= 0 else count
        if result.arm == self._reference:
            self._references[place] = result.value
            return [self._less(other, result.value) for other in self._waiting.pop(place, ())]
        known = self._references.get(place)
        if known is None:
            self._waiting.setdefault(place, []).append(result)
            return []
        return [self._less(result, known)]

    def _less(self, result: Result, reference: float) -> Result:
        return result._replace(value=result.value - self._factor * reference)


def differences_of(problem: Problem, metric: int) -> Differences | None:
    """What turns results of a metric into differences; None where the guarantee rests on the values themselves."""
    part = problem.parts[metric]
    is_relative = isinstance(part, Constraint) and bool(part.relative_to_baseline)
    if problem.items is None or (isinstance(part, Constraint) and not is_relative):
        return None
    reference = 0 if problem.baseline is None else problem.arm_names.index(problem.baseline)
    return Differences(reference, part.threshold if isinstance(part, Constraint) else 1.0)
