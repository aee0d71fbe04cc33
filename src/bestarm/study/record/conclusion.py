"""What a study concludes, from the policy that decides it."""

from __future__ import annotations

from typing import Any

from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import findings_of, named, standings
from bestarm.analysis.standing.knowledge import (
    MOST_DIFFERENCES,
    differences_of,
    open_questions_of,
    progress_of,
    regret_at_most,
)
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.status.status import Status, StudyState, basis_of
from bestarm.analysis.status.words import claim_words, known, none_words
from bestarm.answer import Answer
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.problem import Plan

_SHARED = ("confidence", "tolerance", "slack", "candidates", "feasible", "regret_at_most", "known", "claim")
"""Fields that mean the same in an answer and in a status."""


def conclusion(plan: Plan, policy: Policy) -> Answer | None:
    """The answer of the study of `plan` that `policy` decides. None while it is running within its budget."""
    proposal = policy.decide()
    return answer_of(plan, policy, proposal if isinstance(proposal, Stop) else None)


def is_spent(plan: Plan, policy: Policy) -> bool:
    """Whether the results that have entered use up the budget."""
    tests, cost = policy.spent
    return tests >= plan.max_tests or cost >= plan.max_cost


def status_of(
    plan: Plan,
    policy: Policy,
    stop: Stop | None,
    raw: RawValues | None = None,
    health: Health | None = None,
    *,
    revision: int = 0,
    **recorded: Any,
) -> Status:
    """Where a study stands whose policy has decided on `stop`, or has not stopped yet. `raw` as in `standings`.

    `health` is what the checks of its results say; simulated results need none. `recorded` are the fields of `Status`
    that only the record knows.
    """
    health = health or Health()
    found = findings_of(policy, stop)
    number, confidence = policy.present_answer(stop)
    leader = None if number is None else plan.arm_names[number]
    answered: tuple[str, ...] = ()
    state: StudyState
    if stop is None:
        state = "budget_spent" if is_spent(plan, policy) else "running"
    else:
        state = "void" if health.void_because else "no_feasible_arm" if stop.arm is None else "certified"
        answered = () if stop.arm is None else tuple(plan.arm_names[arm] for arm in stop.arms or (stop.arm,))
    candidates, feasible = answered or named(plan, found.candidates), named(plan, found.feasible)
    regret = regret_at_most(plan, policy, found, number, stop)
    claim = ""
    if plan.asks != "best" and answered:
        is_sure = not plan.constraints or bool(found.feasible.any())
        claim = claim_words(plan, answered, is_sure=is_sure)
    elif state == "no_feasible_arm" and plan.set_aside is not None:
        claim = none_words(plan)
    questions = () if stop is not None else open_questions_of(plan, policy, found, number)
    tests, cost = policy.spent
    fields: dict[str, Any] = {"study": plan.name, "tests": tests, "cost": cost, "pending": 0, "waiting": 0} | recorded
    return Status(
        state=state,
        answer=leader if stop is not None else None,
        leader=leader,
        confidence=confidence,
        arms=tuple(standings(plan, policy, found, raw)),
        tolerance=plan.objective.tolerance,
        slack=plan.slacks,
        candidates=candidates,
        feasible=feasible,
        regret_at_most=regret,
        known=known(plan, state, leader, candidates, feasible, regret, is_void=bool(health.void_because)),
        open=questions,
        progress=1.0 if stop is not None else progress_of(plan, questions, len(candidates)),
        answered=answered,
        claim=claim,
        health=health,
        basis=basis_of(revision, state, candidates),
        **fields,
    )


def answer_of(
    plan: Plan, policy: Policy, stop: Stop | None, raw: RawValues | None = None, health: Health | None = None
) -> Answer | None:
    """The answer of the same study. None while it is running."""
    if stop is None and not is_spent(plan, policy):
        return None
    status = status_of(plan, policy, stop, raw, health)
    assert status.state != "running"
    has_differences = status.leader is not None and len(plan.arms) <= MOST_DIFFERENCES
    leader = plan.arm_names.index(status.leader) if status.leader is not None else 0
    return Answer(
        state=status.state,
        arm=status.leader,
        delta=plan.delta,
        tests=status.tests,
        cost=status.cost,
        reasons={row.name: f"{row.verdict}: {row.reason}" for row in status.arms},
        differences=differences_of(plan, policy, leader, stop) if has_differences else {},
        arms=status.answered,
        warnings=status.health.warnings,
        void_because=status.health.void_because,
        **{field: getattr(status, field) for field in _SHARED},
    )
