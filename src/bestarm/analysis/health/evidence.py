"""Evidence against an assumption: in one stream, and in all arms together.

**One stream.** A check makes a few bets. Each is a process that starts at 1 and that, if the assumption holds, is a
test supermartingale in the history of the stream's own results (or lies below one). By Ville's inequality its largest
value ever, the *peak* S, reaches x with probability at most 1/x. Two kinds of bets are used.

- *On scores.* Let g_i be a weight that is known before the score z_i, and t > 0 or t < 0. If z_i is standard normal and
  independent of the scores before it, E exp(t g_i z_i) = exp(t² g_i² / 2). If z_i is symmetric around 0, given the
  scores before it, E exp(t z_i - t² z_i² / 2) <= 1, because cosh(x) <= exp(x² / 2). So exp(t S - t² V / 2) is a test
  supermartingale, with S the sum of g_i z_i, and V that of g_i² or of z_i².
- *On squares.* Let X be sub-Gaussian with scale sigma around m, and g a standard normal number independent of it. Then
  E exp(b (X - m)² / (2 sigma²)) = E exp(sqrt(b) g (X - m) / sigma) <= E exp(b g² / 2) = (1 - b)^(-1/2), 0 <= b < 1.
  So Π (1 - b)^(1/2) exp(b (X_i - m)² / (2 sigma²)) is a test supermartingale at the true m. Nobody knows m. The sum of
  squares around the observed mean is the smallest over all m; the process that uses it lies below.

**All arms together.** A policy looks at raw results when it decides which stream to test and when to stop. A process
that is a supermartingale only in its stream's own history must not be multiplied with others as it stands: arms whose
first result was lucky are tested more, and then fall back. The peak over *all* results that a stream could ever give
does not depend on what the policy does. P(S >= x) <= 1/x gives E f(S) <= 1 for f(x) = k x^(1 - k), 0 < k < 1 (an
adjuster: f rises, and the integral of f(x) / x² from 1 on is 1). Streams are independent, so for every share w

    E Π_arms (1 - w + w f(S_arm)) <= 1,

and the same holds for the mean over several w and over several bets. What has been seen of a peak is at most the peak,
and the product rises with each of them. So by Markov's inequality the product of what is seen *ever* reaches 1/alpha
with probability at most alpha, whatever is tested when. (Adjusters: Shafer, Shen, Vereshchagin and Vovk 2011.)
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.kernel.state import Floats

KEPT = 0.2
"""k of the adjuster f(x) = k x^(1 - k)."""


def pooled(log_peaks: Floats) -> Floats:
    """The log-evidence of all arms together. The last axis of `log_peaks` is the arms."""
    arms = log_peaks.shape[-1]
    # Evidence beyond all numbers is cut off: it suffices anyway.
    gain = np.expm1(np.minimum(math.log(KEPT) + (1.0 - KEPT) * log_peaks, 600.0))
    shares = sorted({1.0 / (arms + 1.0), 0.5, 0.9})
    return log_mean(np.array([np.log1p(w * gain).sum(axis=-1) for w in shares]))


def log_mean(logs: Floats) -> Floats:
    """The logarithm of the mean over the first axis."""
    mean: Floats = np.logaddexp.reduce(logs, axis=0) - math.log(len(logs))
    return mean


def log_outlier_limit(arms: int, count: int) -> float:
    """How much more than log(1 / alpha) half the square of a deviation, in units of its own scale, may be, so that no
    result of any arm ever exceeds it, with probability at least 1 - alpha.

    A sub-Gaussian deviation exceeds sqrt(2 y) scales, up or down, with probability at most 2 exp(-y). Result number n
    of one of K arms is allowed alpha / (K n (n + 1)); these shares add up to alpha.
    """
    return math.log(2.0 * arms * count * (count + 1))
