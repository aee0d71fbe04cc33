"""How many times as much another command needs as the leader, at least and at most, from limits that hold."""

from __future__ import annotations

import decimal
import math
from typing import NamedTuple

from bestarm.analysis.standing import MetricStanding
from bestarm.answer import Difference


class Ratio(NamedTuple):
    """The other's mean divided by the leader's: measured, at least and at most. Infinite: there is no limit."""

    estimate: float
    low: float
    high: float


def ratio_of(limits: Difference, leader: MetricStanding, other: MetricStanding) -> Ratio | None:
    """The ratio of two means of which smaller is better. None if the leader's may be 0.

    The other's mean is the leader's, m, plus the difference d, so the ratio is 1 + d / m. It is least for the least d,
    with the largest m if that d is positive, and largest for the largest d. So wherever the limits of d and the
    interval of m hold, the limits of the ratio do.
    """
    if not (leader.tests and other.tests and leader.mean > 0.0):
        return None
    smallest = max(leader.low, 0.0)

    def at(difference: float, mean: float) -> float:
        return 1.0 + (difference / mean if mean > 0.0 else math.copysign(math.inf, difference))

    low = at(limits.low, leader.high if limits.low >= 0.0 else smallest)
    high = at(limits.high, smallest if limits.high >= 0.0 else leader.high)
    # What a run needs is never negative.
    return Ratio(other.mean / leader.mean, max(low, 0.0), high)


def ratio_words(ratio: Ratio, how: str) -> str:
    """As "1.93× as fast (1.12× to 2.57×)". Ends are rounded outward.

    >>> ratio_words(Ratio(1.934, 1.128, 2.561), "as fast"), ratio_words(Ratio(3.0, 1.5, math.inf), "as good")
    ('1.93× as fast (1.12× to 2.57×)', '3× as good (1.5× or more)')
    """
    measured, low = _times(ratio.estimate, decimal.ROUND_HALF_EVEN), _times(ratio.low, decimal.ROUND_FLOOR)
    high = "or more" if math.isinf(ratio.high) else f"to {_times(ratio.high, decimal.ROUND_CEILING)}"
    return f"{measured} {how} ({low} {high})"


def _times(number: float, rounding: str) -> str:
    digits = decimal.Context(prec=3, rounding=rounding).create_decimal(repr(number))
    return f"{digits.normalize():f}×"
