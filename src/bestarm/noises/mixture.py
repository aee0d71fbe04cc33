"""The one-sided normal mixture: the evidence about Gaussian and similar observations is made from it.

With x = S / sqrt(n + RHO), where S is the sum of n deviations in units of their standard deviation, the mean of
exp(lambda S - n lambda² / 2) over a half-normal lambda > 0 of variance 1 / RHO is

    2 sqrt(RHO / (n + RHO)) exp(x² / 2) Phi(x).
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.elementary import log
from bestarm.kernel.state import Floats
from bestarm.kernel.tables import tabulate

RHO = 20.0
"""The sample size for which the evidence is tuned."""

ROUNDING = 1e-9
"""Added to a ceiling, so that rounding alone cannot take it below what it bounds."""

_SHARE = 1e-13
"""The same as a share of the evidence, for evidence so large that its own rounding exceeds `ROUNDING`."""

_INVERSE_ROOT_2 = 0.7071067811865476
ROOT_2_PI = 2.5066282746310002


@kernel
def log_scaled_phi(x: float) -> float:
    """x² / 2 + log Phi(x), without cancellation or underflow anywhere."""
    if x > -35.0:
        return 0.5 * x * x + math.log(0.5 * math.erfc(-x * _INVERSE_ROOT_2))
    # Where erfc nears underflow its asymptotic series is exact to twelve digits.
    y = 1.0 / (x * x)
    return math.log1p(y * (-1.0 + y * (3.0 - y * (15.0 - 105.0 * y)))) - math.log(-x * ROOT_2_PI)


@kernel
def log_mixture_factor(n: float) -> float:
    """log of 2 sqrt(RHO / (n + RHO)), the cost of the mixture."""
    return 0.5 * math.log(4.0 * RHO / (n + RHO))


@large
@kernel
def add_logs(a: float, b: float) -> float:
    """log(e^a + e^b)"""
    if a < b:
        a, b = b, a
    if b == -math.inf:
        return a
    return a + math.log1p(math.exp(b - a))


def mixture_table() -> Floats:
    """[slot]: log(2 sqrt(RHO / (n + RHO))), the cost of the mixture, and 1 / (2 (n + RHO)), both rounded up."""
    cost = tabulate(lambda n: 0.5 * log(4.0 * RHO / (n + RHO)) + ROUNDING)
    return np.ascontiguousarray(np.stack([cost, tabulate(lambda n: (0.5 + _SHARE) / (n + RHO))], axis=1))
