"""Self-normalized evidence, for observations that scatter as far up as down; nothing is known of how much.

Each observation x gets a weight w from the scatter of the earlier ones of its stream. Against "the mean is at most c",
with z = w (x - c), Z the sum of all z and W that of their squares, the mean of exp(k Z - k² W / 2) over a half-normal
k > 0 of variance 1 / RHO is

    SN = 2 sqrt(RHO / (W + RHO)) exp(y² / 2) Phi(y),   y = Z / sqrt(W + RHO),

the normal mixture of `bestarm.noises.mixture` with the number of observations replaced by their own squares. For every
symmetric noise it is a test supermartingale, whatever its variance and tails. So is 2^n while all observations lie
above c: a bet of everything on each sign. The evidence is

    E(c) = 0.9 SN(c) + 0.05 + 0.05 * 2^n * [c < least observation].

It is not log-convex in c, because W depends on c. On an interval of c, W lies below the straight line between its
values at the ends. With that line in its place SN is log-convex, and smaller. `bestarm.noises.cells` rests on that.
"""

from __future__ import annotations

import itertools
import math

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.gaussian import gaussian_evidence
from bestarm.noises.streams import ABOVE, BELOW, Stream

FIRST, TOTAL, SQUARES, LEAST, MOST, WEIGHT, WX, WW, WWX, WWXX = range(10)
"""What a stream keeps: its first value, and relative to that the sum of all values, their squared deviations from
their mean, the least and the largest; and the sums of the weights, weights times values, and so on."""
ALL_SQUARES, ALL_FREEDOM = 10, 11
"""Kept by arm 0 for all arms: the squared deviations, and how many of them are free. For planning only."""
KEPT = 12

SKIPPED = 4
"""This many results of a stream only serve to learn how much it scatters."""

LEAST_SQUARES = 1e-150
"""What adds less does not count as scatter. So sums of weights stay finite, since results lie within 1e50."""

LOG_SN = math.log(0.9)
LOG_FLAT = math.log(0.05)
"""The logarithms of the weights: of SN, and of each of the other two."""
LOG_2 = math.log(2.0)

MOST_STEPS = 1000
"""The most steps of a search for an end. It takes fewer if statistics are finite. Wherever it stops, the interval is
valid."""
STEPS = 16
PRECISION = 1e-5
"""How many levels a lead is put together from, and how closely each end is found."""


@kernel
def keep_scatter(kept: Floats, arm: int, metric: int, n: int, x: float) -> None:
    """Enter a value after n others, relative to the first, into the sums that tell how much values scatter."""
    if n > 0:
        away = x - kept[arm, metric, TOTAL] / n
        added = away * away * n / (n + 1.0)
        if added > LEAST_SQUARES:
            kept[arm, metric, SQUARES] += added
            kept[0, metric, ALL_SQUARES] += added
        kept[0, metric, ALL_FREEDOM] += 1.0
    kept[arm, metric, TOTAL] += x


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    n = streams.counts[arm, metric]
    kept = streams.kept
    if n == 0:
        kept[arm, metric, FIRST] = value
    x = value - kept[arm, metric, FIRST]
    squares = kept[arm, metric, SQUARES]
    if n >= SKIPPED and squares > 0.0:
        # Predicts the next deviation from c, which is a little larger than from a mean that is not known exactly.
        ww = (n - 1.0) / (squares * (1.0 + 2.0 / n))
        w = math.sqrt(ww)
        kept[arm, metric, WEIGHT] += w
        kept[arm, metric, WX] += w * x
        kept[arm, metric, WW] += ww
        kept[arm, metric, WWX] += ww * x
        kept[arm, metric, WWXX] += ww * x * x
    keep_scatter(kept, arm, metric, n, x)
    kept[arm, metric, LEAST] = min(kept[arm, metric, LEAST], x)
    kept[arm, metric, MOST] = max(kept[arm, metric, MOST], x)


@kernel
def squares_around(s: Stream, x: float) -> float:
    """W: the sum of the squared weighted deviations from x, which is relative to the stream's first value."""
    a, m = s.arm, s.metric
    found: float = s.kept[a, m, WWXX] - x * (2.0 * s.kept[a, m, WWX] - x * s.kept[a, m, WW])
    return max(found, 0.0)


@kernel
def deviations_from(s: Stream, side: int, x: float) -> float:
    """Z: the sum of the weighted deviations from x, to the side that the evidence is about."""
    found: float = side * (s.kept[s.arm, s.metric, WX] - x * s.kept[s.arm, s.metric, WEIGHT])
    return found


