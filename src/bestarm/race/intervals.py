"""Estimates with limits that are valid at any time, from the first runs on.

The first values have only their signs: the least of n values lies above their median with probability 2^-n at most. So
the least of the first m values, where 2^-m <= alpha, is a lower limit, and the largest an upper one. Later, evidence is
closer. Both are used, with a part of alpha each; `docs/certificates/races.md` has the proofs
(Propositions R.6 and R.7).
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bestarm.analysis.standing.quantiles import rejecting_counts
from bestarm.noises.bernoulli import numbers_of_rates
from bestarm.race.ratios import ratio_interval

_EARLY = 0.9
"""The part of alpha for the signs of the first values. Evidence has the rest."""


class Estimate(NamedTuple):
    """What was measured, and between what the true number lies; infinite where there is no limit yet."""

    value: float
    low: float
    high: float

    @property
    def is_known(self) -> bool:
        """Whether there are limits on both sides."""
        return math.isfinite(self.low) and math.isfinite(self.high)

    @property
    def inverse(self) -> Estimate:
        """That of one divided by the positive number."""
        return Estimate(1.0 / self.value, 1.0 / self.high, 1.0 / self.low if self.low > 0.0 else math.inf)

    def within(self, low: float, high: float) -> Estimate:
        """The same, if the number is known to lie between these. What was measured is moved between the limits."""
        low, high = max(low, self.low), min(high, self.high)
        return Estimate(min(max(self.value, low), high), low, high)


def median_of(values: Sequence[float], alpha: float) -> Estimate:
    """The median, if values are independent of each other. That one limit is ever wrong, at any number of values, has
    probability `alpha` at most.

    If v is below the median, at least half of all values lie above v. So v is left out once there is evidence that
    they are more.

    >>> median_of([5.0, 1.0, 9.0, 4.0, 6.0, 7.0, 3.0], 0.025)
    Estimate(value=5.0, low=1.0, high=9.0)
    """
    n, level, ordered = len(values), -math.log((1.0 - _EARLY) * alpha), sorted(values)
    least, most = rejecting_counts(n, 0.5, level, level, numbers_of_rates(0.5))
    low = float(ordered[n - least]) if least <= n else -math.inf
    high = float(ordered[n - 1 - most]) if most >= 0 else math.inf
    first_low, first_high = _of_first(values, alpha)
    return Estimate(statistics.median(ordered), max(low, first_low), min(high, first_high))


def ratio_of(one: Sequence[float], other: Sequence[float], alpha: float) -> Estimate | None:
    """The ratio r of two means, by positive values at the same places of the order, if X - r Y is symmetric around 0.
    That one limit is ever wrong, at any number of values, has probability `alpha` at most. None if the values
    contradict that.

    >>> ratio_of([2.0, 2.1, 1.9, 2.2, 1.8], [1.0] * 5, 0.05)
    Estimate(value=2.0, low=1.8, high=2.2)
    """
    level = -math.log((1.0 - _EARLY) * alpha)
    found = ratio_interval(one, other, 1.0, level, level)
    pairs = list(zip(one, other, strict=False))
    low, high = _of_first([x / y for x, y in pairs], alpha)
    if found is None or max(low, found.low) > min(high, found.high):
        return None
    value = sum(x for x, _ in pairs) / sum(y for _, y in pairs)
    return Estimate(value, low, high).within(found.low, found.high)


def ratio_of_stopped(one: Sequence[float], other: Sequence[float], alpha: float) -> Estimate:
    """The ratio where runs of `one` were stopped: they would have taken longer. So there is only a lower limit, by the
    signs of X - r Y alone, which can only be too low. That the limit is ever wrong has probability `alpha` at most.

    >>> ratio_of_stopped([3.0] * 12, [1.0, 0.5] * 6, 0.0025)
    Estimate(value=4.0, low=3.0, high=inf)
    """
    pairs = list(zip(one, other, strict=False))
    value = sum(x for x, _ in pairs) / sum(y for _, y in pairs)
    return Estimate(value, max(median_of([x / y for x, y in pairs], alpha).low, 0.0), math.inf)


def _of_first(values: Sequence[float], alpha: float) -> tuple[float, float]:
    """The least and the largest of the first values, as soon as they are enough."""
    count = math.ceil(-math.log2(_EARLY * alpha))
    first = values[:count]
    return (float(min(first)), float(max(first))) if len(first) == count else (-math.inf, math.inf)
