"""Observations that are 0 or 1: rates. Evidence: the bets of `bestarm.noises.bets`, which for them are tilts.

With s ones among n observations,

    E = sum over k of w_k exp(t_k s - n log(1 - c + c e^t_k)),   w_k adding up to 1.

Unlike a truncated Beta mixture it is log-convex in c, which the comparison of two arms needs.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.random import Generator, uniform
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.bets import (
    BET_ROUNDING,
    BETS,
    LEAST_VARIANCE,
    POOLED_LIKENESS,
    POOLED_ROOT_WEIGHT,
    ROOT_WEIGHT,
    STAKE,
    TILT,
    bets_with,
    inside,
    log_weights,
)
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.shares import as_share, is_share
from bestarm.noises.streams import ABOVE, BELOW, TUNING, Nature, Stream
from bestarm.noises.tilt_costs import half_in_a_pair, has_tables, least_cost_alone, tuning_of
from bestarm.validation import is_boolean, value


@large
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


@kernel
def divergence_ceiling(p: float, q: float) -> float:
    """An upper bound of the divergence, without logarithms where it is close.

    The divergence is the integral of (p - t) / (t (1 - t)) from q to p. 1 / (t (1 - t)) is convex, so it lies below its
    chord.
    """
    at_p, at_q = p * (1.0 - p), q * (1.0 - q)
    if not 1e-30 < 0.25 * at_p < at_q < 4.0 * at_p:
        return rate_divergence(p, q)
    gap = p - q
    return gap * gap * (2.0 * at_p + at_q) / (6.0 * at_p * at_q)


@kernel
def _best_tilt(n: int, total: float, c: float) -> float:
    """A little more than the most that a tilt can gain: n kl(m, c) if the mean m lies above c, else nothing."""
    mean = total / n
    return n * divergence_ceiling(mean, c) if mean > c else 0.0


@large
@kernel
def rate_evidence_and_slope(n: int, total: float, c: float, numbers: Floats, metric: int) -> tuple[float, float]:
    """Log-evidence that the rate is above c, from `total` ones among n observations, and its derivative in c, which
    is negative and increasing. The logs of the tilts' weights are in `numbers[metric]`, from `TUNING` on."""
    largest = -math.inf
    weight = 0.0
    slope = 0.0
    for k in range(BETS):
        growth = 1.0 + c * STAKE[k]
        term = numbers[metric, TUNING + k] + TILT[k] * total - n * math.log(growth)
        if term > largest:
            shrink = math.exp(largest - term)
            largest = term
            weight *= shrink
            slope *= shrink
        share = math.exp(term - largest)
        weight += share
        slope -= share * n * STAKE[k] / growth
    return largest + math.log(weight), slope / weight


@large
@kernel
def rate_evidence(n: int, total: float, c: float, numbers: Floats, metric: int) -> float:
    """Log-evidence that the rate is above c."""
    return rate_evidence_and_slope(n, total, c, numbers, metric)[0]


def numbers_of_rates(threshold: float | None) -> Floats:
    """What streams of rates have as `numbers`, for one metric."""
    return np.array([[0.0] * TUNING + list(tuning_of(log_weights(threshold)))])


_LITTLE = 3.0
"""Evidence that is at most so large is seldom compared with what must be reached, and a rough ceiling of it will do."""


@kernel
def _rough_cost(divergence: float) -> float:
    """The least cost of a mixture of the tilts, for any best tilt."""
    return min(0.17 * divergence, 1.0)


@large
@kernel
def rate_ceiling(n: int, total: float, c: float, numbers: Floats, metric: int) -> float:
    """A cheap upper bound of the log-evidence, without a tilt, and mostly without a logarithm.

    The cost of the mixture, of which `bestarm.noises.tilt_costs` tells, is as a function of D concave and starts at 0:
    if it is at least 1 at D = 1 / 0.17, it is at least 0.17 D before and at least 1 after. It is: over all L, the least
    at D = 1 / 0.17 is 1.017 with the weights for the rarest events, 1.149 with those for rates in the middle and 1.212
    in pairs (`tests/evidence/test_ceilings.py`). Where that leaves much evidence, a table tells the cost more closely.
    """
    divergence = _best_tilt(n, total, c)
    rough = divergence - _rough_cost(divergence) + BET_ROUNDING * n
    if not (_LITTLE < rough < math.inf and has_tables(numbers)):
        return rough
    divergence, cost = least_cost_alone(n, total, c, numbers, metric)
    return divergence - cost + BET_ROUNDING * n


@kernel
def _bottom(s: Stream, side: int) -> float:
    """The lower end of the range; on the side `BELOW`, of the range of minus the values."""
    return -s.low - s.width if side == BELOW else s.low


@kernel
def in_unit(s: Stream, side: int, c: float) -> tuple[float, float]:
    """The sum of the observations and c, scaled so that the range is [0, 1]. `BELOW` is the mirror image of `ABOVE`."""
    bottom = _bottom(s, side)
    if side == BELOW:
        return (-s.total - s.n * bottom) / s.width, inside((-c - bottom) / s.width)
    return (s.total - s.n * bottom) / s.width, inside((c - bottom) / s.width)


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    total, position = in_unit(s, side, c)
    return rate_evidence(s.n, total, position, s.numbers, s.metric)


