"""How sure the results make us of the present best answer, at any time and under any policy."""

from __future__ import annotations

import math
from typing import NamedTuple

from bestarm.evidence.combine import infeasible_evidence, rival_evidence, stream_of
from bestarm.evidence.pairs import pair_evidence
from bestarm.evidence.streams import evidence_below
from bestarm.kernel.state import Setting, Streams


class Standing(NamedTuple):
    """The present best answer (None: no arm is feasible) and how sure we are of it, from 0 to 1."""

    leader: int | None
    confidence: float


def looks_feasible(setting: Setting, streams: Streams, arm: int) -> bool:
    limits = setting.threshold[1:] + 0.5 * setting.slack[1:]
    return bool((streams.counts[arm] > 0).all() and (streams.means[arm, 1:] < limits).all())


def violation(setting: Setting, streams: Streams, arm: int) -> float:
    """Log-evidence that the arm is infeasible."""
    return infeasible_evidence(setting, streams, arm) if (streams.counts[arm, 1:] > 0).all() else -math.inf


def inferiority(setting: Setting, streams: Streams, leader: int, arm: int) -> float:
    """Log-evidence that the arm is infeasible or worse than the leader."""
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    worse = pair_evidence(ahead, behind, setting.tolerance) if behind.n > 0 else -math.inf
    return rival_evidence(streams.counts.shape[1] - 1, violation(setting, streams, arm), worse)


def present_answer(setting: Setting, streams: Streams) -> Standing:
    """The leader, or "no arm is feasible" if none looks feasible, with the least alpha at which it would be certified.

    One minus that alpha is the confidence: for every alpha fixed beforehand, the probability that a wrong answer is
    ever shown with a confidence of 1 - alpha or more is at most alpha.
    """
    arms = range(streams.counts.shape[0])
    # log(1 / weight) of each arm: what its certificates must reach beyond log(1 / alpha).
    handicap = setting.level + math.log(setting.delta)
    leader = max(
        (arm for arm in arms if looks_feasible(setting, streams, arm)),
        key=lambda arm: streams.means[arm, 0],
        default=None,
    )
    if leader is None:
        least = min(violation(setting, streams, arm) - handicap[arm] for arm in arms)
        return Standing(None, max(0.0, -math.expm1(-least)))
    margins = []
    for metric in range(1, streams.counts.shape[1]):
        limit = setting.threshold[metric] + setting.slack[metric]
        margins.append(evidence_below(*stream_of(setting, streams, leader, metric), limit) - handicap[leader])
    for arm in arms:
        if arm != leader:
            rejected = violation(setting, streams, arm) - handicap[arm]
            margins.append(max(rejected, inferiority(setting, streams, leader, arm) - handicap[leader]))
    least = min(margins, default=math.inf)
    return Standing(leader, max(0.0, -math.expm1(-least)))
