"""Evidence about arms, put together from evidence about streams.

Against "arm j is feasible": A_j, the weighted mean over its constraints of the evidence that each is violated.
Against "j is feasible and at least as good as i": the weighted mean of A_j, of the evidence P that i is better than
j, and of their product, which lets half a proof of one and half a proof of the other add up to a whole one.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.base import stream_of
from bestarm.noises.dispatch import evidence_above

LOG_INFEASIBLE = math.log(0.45)
LOG_WORSE = math.log(0.45)
LOG_BOTH = math.log(0.1)


@large
@kernel
def add_logs(a: float, b: float) -> float:
    """log(e^a + e^b)"""
    if a < b:
        a, b = b, a
    if b == -math.inf:
        return a
    return a + math.log1p(math.exp(b - a))


@kernel
def suffices(evidence: float, level: float) -> bool:
    """Whether log-evidence reaches its level. NaN and infinity are no evidence, so they fail."""
    return level <= evidence < math.inf


@kernel
def violation_evidence(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    """Log-evidence that a constraint is violated."""
    return evidence_above(stream_of(setting, streams, arm, metric), setting.threshold[metric])


@kernel
def infeasible_evidence(setting: Setting, streams: Streams, arm: int) -> float:
    """log A_j: evidence that the arm is infeasible (minus infinity without constraints)."""
    evidence = -math.inf
    for metric in range(1, streams.counts.shape[1]):
        violated = setting.log_weight[metric] + violation_evidence(setting, streams, arm, metric)
        evidence = add_logs(evidence, violated)
    return evidence


@kernel
def rival_evidence(constraints: int, infeasible: float, worse: float) -> float:
    """Log-evidence that a rival is infeasible or worse, from the evidence for each."""
    if constraints == 0:
        return worse
    both = LOG_BOTH + infeasible + worse
    return add_logs(add_logs(LOG_INFEASIBLE + infeasible, LOG_WORSE + worse), both)
