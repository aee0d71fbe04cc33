"""The mean over a finite set of values in a range, measured in a random order. Nothing else is assumed of them.

Values are scaled to [0, 1]. If the mean of the M values is c and the first t - 1 add up to S, the next has the mean
c_t = (M c - S) / (M - t + 1). So a stake f turns it into the factor (1 + f x) / (1 + f c_t). The mean of log(1 + f c_t)
over all t is at most log(1 + f a), a the mean of all c_t, which is linear in c and needs two sums. So the evidence at c
is that of `bestarm.noises.bounded` at a, and it understates a little. Besides, the values that are missing cannot take
the mean beyond where it would be if all were 0, or all 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.bets import BETS, STAKE, inside
from bestarm.noises.bounded import Bounded, keep_squares, scatter
from bestarm.noises.bounded import ceiling as bounded_ceiling
from bestarm.noises.bounded import evidence_and_slope as bounded_evidence
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

GONE, _SUM, _ROUNDED, _NOTED = range(Bounded.kept, Bounded.kept + 4)
"""What a stream keeps besides bets: the sums of (t - 1) / (M - t + 1) and of S / (M - t + 1), what was rounded, and how
many values were only noted, without a bet."""
_CONVERGED = 1e-6
"""Evidence that exceeds its level by less than this counts as at its level."""


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    n = streams.counts[arm, metric]
    left = setting.numbers[metric, ITEMS] - n
    if left > 0.0:
        streams.kept[arm, metric, GONE] += n / left
        total = (streams.sums[arm, metric] - n * setting.low[metric]) / setting.width[metric]
        streams.kept[arm, metric, _SUM] += total / left
    keep_rounding(streams, arm, metric, _ROUNDED, value)
    keep_bets(setting, streams, arm, metric, value)


@kernel
def note(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    keep_rounding(streams, arm, metric, _ROUNDED, value)
    keep_squares(streams, arm, metric, value)
    streams.kept[arm, metric, _NOTED] += 1.0


def fill_with_ones(setting: Setting, streams: Streams, metric: int, ones: Floats, noted: int = 0) -> None:
    """Make the first arm's stream what it is after these values, in their order: each 0 or 1, in the range [0, 1]. So
    many of the first ones were only noted."""
    n, total, before = len(ones), float(ones.sum()), np.arange(len(ones))
    left, sums, stakes = setting.numbers[metric, ITEMS] - before, np.cumsum(ones), np.log1p(STAKE)
    kept, won, bets = streams.kept[0, metric], float(ones[noted:].sum()), max(n - noted, 0)
    kept[: 2 * BETS] = np.concatenate([won * stakes, (bets - won) * stakes])
    kept[[GONE, _SUM]] = (before / left)[noted:].sum(), ((sums - ones) / left)[noted:].sum()
    kept[[_ROUNDED, _NOTED]] = (2.0 * ones + sums).sum(), n - bets
    streams.counts[0, metric], streams.sums[0, metric], streams.means[0, metric] = n, total, total / n


@kernel
def _limits_settle(s: Stream, side: int, c: float) -> bool:
    """Whether the mean lies on this side of c for any missing values."""
    limit = s.low if side == ABOVE else s.high
    missing = items_of(s) - s.n
    rounded = s.kept[s.arm, s.metric, _ROUNDED] + items_of(s) * (abs(s.low) + abs(s.high))
    return is_certain(s, side, c, s.total + missing * limit, rounded)


@kernel
def _of_bets(s: Stream) -> Stream:
    """The same stream, with the number of its bets for that of its values."""
    bets = s.n - int(s.kept[s.arm, s.metric, _NOTED])
    return Stream(
        s.kind,
        s.low,
        s.high,
        s.width,
        s.inverse_sigma,
        bets,
        s.total,
        s.arm,
        s.metric,
        s.numbers,
        s.kept,
        s.mixture,
    )


@kernel
def _mean_of_next(s: Stream, c: float) -> float:
    """The mean of all c_t, as a value of the stream of bets."""
    position = (c - s.low) / s.width
    away = position * s.kept[s.arm, s.metric, GONE] - s.kept[s.arm, s.metric, _SUM]
    return s.low + s.width * inside(position + away / s.n)


@kernel
def _certainty(s: Stream, side: int, c: float) -> float:
    """The log-evidence where it does not depend on the bets; NaN where it does."""
    if s.n == 0:
        return 0.0
    if _limits_settle(s, side, c):
        return CERTAIN
    if is_settled(s):
        return -CERTAIN
    return 0.0 if s.n == s.kept[s.arm, s.metric, _NOTED] else math.nan


def kernels_of_set(
    evidence_and_slope: Callable[[Stream, int, float], tuple[float, float]],
    ceiling_of_bets: Callable[[Stream, int, float], float],
    guess: Callable[[Stream, int, float], float],
    *,
    scatter: Callable[[Setting, Streams, int, int, float], float],
    keep: Callable[[Setting, Streams, int, int, float], None],
    note: Callable[[Setting, Streams, int, int, float], None] | None = None,
) -> NoiseKernels:
    """Kernels about the mean over a set, from those of bets at the mean of all c_t: the evidence, which is log-convex
    in that mean, a ceiling of it, and a guess of where it reaches a level."""

    @kernel
    def evidence(s: Stream, side: int, c: float) -> float:
        known = _certainty(s, side, c)
        if not math.isnan(known):
            return known
        bets = _of_bets(s)
        return evidence_and_slope(bets, side, _mean_of_next(bets, c))[0]

    @kernel
    def ceiling(s: Stream, side: int, c: float) -> float:
        known = _certainty(s, side, c)
        if not math.isnan(known):
            return known
        bets = _of_bets(s)
        return ceiling_of_bets(bets, side, _mean_of_next(bets, c))

    @kernel
    def last_place(s: Stream, side: int, level: float) -> float:
        """The last place, coming from outside, at which the evidence of the bets has reached `level`.

        It is log-convex and falls toward the mean. So after its first step, Newton's method approaches the place from
        outside.
        """
        limit = s.low if side == ABOVE else s.high
        place, bets = guess(s, side, level), _of_bets(s)
        for step in range(60):
            reached, slope = evidence_and_slope(bets, side, place)
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
        # The c whose mean of all c_t is the place; where the evidence falls short at the end of the range there is
        # none.
        bets = s.n - s.kept[s.arm, s.metric, _NOTED]
        if bets == 0.0:
            return least
        place = (last_place(s, side, level) - s.low) / s.width
        found = s.low + s.width * (place * bets + s.kept[s.arm, s.metric, _SUM]) / (
            bets + s.kept[s.arm, s.metric, GONE]
        )
        found = max(found, least) if side == ABOVE else min(found, least)
        # Statistics that are NaN say nothing.
        return found if s.low <= found <= s.high else limit

    own = evidence, None, scatter, no_draw, ceiling
    return NoiseKernels(*own, keep=keep, pair=no_pair, end=end, radius=radius_from(end), note=note)


@value
class BoundedSet(SetNoise):
    """The mean over a set of `items` values between `low` and `high`, each measured once."""

    name = "bounded-set"
    kernels = kernels_of_set(bounded_evidence, bounded_ceiling, bounded_guess, scatter=scatter, keep=keep, note=note)
    kept = Bounded.kept + 4
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
