"""What one test yields: a measurement of one arm gives the values of one metric, or of several at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from bestarm.validation import InvalidInput, Name, Positive, described, value

Names = Annotated[tuple[Name, ...], described(minItems=1, uniqueItems=True)]


@value
class Measurement:
    """Metrics that are measured together, at one cost. A test of them is told all their values, or none.

    >>> Measurement(("time", "memory"), cost=2.0).name
    'time + memory'
    """

    metrics: Names
    cost: Positive = 1.0

    def __post_init__(self) -> None:
        if not self.metrics:
            raise InvalidInput("metrics", [], "a measurement needs at least one metric")
        for place, metric in enumerate(self.metrics):
            if metric in self.metrics[:place]:
                raise InvalidInput(f"metrics[{place}]", metric, "is in this measurement already")

    @property
    def name(self) -> str:
        """What a test of it is called."""
        return name_of(self.metrics)


def name_of(metrics: Sequence[str]) -> str:
    """What a test of these metrics is called."""
    return " + ".join(metrics)


def measurement(*metrics: str, cost: float = 1.0) -> Measurement:
    """Metrics that one test yields together: `measurement("time", "memory", cost=2.0)`."""
    return Measurement(metrics, cost)


def groups_of(measurements: Sequence[Measurement], needed: Sequence[Sequence[str]]) -> dict[str, object]:
    """By metric: what stands for the test that yields it. Metrics that are `needed` together share one."""
    groups: dict[str, object] = {metric: k for k, one in enumerate(measurements) for metric in one.metrics}
    for metrics in needed:
        found = [groups.setdefault(metric, metric) for metric in metrics]
        # A number stands for a measurement that was stated.
        kept = next((group for group in found if isinstance(group, int)), found[0])
        groups = {metric: kept if group in found else group for metric, group in groups.items()}
    return groups


def at_least_one(named: tuple[Any, ...]) -> tuple[Any, ...]:
    """What names things, of which there must be some."""
    if not named:
        raise ValueError("must name at least one")
    return named
