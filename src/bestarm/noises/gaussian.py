"""Normal, or any sub-Gaussian, observations of known standard deviation. Evidence: the one-sided normal mixture.

Against "the mean is at most c": with S the sum of the n deviations from c in units of sigma, the normal mixture
(`bestarm.noises.mixture`)

    E = 2 sqrt(RHO / (n + RHO)) exp(x² / 2) Phi(x),   x = S / sqrt(n + RHO),

is a test supermartingale (Howard et al. 2021): it ever reaches 1 / alpha with probability at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import numpy as np

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.random import Generator, normal
from bestarm.kernel.state import Floats, Setting, Streams, rounding_error
from bestarm.kernel.tables import slot
from bestarm.noises.base import ENDLESS, NoiseModel, OnItems, StatedNumber
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.mixture import RHO, ROOT_2_PI, add_logs, log_mixture_factor, log_scaled_phi
from bestarm.noises.shapes import is_normal, plain
from bestarm.noises.streams import ABOVE, BELOW, Nature, Stream
from bestarm.validation import UNSTATED, InvalidInput, Positive, exact, value

_LOG_2 = math.log(2.0)

_NO_SIGMA = (
    "gaussian noise needs sigma, the standard deviation of one measurement, or more: Gaussian(2.5), in a study file "
    '{ gaussian = 2.5 }. If you do not know it, choose Symmetric(), in a study file "symmetric", which learns it, or '
    "Bounded(low, high)"
)


@large
@kernel
def gaussian_evidence(n: float, deviation: float) -> float:
    """Log-evidence that the mean is above c, from n deviations that add up to `deviation` sigmas."""
    return log_mixture_factor(n) + log_scaled_phi(deviation / math.sqrt(n + RHO))


@kernel
def slope_of_scaled_phi(x: float, scaled_phi: float) -> float:
    """The derivative of x² / 2 + log Phi(x): x + phi(x) / Phi(x)."""
    if x < -35.0:
        # The two nearly cancel.
        return -(1.0 - 2.0 / (x * x)) / x
    return x + math.exp(-scaled_phi) / ROOT_2_PI


@large
@kernel
def gaussian_evidence_and_slope(n: float, deviation: float) -> tuple[float, float]:
    """The log-evidence, and its derivative in `deviation`, which is positive and increasing."""
    root = math.sqrt(n + RHO)
    x = deviation / root
    scaled_phi = log_scaled_phi(x)
    return log_mixture_factor(n) + scaled_phi, slope_of_scaled_phi(x, scaled_phi) / root


@kernel
def _deviation(s: Stream, side: int, c: float) -> float:
    """The sum of the deviations from c, to the side that the evidence is about."""
    deviation = s.total - s.n * c
    return -deviation if side == BELOW else deviation


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    deviation = _deviation(s, side, c)
    # A deviation that may be rounding alone is no evidence.
    if 0.0 < deviation < rounding_error(s.n, s.total):
        deviation = 0.0
    return gaussian_evidence(s.n, deviation / s.width)


@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    log_evidence, slope = gaussian_evidence_and_slope(s.n, _deviation(s, side, c) / s.width)
    slope = slope * s.n / s.width
    return log_evidence, slope if side == BELOW else -slope


# ------------------------------------------------------------------------------------------------- comparing two arms

COMMON = 0.85
"""The share of a pair's evidence that is for a common tilt of both streams; the rest is for two tilts."""
POOLED_COMMON = 0.97
"""The same where results have weights that make a common tilt fit."""
RHO_OF_PAIRS = 40.0
_LOG_COMMON, _LOG_POOLED = math.log(COMMON), math.log(POOLED_COMMON)


@kernel
def _with_common_tilt(
    high: Stream, low: Stream, c: float, d: float, deviation: float, weight: float, squares: float, share: float
) -> tuple[float, float, float]:
    """`product`, where the results of `high` deviate from c by `deviation` in all, each by its weight. The weights add
    up to `weight`, and their squares to `squares`. The evidence has the `share` of a common tilt."""
    above, fall = evidence_and_slope(high, ABOVE, c)
    below, rise = evidence_and_slope(low, BELOW, d)
    n = squares + low.n
    root = math.sqrt(n + RHO_OF_PAIRS)
    x = (deviation + _deviation(low, BELOW, d)) / high.width / root
    scaled_phi = log_scaled_phi(x)
    slope = slope_of_scaled_phi(x, scaled_phi) / (root * high.width)
    common = 0.5 * math.log(4.0 * RHO_OF_PAIRS / (n + RHO_OF_PAIRS)) + scaled_phi + math.log(share)
    separate = above + below + math.log1p(-share)
    total = add_logs(common, separate)
    part = math.exp(common - total)
    rest = 1.0 - part
    return total, rest * fall - part * slope * weight, rest * rise + part * slope * low.n


