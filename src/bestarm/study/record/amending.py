"""Changing the plan of a study on its way: a larger budget, arms that come later, arms that are retired; and, before
the first test, its reserve.

Where a study stands follows from its record and its present plan alone. So a change of plan needs no bookkeeping:
every follower of the study reads its record again, from the start, as if the plan had always been this one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bestarm.problem import Arm, Budget, Plan
from bestarm.problem.budget import UNITS, WHOLE
from bestarm.study.intake.names import Numbering
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, exact, finite_number

NO_RESERVE = (
    "the study keeps no share of delta for {these}; that must be said before the first result, for instance with "
    "`reserve = 0.2` in the study file. Start a new study"
)


def extended(plan: Plan, more: Mapping[str, float | None], spent: Mapping[str, float]) -> Plan:
    """The plan with a larger budget, or with a first one beyond what has been `spent`, of which hours pass by
    themselves."""
    given = {name: _more(name, number) for name, number in more.items() if number is not None}
    if not given:
        raise InvalidInput(f"{', '.join(UNITS)}: say by how much to extend the budget")
    present = spent if plan.budget is None else plan.budget.amounts
    for name, number in given.items():
        if name not in present:
            raise InvalidInput(name, number, f"the study's budget is one of {' and '.join(present)}; extend that")
    begun = {"hours": spent["hours"]}
    total = {name: max(present[name], begun.get(name, 0.0)) + number for name, number in given.items()}
    budget = Budget(**total) if plan.budget is None else dataclasses.replace(plan.budget, **total)
    return dataclasses.replace(plan, budget=budget)


def raised(plan: Plan, budget: Budget) -> Plan:
    """The plan with a budget at least this large, in the same units; with this one, if it has none."""
    if plan.budget is None:
        return dataclasses.replace(plan, budget=budget)
    present, asked = plan.budget.amounts, budget.amounts
    total = {name: max(present[name], asked[name]) for name in present if name in asked}
    return dataclasses.replace(plan, budget=dataclasses.replace(plan.budget, **total))


def _more(name: str, given: float) -> float:
    try:
        number = finite_number(given)
    except ValueError as error:
        raise InvalidInput(name, given, str(error), shown=quoted(given)) from None
    if not number > 0.0:
        raise InvalidInput(name, given, "must be a positive number: a budget can only be extended")
    if name in WHOLE and number != int(number):
        raise InvalidInput(name, given, "must be a whole number")
    return number


def with_arms(plan: Plan, new: Sequence[str], since: int = 0) -> Plan:
    """The plan with arms that come later, when so many places of the order of items have been met."""
    if not new:
        raise InvalidInput("arms", [], "name one arm at least")
    if not plan.reserve:
        raise InvalidInput("arms", new[0], NO_RESERVE.format(these="arms that come later"))
    came = plan.arms[-1].added
    later = [Arm(name, added=came + k, since=since) for k, name in enumerate(new, start=1)]
    return dataclasses.replace(plan, arms=(*plan.arms, *later))


def without_arm(plan: Plan, name: str) -> Plan:
    """The plan with an arm retired."""
    arm = Numbering(plan).arm(name)
    if not plan.reserve:
        raise InvalidInput("arm", name, NO_RESERVE.format(these="arms that are retired"))
    if plan.arms[arm].retired:
        raise InvalidInput("arm", name, "is retired already")
    if sum(not other.retired for other in plan.arms) == 1:
        raise InvalidInput("arm", name, "is the last one left; archive the study instead")
    arms = tuple(dataclasses.replace(one, retired=one.retired or k == arm) for k, one in enumerate(plan.arms))
    return dataclasses.replace(plan, arms=arms)


def with_reserve(plan: Plan, share: float) -> Plan:
    """The plan with another share of delta kept for arms that come later or are retired."""
    return dataclasses.replace(plan, reserve=share)


def changed_words(before: Plan, after: Plan) -> str:
    """What an amendment changes, for the log."""
    said = []
    if after.budget is not None:
        for name in UNITS:
            old, new = getattr(before.budget, name, None), getattr(after.budget, name)
            if old != new:
                said.append(f"budget: {_figure(new)} {name} instead of {'none' if old is None else _figure(old)}")
    if before.reserve != after.reserve:
        said.append(f"reserve: {exact(after.reserve)} instead of {exact(before.reserve)}")
    for arm in after.arms[len(before.arms) :]:
        met = f", when {arm.since:,} places of the items had been met" if arm.since else ""
        said.append(f"arm added: {arm.name}{met}")
    said += [f"arm retired: {two.name}" for one, two in zip(before.arms, after.arms, strict=False) if one != two]
    return "; ".join(said)


def _figure(number: float) -> str:
    return f"{number:,.0f}" if number == int(number) else exact(number)


def is_amended(plan: Plan, start: Plan) -> bool:
    """Whether `plan` may have become what it is, by amendments, from `start` or from another stage of it.

    Arms that came later, retired arms and the size of the budget do not count: they say how far a study is, not what it
    is about.
    """
    return unamended(plan, start) == unamended(start, start)


def unamended(plan: Plan, start: Plan) -> Plan:
    """The plan without the arms that came later, none retired, and with the budget of `start`, unless both have one in
    other units."""
    arms = tuple(dataclasses.replace(arm, retired=False) for arm in plan.arms if not arm.added)
    is_other = plan.budget and start.budget and plan.budget.amounts.keys() != start.budget.amounts.keys()
    return dataclasses.replace(plan, arms=arms, budget=plan.budget if is_other else start.budget)
