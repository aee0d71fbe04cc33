"""Why arms are out, from the evidence: which constraint is violated, or by how much, at least, the leader is better."""

from __future__ import annotations

import math
from typing import NamedTuple

from bestarm.evidence.claims import constraint_evidence
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.streams import ABOVE
from bestarm.policies.confidence import Intervals, is_outperformed, pair_level, refresh_intervals, rival_case, violation
from bestarm.policies.leads import largest_lead


class Reasons(NamedTuple):
    """What the evidence says about each arm that is out, by arm."""

    worst: Ints
    """The constraint that a rejected arm most clearly violates."""
    evidence: Floats
    """Log-evidence that it is infeasible; for an arm that is beaten without a `lead`, infeasible or worse."""
    lead: Floats
    """By how much, at least, a beaten arm is worse than the leader; NaN if performance alone does not show it."""


@kernel
def shown_lead(setting: Setting, streams: Streams, leader: int, arm: int, level: float) -> float:
    """By how much, at least, the leader is better than an arm that it has beaten."""
    return max(largest_lead(setting, streams, leader, arm, level, math.inf), -setting.tolerance)


@kernel
def survey(
    setting: Setting,
    streams: Streams,
    rejected: Flags,
    beaten: Ints,
    leader: int,
    intervals: Intervals,
    reasons: Reasons,
) -> None:
    """Bring the intervals up to date, and fill in the reasons why arms are out."""
    refresh_intervals(setting, streams, intervals)
    for arm in range(streams.counts.shape[0]):
        if rejected[arm]:
            largest = -math.inf
            for metric in range(1, streams.counts.shape[1]):
                evidence = constraint_evidence(setting, streams, arm, metric, ABOVE)
                if evidence > largest:
                    largest = evidence
                    reasons.worst[arm] = metric
            reasons.evidence[arm] = violation(setting, streams, arm)
        elif leader != NO_ARM and beaten[arm] == leader:
            level = pair_level(setting, leader, arm)
            if is_outperformed(setting, streams, leader, arm):
                reasons.lead[arm] = shown_lead(setting, streams, leader, arm, level)
            else:
                reasons.lead[arm] = math.nan
                infeasible = violation(setting, streams, arm)
                reasons.evidence[arm] = rival_case(setting, streams, leader, arm, infeasible)
