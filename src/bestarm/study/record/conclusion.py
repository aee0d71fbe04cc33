"""What a study concludes, from the policy that decides it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bestarm.analysis.health.notes import Health
from bestarm.analysis.standing.arms import findings_of, named, why_out
from bestarm.analysis.standing.judges import judge_standings
from bestarm.analysis.standing.knowledge import (
    MOST_DIFFERENCES,
    differences_of,
    endless_words,
    open_questions_of,
    progress_of,
    regret_at_most,
    standings_shown,
)
from bestarm.analysis.standing.quantiles import RawValues
from bestarm.analysis.status.claims import claim_words, decided_words, none_words, unasked_words
from bestarm.analysis.status.status import Status, StudyState, basis_of
from bestarm.analysis.status.words import known
from bestarm.answer import Answer, BlocksMade
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.problem import Plan
from bestarm.problem.budget import left_words
from bestarm.storage.base import Rounds

_SHARED = (
    *("confidence", "tolerance", "slack", "candidates", "feasible", "regret_at_most", "known", "claim"),
    *("decided", "arm_word", "blocks", "unasked"),
)
"""Fields that mean the same in an answer and in a status."""


def conclusion(plan: Plan, policy: Policy) -> Answer | None:
    """The answer of the study of `plan` that `policy` decides. None while it is running within its budget."""
    proposal = policy.decide()
    return answer_of(plan, policy, proposal if isinstance(proposal, Stop) else None)


def is_spent(plan: Plan, policy: Policy) -> bool:
    """Whether the results that have entered use up the budget."""
    tests, cost = policy.spent
    if plan.blocks is not None and no_block_is_left(plan, policy):
        return True
    return tests >= plan.max_tests or cost >= plan.max_cost


def within_budget(plan: Plan, policy: Policy, rounds: Rounds, issued: Sequence[tuple[int, int]]) -> Rounds:
    """The rounds, cut where the budget ends, counting what has entered and the tests that are `issued` besides. Scores
    of judges cost something, but are no tests of what is asked for."""
    tests, cost = policy.spent
    tests += sum(metric not in plan.judges for _, metric in issued)
    cost += plan.cost_of(issued)
    kept: list[list[tuple[int, int] | tuple[int, int, int]]] = []
    for tests_of_round in rounds:
        kept.append([])
        for test in tests_of_round:
            if tests >= plan.max_tests or cost >= plan.max_cost:
                break
            kept[-1].append(test)
            tests += test[1] not in plan.judges
            cost += plan.arm_costs[test[:2]]
    return [part for part in kept if part]


def no_block_is_left(plan: Plan, policy: Policy, out: int = 0) -> bool:
    """Whether the budget allows no further block, while so many are out."""
    return policy.blocks_made + out >= plan.max_blocks


def blocks_made(plan: Plan, policy: Policy) -> BlocksMade | None:
    """The blocks that have entered; None without blocks."""
    if plan.blocks is None:
        return None
    allowed = None if plan.budget is None or plan.budget.blocks is None else int(plan.budget.blocks)
    return BlocksMade(plan.blocks.name, policy.blocks_made, allowed)


def status_of(
    plan: Plan,
    policy: Policy,
    stop: Stop | None,
    raw: RawValues | None = None,
    health: Health | None = None,
    *,
    is_over: bool = False,
    revision: int = 0,
    scores: Mapping[str, int] | None = None,
    unasked: int = 0,
    **recorded: Any,
) -> Status:
    """Where a study stands whose policy has decided on `stop`, or has not stopped yet. `raw` as in `standings`.

    With `is_over`, its budget is spent for a reason that the policy does not know. `health` is what the checks of its
    results say; simulated results need none. `scores` says how many each judge has given, and
    `unasked` how many results the study had not asked for. `recorded` are the fields of `Status` that only the record
    knows.
    """
    health = health or Health()
    found = findings_of(policy, stop)
    number, confidence = policy.present_answer(stop)
    leader = None if number is None else plan.arm_names[number]
    answered: tuple[str, ...] = ()
    state: StudyState
    if stop is None:
        state = "budget_spent" if is_over or is_spent(plan, policy) else "running"
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
    asks_all = plan.asks == "every feasible"
    questions, tests_left = ((), 0.0) if stop is not None else open_questions_of(plan, policy, found, number)
    still = len(candidates) - (len(feasible) if asks_all else 0)
    tests, cost = policy.spent
    rows = standings_shown(plan, policy, found, stop, raw)
    fields: dict[str, Any] = {"study": plan.name, "tests": tests, "cost": cost, "pending": 0, "waiting": 0} | recorded
    if state == "running" and plan.budget is not None:
        so_far = fields["tests"], fields["cost"], policy.blocks_made
        fields["budget_left"] = left_words(plan.budget, *so_far, plan.blocks)
    return Status(
        state=state,
        answer=leader if stop is not None else None,
        leader=leader,
        confidence=confidence,
        arms=rows,
        judges=judge_standings(plan, policy, rows, scores or {}, number),
        tolerance=plan.objective.tolerance,
        slack=plan.slacks,
        candidates=candidates,
        feasible=feasible,
        regret_at_most=regret,
        known=known(
            plan,
            state,
            leader,
            candidates,
            feasible,
            regret,
            is_void=bool(health.void_because),
            out=why_out(plan, found),
        ),
        arm_word=plan.arm_word,
        blocks=blocks_made(plan, policy),
        unasked=unasked_words(unasked, is_ordered=plan.items is not None and plan.blocks is None),
        open=questions,
        tests_left=tests_left,
        progress=1.0 if stop is not None else progress_of(plan, questions, still),
        answered=answered,
        claim=claim,
        endless=endless_words(plan, questions, policy.spent[0], len(candidates)) if state == "running" else "",
        decided=decided_words(plan, candidates, feasible) if asks_all else "",
        health=health,
        basis=basis_of(revision, state, candidates),
        **fields,
    )


def answer_of(
    plan: Plan,
    policy: Policy,
    stop: Stop | None,
    raw: RawValues | None = None,
    health: Health | None = None,
    *,
    is_over: bool = False,
    unasked: int = 0,
) -> Answer | None:
    """The answer of the same study. None while it is running."""
    if stop is None and not is_over and not is_spent(plan, policy):
        return None
    status = status_of(plan, policy, stop, raw, health, is_over=is_over, unasked=unasked)
    assert status.state != "running"
    is_compared = plan.asks != "every feasible" and len(plan.arms) <= MOST_DIFFERENCES
    has_differences = status.leader is not None and is_compared
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
