"""How a study went: what was certain and what was open at moments of its record."""

from __future__ import annotations

import dataclasses

from bestarm.analysis.standing.arms import findings_of, named
from bestarm.analysis.standing.knowledge import open_questions_of
from bestarm.analysis.standing.open_questions import OpenQuestion
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.problem import Problem


@dataclasses.dataclass(frozen=True)
class Moment:
    """What a study knew after a number of tests: who led, which arms could still be the answer, which were certified
    infeasible, and which certificates were open."""

    tests: int
    leader: str | None
    candidates: tuple[str, ...]
    infeasible: tuple[str, ...]
    open: tuple[OpenQuestion, ...]
    is_decided: bool = False


def moment_of(problem: Problem, policy: Policy, stop: Stop | None, tests: int) -> Moment:
    """What the policy of a study knows."""
    found, leader = findings_of(policy, stop), policy.present_answer(stop).leader
    return Moment(
        tests=tests,
        leader=None if leader is None else problem.arm_names[leader],
        candidates=named(problem, found.candidates),
        infeasible=named(problem, found.infeasible),
        open=() if stop is not None else open_questions_of(problem, policy, found, leader),
        is_decided=stop is not None,
    )
