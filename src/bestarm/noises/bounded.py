"""Observations in a range, about which nothing else is known. Evidence: the bets of `bestarm.noises.bets`.

Values are scaled to [0, 1]. A stream keeps, for each bet, the sum of log(1 + f x) for the evidence above and of
log(1 + f (1 - x)) for that below, its mirror image; and how much its values scatter, for planning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.random import Generator, uniform
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.base import NoiseModel, StatedNumber
from bestarm.noises.bets import (
    BET_ROUNDING,
    BETS,
    EVEN_LOG_WEIGHTS,
    EVEN_ROOT_WEIGHT,
    STAKE,
    bets_with,
    inside,
    position_of,
)
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.kl_infimum import kl_infimum, nodes_of
from bestarm.noises.streams import ABOVE, BELOW, TUNING, Nature, Stream
from bestarm.validation import LEAST, Number, exact, value

_SQUARES = 2 * BETS
"""Where a stream keeps the sum of its values' squared deviations from their mean."""

PRIOR_TESTS = 4.0
_PRIOR_SHARE = 0.25
"""Planning starts from this share of the largest variance, which counts as much as this many tests."""


@kernel
def keep_squares(streams: Streams, arm: int, metric: int, value: float) -> None:
    n = streams.counts[arm, metric]
    away = value - streams.means[arm, metric]
    streams.kept[arm, metric, _SQUARES] += away * away * n / (n + 1.0)


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    x = inside((value - setting.low[metric]) / setting.width[metric])
    for k in range(BETS):
        streams.kept[arm, metric, k] += math.log(1.0 + STAKE[k] * x)
        streams.kept[arm, metric, BETS + k] += math.log(1.0 + STAKE[k] * (1.0 - x))
    keep_squares(streams, arm, metric, value)


@kernel
def gain(s: Stream, side: int, k: int) -> float:
    gained: float = s.kept[s.arm, s.metric, BETS + k if side == BELOW else k]
    return gained


@kernel
def root_weight(k: int) -> float:
    weight: float = EVEN_ROOT_WEIGHT[k]
    return weight


_best_bet, product = bets_with(gain, root_weight)


@large
@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    position = position_of(s, side, c)
    largest = -math.inf
    weight = 0.0
    slope = 0.0
    for k in range(BETS):
        growth = 1.0 + position * STAKE[k]
        term = s.numbers[s.metric, TUNING + k] + gain(s, side, k) - s.n * math.log(growth)
        if term > largest:
            shrink = math.exp(largest - term)
            largest = term
            weight *= shrink
            slope *= shrink
        share = math.exp(term - largest)
        weight += share
        slope += share * STAKE[k] / growth
    return largest + math.log(weight), -side * s.n * (slope / weight) / s.width


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    return evidence_and_slope(s, side, c)[0]


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    """The best bet's gain: a weighted mean is at most its largest term."""
    return max(_best_bet(s, side, position_of(s, side, c)), 0.0) + BET_ROUNDING * s.n


@kernel
def product_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    """The gains of the best bets on both."""
    return ceiling(high, ABOVE, c) + ceiling(low, BELOW, d)


@kernel
def prior_variance(setting: Setting, metric: int, mean: float) -> float:
    """What planning takes for the variance of results before there are any."""
    share = (mean - setting.low[metric]) / setting.width[metric]
    variance: float = _PRIOR_SHARE * max(share * (1.0 - share), 0.01) * setting.width[metric] ** 2
    return variance


@kernel
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    prior = prior_variance(setting, metric, mean)
    squares = streams.kept[arm, metric, _SQUARES]
    spread: float = math.sqrt((squares + PRIOR_TESTS * prior) / (streams.counts[arm, metric] + PRIOR_TESTS))
    return spread


@kernel
def guess(s: Stream, side: int, level: float) -> float:
    """Where the interval would end for normal observations that scatter as these do."""
    squares: float = s.kept[s.arm, s.metric, _SQUARES]
    spread = math.sqrt(squares / s.n) + s.width / s.n
    end = s.total / s.n - side * spread * math.sqrt(2.0 * max(level, 1.0) / s.n)
    return min(max(end, s.low), s.high)


@kernel
def power_draw(generator: Generator, mean: float) -> float:
    """A draw from [0, 1] with the given mean: Beta(1, b), or its mirror image where the mean is above one half."""
    if mean <= 0.5:
        return 1.0 - math.pow(uniform(generator), mean / (1.0 - mean))
    return math.pow(uniform(generator), (1.0 - mean) / mean)


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    gain: float = nature.gain[metric]
    shift: float = nature.shift[metric]
    return shift + gain * power_draw(generator, nature.mean[arm, metric])


@value
class Bounded(NoiseModel):
    """Observations lie between `low` and `high`; nothing else is known about them. How much they scatter is learned.

    >>> Bounded(0, 10).scale
    5.0
    """

    name = "bounded"
    label = "a number within a range"
    about = "Results lie between two limits, such as scores, or times with a timeout; nothing else is known of them."
    place = 20
    stated: ClassVar = {"low": StatedNumber("least value", default=0.0), "high": StatedNumber("largest value")}
    kernels = NoiseKernels(
        *(evidence, evidence_and_slope, scatter, draw, ceiling, guess, keep),
        product=product,
        product_ceiling=product_ceiling,
    )
    kept = 2 * BETS + 1
    learns_scatter = True
    is_quadratic = False
    is_family = False

    low: Number
    high: Number

    def __post_init__(self) -> None:
        if not self.low < self.high:
            raise ValueError(f"bounded noise needs low < high, not low = {exact(self.low)}, high = {exact(self.high)}")
        if not self.high - self.low >= LEAST:
            raise ValueError(
                f"bounded noise needs a range of width {LEAST:g} or more, not low = {self.low!r}, high = {self.high!r}"
            )

    @property
    def scale(self) -> float:
        return (self.high - self.low) / 2

    def pooled(self) -> NoiseModel:
        return self

    @property
    def range(self) -> tuple[float, float]:
        return (self.low, self.high)

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return EVEN_LOG_WEIGHTS

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        nodes = nodes_of(mean, spread, self.range)
        if nodes is None:
            return np.full(len(c), math.nan)
        width = self.high - self.low
        return kl_infimum(nodes, (mean - self.low) / width, (c - self.low) / width)

    def sentence(self) -> str:
        return f"each measurement lies between {exact(self.low)} and {exact(self.high)}"
