"""The mean over a finite set of values in a range, measured in a random order. Nothing else is assumed of them.

Values are scaled to [0, 1]. If the mean of the M values is c and the first t - 1 add up to S, the next has the mean
c_t = (M c - S) / (M - t + 1). So a stake f turns it into the factor (1 + f x) / (1 + f c_t). The mean of log(1 + f c_t)
over all t is at most log(1 + f a), a the mean of all c_t, which is linear in c and needs two sums. So the evidence at c
is that of `bestarm.noises.bounded` at a, and it understates a little. Besides, the values that are missing cannot take
the mean beyond where it would be if all were 0, or all 1.
"""

from __future__ import annotations

import math
from typing import ClassVar

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.bets import inside
from bestarm.noises.bounded import Bounded, evidence_and_slope, scatter
from bestarm.noises.bounded import ceiling as bounded_ceiling
from bestarm.noises.bounded import guess as bounded_guess
from bestarm.noises.bounded import keep as keep_bets
from bestarm.noises.exact import CERTAIN
from bestarm.noises.kernels import NoiseKernels, radius_from
from bestarm.noises.sets.settled import (
    ITEMS,
    SetNoise,
    is_certain,
    is_settled,
    items_of,
    keep_rounding,
    no_draw,
    no_pair,
    settled_mean,
)
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.validation import Number, exact, value

_GONE, _SUM, _ROUNDED = Bounded.kept, Bounded.kept + 1, Bounded.kept + 2
"""What a stream keeps besides bets: the sums of (t - 1) / (M - t + 1) and of S / (M - t + 1), and what was rounded."""
_CONVERGED = 1e-6
"""Evidence that exceeds its level by less than this counts as at its level."""


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    n = streams.counts[arm, metric]
    left = setting.numbers[metric, ITEMS] - n
    if left > 0.0:
        streams.kept[arm, metric, _GONE] += n / left
        total = (streams.sums[arm, metric] - n * setting.low[metric]) / setting.width[metric]
        streams.kept[arm, metric, _SUM] += total / left
    keep_rounding(streams, arm, metric, _ROUNDED, value)
    keep_bets(setting, streams, arm, metric, value)


@kernel
def _limits_settle(s: Stream, side: int, c: float) -> bool:
    """Whether the mean lies on this side of c for any missing values."""
    limit = s.low if side == ABOVE else s.high
    missing = items_of(s) - s.n
    rounded = s.kept[s.arm, s.metric, _ROUNDED] + items_of(s) * (abs(s.low) + abs(s.high))
    return is_certain(s, side, c, s.total + missing * limit, rounded)


@kernel
def _mean_of_next(s: Stream, c: float) -> float:
    """The mean of all c_t, as a value of the stream."""
    position = (c - s.low) / s.width
    away = position * s.kept[s.arm, s.metric, _GONE] - s.kept[s.arm, s.metric, _SUM]
    return s.low + s.width * inside(position + away / s.n)


@kernel
def _certainty(s: Stream, side: int, c: float) -> float:
    """The log-evidence where it does not depend on the bets; NaN where it does."""
    if s.n == 0:
        return 0.0
    if _limits_settle(s, side, c):
        return CERTAIN
    return -CERTAIN if is_settled(s) else math.nan


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    known = _certainty(s, side, c)
    return evidence_and_slope(s, side, _mean_of_next(s, c))[0] if math.isnan(known) else known


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    known = _certainty(s, side, c)
    return bounded_ceiling(s, side, _mean_of_next(s, c)) if math.isnan(known) else known


@kernel
def _last_place(s: Stream, side: int, level: float) -> float:
    """The last place, coming from outside, at which the evidence of the bets has reached `level`.

    It is log-convex and falls toward the mean. So after its first step, Newton's method approaches the place from
    outside.
    """
    limit = s.low if side == ABOVE else s.high
    place = bounded_guess(s, side, level)
    for step in range(60):
        reached, slope = evidence_and_slope(s, side, place)
        toward = side * ((level - reached) / slope)
        if step > 0 and (reached - level < _CONVERGED or toward <= 1e-12 * s.width):
            return place
        place = max(place + toward, limit) if side == ABOVE else min(place - toward, limit)
    return place


@kernel
def end(s: Stream, side: int, level: float) -> float:
    limit = s.low if side == ABOVE else s.high
    if s.n == 0:
        return limit
    if is_settled(s):
        return settled_mean(s, side)
    # The missing values at the end of the range.
    least = (s.total + (items_of(s) - s.n) * limit) / items_of(s)
    # The c whose mean of all c_t is the place; where the evidence falls short at the end of the range there is none.
    place = (_last_place(s, side, level) - s.low) / s.width
    found = s.low + s.width * (place * s.n + s.kept[s.arm, s.metric, _SUM]) / (s.n + s.kept[s.arm, s.metric, _GONE])
    found = max(found, least) if side == ABOVE else min(found, least)
    # Statistics that are NaN say nothing.
    return found if s.low <= found <= s.high else limit


@value
class BoundedSet(SetNoise):
    """The mean over a set of `items` values between `low` and `high`, each measured once."""

    name = "bounded-set"
    label = "a mean over a set, within a range"
    about = "The set's values lie between two limits; nothing else is known of them."
    stated: ClassVar = {}
    kernels = NoiseKernels(
        *(evidence, None, scatter, no_draw, ceiling), keep=keep, pair=no_pair, end=end, radius=radius_from(end)
    )
    kept = Bounded.kept + 3
    learns_scatter = True
    is_quadratic = False
    is_family = False

    low: Number
    high: Number
    items: int
    ties: int = BELOW

    @property
    def scale(self) -> float:
        return (self.high - self.low) / 2

    @property
    def range(self) -> tuple[float, float]:
        return (self.low, self.high)

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return Bounded(self.low, self.high).tuning(threshold)

    def sentence(self) -> str:
        return f"each of the {self.items:,} items has a value between {exact(self.low)} and {exact(self.high)}"
