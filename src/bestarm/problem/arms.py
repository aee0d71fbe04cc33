"""An arm, as a problem states it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import StrictBool

from bestarm.noises.shapes import Spread
from bestarm.validation import UNSTATED, Guess, InvalidInput, Name, Positive, WholeNumber, value


@value
class Arm:
    """One candidate; its `means` by metric are the truth in a simulation and absent in a live study.

    For a metric with `Quantile` noise, the mean is the share of results beyond the threshold. For a ratio constraint,
    the means of both metrics are stated; or, by its name such as "errors per requests", that of what counts of a test:
    the one metric minus the threshold times the other. For a forecast a mean may be a range (low, high). `weight`,
    relative to the other arms', says how much this one is expected to be the answer. `spreads` by metric say how its
    results truly scatter in a simulation: a standard deviation, or a shape with one, such as {"lognormal": 2.0}.
    Without it, results scatter as the metric's noise says.
    """

    name: Name
    means: Mapping[str, Guess] | None = None
    weight: Positive = 1.0
    spreads: Mapping[str, Spread] | None = None
    added: WholeNumber = 0
    """0 for an arm that was there from the start; of those that came later, 1 for the first, 2 for the second …"""
    retired: StrictBool = False
    """Whether it has been taken out: it is no longer measured, and cannot be the answer."""


def lacks_means(index: int, arm: Arm, missing: Iterable[str], needed: str) -> InvalidInput:
    """What to raise for an arm without all the means that are `needed`."""
    lacks = f"lacks {', '.join(map(repr, missing))}: {needed}"
    field = f"arms[{index}].means"
    return InvalidInput(field, UNSTATED, lacks, sentence=f"{field} of {arm.name!r} {lacks}")
