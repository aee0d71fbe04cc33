"""One interface to the evidence, whatever the noise: log-evidence that a stream's mean lies above or below c.

A stream's sufficient statistics are its number of observations n and their sum. Its noise is a kind and two numbers:
Gaussian with (0, sigma), or bounded with (low, width). Nothing else knows the noise. Evidence that the mean lies
below c is evidence that minus the mean lies above minus c.
"""

from __future__ import annotations

import math

from bestarm.evidence.bounded import bounded_evidence, bounded_evidence_and_slope
from bestarm.evidence.gaussian import gaussian_evidence, gaussian_evidence_and_slope
from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import blur

GAUSSIAN = 0
BOUNDED = 1

LEAST_VARIANCE = 0.01
"""Observations in [0, 1] are planned for as if their variance were at least this."""


@kernel
def scatter(kind: int, low: float, width: float, mean: float) -> float:
    """The standard deviation of one observation where the mean is `mean`, for planning only."""
    if kind == BOUNDED:
        share = (mean - low) / width
        return width * math.sqrt(max(share * (1.0 - share), LEAST_VARIANCE))
    return width


@kernel
def suffices(evidence: float, level: float) -> bool:
    """Whether log-evidence reaches its level. What is not a finite number is no evidence: NaN and infinity fail."""
    return level <= evidence < math.inf


@kernel
def inside(position: float) -> float:
    """`position` moved into [0, 1]: no mean lies outside its range."""
    return min(max(position, 0.0), 1.0)


@large
@kernel
def evidence_above(kind: int, low: float, width: float, n: int, total: float, c: float) -> float:
    """Log-evidence against "the mean is at most c"."""
    if kind == GAUSSIAN:
        deviation = total - n * c
        # What may be rounding alone speaks for nothing.
        if 0.0 < deviation < blur(n, total):
            deviation = 0.0
        return gaussian_evidence(n, deviation / width)
    return bounded_evidence(n, (total - n * low) / width, inside((c - low) / width))


@kernel
def mirrored(kind: int, low: float, width: float) -> float:
    """The lower end of the range of minus the values."""
    return -low - width if kind == BOUNDED else 0.0


@kernel
def evidence_below(kind: int, low: float, width: float, n: int, total: float, c: float) -> float:
    """Log-evidence against "the mean is at least c"."""
    return evidence_above(kind, mirrored(kind, low, width), width, n, -total, -c)


@large
@kernel
def evidence_and_slope_above(
    kind: int, low: float, width: float, n: int, total: float, c: float
) -> tuple[float, float]:
    """`evidence_above` and its derivative in c: negative, and increasing because the evidence is log-convex."""
    if kind == GAUSSIAN:
        evidence, slope = gaussian_evidence_and_slope(n, (total - n * c) / width)
        return evidence, -slope * n / width
    evidence, slope = bounded_evidence_and_slope(n, (total - n * low) / width, inside((c - low) / width))
    return evidence, slope / width


@kernel
def evidence_and_slope_below(
    kind: int, low: float, width: float, n: int, total: float, c: float
) -> tuple[float, float]:
    """`evidence_below` and its derivative in c: positive and increasing."""
    evidence, slope = evidence_and_slope_above(kind, mirrored(kind, low, width), width, n, -total, -c)
    return evidence, -slope
