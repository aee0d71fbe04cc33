"""What one test yields: a measurement of one arm gives the values of one metric, or of several at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.validation import InvalidInput, Name, Positive, value


@value
class Measurement:
    """Metrics that are measured together, at one cost. A test of them is told all their values, or none.

    >>> Measurement(("time", "memory"), cost=2.0).name
    'time + memory'
    """

    metrics: tuple[Name, ...]
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


def check_measurements(measurements: Sequence[Measurement], metrics: Sequence[str], costs: Mapping[str, float]) -> None:
    """Raise `InvalidInput` if a metric is unknown, is measured twice, or has a cost besides its measurement's."""
    seen: dict[str, int] = {}
    for place, group in enumerate(measurements):
        for k, metric in enumerate(group.metrics):
            field = f"measurements[{place}].metrics[{k}]"
            if metric not in metrics:
                raise InvalidInput(
                    field, metric, f"no such metric; the metrics are {', '.join(map(repr, metrics))}", metrics
                )
            if metric in seen:
                raise InvalidInput(field, metric, f"is in measurements[{seen[metric]}] already; a metric is in one")
            seen[metric] = place
            if costs[metric] != 1.0:
                raise InvalidInput(
                    "cost",
                    costs[metric],
                    f"of {metric!r}: cannot be stated, because it is measured together with others; state the cost of "
                    f"that measurement instead, measurements[{place}].cost",
                    sentence=f"cost = {costs[metric]!r} of {metric!r} cannot be stated, because it is measured with "
                    f"{group.name!r}; state the cost of that measurement instead, measurements[{place}].cost",
                )


def check_ratios(measurements: Sequence[Measurement], ratios: Sequence[tuple[str, str]]) -> None:
    """Raise `InvalidInput` if the two metrics of a ratio are stated to be measured in different tests."""
    stated = {metric: place for place, group in enumerate(measurements) for metric in group.metrics}
    for over, under in ratios:
        if stated.get(over) != stated.get(under):
            there, missing = (over, under) if over in stated else (under, over)
            raise InvalidInput(
                f"measurements[{stated[there]}].metrics",
                [*measurements[stated[there]].metrics],
                f"must have {missing!r} beside {there!r}: their ratio is limited, so one test yields both",
            )


def groups_of(measurements: Sequence[Measurement], needed: Sequence[Sequence[str]]) -> dict[str, object]:
    """By metric: what stands for the test that yields it. Metrics that are `needed` together share one."""
    groups: dict[str, object] = {metric: k for k, one in enumerate(measurements) for metric in one.metrics}
    for metrics in needed:
        found = [groups.setdefault(metric, metric) for metric in metrics]
        # A number stands for a measurement that was stated.
        kept = next((group for group in found if isinstance(group, int)), found[0])
        groups = {metric: kept if group in found else group for metric, group in groups.items()}
    return groups


def written(measurements: Sequence[Measurement]) -> list[dict[str, Any]]:
    """As a study file has them."""
    return [
        {"metrics": [*group.metrics], **({} if group.cost == 1.0 else {"cost": group.cost})} for group in measurements
    ]
