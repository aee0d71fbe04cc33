"""Where every arm stands, in the user's own terms, from the confidence bounds that decide."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal, NamedTuple

import numpy as np

from bestarm.evidence.combine import rival_evidence, stream_of, violation_evidence
from bestarm.evidence.pairs import GAP, Stream, bottom, pair_evidence, top
from bestarm.evidence.streams import evidence_and_slope_above, evidence_and_slope_below
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Flags, Floats, Ints, Setting, Streams
from bestarm.kernel.tables import slot
from bestarm.kernel.tournament import NOBODY, best
from bestarm.policies.base import Policy
from bestarm.policies.certify import Certify
from bestarm.policies.confidence import Intervals, for_size, refresh_intervals, violation
from bestarm.problem import Constraint, Problem

Verdict = Literal["feasible", "infeasible", "worse", "open"]


@dataclasses.dataclass(frozen=True)
class MetricStanding:
    """One stream: its tests, mean and interval; `verdict` says whether its constraint is known to hold."""

    metric: str
    tests: int
    mean: float
    low: float
    high: float
    threshold: float | None
    verdict: Literal["holds", "violated", "open"] | None


@dataclasses.dataclass(frozen=True)
class ArmStanding:
    """One arm: feasible, infeasible, worse than an arm known to be feasible, or open; and why, in words."""

    name: str
    verdict: Verdict
    reason: str
    metrics: tuple[MetricStanding, ...]


Row = tuple[MetricStanding, ...]


def standings(problem: Problem, policy: Policy) -> list[ArmStanding]:
    """Where the arms of `problem` stand in the study that `policy` decides. Any streams may be untested yet."""
    if isinstance(policy, Certify):
        reasons = _surveyed(policy)
        rows = _rows(problem, policy, policy.intervals.low, policy.intervals.high)
        verdicts = _by_certificates(problem, policy, rows, reasons)
    else:
        low, high = _bounds(policy)
        rows = _rows(problem, policy, low, high)
        verdicts = _by_intervals(problem, rows, low[:, 0], high[:, 0])
    return [
        ArmStanding(name, verdict, reason, row)
        for name, (verdict, reason), row in zip(problem.arm_names, verdicts, rows, strict=True)
    ]


def _bounds(policy: Policy) -> tuple[Floats, Floats]:
    """The lower and upper confidence bounds of all streams, in normal form; infinite where there is no result."""
    counts = policy.streams.counts
    low, high = np.full(counts.shape, -math.inf), np.full(counts.shape, math.inf)
    tested = counts > 0
    kind = type(policy)
    if kind.lower is Policy.lower and kind.upper is Policy.upper:
        slots = np.fromiter(map(slot, counts.ravel().tolist()), np.int64, counts.size).reshape(counts.shape)
        width = policy.setting.sigma * policy.setting.radius[slots]
        low[tested] = (policy.streams.means - width)[tested]
        high[tested] = (policy.streams.means + width)[tested]
    else:
        for arm, metric in np.argwhere(tested).tolist():
            low[arm, metric], high[arm, metric] = policy.lower(arm, metric), policy.upper(arm, metric)
    return low, high


def _rows(problem: Problem, policy: Policy, low: Floats, high: Floats) -> list[Row]:
    """Every stream in the user's terms, from the ends of its interval in normal form."""
    columns = []
    for k, (part, sign) in enumerate(zip(problem.parts, problem.normal_form().sign.tolist(), strict=True)):
        counts = policy.streams.counts[:, k]
        means = np.where(counts > 0, sign * policy.streams.means[:, k], math.nan)
        ends = (low[:, k], high[:, k]) if sign > 0 else (-high[:, k], -low[:, k])
        # A mean cannot lie outside the range of the values.
        lows, highs = np.maximum(ends[0], part.noise.range[0]), np.minimum(ends[1], part.noise.range[1])
        threshold, verdicts = None, [None] * len(counts)
        if isinstance(part, Constraint):
            threshold = part.threshold
            verdicts = _constraint_verdicts(part, counts, means, lows, highs)
        values = zip(counts.tolist(), means.tolist(), lows.tolist(), highs.tolist(), verdicts, strict=True)
        columns.append(
            [MetricStanding(part.metric, n, mean, a, b, threshold, verdict) for n, mean, a, b, verdict in values]
        )
    return list(zip(*columns, strict=True))


