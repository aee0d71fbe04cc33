"""What a study concludes, from the policy that decides it."""

from __future__ import annotations

from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import findings_of, named, standings
from bestarm.analysis.standing.knowledge import MOST_DIFFERENCES, differences_of, regret_at_most
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.status.status import StudyState
from bestarm.analysis.status.words import known
from bestarm.answer import Answer
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings
from bestarm.problem import Plan
from bestarm.problem.goals import set_words


def conclusion(plan: Plan, policy: Policy) -> Answer | None:
    """The answer of the study of `plan` that `policy` decides. None while it is running within its budget."""
    proposal = policy.decide()
    return answer_of(plan, policy, proposal if isinstance(proposal, Stop) else None)


def state_of(stop: Stop | None, health: Health, *, is_done: bool) -> StudyState:
    """The state of a study, by what its policy has decided and whether its results contradict its assumptions."""
    if stop is None:
        return "budget_spent" if is_done else "running"
    if health.void_because:
        return "void"
    return "no_feasible_arm" if stop.arm is None else "certified"


def answer_of(
    plan: Plan, policy: Policy, stop: Stop | None, raw: RawValues | None = None, health: Health | None = None
) -> Answer | None:
    """The answer of a study whose policy has decided on `stop`, or has not stopped yet. `raw` as in `standings`.

    `health` is what the checks of its results say: where there are no results but simulated ones, nothing.
    """
    health = health or Health()
    tests, cost = policy.spent
    state = state_of(stop, health, is_done=tests >= plan.max_tests or cost >= plan.max_cost)
    if state == "running":
        return None
    leader, confidence = policy.present_answer(stop)
    found = findings_of(policy, stop)
    arm = None if leader is None else plan.arm_names[leader]
    answered = answered_by(plan, stop)
    candidates, feasible = answered or named(plan, found.candidates), named(plan, found.feasible)
    regret = regret_at_most(plan, policy, found, leader, stop)
    is_long = len(plan.arms) > MOST_DIFFERENCES
    return Answer(
        state=state,
        arm=arm,
        delta=plan.delta,
        confidence=confidence,
        tests=tests,
        cost=cost,
        reasons={row.name: f"{row.verdict}: {row.reason}" for row in standings(plan, policy, found, raw)},
        tolerance=plan.objective.tolerance,
        slack=plan.slacks,
        candidates=candidates,
        feasible=feasible,
        regret_at_most=regret,
        differences={} if leader is None or is_long else differences_of(plan, policy, leader, stop),
        known=known(plan, state, arm, candidates, feasible, regret, is_void=bool(health.void_because)),
        arms=answered,
        claim=claim_of(plan, found, answered),
        warnings=health.warnings,
        void_because=health.void_because,
    )


def answered_by(plan: Plan, stop: Stop | None) -> tuple[str, ...]:
    """The arms that a policy has stopped with."""
    if stop is None or stop.arm is None:
        return ()
    return tuple(plan.arm_names[arm] for arm in stop.arms or (stop.arm,))


def claim_of(plan: Plan, found: Findings, answered: tuple[str, ...]) -> str:
    """What is certified of the arms that were answered; empty if it is that the one arm is feasible and best."""
    if plan.asks == "best" or not answered:
        return ""
    is_sure = not plan.constraints or bool(found.feasible.any())
    return set_words(plan.asks, answered, plan.top, plan.objective.tolerance, bool(plan.slacks), is_sure)
