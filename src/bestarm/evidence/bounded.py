"""Evidence about the mean of observations in [0, 1], rates among them: a mixture of exponential tilts.

Against "the mean is at most c": for any lambda > 0 and any X in [0, 1] with mean m <= c, convexity gives
E exp(lambda X) <= 1 - m + m e^lambda <= 1 - c + c e^lambda, so with s the sum of n observations

    E = sum over k of w_k exp(lambda_k s - n log(1 - c + c e^lambda_k)),   w_k adding up to 1,

is a test supermartingale. Unlike a truncated Beta mixture it is log-convex in c, which the comparison of two arms
needs.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel

FINE_TILTS = 8
MAIN_TILTS = 14
TILTS = FINE_TILTS + MAIN_TILTS

# The main tilts start at 0.05; finer ones, for gaps that take millions of tests, get a tenth of the weight.
_TILT = tuple(0.05 * 1.5 ** (k - FINE_TILTS) for k in range(TILTS))
_FACTOR = tuple(math.expm1(tilt) for tilt in _TILT)
_LOG_WEIGHT = tuple(math.log(0.1 / FINE_TILTS if k < FINE_TILTS else 0.9 / MAIN_TILTS) for k in range(TILTS))


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


# Per observation: a tilt's term is a difference of numbers up to 10 n, each rounded to some 1e-16 of itself.
_ROUNDING = 2e-14


@kernel
def bounded_ceiling(n: int, total: float, c: float) -> float:
    """At least the log-evidence, and cheap: it takes two logarithms, and no tilt.

    With m the observed mean and p_k what tilt k makes of the rate c, the term of tilt k is n (kl(m, c) - kl(m, p_k)).
    So the log-evidence falls short of D = n kl(m, c) by

        cost = -log(sum over k of w_k exp(-D r_k)),   r_k = kl(m, p_k) / kl(m, c) >= 0.

    As a function of D this is concave and starts at 0: if it is at least 1 at D = 1 / 0.28, it is at least 0.28 D
    before and at least 1 after.

    It is: let L be the tilt that makes m of c, and B(t) = p (1 - p) at tilt t, so that kl(m, p_k) is the integral of
    |t - tilt k| B(t) between tilt k and L, and kl(m, c) that of t B(t) from 0 to L. B falls no faster than e^-t, so
    exp(t) B(t) rises, and every r_k is at least what exp(-t) in place of B makes of it. That is the limit c -> 1,
    in which L alone is free. The least cost over L, at D = 1 / 0.28, is 1.032, at L = 5.0
    (`tests/evidence/test_ceilings.py`).
    """
    rounding = _ROUNDING * n
    mean = total / n
    if mean <= c:
        return rounding
    divergence = n * rate_divergence(mean, c)
    return max(0.72 * divergence, divergence - 1.0) + rounding
