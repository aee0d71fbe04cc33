"""A noise as kernels: evidence, scatter, draws, and what is derived from them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator
from bestarm.kernel.state import Setting, Streams
from bestarm.kernel.tables import slot
from bestarm.noises.streams import ABOVE, BELOW, Nature, Stream, stream_of


@kernel
def keep_nothing(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """For a noise whose streams keep nothing but the number of results and their sum."""


@kernel
def guess_by_width(s: Stream, side: int, level: float) -> float:
    """Where the interval ends if observations scatter by the stream's width."""
    end = s.total / s.n - side * s.width * math.sqrt(2.0 * max(level, 1.0) / s.n)
    return min(max(end, s.low), s.high)


@kernel
def no_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    """For a noise whose log-evidence is not convex. NaN is no evidence, so nothing could rest on it."""
    return math.nan, math.nan


@kernel
def tabulated_radius(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    """The half-width of a confidence interval for sub-Gaussian observations, in units of their scale."""
    radius: float = setting.radius[slot(streams.counts[arm, metric])]
    return radius


def radius_from(end: Callable[[Stream, int, float], float]) -> Callable[[Setting, Streams, int, int], float]:
    """The kernel `radius` of a noise with a kernel `end`: from the mean to the farther end of its interval, at the
    level that the paper's algorithms use. Delta is shared by all streams and both sides."""

    @kernel
    def radius(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
        s = stream_of(setting, streams, arm, metric)
        level = math.log(2.0 * streams.counts.shape[0] * streams.counts.shape[1] / setting.delta)
        mean = streams.means[arm, metric]
        width: float = max(mean - end(s, ABOVE, level), end(s, BELOW, level) - mean) / setting.sigma[metric]
        return width

    return radius


class NoiseKernels(NamedTuple):
    """A noise as kernels: functions that every engine runs, interpreted or compiled.

    Three are enough, if the log-evidence is convex in c: `kernels_from(evidence, scatter, draw)` derives the rest.
    Write `evidence_and_slope` and `ceiling` for speed, `keep` if the evidence needs more than counts and sums, `radius`
    if the noise has no `scale`, and the others only if you can do better than what is derived.

    On the side `ABOVE`, evidence speaks against "the mean is at most c"; on the side `BELOW`, against "the mean is at
    least c". Evidence is given as its logarithm. As a rule it is convex in c, falls with c on the side `ABOVE` and
    rises on the side `BELOW`; the comparison of two arms and the ends of intervals follow from that. A noise whose
    log-evidence is not convex has no `evidence_and_slope`, but kernels for these two: `pair` and `end`.
    """

    evidence: Callable[[Stream, int, float], float]
    """(s, side, c): the log-evidence."""
    evidence_and_slope: Callable[[Stream, int, float], tuple[float, float]] | None
    """(s, side, c): the log-evidence and its derivative in c, if it is convex."""
    scatter: Callable[[Setting, Streams, int, int, float], float]
    """(setting, streams, arm, metric, mean): the standard deviation of one observation of a stream whose mean is
    about `mean`, for planning only: no answer rests on it."""
    draw: Callable[[Nature, Generator, int, int], float]
    """(nature, generator, arm, metric): a measurement in the simulated world."""
    ceiling: Callable[[Stream, int, float], float] | None = None
    """(s, side, c): a cheap upper bound of the log-evidence. With None, the log-evidence itself is used."""
    guess: Callable[[Stream, int, float], float] = guess_by_width
    """(s, side, level): about where the log-evidence is `level`."""
    keep: Callable[[Setting, Streams, int, int, float], None] = keep_nothing
    """(setting, streams, arm, metric, value): enter a result into `streams.kept`, before it is counted and added."""
    pair: Callable[[Stream, Stream, float], float] | None = None
    """(high, low, margin): a lower bound of the least product, over all c, of the evidence that the mean of `high`
    plus `margin` lies above c and the mean of `low` below c."""
    product: Callable[[Stream, Stream, float, float], tuple[float, float, float]] | None = None
    """(high, low, c, d): the log-evidence that the mean of `high` lies above c and that of `low` below d, convex in
    (c, d), and its derivatives in c and in d. With None, it is the product of the two evidences."""
    product_ceiling: Callable[[Stream, Stream, float, float], float] | None = None
    """(high, low, c, d): a cheap upper bound of `product`. With None, the sum of two ceilings; a noise with a `product`
    of its own has to say."""
    end: Callable[[Stream, int, float], float] | None = None
    """(s, side, level): the last c, or one before it, up to which the evidence that the mean lies on this side of c
    is `level` or more; coming from outside, toward the mean."""
    lead: Callable[[Stream, Stream, float, float], float] | None = None
    """(ahead, behind, level, enough): the largest lead of the first mean over the second for which the evidence reaches
    `level`, at it and at every smaller one; or any such lead of `enough` or more. With None it follows from `evidence`
    if that is log-convex, and else from one interval of each stream."""
    scaled_pair: Callable[[Stream, Stream, float, float], float] | None = None
    """(high, low, margin, factor): the same as `pair`, with `factor` times the mean of `low`. Log-convex evidence needs
    none."""
    radius: Callable[[Setting, Streams, int, int], float] | None = None
    """(setting, streams, arm, metric): the half-width of the confidence interval around the mean on which the paper's
    algorithms decide, in units of `scale`, or of 1 if that is None. With None, it is that of sub-Gaussian observations
    of this scale; a noise without `radius` and without `scale` is refused by policies that decide by intervals."""
    note: Callable[[Setting, Streams, int, int, float], None] | None = None
    """As `keep`, for a value of a set that counts in its mean and is no evidence of the others. Only sets need it."""


_SLOPE_STEP = 1e-5
"""How far apart, in units of a stream's width, the log-evidence is taken to derive its slope. The slope is then right
to about ten digits, and comparisons of arms to far less than the 0.001 by which they understate."""


def kernels_from(
    evidence: Callable[[Stream, int, float], float],
    scatter: Callable[[Setting, Streams, int, int, float], float],
    draw: Callable[[Nature, Generator, int, int], float],
    **others: Any,
) -> NoiseKernels:
    """All kernels of a noise whose log-evidence is convex in c, from three. `others` are kernels of your own."""

    @kernel
    def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
        step = _SLOPE_STEP * s.width + 1e-9 * abs(c)
        # Beyond the ends of the range there may be no evidence.
        before = max(c - step, s.low) if c >= s.low else c - step
        after = min(c + step, s.high) if c <= s.high else c + step
        slope = (evidence(s, side, after) - evidence(s, side, before)) / (after - before)
        return evidence(s, side, c), slope

    return NoiseKernels(evidence, evidence_and_slope, scatter, draw, **others)
