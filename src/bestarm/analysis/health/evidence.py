"""Evidence against an assumption: in one stream, and in all arms together.

**One stream.** A check follows a process that starts at 1 and that, if the assumption holds, is a test supermartingale
in the history of the stream's own results (or lies below one). By Ville's inequality its largest value ever, the
*peak* S, reaches x with probability at most 1/x. Two kinds of process are used.

- *Sums.* With scores z_i whose law is symmetric (or standard normal) given the scores before, and bets t,
  Π exp(t g_i z_i - t² V_i / 2) is a test supermartingale, where V_i = g_i² for standard normal z_i and any weight g_i
  known beforehand, and V_i = (g_i z_i)² for symmetric z_i, because cosh(x) <= exp(x² / 2). `log_mixture` is the mixture
  over t > 0 with a half-normal law; it depends on the sums S and V only. The other direction has -S.
- *Squares.* Let X be sub-Gaussian with scale sigma around m, and g a standard normal number independent of it. Then
  E exp(b (X - m)² / (2 sigma²)) = E exp(sqrt(b) g (X - m) / sigma) <= E exp(b g² / 2) = (1 - b)^(-1/2), 0 <= b < 1.
  So Π (1 - b)^(1/2) exp(b (X_i - m)² / (2 sigma²)) is a test supermartingale at the true m. Nobody knows m. The sum of
  squares around the observed mean is the smallest over all m: `log_scatter` uses it, and so lies below.

**All arms together.** A policy looks at raw results when it decides which stream to test and when to stop. A process
that is a supermartingale only in its stream's own history must not be multiplied with others as it stands: arms whose
first result was lucky are tested more, and then fall back. The peak over *all* results that a stream could ever give
does not depend on what the policy does. P(S >= x) <= 1/x gives E f(S) <= 1 for f(x) = k x^(1 - k), 0 < k < 1 (an
adjuster: f rises, and the integral of f(x) / x² from 1 on is 1). Streams are independent, so for every share w

    E Π_arms (1 - w + w f(S_arm)) <= 1,

and the same holds for the mean over several w. What has been seen of a peak is at most the peak, and the product rises
with each of them. So by Markov's inequality the product of what is seen *ever* reaches 1/alpha with probability at most
alpha, whatever is tested when. (Adjusters: Shafer, Shen, Vereshchagin and Vovk 2011.)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bestarm.kernel.state import Floats

KEPT = 0.2
"""k of the adjuster f(x) = k x^(1 - k)."""

BETS = (0.2, 0.5, 0.8, 0.95)
"""b of `log_scatter`: best against a scatter that is 1.1, 1.4, 2.2 and 4.5 times the stated one."""

_LOG_BETS = tuple((bet, 0.5 * math.log1p(-bet)) for bet in BETS)
_LOG_SHARE = math.log(len(BETS))
_ROOT_HALF = math.sqrt(0.5)


def log_mixture(total: float, variance: float, prior: float) -> float:
    """Log-evidence that scores are positive, from their sum and the sum of their variances.

    log(2 sqrt(r / (V + r)) exp(x² / 2) Phi(x)), x = S / sqrt(V + r): the mixture over bets t > 0 with density
    2 sqrt(r / (2 pi)) exp(-r t² / 2), r = `prior`.
    """
    if total <= 0.0:
        return 0.0
    x = total / math.sqrt(variance + prior)
    # 2 Phi(x) = erfc(-x / sqrt 2).
    return 0.5 * (math.log(prior / (variance + prior)) + x * x) + math.log(math.erfc(-x * _ROOT_HALF))


def log_scatter(count: int, squares: float) -> float:
    """Log-evidence that results scatter more than stated, from the sum of their squared deviations in units of sigma.

    The mixture over `BETS`, or rather its largest term, which is less.
    """
    return max(half_log * count + 0.5 * bet * squares for bet, half_log in _LOG_BETS) - _LOG_SHARE


def pooled(log_peaks: Floats) -> Floats:
    """The log-evidence of all arms together. The last axis of `log_peaks` is the arms."""
    arms = log_peaks.shape[-1]
    adjusted = math.log(KEPT) + (1.0 - KEPT) * log_peaks
    shares = sorted({1.0 / (arms + 1.0), 0.5, 0.9})
    products = [np.logaddexp(math.log1p(-w), math.log(w) + adjusted).sum(axis=-1) for w in shares]
    return mean_of(products)


def mean_of(logs: Sequence[Floats]) -> Floats:
    """The logarithm of the mean."""
    mean: Floats = np.logaddexp.reduce(np.array(logs), axis=0) - math.log(len(logs))
    return mean


def log_outlier_limit(arms: int, count: int) -> float:
    """How much more than log(1 / alpha) half the square of a deviation, in units of its own scale, may be, so that no
    result of any arm ever exceeds it, with probability at least 1 - alpha.

    A sub-Gaussian deviation exceeds sqrt(2 y) scales, up or down, with probability at most 2 exp(-y). Result number n
    of one of K arms is allowed alpha / (K n (n + 1)); these shares add up to alpha.
    """
    return math.log(2.0 * arms * count * (count + 1))
