"""A noise as a plug-in author would write it, in one file outside the package: values in a range, whose evidence adapts
to how much they really scatter (an empirical Bernstein process; Fan et al. 2015, Howard et al. 2021).

Before each result take m = (1/2 + the sum so far) / (n + 1), with values taken to [0, 1]. With y = (x - m) / m >= -1
and psi(k) = -log(1 - k) - k, exp(k y - psi(k) y²) is at most 1 + k y. So a stream keeps the sums of x / m, 1 / m and
y², on each side, and

    E = mean over k of exp(k (sum of x / m - c sum of 1 / m) - psi(k) sum of y²)

is a test supermartingale where the mean is at most c. Its logarithm is convex in c.
"""

from __future__ import annotations

import math
from typing import ClassVar

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.base import NoiseModel, StatedNumber
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.streams import BELOW, Stream
from bestarm.validation import Number, value

BETS = 12
_BET = (0.98, 0.9, 0.78, *(0.65 * 1.5**-j for j in range(BETS - 3)))
_PSI = tuple(-math.log(1.0 - bet) - bet for bet in _BET)
_LOG_BETS = math.log(BETS)


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    low, width = setting.low[metric], setting.width[metric]
    n = streams.counts[arm, metric]
    x = (value - low) / width
    mean = (0.5 + (streams.sums[arm, metric] - n * low) / width) / (n + 1.0)
    for side in range(2):
        if side == 1:
            x, mean = 1.0 - x, 1.0 - mean
        streams.kept[arm, metric, 3 * side] += x / mean
        streams.kept[arm, metric, 3 * side + 1] += 1.0 / mean
        streams.kept[arm, metric, 3 * side + 2] += ((x - mean) / mean) ** 2


@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    first = 0
    position = (c - s.low) / s.width
    if side == BELOW:
        first = 3
        position = 1.0 - position
    gain = s.kept[s.arm, s.metric, first] - position * s.kept[s.arm, s.metric, first + 1]
    scatter = s.kept[s.arm, s.metric, first + 2]
    largest = -math.inf
    for k in range(BETS):
        largest = max(largest, _BET[k] * gain - _PSI[k] * scatter)
    total = 0.0
    slope = 0.0
    for k in range(BETS):
        share = math.exp(_BET[k] * gain - _PSI[k] * scatter - largest)
        total += share
        slope += share * _BET[k]
    slope = -side * (slope / total) * s.kept[s.arm, s.metric, first + 1] / s.width
    return largest + math.log(total) - _LOG_BETS, slope


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    return evidence_and_slope(s, side, c)[0]


@value
class Bernstein(NoiseModel):
    """Observations lie between `low` and `high`, and may scatter much less than that allows."""

    name = "bernstein"
    label = "within a range, little scatter"
    about = "Results lie between two limits and scatter little."
    stated: ClassVar = {"low": StatedNumber("least value", default=0.0), "high": StatedNumber("largest value")}
    kernels = NoiseKernels(evidence, evidence_and_slope, Bernoulli.kernels.scatter, Bounded.kernels.draw, keep=keep)
    kept = 6

    low: Number
    high: Number

    @property
    def scale(self) -> float:
        return (self.high - self.low) / 2

    @property
    def range(self) -> tuple[float, float]:
        return (self.low, self.high)

    def sentence(self) -> str:
        return f"each measurement lies between {self.low:g} and {self.high:g}"