@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    total, position = in_unit(s, side, c)
    log_evidence, slope = rate_evidence_and_slope(s.n, total, position, s.numbers, s.metric)
    slope = slope / s.width
    return log_evidence, -slope if side == BELOW else slope


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    total, position = in_unit(s, side, c)
    return rate_ceiling(s.n, total, position, s.numbers, s.metric)


@kernel
def gain(s: Stream, side: int, k: int) -> float:
    bottom = _bottom(s, side)
    total = (side * s.total - s.n * bottom) / s.width
    return TILT[k] * total


@kernel
def root_weight(k: int) -> float:
    weight: float = ROOT_WEIGHT[k]
    return weight


_, product = bets_with(gain, root_weight)


@kernel
def product_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    """Each of the two mixtures that are left if the best tilt of the other stream were known costs as much as
    `rate_ceiling` says, or more: the larger cost is a bound for both together. The table has a closer one."""
    total_above, above = in_unit(high, ABOVE, c)
    total_below, below = in_unit(low, BELOW, d)
    one, other = _best_tilt(high.n, total_above, above), _best_tilt(low.n, total_below, below)
    rounding = BET_ROUNDING * (high.n + low.n)
    rough = one + other - _rough_cost(max(one, other)) + rounding
    if not (_LITTLE < rough < math.inf and has_tables(high.numbers)):
        return rough
    one, cost = half_in_a_pair(high.n, total_above, above, high.numbers, high.metric)
    other, more = half_in_a_pair(low.n, total_below, below, low.numbers, low.metric)
    return min(rough, one + other - (cost + more) + rounding)


@kernel
def _pooled_root_weight(k: int) -> float:
    weight: float = POOLED_ROOT_WEIGHT[k]
    return weight


_, pooled_product = bets_with(gain, _pooled_root_weight, POOLED_LIKENESS)


@kernel
def pooled_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    """What the best tilts gain."""
    total_above, above = in_unit(high, ABOVE, c)
    total_below, below = in_unit(low, BELOW, d)
    gained = _best_tilt(high.n, total_above, above) + _best_tilt(low.n, total_below, below)
    return gained + BET_ROUNDING * (high.n + low.n)


@kernel
def guess(s: Stream, side: int, level: float) -> float:
    """Where the ceiling is `level`, or a little farther in."""
    total, left = in_unit(s, side, s.high if side == BELOW else s.low)
    left = 0.0
    right = total / s.n
    for _ in range(10):
        middle = 0.5 * (left + right)
        if rate_ceiling(s.n, total, middle, s.numbers, s.metric) < level:
            right = middle
        else:
            left = middle
    return side * (_bottom(s, side) + s.width * right)


@kernel
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    share = (mean - setting.low[metric]) / setting.width[metric]
    spread: float = setting.width[metric] * math.sqrt(max(share * (1.0 - share), LEAST_VARIANCE))
    return spread


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    x = 1.0 if uniform(generator) < nature.mean[arm, metric] else 0.0
    gain: float = nature.gain[metric]
    shift: float = nature.shift[metric]
    return shift + gain * x


def _surprise(p: Floats, q: Floats) -> Floats:
    """p log(p / q) with 0 log 0 = 0; log1p keeps its digits when p is close to q."""
    logarithm = np.where(np.abs(p - q) < 0.5 * q, np.log1p((p - q) / q), np.log(p / q))
    return np.where(p > 0.0, p * logarithm, 0.0)


OR_TRIALS = ", or k/n: k of n independent trials"


@value
class Bernoulli(NoiseModel):
    """Observations are 0 or 1; the mean is a rate."""

    name = "bernoulli"
    label = "yes or no (0 or 1)"
    about = "Each result is 0 or 1; the mean is a rate."
    place = 30
    kernels = NoiseKernels(
        *(evidence, evidence_and_slope, scatter, draw, ceiling, guess), product=product, product_ceiling=product_ceiling
    )
    is_whole = True
    tracked_as = "tracked-rates"
    takes_spread = False
    is_quadratic = False

    @property
    def scale(self) -> float:
        return 0.5

    def pooled(self) -> NoiseModel:
        return _Pooled()

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, 1.0)

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return tuning_of(log_weights(threshold))

    def sentence(self) -> str:
        return "each measurement is 0 or 1"

    def read_value(self, value: object) -> object:
        # True and False are natural results of a yes-or-no test, and so are NumPy's.
        if is_share(value):
            return as_share(value).packed
        return float(bool(value)) if is_boolean(value) else value

    def accepted_values(self) -> str:
        return f"must be 0 or 1{OR_TRIALS}"

    def value_hint(self) -> str:
        return "0 or 1"

    def divergence(self, p: Floats, q: Floats) -> Floats:
        return np.maximum(_surprise(p, q) + _surprise(1.0 - p, 1.0 - q), 0.0)


class _Pooled(Bernoulli):
    """Results of several arms."""

    kernels = Bernoulli.kernels._replace(product=pooled_product, product_ceiling=pooled_ceiling)
