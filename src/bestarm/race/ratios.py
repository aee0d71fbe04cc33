"""About how many times as much another command needs as the leader, at least and at most."""

from __future__ import annotations

import decimal
import math
from typing import NamedTuple

from bestarm.analysis.standing.arms import MetricStanding
from bestarm.answer import Difference


class Ratio(NamedTuple):
    """The other's mean divided by the leader's: measured, at least and at most. Infinite: there is no limit."""

    estimate: float
    low: float
    high: float


def ratio_of(limits: Difference, leader: MetricStanding, other: MetricStanding) -> Ratio | None:
    """The ratio of two means of which smaller is better. None if the leader's is 0.

    The other's mean is the leader's, m, plus the difference d, so the ratio is 1 + d / m. The limits of d hold. m is
    taken as it was measured, because a race assumes nothing of how the runs of one command scatter. So the limits of
    the ratio are about right.
    """
    if not (leader.tests and other.tests and leader.mean > 0.0):
        return None
    # What a run needs is never negative.
    low, high = (max(1.0 + end / leader.mean, 0.0) for end in (limits.low, limits.high))
    return Ratio(other.mean / leader.mean, low, high)


def ratio_words(ratio: Ratio, how: str) -> str:
    """As "about 1.93× as fast (1.12× to 2.57×)". Ends are rounded outward.

    >>> ratio_words(Ratio(1.934, 1.128, 2.561), "as fast"), ratio_words(Ratio(3.0, 1.5, math.inf), "as good")
    ('about 1.93× as fast (1.12× to 2.57×)', 'about 3× as good (1.5× or more)')
    """
    measured, low = _times(ratio.estimate, decimal.ROUND_HALF_EVEN), _times(ratio.low, decimal.ROUND_FLOOR)
    high = "or more" if math.isinf(ratio.high) else f"to {_times(ratio.high, decimal.ROUND_CEILING)}"
    limits = "" if ratio.low <= 0.0 and math.isinf(ratio.high) else f" ({low} {high})"
    return f"about {measured} {how}{limits}"


def _times(number: float, rounding: str) -> str:
    digits = decimal.Context(prec=3, rounding=rounding).create_decimal(repr(number))
    return f"{digits.normalize():f}×"
