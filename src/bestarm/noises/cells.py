"""Comparing two streams of symmetric noise: the least product of their evidence over all c, bounded from below.

The line of c is cut into cells. On a cell both factors are replaced by smaller ones that are log-convex in c
(`bestarm.noises.self_normalized`), so that two tangents bound their product. A cell on which that is not close enough
is halved. Beyond the values of a stream, the bets on signs bound its factor.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import rounding_error
from bestarm.noises.gaussian import gaussian_evidence_and_slope
from bestarm.noises.mixture import RHO
from bestarm.noises.self_normalized import (
    FIRST,
    LOG_FLAT,
    LOG_SN,
    WEIGHT,
    add_flat,
    beyond,
    deviations_from,
    evidence,
    log_signs,
    squares_around,
)
from bestarm.noises.streams import ABOVE, BELOW, Stream

GAP = 5e-3
"""How far, in the logarithm, the evidence may be understated."""
_MOST_CELLS = 300


@large
@kernel
def value_and_slope(s: Stream, side: int, x: float, squares: float, rise: float) -> tuple[float, float]:
    """The log-evidence at x without the bets on signs, and its derivative where the squares grow by `rise`."""
    deviations = deviations_from(s, side, x)
    log_sn, growth = gaussian_evidence_and_slope(squares, deviations)
    value = add_flat(log_sn, LOG_FLAT)
    weight: float = s.kept[s.arm, s.metric, WEIGHT]
    slope = -side * weight * growth - 0.5 * rise * (1.0 + deviations * growth) / (squares + RHO)
    return value, math.exp(LOG_SN + log_sn - value) * slope


@kernel
def by_cells(high: Stream, low: Stream, margin: float) -> float:
    """Log-evidence that the first mean plus `margin` is above the second."""
    return by_scaled_cells(high, low, margin, 1.0)


@kernel
def by_scaled_cells(high: Stream, low: Stream, margin: float, factor: float) -> float:
    """Log-evidence that the first mean plus `margin` is above `factor` times the second."""
    left, right = factor * (low.total / low.n), high.total / high.n + margin
    # Written this way, means that are NaN or infinite are no evidence, and neither is a lead that may be rounding.
    if not -math.inf < left + rounding_error(low.n, left) < right - rounding_error(high.n, right) < math.inf:
        return -math.inf
    zero_high = high.kept[high.arm, high.metric, FIRST] + margin
    zero_low = factor * low.kept[low.arm, low.metric, FIRST]
    a, last = zero_high + beyond(high, ABOVE), zero_low + factor * beyond(low, BELOW)
    bound = LOG_FLAT + min(log_signs(high.n), log_signs(low.n))
    middle = (high.n * right + low.n * left) / (high.n + low.n)
    reached = min(bound, evidence(high, ABOVE, middle - margin) + evidence(low, BELOW, middle / factor))
    step = 0.25 * (last - a)
    smallest = 1e-6 * step
    for _ in range(_MOST_CELLS):
        if not a < last:
            return bound
        # Where rounding leaves nothing of a step, the rest is one cell.
        b = min(a + step, last) if a + step > a else last
        width = b - a
        high_a, high_b = squares_around(high, a - zero_high), squares_around(high, b - zero_high)
        # Where the cell begins and ends for the second stream, in its own units.
        own_a, own_b = (a - zero_low) / factor, (b - zero_low) / factor
        low_a, low_b = squares_around(low, own_a), squares_around(low, own_b)
        rise_high, rise_low = (high_b - high_a) / width, (low_b - low_a) / (width / factor)
        above_a, fall_a = value_and_slope(high, ABOVE, a - zero_high, high_a, rise_high)
        below_a, rise_a = value_and_slope(low, BELOW, own_a, low_a, rise_low)
        above_b, fall_b = value_and_slope(high, ABOVE, b - zero_high, high_b, rise_high)
        below_b, rise_b = value_and_slope(low, BELOW, own_b, low_b, rise_low)
        at_a, at_b = above_a + below_a, above_b + below_b
        slope_a, slope_b = fall_a + rise_a / factor, fall_b + rise_b / factor
        least = min(at_a, at_b)
        reached = min(reached, least)
        if slope_a < 0.0 < slope_b:
            # Where the tangents at both ends of the cell meet.
            least = at_a + slope_a * (at_b - at_a - slope_b * width) / (slope_a - slope_b)
        if least >= reached - GAP or width <= smallest:
            bound = min(bound, least)
            a = b
            step = 2.0 * width
        else:
            step = 0.5 * width
    return -math.inf
