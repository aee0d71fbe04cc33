"""Evidence about the mean of Gaussian, or sub-Gaussian, observations: the one-sided normal mixture.

Against "the mean is at most c": with S the sum of the n deviations from c in units of sigma, the mean of
exp(lambda S - n lambda² / 2) over a half-normal lambda > 0 of variance 1 / RHO is

    E = 2 sqrt(RHO / (n + RHO)) exp(x² / 2) Phi(x),   x = S / sqrt(n + RHO),

a test supermartingale (Howard et al. 2021): it ever reaches 1 / alpha with probability at most alpha.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel

RHO = 20.0
"""The sample size for which the evidence is tuned."""

_INVERSE_ROOT_2 = 0.7071067811865476
_ROOT_2_PI = 2.5066282746310002


@kernel
def log_scaled_phi(x: float) -> float:
    """x² / 2 + log Phi(x), without cancellation or underflow anywhere."""
    if x > -35.0:
        return 0.5 * x * x + math.log(0.5 * math.erfc(-x * _INVERSE_ROOT_2))
    # Where erfc nears underflow its asymptotic series is exact to twelve digits.
    y = 1.0 / (x * x)
    return math.log1p(y * (-1.0 + y * (3.0 - y * (15.0 - 105.0 * y)))) - math.log(-x * _ROOT_2_PI)


@kernel
def log_mixture_factor(n: int) -> float:
    """log of 2 sqrt(RHO / (n + RHO)), what the mixture costs."""
    return 0.5 * math.log(4.0 * RHO / (n + RHO))


@kernel
def gaussian_evidence(n: int, deviation: float) -> float:
    """Log-evidence that the mean is above c, from n deviations that add up to `deviation` sigmas."""
    return log_mixture_factor(n) + log_scaled_phi(deviation / math.sqrt(n + RHO))


@kernel
def gaussian_evidence_and_slope(n: int, deviation: float) -> tuple[float, float]:
    """The log-evidence, and its derivative in `deviation`, which is positive and increasing."""
    root = math.sqrt(n + RHO)
    x = deviation / root
    scaled_phi = log_scaled_phi(x)
    if x < -35.0:
        # x + phi(x) / Phi(x) for far negative x, where the two nearly cancel.
        slope = -(1.0 - 2.0 / (x * x)) / x
    else:
        slope = x + math.exp(-scaled_phi) / _ROOT_2_PI
    return log_mixture_factor(n) + scaled_phi, slope / root
