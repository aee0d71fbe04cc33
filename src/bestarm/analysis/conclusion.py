"""What a study concludes, from the policy that decides it."""

from __future__ import annotations

from bestarm.analysis.standing import standings
from bestarm.answer import Answer, State
from bestarm.kernel.state import total_cost
from bestarm.plan import Plan
from bestarm.policies.base import Policy, Stop
from bestarm.policies.confidence import present_answer


def conclusion(plan: Plan, policy: Policy) -> Answer | None:
    """The answer of the study of `plan` that `policy` decides; None while it goes on within its budget."""
    proposal = policy.propose()
    tests, cost = int(policy.streams.counts.sum()), total_cost(policy.setting, policy.streams)
    standing = present_answer(policy.setting, policy.streams)
    if isinstance(proposal, Stop):
        state: State = "no_feasible_arm" if proposal.arm is None else "certified"
        arm = proposal.arm
    elif tests >= plan.max_tests or cost >= plan.max_cost:
        state, arm = "budget_spent", standing.leader
    else:
        return None
    return Answer(
        state=state,
        arm=None if arm is None else plan.arm_names[arm],
        delta=plan.delta,
        confidence=standing.confidence,
        tests=tests,
        cost=cost,
        reasons={row.name: f"{row.verdict}: {row.reason}" for row in standings(plan, policy)},
    )
