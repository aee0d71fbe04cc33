"""What is claimed of the arms of an answer that is not one best arm, in words; and what is certain of every arm."""

from __future__ import annotations

from collections.abc import Sequence

from bestarm.answer import all_names, feasible_words
from bestarm.problem import Problem
from bestarm.validation import exact


def claim_words(plan: Problem, arms: Sequence[str], *, is_sure: bool) -> str:
    """What is certified of a set of arms: what stands after their names. `is_sure`: some arm is certified feasible.

    >>> import bestarm as ba
    >>> gain = ba.maximize("gain", noise=ba.Gaussian(1.0), tolerance=0.5)
    >>> short, top = (ba.Problem([*"abcd"], gain, goal=goal, top=3) for goal in ("best", "top"))
    >>> claim_words(short, ["a", "b"], is_sure=False)
    'the best feasible arm, or one as good within 0.5, if any is feasible, is one of these'
    >>> claim_words(top, ["a", "b", "c"], is_sure=True), claim_words(top, ["a"], is_sure=True)
    ('the 3 best feasible arms, within 0.5', 'the only feasible arm')
    """
    margins = margins_of(plan)
    if plan.asks == "any feasible":
        return feasible_words(plan.slacks)
    if plan.asks == "every feasible":
        other = f", and no other {plan.noun.one} is"
        return f"feasible{within(plan)}{other if len(arms) < plan.arms_asked_about else ''}"
    if plan.asks == "short list":
        near = f", or one as good {' and '.join(margins)}," if margins else ""
        perhaps = "" if is_sure else f"{'' if near else ','} if any is feasible,"
        return f"the best feasible {plan.noun.one}{near}{perhaps} is one of these"
    what = "best" if plan.top == 1 else f"{plan.top} best"
    if len(arms) < plan.top:
        what, margins = "only", ["within the slack"] if plan.slacks else []
    noun = plan.noun.one if len(arms) == 1 else plan.noun.many
    return f"the {what} feasible {noun}{', ' if margins else ''}{' and '.join(margins)}"


def rejected(plan: Problem, candidates: Sequence[str]) -> list[str]:
    """The arms asked about that are not among the candidates."""
    left = {*candidates, *([] if plan.set_aside is None else [plan.baseline])}
    return [name for name in plan.arm_names if name not in left]


def decided_words(plan: Problem, candidates: Sequence[str], feasible: Sequence[str]) -> str:
    """How many arms are certified feasible or rejected, where every feasible arm is asked for.

    >>> import bestarm as ba
    >>> price = ba.at_most("price", 3, noise=ba.Gaussian(1.0))
    >>> decided_words(ba.Problem([*"abcd"], constraints=[price], goal="every feasible"), [*"abc"], ["a"])
    '2 of 4 arms are decided'
    """
    count, every = len(rejected(plan, candidates)) + len(feasible), plan.arms_asked_about
    return f"{count:,} of {plan.noun.counted(every)} {'is' if count == 1 else 'are'} decided"


def known_of_each(plan: Problem, candidates: Sequence[str], feasible: Sequence[str]) -> str:
    """What is certain of each arm, where every feasible arm is asked for; nothing if no arm is decided."""
    rows = (
        (feasible, f"feasible{within(plan)}"),
        (rejected(plan, candidates), "not feasible"),
        ([name for name in candidates if name not in feasible], "undecided"),
    )
    facts = [f"{all_names(names)} {'is' if len(names) == 1 else 'are'} {what}" for names, what in rows if names]
    return "; ".join(facts) if feasible or rows[1][0] else ""


def none_words(plan: Problem) -> str:
    """The answer that no arm is feasible. It says nothing of a baseline that is set aside."""
    compared = "" if plan.set_aside is None else f" compared with {plan.baseline}"
    return f"no {plan.noun.one}{compared} is feasible"


def within(plan: Problem) -> str:
    return " within the slack" if plan.slacks else ""


def margins_of(plan: Problem) -> list[str]:
    tolerance = [f"within {exact(plan.objective.tolerance)}"] if plan.objective.tolerance else []
    return [*tolerance, "within the slack"] if plan.slacks else tolerance


def unasked_words(number: int, *, is_ordered: bool) -> str:
    """How many results the study had not asked for, and what is assumed of them; empty if there are none. They may be
    `is_ordered` by the study itself, as on items.

    >>> unasked_words(0, is_ordered=False), unasked_words(1, is_ordered=False).partition(": ")[2]
    ('', 'the guarantee assumes that it was not chosen by its value')
    """
    if not number:
        return ""
    which, chosen = "1 result was", "it was not chosen by its value"
    if number > 1:
        which, chosen = f"{number:,} results were", "they were not chosen by their values"
        chosen += "" if is_ordered else ", and came in an order that does not depend on results"
    return f"{which} neither asked for nor randomized by the study: the guarantee assumes that {chosen}"
