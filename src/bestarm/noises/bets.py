"""Bets: the evidence about observations in [0, 1] is made from them.

Against "the mean is at most c": a stake f > 0 turns an observation x into the factor (1 + f x) / (1 + f c). If the mean
m is at most c, the factor's mean (1 + f m) / (1 + f c) is at most 1. So with weights w_k that add up to 1,

    E = sum over k of w_k exp(L_k - n log(1 + f_k c)),   L_k = sum over the observations of log(1 + f_k x),

is a test supermartingale. L_k does not depend on c, and E is log-convex in c. Of two streams with the same mean, the
one that scatters less gains more: E[log(1 + f X)] grows as the variance falls. For observations that are 0 or 1, the
stake f = e^t - 1 is the exponential tilt by t, and L_k is t_k times their sum.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel

FINE_BETS = 8
MAIN_BETS = 14
BETS = FINE_BETS + MAIN_BETS

# The main tilts start at 0.05; finer ones, for gaps that take millions of tests, get a tenth of the weight.
TILT = tuple(0.05 * 1.5 ** (k - FINE_BETS) for k in range(BETS))
STAKE = tuple(math.expm1(tilt) for tilt in TILT)
LOG_WEIGHT = tuple(math.log(0.1 / FINE_BETS if k < FINE_BETS else 0.9 / MAIN_BETS) for k in range(BETS))

LEAST_VARIANCE = 0.01
"""Planning assumes that rates have at least this variance."""


@kernel
def inside(position: float) -> float:
    """`position` moved into [0, 1]: no mean lies outside its range."""
    return min(max(position, 0.0), 1.0)
