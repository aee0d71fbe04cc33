"""Evidence that one stream's mean is above another's.

If it were not, some c would lie between the two means, and at that c both "the first mean lies above c" and "the
second lies below c" would be false. The product of the evidence for the one and for the other is a test
supermartingale at that c. So the smallest product over all c is evidence, and needs no c.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import apart, kernel, one_of
from bestarm.kernel.state import rounding_error
from bestarm.noises.base import RELATIVE_ROUNDING
from bestarm.noises.dispatch import by_kind, ceiling, evidence, evidence_and_slope
from bestarm.noises.streams import ABOVE, BELOW, Stream

GAP = 1e-3
"""How far, in the logarithm, the evidence may be understated."""


@kernel
def scaled_range(high: Stream, low: Stream, margin: float, factor: float) -> tuple[float, float]:
    """Only a c inside both ranges can lie between the first mean plus `margin` and `factor` times the second."""
    return max(high.low + margin, factor * low.low), min(high.high + margin, factor * low.high)


@kernel
def _between(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """A point between the two means, nearer to the one that is known better."""
    weight_high = high.n / (high.width * high.width)
    weight_low = low.n / (low.width * low.width * (factor * factor))
    mean_high, mean_low = high.total / high.n + margin, factor * (low.total / low.n)
    return (weight_high * mean_high + weight_low * mean_low) / (weight_high + weight_low)


@kernel
def plain_product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    above, fall = evidence_and_slope(high, ABOVE, c)
    below, rise = evidence_and_slope(low, BELOW, d)
    return above + below, fall, rise


@kernel
def steep_product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    """For evidence that is not convex, or jumps. Its derivatives are never used."""
    return evidence(high, ABOVE, c) + evidence(low, BELOW, d), 0.0, 0.0


@kernel
def plain_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    return ceiling(high, ABOVE, c) + ceiling(low, BELOW, d)


_every_product, _product_of = by_kind(
    lambda kernels: kernels.product or (steep_product if kernels.evidence_and_slope is None else plain_product)
)
_every_ceiling, _ceiling_of = by_kind(lambda kernels: kernels.product_ceiling or plain_ceiling)


@one_of("high.kind", _every_product, "(math.nan, math.nan, math.nan)")
def product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    """Log-evidence that the mean of `high` lies above c and that of `low` below d, and its derivatives in c and d."""
    return _product_of(high.kind)(high, low, c, d)


@one_of("high.kind", _every_ceiling)
def product_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    """A cheap upper bound of `product`."""
    return _ceiling_of(high.kind)(high, low, c, d)


@kernel
def _at(high: Stream, low: Stream, margin: float, factor: float, c: float) -> tuple[float, float]:
    """The log-evidence at c, and its derivative."""
    found, fall, rise = product(high, low, c - margin, c / factor)
    return found, fall + rise / factor


@kernel
def evidence_between(high: Stream, low: Stream, margin: float) -> float:
    """An upper bound of `pair_evidence`, close to it: the product at one c is never below the smallest product."""
    first, last = scaled_range(high, low, margin, 1.0)
    c = min(max(_between(high, low, margin, 1.0), first), last)
    found: float = product(high, low, c - margin, c)[0]
    return found


@kernel
def by_tangents(high: Stream, low: Stream, margin: float) -> float:
    """Log-evidence that the first mean plus `margin` is above the second, for log-convex evidence."""
    return by_scaled_tangents(high, low, margin, 1.0)


@kernel
def by_scaled_tangents(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """Log-evidence that the first mean plus `margin` is above `factor` times the second, for log-convex evidence.

    The logarithm of the product is convex in c. So the tangents at both ends of a bracket of its minimum meet below
    the minimum. That height is returned: stopped early, it understates.
    """
    left, right = factor * (low.total / low.n), high.total / high.n + margin
    # Written this way, means that are NaN or infinite are no evidence, and neither is a lead that may be rounding.
    if not -math.inf < left + rounding_error(low.n, left) < right - rounding_error(high.n, right) < math.inf:
        return -math.inf
    first, last = scaled_range(high, low, margin, factor)
    step = right - left
    left, right = max(left, first), min(right, last)
    value_left, slope_left = _at(high, low, margin, factor, left)
    while slope_left >= 0.0 and left > first:
        left = max(left - step, first)
        step *= 2.0
        value_left, slope_left = _at(high, low, margin, factor, left)
    if slope_left >= 0.0:
        return value_left
    value_right, slope_right = _at(high, low, margin, factor, right)
    while slope_right <= 0.0 and right < last:
        right = min(right + step, last)
        step *= 2.0
        value_right, slope_right = _at(high, low, margin, factor, right)
    if slope_right <= 0.0:
        return value_right
    c = min(max(_between(high, low, margin, factor), left), right)
    bound = -math.inf
    for _ in range(60):
        value, slope = _at(high, low, margin, factor, c)
        if slope < 0.0:
            left, value_left, slope_left = c, value, slope
        else:
            right, value_right, slope_right = c, value, slope
        # Where the tangents meet, as a step from `left`: both ends may be large and close together.
        step = (value_right - value_left - slope_right * (right - left)) / (slope_left - slope_right)
        bound = value_left + slope_left * step
        if value - bound < GAP:
            return bound
        # Not too near the ends, so that the bracket shrinks from both sides.
        c = min(max(left + step, left + 0.1 * (right - left)), right - 0.1 * (right - left))
    return bound


# Where evidence is not log-convex slopes are NaN, which is no evidence; problems that need them are refused.
_every_scaled_pair, _scaled_pair_of = by_kind(lambda kernels: kernels.scaled_pair or by_scaled_tangents)


@one_of("high.kind", _every_scaled_pair)
def scaled_pair_evidence(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """Log-evidence that the first mean plus `margin` is above `factor` times the second."""
    return _scaled_pair_of(high.kind)(high, low, margin, factor)


@apart
@kernel
def scaled_evidence(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """The same as a function of its own."""
    return scaled_pair_evidence(high, low, margin, factor)


@apart
@kernel
def scaled_pair_ceiling(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """A ceiling of `scaled_pair_evidence`: the product at any c is at least the smallest product."""
    mean_high, mean_low = high.total / high.n + margin, factor * (low.total / low.n)
    # Values that never vary may be equal but for rounding.
    if not mean_high >= mean_low - RELATIVE_ROUNDING * abs(mean_low):
        return -math.inf
    first, last = scaled_range(high, low, margin, factor)
    c = min(max(min(_between(high, low, margin, factor), mean_high), first), last)
    return product_ceiling(high, low, c - margin, c / factor)


_every_pair, _pair_of = by_kind(lambda kernels: kernels.pair or by_tangents)


@one_of("high.kind", _every_pair)
def pair_evidence(high: Stream, low: Stream, margin: float) -> float:
    """Log-evidence that the first mean plus `margin` is above the second. Both streams are of one metric."""
    return _pair_of(high.kind)(high, low, margin)
