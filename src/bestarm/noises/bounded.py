"""Observations in a range, about which nothing else is known. Evidence: a mixture of exponential tilts.

Values are scaled to [0, 1]. Against "the mean is at most c": for any lambda > 0 and any X in [0, 1] with mean m <= c,
convexity gives E exp(lambda X) <= 1 - m + m e^lambda <= 1 - c + c e^lambda, so with s the sum of n observations

    E = sum over k of w_k exp(lambda_k s - n log(1 - c + c e^lambda_k)),   w_k adding up to 1,

is a test supermartingale. Unlike a truncated Beta mixture it is log-convex in c, which the comparison of two arms
needs.
"""

from __future__ import annotations

import math
from typing import ClassVar

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.random import Generator, uniform
from bestarm.kernel.state import Setting
from bestarm.noises.base import BELOW, Nature, NoiseKernels, NoiseModel, StatedNumber, Stream
from bestarm.validation import LEAST, Number, exact, value

FINE_TILTS = 8
MAIN_TILTS = 14
TILTS = FINE_TILTS + MAIN_TILTS

# The main tilts start at 0.05; finer ones, for gaps that take millions of tests, get a tenth of the weight.
_TILT = tuple(0.05 * 1.5 ** (k - FINE_TILTS) for k in range(TILTS))
_FACTOR = tuple(math.expm1(tilt) for tilt in _TILT)
_LOG_WEIGHT = tuple(math.log(0.1 / FINE_TILTS if k < FINE_TILTS else 0.9 / MAIN_TILTS) for k in range(TILTS))


@large
@kernel
def bounded_evidence_and_slope(n: int, total: float, c: float) -> tuple[float, float]:
    """Log-evidence that the mean is above c, from n observations in [0, 1] that add up to `total`, and its
    derivative in c, which is negative and increasing."""
    largest = -math.inf
    weight = 0.0
    slope = 0.0
    for k in range(TILTS):
        growth = 1.0 + c * _FACTOR[k]
        term = _LOG_WEIGHT[k] + _TILT[k] * total - n * math.log(growth)
        if term > largest:
            shrink = math.exp(largest - term)
            largest = term
            weight *= shrink
            slope *= shrink
        share = math.exp(term - largest)
        weight += share
        slope -= share * n * _FACTOR[k] / growth
    return largest + math.log(weight), slope / weight


@large
@kernel
def bounded_evidence(n: int, total: float, c: float) -> float:
    """Log-evidence that the mean is above c."""
    return bounded_evidence_and_slope(n, total, c)[0]


@kernel
def rate_divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence between rates p and q."""
    if q <= 0.0 or q >= 1.0:
        return 0.0 if p == q else math.inf
    divergence = 0.0
    if p > 0.0:
        divergence += p * math.log(p / q)
    if p < 1.0:
        divergence += (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
    return divergence


# Per observation: a tilt's term is a difference of numbers up to 10 n, each rounded to about 1e-16 of itself.
_ROUNDING = 2e-14


@large
@kernel
def bounded_ceiling(n: int, total: float, c: float) -> float:
    """A cheap upper bound of the log-evidence: it takes two logarithms and no tilt.

    With m the observed mean and p_k the rate c under tilt k, the term of tilt k is n (kl(m, c) - kl(m, p_k)).
    So the log-evidence falls short of D = n kl(m, c) by

        cost = -log(sum over k of w_k exp(-D r_k)),   r_k = kl(m, p_k) / kl(m, c) >= 0.

    As a function of D this is concave and starts at 0: if it is at least 1 at D = 1 / 0.28, it is at least 0.28 D
    before and at least 1 after.

    It is: let L be the tilt that turns c into m, and B(t) = p (1 - p) at tilt t, so that kl(m, p_k) is the integral of
    |t - tilt k| B(t) between tilt k and L, and kl(m, c) that of t B(t) from 0 to L. B falls no faster than e^-t, so
    exp(t) B(t) rises, and every r_k is at least what it would be with exp(-t) in place of B. That is the limit c -> 1,
    where only L is free. The least cost over L, at D = 1 / 0.28, is 1.032, at L = 5.0
    (`tests/evidence/test_ceilings.py`).
    """
    rounding = _ROUNDING * n
    mean = total / n
    if mean <= c:
        return rounding
    divergence = n * rate_divergence(mean, c)
    return max(0.72 * divergence, divergence - 1.0) + rounding


LEAST_VARIANCE = 0.01
"""Planning assumes that observations in [0, 1] have at least this variance."""


@kernel
def inside(position: float) -> float:
    """`position` moved into [0, 1]: no mean lies outside its range."""
    return min(max(position, 0.0), 1.0)


@kernel
def _bottom(s: Stream, side: int) -> float:
    """The lower end of the range; on the side `BELOW`, of the range of minus the values."""
    return -s.low - s.width if side == BELOW else s.low


@kernel
def _in_unit(s: Stream, side: int, c: float) -> tuple[float, float]:
    """The sum of the observations and c, scaled so that the range is [0, 1]. `BELOW` is the mirror image of `ABOVE`."""
    bottom = _bottom(s, side)
    if side == BELOW:
        return (-s.total - s.n * bottom) / s.width, inside((-c - bottom) / s.width)
    return (s.total - s.n * bottom) / s.width, inside((c - bottom) / s.width)


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    total, position = _in_unit(s, side, c)
    return bounded_evidence(s.n, total, position)


@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    total, position = _in_unit(s, side, c)
    log_evidence, slope = bounded_evidence_and_slope(s.n, total, position)
    slope = slope / s.width
    return log_evidence, -slope if side == BELOW else slope


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    total, position = _in_unit(s, side, c)
    return bounded_ceiling(s.n, total, position)


@kernel
def guess(s: Stream, side: int, level: float) -> float:
    """Where the ceiling is `level`, or a little farther in."""
    total, left = _in_unit(s, side, s.high if side == BELOW else s.low)
    left = 0.0
    right = total / s.n
    for _ in range(10):
        middle = 0.5 * (left + right)
        if bounded_ceiling(s.n, total, middle) < level:
            right = middle
        else:
            left = middle
    return side * (_bottom(s, side) + s.width * right)


@kernel
def scatter(setting: Setting, metric: int, mean: float) -> float:
    share = (mean - setting.low[metric]) / setting.width[metric]
    spread: float = setting.width[metric] * math.sqrt(max(share * (1.0 - share), LEAST_VARIANCE))
    return spread


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
    """Observations lie between `low` and `high`; nothing else is known about them.

    >>> Bounded(0, 10).scale
    5.0
    """

    name = "bounded"
    label = "within a range"
    about = "Results lie between two limits; nothing else is known of them."
    stated: ClassVar = {"low": StatedNumber("least value", default=0.0), "high": StatedNumber("largest value")}
    kernels = NoiseKernels(evidence, evidence_and_slope, scatter, draw, ceiling, guess)

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

    @property
    def range(self) -> tuple[float, float]:
        return (self.low, self.high)

    def sentence(self) -> str:
        return f"each measurement lies between {exact(self.low)} and {exact(self.high)}"
