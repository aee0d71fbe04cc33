"""What a study concludes, from the policy that decides it."""

from __future__ import annotations

from bestarm.answer import Answer, State
from bestarm.plan import Plan
from bestarm.policies.base import Policy, Stop
from bestarm.policies.confidence import present_answer
from bestarm.study.standing import standings


def conclusion(plan: Plan, policy: Policy) -> Answer | None:
    """The answer of the study of `plan` that `policy` decides; None while it goes on within its budget."""
    proposal = policy.decide()
    return answer_of(plan, policy, proposal if isinstance(proposal, Stop) else None)


def answer_of(plan: Plan, policy: Policy, stop: Stop | None) -> Answer | None:
    """The answer of a study whose policy has decided `stop`, or not stopped yet."""
    tests, cost = policy.spent
    if stop is None and tests < plan.max_tests and cost < plan.max_cost:
        return None
    standing = present_answer(policy.setting, policy.streams)
    if stop is not None:
        state: State = "no_feasible_arm" if stop.arm is None else "certified"
        arm = stop.arm
    else:
        state, arm = "budget_spent", standing.leader
    return Answer(
        state=state,
        arm=None if arm is None else plan.arm_names[arm],
        delta=plan.delta,
        confidence=standing.confidence,
        tests=tests,
        cost=cost,
        reasons={row.name: f"{row.verdict}: {row.reason}" for row in standings(plan, policy)},
    )