@kernel
def add_flat(log_sn: float, log_rest: float) -> float:
    """The logarithm of 0.9 SN and the rest."""
    a = LOG_SN + log_sn
    return max(a, log_rest) + math.log1p(math.exp(-abs(a - log_rest)))


@kernel
def beyond(s: Stream, side: int) -> float:
    """Where the values end on the far side: for c farther out, every one speaks for the mean lying on this side."""
    least: float = s.kept[s.arm, s.metric, LEAST]
    most: float = s.kept[s.arm, s.metric, MOST]
    return least if side == ABOVE else most


@kernel
def log_signs(n: int) -> float:
    """log(0.05 + 0.05 * 2^n)"""
    return LOG_FLAT + n * LOG_2 + math.log1p(math.exp(-n * LOG_2))


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    x = c - s.kept[s.arm, s.metric, FIRST]
    log_sn = gaussian_evidence(squares_around(s, x), deviations_from(s, side, x))
    is_beyond = side * (beyond(s, side) - x) > 0.0
    return add_flat(log_sn, log_signs(s.n) if is_beyond else LOG_FLAT)


def fewest(level: float, odds: float = 2.0) -> int:
    """How many observations it takes before the evidence can reach a level, whatever they are. Bets on signs come to
    `odds` to the power of their number. By Cauchy and Schwarz, Z² is at most m W where m observations have weights, so
    SN is at most 2 exp((m - 1) / 2) / sqrt(m), which it would be at W = (m - 1) RHO.

    >>> fewest(-math.log(0.04))
    9
    """
    for n in itertools.count(1):
        m = max(n - SKIPPED, 1)
        log_sn = LOG_2 + 0.5 * (m - 1.0 - math.log(m))
        log_won = n * math.log(odds)
        if add_flat(log_sn, LOG_FLAT + log_won + math.log1p(math.exp(-log_won))) >= level:
            break
    return n


@kernel
def end_within(s: Stream, bets: int, side: int, level: float, precision: float) -> float:
    """Where the interval ends: from the farthest value inward, as long as the evidence is `level` or more. It may end
    too early by `precision`, as a share of the way from the farthest value to the mean. `bets` is how many of the
    results are evidence."""
    infinite = s.low if side == ABOVE else s.high
    if bets == 0 or log_signs(bets) < level:
        # Farther out than all values nothing but their number counts.
        return infinite
    reached = beyond(s, side)
    # Up to the mean, where there is no evidence: steps that double as long as the evidence suffices at all of a step.
    middle = s.kept[s.arm, s.metric, TOTAL] / s.n
    step = 0.25 * (middle - reached)
    smallest = precision * abs(middle - reached)
    squares = squares_around(s, reached)
    for _ in range(MOST_STEPS):
        if not abs(step) > smallest:
            break
        there = reached + step
        at_there = squares_around(s, there)
        # Deviations are least, and squares largest, at one of the two ends of the step.
        found = add_flat(gaussian_evidence(max(squares, at_there), deviations_from(s, side, there)), LOG_FLAT)
        # Values whose squares underflow make evidence infinite, everywhere.
        if level <= found < math.inf:
            reached, squares = there, at_there
            step = 2.0 * step
        else:
            step = 0.5 * step
    first: float = s.kept[s.arm, s.metric, FIRST]
    # Statistics that are NaN or infinite say nothing.
    return first + reached if -math.inf < first + reached < math.inf else infinite


@kernel
def end(s: Stream, side: int, level: float) -> float:
    """Where the interval ends."""
    return end_within(s, s.n, side, level, 1e-7)


@kernel
def lead_by_steps(ahead: Stream, behind: Stream, level: float, enough: float) -> float:
    """The largest lead, or a little less, for which the evidence about the pair reaches `level`, at it and at every
    smaller one. It is not log-convex, and need not be monotone.

    Beyond the end of an interval the evidence reaches the interval's level at every c. So with levels a[0] < a[1] < …,
    the evidence about the second stream is a[k] or more from the end for a[k] on, and up to the end for a[k + 1] that
    about the first must supply the rest. Each is LOG_FLAT at least, everywhere.
    """
    most = level - LOG_FLAT
    step = (most - LOG_FLAT) / STEPS
    least = math.inf
    for k in range(-1, STEPS):
        # First the whole way at once, which is less than what the steps show.
        have = LOG_FLAT + max(k, 0) * step
        up_to = end_within(behind, behind.n, BELOW, most if k < 0 else have + step, PRECISION)
        lead = end_within(ahead, ahead.n, ABOVE, level - have, PRECISION) - up_to
        if k < 0 and (lead >= enough or not lead > -math.inf):
            return lead
        if k >= 0:
            least = min(least, lead)
    return least