def _constraint_verdicts(part: Constraint, counts: Ints, means: Floats, low: Floats, high: Floats) -> list[Any]:
    # The initial test of a stream decides nothing, here as in the policies.
    decided = (counts > 1) & ~((low <= part.threshold) & (part.threshold <= high))
    return [
        ("holds" if part.allows(mean) else "violated") if is_decided else "open"
        for is_decided, mean in zip(decided.tolist(), means.tolist(), strict=True)
    ]


def _violated(metric: MetricStanding) -> str:
    relation = ">" if metric.mean > (metric.threshold or 0.0) else "<"
    return f"{metric.metric} {metric.mean:.4g} {relation} {metric.threshold:g}"


def _undecided(row: Row) -> str:
    left = [m.metric for m in row[1:] if m.verdict == "open"]
    return f"undecided: {', '.join(left[:3])}{' and others' if len(left) > 3 else ''}" if left else "undecided"


def _has_result(row: Row) -> bool:
    """An arm without any is open, even if there are no constraints that it could violate."""
    return any(m.tests for m in row)


def _by_intervals(problem: Problem, rows: list[Row], low: Floats, high: Floats) -> list[tuple[Verdict, str]]:
    """Verdicts from the intervals that decide the paper's algorithms; `low` and `high` are the objective's."""
    feasible = [all(m.verdict == "holds" for m in row[1:]) for row in rows]
    known = [arm for arm, row in enumerate(rows) if feasible[arm] and row[0].tests]
    rival = max(known, key=low.__getitem__, default=None)
    behind = "" if rival is None else f"{problem.objective.metric} behind {problem.arm_names[rival]}"
    result: list[tuple[Verdict, str]] = []
    for arm, row in enumerate(rows):
        violated = [m for m in row[1:] if m.verdict == "violated"]
        if violated:
            result.append(("infeasible", _violated(violated[0])))
        elif rival is not None and rival != arm and high[arm] <= low[rival]:
            result.append(("worse", behind))
        elif feasible[arm] and _has_result(row):
            result.append(("feasible", "every constraint holds"))
        else:
            result.append(("open", _undecided(row)))
    return result


def odds(log_evidence: float) -> str:
    """Evidence as the odds against chance, e.g. "1 : 4,300"."""
    if log_evidence > 27.0:
        return f"1 : 10^{log_evidence / math.log(10):.0f}"
    return f"1 : {float(f'{math.exp(max(log_evidence, 0.0)):.2g}'):,.0f}"


class Reasons(NamedTuple):
    """What the evidence says of each arm that is out, by arm."""

    worst: Ints
    """The constraint that an arm certified infeasible most clearly violates."""
    evidence: Floats
    """Log-evidence that it is infeasible; for an arm that is beaten without a `lead`, infeasible or worse."""
    lead: Floats
    """By how much a beaten arm is at least worse than the leader; NaN if performance alone does not show it."""


class Plane(NamedTuple):
    """The tangent plane of the log-evidence for a lead, `value` at (c, lead), with its slopes."""

    c: float
    lead: float
    value: float
    slope_c: float
    slope_lead: float


@kernel
def tangent(ahead: Stream, behind: Stream, c: float, lead: float) -> Plane:
    """The evidence that `behind` lies below c and `ahead` above c + lead: its logarithm is convex in both."""
    above, fall = evidence_and_slope_above(ahead.kind, ahead.low, ahead.width, ahead.n, ahead.total, c + lead)
    below, rise = evidence_and_slope_below(behind.kind, behind.low, behind.width, behind.n, behind.total, c)
    return Plane(c, lead, above + below, fall + rise, fall)


@kernel
def height_at(plane: Plane, c: float, lead: float) -> float:
    return plane.value + plane.slope_c * (c - plane.c) + plane.slope_lead * (lead - plane.lead)


