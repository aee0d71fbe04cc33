"""Quantiles of raw results, with intervals that hold at all times at once.

The quantile q of a metric lies above v if a share of more than 1 - q of all results lies above v. So v is left out of
the interval when the evidence about that share, which is the evidence that decides the constraint at its threshold,
reaches the level of the policy's intervals. The larger v is, the fewer results lie above it. So what is left out on
either side ends at one of the results: to find it, it is enough to know how many of n results must lie above v. At the
true quantile the claim is false, so it is left out no more often than the evidence at this one v errs. For "at least",
the same holds with the signs changed.

If each item of a set is measured once, the evidence also depends on where in the order the results beyond v came. It
still falls as v grows, so what is left out ends at one of the results here, too.
"""

from __future__ import annotations

import bisect
import functools
import math
from array import array
from collections import defaultdict
from typing import NamedTuple

import numpy as np

from bestarm.evidence.claims import suffices
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.state import RESERVED, Floats, Ints, new_streams
from bestarm.noises.bernoulli import numbers_of_rates, rate_evidence
from bestarm.noises.dispatch import evidence, half_width, most_kept
from bestarm.noises.sets.bounded import fill_with_ones
from bestarm.noises.streams import ABOVE, BELOW, stream_of
from bestarm.policies import confidence
from bestarm.policies.base import Policy
from bestarm.policies.setting import shares
from bestarm.problem import Constraint, Problem


class QuantileEstimate(NamedTuple):
    """The quantile of the results, and the interval of the true one; infinite where there is no limit."""

    value: float
    low: float
    high: float


Ends = tuple[float, float]

_UNKNOWN = QuantileEstimate(math.nan, -math.inf, math.inf)


class RawValues:
    """The results of metrics with a limited quantile, and the denominators of ratios, as told, in the order in which
    they count: that of their tests or, with items, of their places."""

    def __init__(self, problem: Problem) -> None:
        ratios = [k for k, part in enumerate(problem.constraints, start=1) if part.per is not None]
        self._metrics = [metric for metric, _ in shares(problem)] + ratios
        self._values: defaultdict[tuple[int, int], array[float]] = defaultdict(lambda: array("d"))
        self._places: defaultdict[tuple[int, int], array[int]] = defaultdict(lambda: array("q"))
        self._has_places = problem.items is not None
        self.found: dict[tuple[int, int], tuple[int, QuantileEstimate]] = {}
        """The last quantile of each stream, and the number of results it was computed from."""

    def extend(self, arms: Ints, metrics: Ints, values: Floats, places: Ints | None = None) -> None:
        """Add results, with items also their places. Those without a value do not count."""
        for metric in self._metrics:
            counted = (metrics == metric) & ~np.isnan(values)
            if not counted.any():
                continue
            whose, told = arms[counted], values[counted]
            order = np.argsort(whose, kind="stable")
            names, starts = np.unique(whose[order], return_index=True)
            for arm, part in zip(names.tolist(), np.split(order, starts[1:]), strict=True):
                self._values[arm, metric].frombytes(told[part].tobytes())
                if self._has_places and places is not None:
                    self._places[arm, metric].frombytes(places[counted][part].tobytes())

    def of(self, arm: int, metric: int, count: int) -> Floats:
        """The first `count` results of a stream: those that the policy has been told before it stopped."""
        values: Floats = np.array(self._values[arm, metric])
        if self._has_places:
            values = values[np.argsort(np.array(self._places[arm, metric]), kind="stable")]
        return values[:count]


@kernel
def rejecting_counts(n: int, limit: float, level_above: float, level_below: float, numbers: Floats) -> tuple[int, int]:
    """The least number of n results beyond v with which the evidence that their share is above `limit` reaches its
    level (n + 1 if none does), and the largest with which the evidence that it is below does (-1 if none does)."""
    low, high = 0, n + 1
    while low < high:
        middle = (low + high) // 2
        if rate_evidence(n, float(middle), limit, numbers, 0) >= level_above:
            high = middle
        else:
            low = middle + 1
    least = low
    low, high = -1, n
    while low < high:
        middle = (low + high + 1) // 2
        if rate_evidence(n, float(n - middle), 1.0 - limit, numbers, 0) >= level_below:
            low = middle
        else:
            high = middle - 1
    return least, low


