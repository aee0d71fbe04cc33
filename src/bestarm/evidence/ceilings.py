"""Ceilings: upper bounds of the evidence, close to it and cheap, because they take no logarithm.

Evidence is asked for after every test and rarely suffices, so it is computed only when its ceiling suffices. No answer
depends on how close a ceiling is.
"""

from __future__ import annotations

import math

from bestarm.evidence.claims import violation_ceiling
from bestarm.evidence.pairs import product_ceiling
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.mixture import ROUNDING
from bestarm.noises.streams import stream_of

_LOG_2 = math.log(2.0)

_FAR = 30.0
"""If two logarithms are this far apart, the smaller one adds less than `ROUNDING`."""


@kernel
def add_logs_ceiling(a: float, b: float) -> float:
    """A ceiling of log(e^a + e^b), at most 0.007 above it."""
    if a == b:
        # This includes two equal infinities, whose difference is NaN.
        return a + (_LOG_2 + ROUNDING)
    apart = abs(a - b)
    if apart > _FAR:
        return max(a, b) + ROUNDING
    # e^x is at least its series up to the fifth power, and log(1 + y) at most y (6 + y) / (6 + 4 y).
    power = 1.0 + apart * (1.0 + apart * (0.5 + apart * (1.0 / 6.0 + apart * (1.0 / 24.0 + apart * (1.0 / 120.0)))))
    return max(a, b) + (6.0 * power + 1.0) / (power * (6.0 * power + 4.0))


@kernel
def infeasible_ceiling(setting: Setting, streams: Streams, arm: int) -> float:
    """A ceiling of log A_j, the evidence that the arm is infeasible: all constraints but the most suspect one count as
    if they were as suspect as the second."""
    chosen = 0
    largest = -math.inf
    second = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        violated = violation_ceiling(setting, streams, arm, metric)
        if violated > largest:
            chosen, second, largest = metric, largest, violated
        else:
            second = max(second, violated)
    return add_logs_ceiling(setting.log_weight[chosen] + largest, second)


@kernel
def pair_ceiling(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """A ceiling of the evidence that the leader performs better than the arm: the product at any c is at least the
    smallest product."""
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    mean_leader, mean = streams.means[leader, 0] + setting.tolerance, streams.means[arm, 0]
    if mean_leader < mean:
        return -math.inf
    c = (ahead.n * mean_leader + behind.n * mean) / (ahead.n + behind.n)
    # Only a c inside both ranges can lie between the means.
    c = min(max(c, ahead.low + setting.tolerance), behind.high)
    return product_ceiling(ahead, behind, c - setting.tolerance, c)


@kernel
def rival_ceiling(setting: Setting, infeasible: float, worse: float) -> float:
    """A ceiling of `rival_evidence`, from ceilings of its parts. What is `apart` is at most what is `infeasible`."""
    if setting.threshold.shape[0] == 1:
        return worse
    return worse + add_logs_ceiling(setting.log_worse, setting.log_both + infeasible)
