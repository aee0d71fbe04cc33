"""Where every arm stands, in the user's own terms, from the confidence bounds that decide."""

from __future__ import annotations

import dataclasses
import math
from typing import Literal

import numpy as np

from bestarm.analysis.figures import side_by_side
from bestarm.answer import odds
from bestarm.kernel.tournament import NOBODY
from bestarm.policies.base import Policy, Stop
from bestarm.policies.findings import Bools, Findings, settled
from bestarm.policies.setting import to_user
from bestarm.problem import Constraint, Problem
from bestarm.validation import exact

Verdict = Literal["feasible", "infeasible", "worse", "open"]
Known = Literal["holds", "violated", "open"] | None


@dataclasses.dataclass(frozen=True)
class MetricStanding:
    """One stream: its tests, mean and interval; `verdict` says whether its constraint is known to hold."""

    metric: str
    tests: int
    mean: float
    low: float
    high: float
    threshold: float | None
    verdict: Known


@dataclasses.dataclass(frozen=True)
class ArmStanding:
    """One arm: feasible, infeasible, beaten by the leader (worse, or infeasible), or open. And why, in words."""

    name: str
    verdict: Verdict
    reason: str
    metrics: tuple[MetricStanding, ...]


Row = tuple[MetricStanding, ...]


def findings_of(policy: Policy, stop: Stop | None = None) -> Findings:
    """What the policy of a study knows. If it has stopped, this agrees with its answer."""
    found = policy.findings()
    return found if stop is None else settled(policy.setting, policy.streams.counts, found, stop.arm)


def standings(problem: Problem, policy: Policy, stop: Stop | None = None) -> list[ArmStanding]:
    """Where the arms of `problem` stand in the study that `policy` decides. Any streams may be untested yet."""
    return standings_of(problem, policy, findings_of(policy, stop))


def standings_of(problem: Problem, policy: Policy, found: Findings) -> list[ArmStanding]:
    """The same, from what the policy knows."""
    rows, feasible = _rows(problem, policy, found), found.feasible.tolist()
    verdicts = [_verdict(problem, arm, row, found, feasible[arm]) for arm, row in enumerate(rows)]
    return [
        ArmStanding(name, verdict, policy.reason(problem, arm, found) or reason, row)
        for arm, (name, (verdict, reason), row) in enumerate(zip(problem.arm_names, verdicts, rows, strict=True))
    ]


def named(problem: Problem, arms: Bools) -> tuple[str, ...]:
    """The names of the arms that are marked."""
    return tuple(name for name, is_marked in zip(problem.arm_names, arms.tolist(), strict=True) if is_marked)


def _rows(problem: Problem, policy: Policy, found: Findings) -> list[Row]:
    """Every stream in the user's terms."""
    columns = []
    for k, part in enumerate(problem.parts):
        counts = policy.streams.counts[:, k]
        means = np.where(counts > 0, to_user(problem, policy.setting, k, policy.streams.means[:, k]), math.nan)
        ends = np.sort([to_user(problem, policy.setting, k, end[:, k]) for end in (found.low, found.high)], axis=0)
        # Neither a mean nor its interval can lie outside the range of the values. Rounding must not carry it there.
        means = np.clip(means, *part.noise.range)
        lows = np.fmin(np.maximum(ends[0], part.noise.range[0]), means)
        highs = np.fmax(np.minimum(ends[1], part.noise.range[1]), means)
        threshold = part.limit if isinstance(part, Constraint) else None
        verdicts: list[Known] = [
            None if threshold is None else "holds" if holds else "violated" if violated else "open"
            for holds, violated in zip(found.holds[:, k].tolist(), found.violated[:, k].tolist(), strict=True)
        ]
        values = zip(counts.tolist(), means.tolist(), lows.tolist(), highs.tolist(), verdicts, strict=True)
        columns.append(
            [MetricStanding(part.metric, n, mean, a, b, threshold, verdict) for n, mean, a, b, verdict in values]
        )
    return list(zip(*columns, strict=True))


def _verdict(problem: Problem, arm: int, row: Row, found: Findings, is_feasible: bool) -> tuple[Verdict, str]:
    if found.infeasible[arm]:
        return "infeasible", _violated(row[found.worst[arm]], found.evidence[arm])
    if found.beaten_by[arm] != NOBODY:
        return "worse", _beaten(problem, found, arm)
    if found.excluded[arm]:
        return "worse", f"{problem.objective.metric} behind a feasible arm"
    if is_feasible:
        return "feasible", "every constraint holds"
    return "open", _undecided(row)


def _violated(metric: MetricStanding, evidence: float) -> str:
    relation = ">" if metric.mean > (metric.threshold or 0.0) else "<"
    mean = side_by_side(metric.mean, metric.threshold or 0.0)[0]
    words = f"{metric.metric} {mean} {relation} {exact(metric.threshold or 0.0)}"
    return words if math.isnan(evidence) else f"{words}, evidence {odds(evidence)}"


def _undecided(row: Row) -> str:
    left = [m.metric for m in row[1:] if m.verdict == "open"]
    return f"undecided: {', '.join(left[:3])}{' and others' if len(left) > 3 else ''}" if left else "undecided"


def _beaten(problem: Problem, found: Findings, arm: int) -> str:
    better, lead, evidence = problem.arm_names[found.beaten_by[arm]], found.lead[arm], found.evidence[arm]
    if not math.isnan(lead):
        return f"worse than {better} by at least {lead:.2g}" if lead > 0 else f"not better than {better} by {-lead:.2g}"
    if not math.isnan(evidence):
        return f"infeasible or worse than {better}, evidence {odds(evidence)}"
    return f"{problem.objective.metric} behind {better}"
