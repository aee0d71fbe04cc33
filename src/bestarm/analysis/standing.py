"""Where every arm stands, in the user's own terms, from the confidence bounds that decide."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

from bestarm.policies.base import Policy
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
    feasible = [all(m.verdict == "holds" for m in row[1:]) for row in rows]
    tested = [arm for arm, row in enumerate(rows) if row[0].tests]
    rival = max((a for a in tested if feasible[a]), key=lambda a: policy.lower(a, 0), default=None)
    result = []
    for arm, row in enumerate(rows):
        violated = [m for m in row[1:] if m.verdict == "violated"]
        if violated:
            worst = violated[0]
            verdict: Verdict = "infeasible"
            relation = ">" if worst.low > (worst.threshold or 0.0) else "<"
            reason = f"{worst.metric} {worst.mean:.4g} {relation} {worst.threshold:g}"
        elif rival is not None and rival != arm and arm in tested and policy.upper(arm, 0) <= policy.lower(rival, 0):
            verdict, reason = "worse", f"{problem.objective.metric} behind {problem.arm_names[rival]}"
        elif feasible[arm]:
            verdict, reason = "feasible", "every constraint holds"
        else:
            verdict = "open"
            left = [m.metric for m in row[1:] if m.verdict == "open"]
            reason = f"undecided: {', '.join(left[:3])}{' and others' if len(left) > 3 else ''}"
        result.append(ArmStanding(problem.arm_names[arm], verdict, reason, row))
    return result