@kernel
def _ceiling_with_common_tilt(
    high: Stream, low: Stream, c: float, d: float, deviation: float, squares: float, share: float, log_share: float
) -> float:
    separate = ceiling(high, ABOVE, c) + ceiling(low, BELOW, d)
    if squares + low.n < RHO_OF_PAIRS / RHO:
        # The table begins at 1.
        return math.inf
    # The cost of a mixture depends on n / RHO only.
    place = slot(int((squares + low.n) * (RHO / RHO_OF_PAIRS)))
    deviation = (deviation + _deviation(low, BELOW, d)) * high.inverse_sigma
    common: float = high.mixture[place, 0]
    if deviation <= 0.0:
        common -= _LOG_2
    else:
        common += deviation * deviation * high.mixture[place, 1] * (RHO / RHO_OF_PAIRS)
    gap = common - separate
    if not gap > 0.0:
        return separate
    # log(share + (1 - share) y) with y = e^-gap, which is at most 1 / (1 + gap + gap² / 2).
    return common + min(log_share + (1.0 - share) / (share * (1.0 + gap * (1.0 + 0.5 * gap))), 0.0)


@large
@kernel
def product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    """Arms that are compared have about as many tests each. Then one tilt fits both, at the cost of one mixture."""
    return _with_common_tilt(high, low, c, d, _deviation(high, ABOVE, c), high.n, high.n, COMMON)


@kernel
def product_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    return _ceiling_with_common_tilt(high, low, c, d, _deviation(high, ABOVE, c), high.n, COMMON, _LOG_COMMON)


@kernel
def _weighted_deviation(s: Stream, c: float) -> float:
    deviation: float = s.kept[s.arm, s.metric, 2] - s.kept[s.arm, s.metric, 0] * c
    return deviation


@large
@kernel
def pooled_product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    """Where `high` has r times as many results as `low`, weights of 1 / r make one tilt fit both."""
    weight, squares = high.kept[high.arm, high.metric, 0], high.kept[high.arm, high.metric, 1]
    return _with_common_tilt(high, low, c, d, _weighted_deviation(high, c), weight, squares, POOLED_COMMON)


@kernel
def pooled_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    squares = high.kept[high.arm, high.metric, 1]
    return _ceiling_with_common_tilt(high, low, c, d, _weighted_deviation(high, c), squares, POOLED_COMMON, _LOG_POOLED)


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    """Takes no logarithm: the cost of the mixture is looked up, and Phi, which is at most 1, is left out."""
    deviation = _deviation(s, side, c) * s.inverse_sigma
    place = slot(s.n)
    cost: float = s.mixture[place, 0]
    if deviation <= 0.0:
        return cost - _LOG_2
    gain: float = deviation * deviation * s.mixture[place, 1]
    return cost + gain


@kernel
def guess(s: Stream, side: int, level: float) -> float:
    """Where the ceiling is `level`."""
    x = math.sqrt(2.0 * max(level - log_mixture_factor(s.n), 0.0))
    return s.total / s.n - side * (s.width * x * math.sqrt(s.n + RHO) / s.n)


@kernel
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    width: float = setting.width[metric]
    return width


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    mean: float = nature.mean[arm, metric]
    gain: float = nature.gain[metric]
    return mean + gain * normal(generator, nature.ziggurat)


@value
class Gaussian(NoiseModel):
    """Normal, or any sub-Gaussian, observations with known standard deviation `sigma`.

    With items, the values of a set must look normal, and so must the differences between two arms on the same item;
    with repeats, these must scatter as far up as down. Neither follows from `sigma`. `Bounded` assumes nothing of them.

    >>> Gaussian(2.0).sigma
    2.0
    """

    name = "gaussian"
    label = "a number, with known scatter"
    about = "Results scatter around their mean with a standard deviation that you know."
    stated: ClassVar = {"sigma": StatedNumber("standard deviation σ", default=1.0, above=0.0)}
    place = 40
    if_unstated = _NO_SIGMA
    is_common = True
    tracked_as = "gaussian"
    kernels = NoiseKernels(
        *(evidence, evidence_and_slope, scatter, draw, ceiling, guess), product=product, product_ceiling=product_ceiling
    )

    sigma: Positive = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        if self.sigma is None:
            raise InvalidInput("sigma", UNSTATED, _NO_SIGMA, sentence=_NO_SIGMA)

    @property
    def scale(self) -> float:
        return self.sigma

    @property
    def stated_scatter(self) -> float | None:
        return self.sigma

    def information(self, mean: float, c: Floats, spread: float | Mapping[str, float] | None) -> Floats:
        # If results scatter less, or differently, a method that knows sigma may learn more.
        as_stated = spread is None or (is_normal(spread) and plain(spread) == self.sigma)
        return self.divergence(np.full(len(c), mean), c) if as_stated else np.full(len(c), math.nan)

    def sentence(self) -> str:
        return f"scatters no further around its mean than normal values of standard deviation {exact(self.sigma)}"

    def under(self, rules: int) -> NoiseModel:
        return _ByProducts(self.sigma) if rules == 1 else self

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        return OnItems.gaussian_set(self.sigma, items, ties)

    def pooled(self) -> NoiseModel:
        return _Pooled(self.sigma)

    def differences(self) -> NoiseModel:
        # How much two arms' values of a common item differ is not stated.
        return OnItems.symmetric_set(ENDLESS, BELOW)

    def contrast_within_block(self, factor: float) -> NoiseModel:
        return Gaussian(self.sigma * math.hypot(1.0, factor))


class _ByProducts(Gaussian):
    """Under the first rules, two arms are compared by a product of evidence."""

    kernels = Gaussian.kernels._replace(product=None, product_ceiling=None)


class _Pooled(Gaussian):
    """Results of several arms, each with a weight."""

    kernels = Gaussian.kernels._replace(product=pooled_product, product_ceiling=pooled_ceiling)
    kept = 3
