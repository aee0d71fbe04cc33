"""What is asked of one metric: to be made large or small, or to stay on the right side of a threshold."""

from __future__ import annotations

import math
from typing import Any, Literal

from pydantic import Field

from bestarm.noises import Noise
from bestarm.validation import InvalidInput, Name, NonNegative, Number, Positive, exact, value

_STATED: Any = Field(default=None, validate_default=True)
"""A field that must be stated, and says itself what there is to choose."""

_UNSTATED: Any = None


def _wrong(field: str, given: float, whose: str, reason: str) -> InvalidInput:
    """What to raise of a number that the metric's range does not allow."""
    return InvalidInput(field, given, reason, sentence=f"{field} = {given!r} {whose} {reason}")


@value
class Objective:
    """The metric to make as large or as small as possible; an arm within `tolerance` of the best is good enough."""

    metric: Name
    goal: Literal["maximize", "minimize"]
    noise: Noise = _STATED
    cost: Positive = 1.0
    tolerance: NonNegative = 0.0

    def __post_init__(self) -> None:
        if self.noise.is_share:
            raise InvalidInput(
                "noise",
                self.noise,
                f"of objective {self.metric!r}: a quantile can only be constrained, with at_most or at_least; state "
                "how the objective scatters around its mean",
            )
        low, high = self.noise.range
        if not self.tolerance < high - low:
            raise _wrong(
                "tolerance",
                self.tolerance,
                f"of objective {self.metric!r}",
                f"must be less than {exact(high - low)}, the width of the range of its values: with that much, any "
                "feasible arm would do",
            )


@value
class Constraint:
    """A metric whose mean must stay below `at_most` or above `at_least`.

    Of a metric that never varies (`Exact`) the threshold itself is allowed. With `Quantile(q)`, it is not the mean but
    the quantile q that is limited.

    An arm that misses the threshold by less than `slack` may still be taken for feasible. `weight`, relative to the
    others, says how much this constraint is expected to be the one that an infeasible arm violates.
    """

    metric: Name
    noise: Noise = _STATED
    at_most: Number | None = None
    at_least: Number | None = None
    cost: Positive = 1.0
    slack: NonNegative = 0.0
    weight: Positive = 1.0

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise InvalidInput(
                f"constraint {self.metric!r} needs exactly one of at_most and at_least, "
                f"not at_most = {self.at_most}, at_least = {self.at_least}"
            )
        low, high = self.noise.value_range
        if not low < self.threshold < high:
            side = "at_most" if self.at_least is None else "at_least"
            raise _wrong(
                side,
                self.threshold,
                f"of constraint {self.metric!r}",
                f"must lie strictly between {exact(low)} and {exact(high)}, the range of its values",
            )
        if self.noise.is_share and not self.slack < 1.0 - self.limit:
            raise _wrong(
                "slack",
                self.slack,
                f"of constraint {self.metric!r}",
                f"must be less than {exact(1.0 - self.limit)}: it is added to {exact(self.limit)}, the share of "
                "measurements that may lie beyond the threshold",
            )
        if math.isfinite(high - low):
            self._check_range(low, high)

    def _check_range(self, low: float, high: float) -> None:
        """Of a bounded metric: that the threshold, and the threshold with slack, lie inside the range as computed."""
        side, width = "at_most" if self.at_least is None else "at_least", high - low
        below, above = self.threshold - low, high - self.threshold
        if not (0.0 < below / width < 1.0 and 0.0 < above / width < 1.0):
            raise _wrong(
                side,
                self.threshold,
                f"of constraint {self.metric!r}",
                f"is too close to an end of {exact(low)} to {exact(high)}, the range of its values, to be told from it",
            )
        room, position = (above, below) if self.at_least is None else (below, above)
        if not (self.slack < room and position + self.slack < width):
            raise _wrong(
                "slack",
                self.slack,
                f"of constraint {self.metric!r}",
                f"must be less than {exact(room)}, the distance from {side} = {exact(self.threshold)} to the end of "
                "the range of its values: with that much, every arm would be feasible",
            )

    @property
    def label(self) -> str:
        """What it says, in a few words."""
        side = "at most" if self.at_least is None else "at least"
        return f"{self.metric} {side} {exact(self.threshold)}"

    @property
    def threshold(self) -> float:
        # Exactly one of the two is there.
        return next(side for side in (self.at_most, self.at_least) if side is not None)

    @property
    def limit(self) -> float:
        """What the mean is compared with: the threshold, or for a quantile the share that may lie beyond it."""
        return self.noise.compared_with(self.threshold, self.at_least is None)

    @property
    def is_upper(self) -> bool:
        """Whether the mean must lie below the limit."""
        return self.at_least is None or self.noise.is_share

    def allows(self, mean: float, slack: float = 0.0) -> bool:
        """Whether a stream with this mean is on the right side of the limit, or misses it by less than `slack`."""
        sign = 1.0 if self.is_upper else -1.0
        return sign * mean < self.noise.limit(sign * self.limit) + slack


def maximize(metric: str, *, noise: Noise = _UNSTATED, cost: float = 1.0, tolerance: float = 0.0) -> Objective:
    """The objective to make `metric` as large as possible."""
    return Objective(metric, "maximize", noise, cost, tolerance)


def minimize(metric: str, *, noise: Noise = _UNSTATED, cost: float = 1.0, tolerance: float = 0.0) -> Objective:
    """The objective to make `metric` as small as possible."""
    return Objective(metric, "minimize", noise, cost, tolerance)


def at_most(
    metric: str,
    threshold: float,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    slack: float = 0.0,
    weight: float = 1.0,
) -> Constraint:
    """The constraint that the mean of `metric` stays below `threshold`; its quantile q with `noise=Quantile(q)`."""
    return Constraint(metric, noise, at_most=threshold, cost=cost, slack=slack, weight=weight)


def at_least(
    metric: str,
    threshold: float,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    slack: float = 0.0,
    weight: float = 1.0,
) -> Constraint:
    """The constraint that the mean of `metric` stays above `threshold`; its quantile q with `noise=Quantile(q)`."""
    return Constraint(metric, noise, at_least=threshold, cost=cost, slack=slack, weight=weight)
