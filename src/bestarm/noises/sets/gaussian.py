"""The mean over a finite set of normal values of known standard deviation, measured in a random order.

Let S be the sum of the first n of M values, whose mean over all is m. Given m, (S - n m) M / (M - n) is a Gaussian
random walk: after n items it has the variance of n M / (M - n) independent values. So the evidence is that of
`bestarm.noises.gaussian` with that many results, each with the same share of the deviation.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams, rounding_error
from bestarm.kernel.tables import slot
from bestarm.noises.exact import CERTAIN
from bestarm.noises.gaussian import gaussian_evidence, gaussian_evidence_and_slope, scatter
from bestarm.noises.kernels import NoiseKernels, radius_from
from bestarm.noises.mixture import RHO, ROUNDING, log_mixture_factor
from bestarm.noises.sets.settled import (
    SetNoise,
    is_certain,
    is_settled,
    items_of,
    keep_rounding,
    no_draw,
    no_pair,
    settled_mean,
)
from bestarm.noises.streams import BELOW, Stream
from bestarm.validation import Positive, exact, value

_LOG_2 = math.log(2.0)
_ROUNDED, _NOTED, _SUM = range(3)
"""Where a stream keeps what its sum has rounded; and of how many values, and of which sum, it was only noted. What is
evidence are the others: values of a set that is smaller by these."""


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    keep_rounding(streams, arm, metric, _ROUNDED, value)


@kernel
def note(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    keep_rounding(streams, arm, metric, _ROUNDED, value)
    streams.kept[arm, metric, _NOTED] += 1.0
    streams.kept[arm, metric, _SUM] += value


@kernel
def _noted(s: Stream) -> float:
    count: float = s.kept[s.arm, s.metric, _NOTED]
    return count


@kernel
def _beyond_noted(s: Stream, c: float) -> float:
    """How much less than c each value has added up to that was only noted, all in all."""
    missing: float = _noted(s) * c - s.kept[s.arm, s.metric, _SUM]
    return missing


@kernel
def _stretch(s: Stream) -> float:
    """M / (M - n): how much more the n results tell than if the set had no end."""
    items: float = items_of(s)
    stretch: float = (items - _noted(s)) / (items - s.n)
    return stretch


@kernel
def _deviation(s: Stream, side: int, c: float) -> float:
    """The sum of the deviations from what the mean of the results is if that of the set is c, to the side that the
    evidence is about."""
    bets = s.n - _noted(s)
    expected = c + _beyond_noted(s, c) / (items_of(s) - _noted(s))
    deviation: float = s.total - s.kept[s.arm, s.metric, _SUM] - bets * expected
    return -deviation if side == BELOW else deviation


@kernel
def _settled(s: Stream, side: int, c: float) -> float:
    return CERTAIN if is_certain(s, side, c, s.total, s.kept[s.arm, s.metric, _ROUNDED]) else -CERTAIN


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    if is_settled(s):
        return _settled(s, side, c)
    deviation = _deviation(s, side, c)
    # A deviation that may be rounding alone is no evidence.
    if 0.0 < deviation < rounding_error(s.n, s.total):
        deviation = 0.0
    stretch = _stretch(s)
    return gaussian_evidence((s.n - _noted(s)) * stretch, deviation * stretch / s.width)


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    """As for `Gaussian`. The table's values fall with the number of results, so that number is rounded down."""
    if is_settled(s):
        return _settled(s, side, c)
    stretch, bets = _stretch(s), s.n - _noted(s)
    if bets == 0.0:
        return 0.0
    deviation = _deviation(s, side, c) * stretch * s.inverse_sigma
    place = slot(int(bets * stretch))
    cost: float = s.mixture[place, 0]
    if deviation <= 0.0:
        return cost - _LOG_2
    gain: float = deviation * deviation * s.mixture[place, 1]
    return cost + gain


@kernel
def end(s: Stream, side: int, level: float) -> float:
    """The evidence is convex and rises with the deviation, so Newton's method from a deviation that is too large stays
    on that side."""
    if s.n > 0 and is_settled(s):
        return settled_mean(s, side)
    bets = s.n - _noted(s)
    if bets == 0.0:
        return s.low if side > 0 else s.high
    n = bets * _stretch(s)
    root = math.sqrt(n + RHO)
    # Phi is one half or more there.
    deviation = root * math.sqrt(2.0 * max(level - log_mixture_factor(n) + _LOG_2, 0.0))
    for _ in range(20):
        reached, slope = gaussian_evidence_and_slope(n, deviation)
        if reached - level < ROUNDING:
            break
        deviation -= (reached - level) / slope
    found = (s.total - s.kept[s.arm, s.metric, _SUM]) / bets - side * (s.width * deviation / n)
    found -= _beyond_noted(s, found) / items_of(s)
    # Statistics that are NaN say nothing.
    return found if -math.inf < found < math.inf else (s.low if side > 0 else s.high)


@value
class GaussianSet(SetNoise):
    """The mean over a set of `items` normal values, each measured once."""

    name = "gaussian-set"
    kernels = NoiseKernels(
        *(evidence, None, scatter, no_draw, ceiling),
        keep=keep,
        pair=no_pair,
        end=end,
        radius=radius_from(end),
        note=note,
    )
    kept = 3

    sigma: Positive
    items: int
    ties: int = BELOW

    @property
    def scale(self) -> float:
        return self.sigma

    @property
    def stated_scatter(self) -> float | None:
        return self.sigma

    def sentence(self) -> str:
        return (
            f"the values of the {self.items:,} items scatter like normal ones, with a standard deviation of at most "
            f"{exact(self.sigma)}"
        )
