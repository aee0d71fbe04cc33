"""Where every arm stands, in the user's own terms, from the confidence bounds that decide."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from bestarm.evidence.combine import stream_of, violation_evidence
from bestarm.evidence.pairs import pair_evidence
from bestarm.kernel.tournament import NOBODY, best
from bestarm.policies.base import Policy
from bestarm.policies.certify import Certify
from bestarm.policies.confidence import inferiority, violation
from bestarm.problem import Constraint, Objective, Problem

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


def _metric_standing(
    policy: Policy, arm: int, metric: int, part: Objective | Constraint, sign: float
) -> MetricStanding:
    tests = int(policy.streams.counts[arm, metric])
    mean, (low, high) = math.nan, part.noise.range
    if tests:
        mean = sign * policy.mean(arm, metric)
        ends = sorted((sign * policy.lower(arm, metric), sign * policy.upper(arm, metric)))
        # A mean cannot lie outside the range of the values.
        low, high = max(ends[0], low), min(ends[1], high)
    if isinstance(part, Objective):
        return MetricStanding(part.metric, tests, mean, low, high, None, None)
    verdict: Literal["holds", "violated", "open"] = "open"
    # The initial test of a stream decides nothing, here as in the policies.
    if tests > 1 and not low <= part.threshold <= high:
        verdict = "holds" if part.allows(mean) else "violated"
    return MetricStanding(part.metric, tests, mean, low, high, part.threshold, verdict)


def standings(problem: Problem, policy: Policy) -> list[ArmStanding]:
    """Where the arms of `problem` stand in the study that `policy` decides."""
    form = problem.normal_form()
    rows = [
        tuple(_metric_standing(policy, arm, k, part, form.sign[k]) for k, part in enumerate(problem.parts))
        for arm in range(len(problem.arms))
    ]
    if isinstance(policy, Certify):
        verdicts = _by_certificates(problem, policy, rows)
    else:
        verdicts = _by_intervals(problem, policy, rows)
    return [
        ArmStanding(name, verdict, reason, row)
        for name, (verdict, reason), row in zip(problem.arm_names, verdicts, rows, strict=True)
    ]


Row = tuple[MetricStanding, ...]


def _violated(metric: MetricStanding) -> str:
    relation = ">" if metric.mean > (metric.threshold or 0.0) else "<"
    return f"{metric.metric} {metric.mean:.4g} {relation} {metric.threshold:g}"


def _undecided(row: Row) -> str:
    left = [m.metric for m in row[1:] if m.verdict == "open"]
    return f"undecided: {', '.join(left[:3])}{' and others' if len(left) > 3 else ''}" if left else "undecided"


def _by_intervals(problem: Problem, policy: Policy, rows: list[Row]) -> list[tuple[Verdict, str]]:
    """Verdicts from the confidence intervals that decide the paper's algorithms."""
    feasible = [all(m.verdict == "holds" for m in row[1:]) for row in rows]
    tested = [arm for arm, row in enumerate(rows) if row[0].tests]
    rival = max((a for a in tested if feasible[a]), key=lambda a: policy.lower(a, 0), default=None)
    result: list[tuple[Verdict, str]] = []
    for arm, row in enumerate(rows):
        violated = [m for m in row[1:] if m.verdict == "violated"]
        if violated:
            result.append(("infeasible", _violated(violated[0])))
        elif rival is not None and rival != arm and arm in tested and policy.upper(arm, 0) <= policy.lower(rival, 0):
            result.append(("worse", f"{problem.objective.metric} behind {problem.arm_names[rival]}"))
        elif feasible[arm]:
            result.append(("feasible", "every constraint holds"))
        else:
            result.append(("open", _undecided(row)))
    return result


def odds(log_evidence: float) -> str:
    """Evidence as the odds against chance, e.g. "1 : 4,300"."""
    if log_evidence > 27.0:
        return f"1 : 10^{log_evidence / math.log(10):.0f}"
    return f"1 : {float(f'{math.exp(max(log_evidence, 0.0)):.2g}'):,.0f}"


def _by_certificates(problem: Problem, policy: Certify, rows: list[Row]) -> list[tuple[Verdict, str]]:
    """Verdicts from the certificates of `certify`."""
    leader = int(best(policy.memory.candidates)) if policy.streams.counts[0, 0] else NOBODY
    result: list[tuple[Verdict, str]] = []
    for arm, row in enumerate(rows):
        setting, streams = policy.setting, policy.streams
        if policy.memory.rejected[arm]:
            evidences = [violation_evidence(setting, streams, arm, k) for k in range(1, len(row))]
            worst = row[1 + evidences.index(max(evidences))]
            reason = f"{_violated(worst)}, evidence {odds(violation(setting, streams, arm))}"
            result.append(("infeasible", reason))
        elif leader != NOBODY and policy.memory.beaten[arm] == leader:
            result.append(("worse", _beaten(problem, policy, leader, arm)))
        elif policy.memory.certified[arm, 1:].all():
            result.append(("feasible", "every constraint holds"))
        else:
            result.append(("open", _undecided(row)))
    return result


def _beaten(problem: Problem, policy: Certify, leader: int, arm: int) -> str:
    """By how much, at the level of the certificate, the arm is at least worse than the leader."""
    setting, name = policy.setting, problem.arm_names[leader]
    ahead, behind = (stream_of(setting, policy.streams, a, 0) for a in (leader, arm))
    level = setting.level[leader]
    least, most = -setting.tolerance, ahead.total / ahead.n - behind.total / behind.n
    if most <= least or pair_evidence(ahead, behind, -least) < level:
        evidence = inferiority(setting, policy.streams, leader, arm)
        return f"infeasible or worse than {name}, evidence {odds(evidence)}"
    for _ in range(40):
        middle = 0.5 * (least + most)
        least, most = (middle, most) if pair_evidence(ahead, behind, -middle) >= level else (least, middle)
    return f"worse than {name} by at least {least:.2g}" if least > 0 else f"not better than {name} by {-least:.2g}"
