"""What is certain and what is open at a moment of a study, in the user's terms, from the policy that decides it."""

from __future__ import annotations

import math

from bestarm.analysis.standing.arms import findings_of
from bestarm.analysis.standing.open_questions import OpenQuestion
from bestarm.analysis.standing.terms import statistic, subject
from bestarm.answer import Difference
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings
from bestarm.policies.limits import measured_leads, narrow
from bestarm.problem import Problem

MOST_DIFFERENCES = 1000
"""An answer among more arms than this has no list of differences."""


def regret_at_most(
    problem: Problem, policy: Policy, found: Findings, leader: int | None, stop: Stop | None
) -> float | None:
    """How far, at most, the leader is below the best feasible arm. None if there is no limit, or the leader is not
    certified feasible: then nothing is claimed of it."""
    if leader is None or not found.feasible[leader]:
        return None
    limit = policy.regret(leader, found)
    if stop is not None and problem.asks == "best":
        limit = min(limit, problem.objective.tolerance)
    return limit if math.isfinite(limit) else None


def differences_of(problem: Problem, policy: Policy, arm: int, stop: Stop | None = None) -> dict[str, Difference]:
    """By how much, at least and at most, `arm` performs better than each other arm. Once the policy has stopped, this
    agrees with its answer."""
    low, high = policy.differences(arm)
    if stop is not None and stop.arm is not None and problem.asks in ("best", "top"):
        behind = findings_of(policy, stop).outperformed & ~problem.is_retired
        narrow(low, high, arm, stop.arms or (stop.arm,), behind, -problem.objective.tolerance)
    estimates = [None if math.isnan(lead) else lead for lead in measured_leads(policy.streams, arm).tolist()]
    rows = zip(problem.arm_names, low.tolist(), high.tolist(), estimates, strict=True)
    return {name: Difference(*limits) for other, (name, *limits) in enumerate(rows) if other != arm}


def certificates_of(problem: Problem) -> tuple[int, int]:
    """How many arms the answer must be told from, counting itself, and how many constraints must be certified."""
    arms, constraints = len(problem.arms), len(problem.constraints)
    if problem.asks == "any feasible":
        return 1, constraints
    return arms - problem.top + 1, constraints * (problem.top if problem.asks == "top" else 1)


def open_questions_of(
    problem: Problem, policy: Policy, found: Findings, leader: int | None
) -> tuple[OpenQuestion, ...]:
    """What the likeliest answer lacks."""
    names, subjects = problem.arm_names, [None, *(subject(c.title, statistic(c)) for c in problem.constraints)]
    return tuple(
        OpenQuestion(
            open_one.kind,
            names[open_one.arm],
            None if open_one.metric is None else subjects[open_one.metric],
            None if open_one.against is None else names[open_one.against],
            open_one.share,
            open_one.tests,
        )
        for open_one in policy.open_certificates(leader, found)
    )
