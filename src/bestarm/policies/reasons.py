"""Why arms are out, from the evidence: which constraint is violated, or by how much, at least, the leader is better."""

from __future__ import annotations

import math
from typing import NamedTuple

from bestarm.evidence.combine import apart_evidence, rival_evidence, suffices, violation_evidence
from bestarm.evidence.pairs import GAP, common_range, pair_evidence
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tournament import NOBODY
from bestarm.noises.base import ABOVE, BELOW, Stream, stream_of
from bestarm.noises.dispatch import evidence_and_slope
from bestarm.policies.confidence import Intervals, refresh_intervals, violation, worse_evidence


class Reasons(NamedTuple):
    """What the evidence says about each arm that is out, by arm."""

    worst: Ints
    """The constraint that an arm certified infeasible most clearly violates."""
    evidence: Floats
    """Log-evidence that it is infeasible; for an arm that is beaten without a `lead`, infeasible or worse."""
    lead: Floats
    """By how much, at least, a beaten arm is worse than the leader; NaN if performance alone does not show it."""


class Plane(NamedTuple):
    """The tangent plane of the log-evidence for a lead, `value` at (c, lead), with its slopes."""

    c: float
    lead: float
    value: float
    slope_c: float
    slope_lead: float


@kernel
def tangent(ahead: Stream, behind: Stream, c: float, lead: float) -> Plane:
    """The evidence that `behind` lies below c and `ahead` above c + lead: its logarithm is convex in both.

    It is taken at the nearest c inside both ranges: beyond that, a tangent would promise too much.
    """
    first, last = common_range(ahead, behind, -lead)
    c = min(max(c, first), last)
    above, fall = evidence_and_slope(ahead, ABOVE, c + lead)
    below, rise = evidence_and_slope(behind, BELOW, c)
    return Plane(c, lead, above + below, fall + rise, fall)


@kernel
def height_at(plane: Plane, c: float, lead: float) -> float:
    return plane.value + plane.slope_c * (c - plane.c) + plane.slope_lead * (lead - plane.lead)


@kernel
def least_lead(ahead: Stream, behind: Stream, tolerance: float, level: float, evidence: float) -> float:
    """The largest lead of the first stream over the second for which the evidence reaches `level`. `evidence` is that
    for a lead of minus `tolerance`.

    The evidence is the least over all c. It lies above any two tangent planes. So if two planes that slope in opposite
    directions in c meet at `level`, the lead where they meet is never too large. The next tangent is taken there.
    """
    mean_ahead, mean_behind = ahead.total / ahead.n, behind.total / behind.n
    # Where evidence is not log-convex all slopes are NaN, so that no comparison with them holds.
    least, most = -tolerance, mean_ahead - mean_behind
    left, right = tangent(ahead, behind, mean_behind, least), tangent(ahead, behind, mean_ahead - least, least)
    # If one of the two means is hardly known, the minimum is on the far side of the other.
    if left.slope_c >= 0.0:
        left = tangent(ahead, behind, 2.0 * mean_behind - mean_ahead + least, least)
    if right.slope_c <= 0.0:
        right = tangent(ahead, behind, 2.0 * (mean_ahead - least) - mean_behind, least)
    if left.slope_c < 0.0 < right.slope_c:
        # A first guess: evidence is about quadratic in the distance from the means, weighted by how well each is known.
        lead = most - (most - least) * math.sqrt(level / evidence)
        weight_ahead, weight_behind = ahead.n / (ahead.width * ahead.width), behind.n / (behind.width * behind.width)
        c = mean_behind + weight_ahead / (weight_ahead + weight_behind) * (most - lead)
        for _ in range(60):
            new = tangent(ahead, behind, c, lead)
            if new.slope_c < 0.0:
                left = new
            else:
                right = new
            share = right.slope_c / (right.slope_c - left.slope_c)
            fall = share * left.slope_lead + (1.0 - share) * right.slope_lead
            height = share * height_at(left, 0.0, 0.0) + (1.0 - share) * height_at(right, 0.0, 0.0)
            lead = (level - height) / fall
            least = max(least, lead)
            bound = height + fall * new.lead
            if new.value - bound < GAP and abs(bound - level) < GAP:
                return least
            c = (height_at(right, 0.0, lead) - height_at(left, 0.0, lead)) / (left.slope_c - right.slope_c)
    # The minimum is at an end of the values' range, or farther out.
    for _ in range(40):
        middle = 0.5 * (least + most)
        if suffices(pair_evidence(ahead, behind, -middle), level):
            least = middle
        else:
            most = middle
    return least


@kernel
def shown_lead(setting: Setting, streams: Streams, leader: int, arm: int, level: float, worse: float) -> float:
    """By how much, at least, the leader is better than the arm. `worse` is the evidence that it is better at all."""
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    return least_lead(ahead, behind, setting.tolerance, level, worse)


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
                evidence = violation_evidence(setting, streams, arm, metric)
                if evidence > largest:
                    largest = evidence
                    reasons.worst[arm] = metric
            reasons.evidence[arm] = violation(setting, streams, arm)
        elif leader != NOBODY and beaten[arm] == leader:
            level = setting.level[leader]
            worse = worse_evidence(setting, streams, leader, arm)
            if suffices(worse, level):
                reasons.lead[arm] = shown_lead(setting, streams, leader, arm, level, worse)
            else:
                infeasible = violation(setting, streams, arm)
                reasons.lead[arm] = math.nan
                reasons.evidence[arm] = rival_evidence(
                    setting, infeasible, apart_evidence(setting, streams, arm, infeasible), worse
                )