@kernel
def least_lead(ahead: Stream, behind: Stream, tolerance: float, level: float, evidence: float) -> float:
    """The largest lead of the first stream over the second for which the evidence reaches `level`, when there is so
    much `evidence` as that for a lead of minus `tolerance`.

    The evidence is the least over all c. It lies above any two tangent planes, so a lead at which these meet at
    `level`, on slopes to both sides in c, is never too large; the next tangent is taken there.
    """
    mean_ahead, mean_behind = ahead.total / ahead.n, behind.total / behind.n
    least, most = -tolerance, mean_ahead - mean_behind
    left, right = tangent(ahead, behind, mean_behind, least), tangent(ahead, behind, mean_ahead - least, least)
    # Of two means one of which is hardly known, the least is on the far side of the other.
    if left.slope_c >= 0.0:
        left = tangent(ahead, behind, max(bottom(behind), 2.0 * mean_behind - mean_ahead + least), least)
    if right.slope_c <= 0.0:
        right = tangent(ahead, behind, min(top(ahead), 2.0 * mean_ahead - mean_behind - least) - least, least)
    if left.slope_c < 0.0 < right.slope_c:
        # A first guess: evidence is about quadratic in the distance from the means, each of them weighs as it is known.
        lead = most - (most - least) * math.sqrt(level / evidence)
        weight_ahead, weight_behind = ahead.n / (ahead.width * ahead.width), behind.n / (behind.width * behind.width)
        c = mean_behind + weight_ahead / (weight_ahead + weight_behind) * (most - lead)
        for _ in range(60):
            if c < bottom(ahead) - lead or c > top(behind):
                break
            # Beyond the range of the values a tangent would promise too much.
            new = tangent(ahead, behind, max(min(c, top(ahead) - lead), bottom(behind)), lead)
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
    # The least is at an end of the values' range, or farther out.
    for _ in range(40):
        middle = 0.5 * (least + most)
        if pair_evidence(ahead, behind, -middle) >= level:
            least = middle
        else:
            most = middle
    return least


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
            ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
            level, tolerance = setting.level[leader], setting.tolerance
            worse = pair_evidence(ahead, behind, tolerance)
            if worse >= level:
                reasons.lead[arm] = least_lead(ahead, behind, tolerance, level, worse)
            else:
                infeasible = violation(setting, streams, arm)
                reasons.lead[arm] = math.nan
                reasons.evidence[arm] = rival_evidence(streams.counts.shape[1] - 1, infeasible, worse)


def _leader(policy: Certify) -> int:
    return int(best(policy.memory.candidates))


def _surveyed(policy: Certify) -> Reasons:
    reasons = Reasons(np.zeros(policy.arms, np.int64), np.zeros(policy.arms), np.zeros(policy.arms))
    memory = policy.memory
    for_size(survey, policy.streams)(
        policy.setting, policy.streams, memory.rejected, memory.beaten, _leader(policy), policy.intervals, reasons
    )
    return reasons


def _by_certificates(problem: Problem, policy: Certify, rows: list[Row], reasons: Reasons) -> list[tuple[Verdict, str]]:
    """Verdicts from the certificates of `certify`."""
    leader, memory, names = _leader(policy), policy.memory, problem.arm_names
    certified = memory.certified[:, 1:].all(axis=1)
    evidence, lead = reasons.evidence.tolist(), reasons.lead.tolist()
    result: list[tuple[Verdict, str]] = []
    for arm, row in enumerate(rows):
        if memory.rejected[arm]:
            result.append(("infeasible", f"{_violated(row[reasons.worst[arm]])}, evidence {odds(evidence[arm])}"))
        elif leader != NOBODY and memory.beaten[arm] == leader:
            result.append(("worse", _beaten(names[leader], lead[arm], evidence[arm])))
        elif certified[arm] and _has_result(row):
            result.append(("feasible", "every constraint holds"))
        else:
            result.append(("open", _undecided(row)))
    return result


def _beaten(leader: str, lead: float, evidence: float) -> str:
    if math.isnan(lead):
        return f"infeasible or worse than {leader}, evidence {odds(evidence)}"
    return f"worse than {leader} by at least {lead:.2g}" if lead > 0 else f"not better than {leader} by {-lead:.2g}"