@functools.lru_cache(maxsize=2**16)
def _by_evidence(n: int, limit: float, level_above: float, level_below: float, is_large: bool) -> tuple[int, int]:
    search = compiled(rejecting_counts) if is_large else rejecting_counts
    least, most = search(n, limit, level_above, level_below, numbers_of_rates(limit))
    return int(least), int(most)


def _by_width(n: int, limit: float, width: float) -> tuple[int, int]:
    """The same if an interval is the share plus or minus `width`."""

    def around(number: float) -> range:
        """Whole numbers around a number that is known up to rounding."""
        return range(math.floor(number) - 2, math.floor(number) + 4)

    least = next((k for k in around((limit + width) * n) if k > n or (k >= 0 and k / n - width > limit)), n + 1)
    most = next((k for k in reversed(around((limit - width) * n)) if k < 0 or (k <= n and k / n + width < limit)), -1)
    return min(least, n + 1), max(most, -1)


def _counts(policy: Policy, arm: int, metric: int, limit: float) -> tuple[int, int]:
    """How many results beyond v leave v out of the interval, on either side, with the intervals of this policy."""
    n = int(policy.streams.counts[arm, metric])
    is_large = policy.streams.counts.size >= confidence.COMPILE_STREAMS
    levels = policy.interval_levels(arm, metric)
    if levels is None:
        return _by_width(n, limit, float(half_width(policy.setting, policy.streams, arm, metric)))
    return _by_evidence(n, limit, *levels, is_large)


def _ends_on_set(
    policy: Policy, arm: int, metric: int, limit: float, levels: tuple[float, float], values: Floats
) -> Ends:
    """The ends of the interval of a quantile over a set of items, from the values in the order of their places."""
    setting = policy.setting
    noted = int(setting.reserve.since[arm]) if setting.sharing == RESERVED else 0
    distinct, streams = np.unique(values), new_streams(1, policy.metrics, most_kept(setting))

    def is_left_out(side: int, k: int) -> bool:
        """Whether the k-th value, and every one that lies farther out on this side, is not the quantile."""
        beyond = values >= distinct[k] if side == ABOVE else values > distinct[k]
        fill_with_ones(setting, streams, metric, beyond.astype(float), noted)
        found = evidence(stream_of(setting, streams, 0, metric), side, limit)
        return suffices(found, levels[side == BELOW])

    # The first of the smallest values that the evidence does not leave out, and the same from above.
    first = bisect.bisect_left(range(len(distinct)), True, key=lambda k: not is_left_out(ABOVE, k))
    last = bisect.bisect_left(range(len(distinct)), True, key=lambda k: is_left_out(BELOW, k))
    low = float(distinct[first - 1]) if first > 0 else -math.inf
    return low, float(distinct[last]) if last < len(distinct) else math.inf


def quantile_of(policy: Policy, part: Constraint, arm: int, metric: int, raw: RawValues) -> QuantileEstimate:
    """The quantile that `part` limits, of a stream of the study that `policy` decides. Before any result, it is NaN."""
    n = int(policy.streams.counts[arm, metric])
    known = raw.found.get((arm, metric))
    if known is None or known[0] != n:
        known = n, _quantile(policy, part, arm, metric, raw.of(arm, metric, n)) if n else _UNKNOWN
        raw.found[arm, metric] = known
    return known[1]


def _quantile(policy: Policy, part: Constraint, arm: int, metric: int, values: Floats) -> QuantileEstimate:
    sign = 1.0 if part.at_least is None else -1.0
    n = len(values)
    # A share of at most `limit` lies above it. Rounding must not make it one result less.
    allowed = min(math.floor(part.limit * n * (1.0 + 1e-12)), n - 1)
    # Places among the results from the smallest on; "beyond" is above, after the change of sign.
    ordered = np.sort(sign * values)
    value = float(ordered[n - 1 - allowed])
    levels = policy.interval_levels(arm, metric)
    if n == policy.places_of(metric):
        # All items are done.
        low = high = value
    elif policy.places_of(metric) is not None and levels is not None:
        low, high = _ends_on_set(policy, arm, metric, part.limit, levels, sign * values)
        # More than the limit must lie beyond what is too low, and less beyond what is too high.
        low, high = min(low, value), max(high, value)
    else:
        # Both ends are outside in any case.
        least, most = _counts(policy, arm, metric, part.limit)
        low = float(ordered[n - least]) if least <= n else -math.inf
        high = float(ordered[n - 1 - most]) if most >= 0 else math.inf
    return QuantileEstimate(value, low, high) if sign > 0 else QuantileEstimate(-value, -high, -low)
