"""Duels: answers that are compared, two by two, with a baseline's. An arm's value on an item is what it won there.

So the share of wins is the mean of a metric like any other, with values from 0 to 1, and its limit is one half.
"""

from __future__ import annotations

from collections.abc import Callable

from bestarm.noises.duel import EVEN, Duel
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.question import Question
from bestarm.problem.stating import at_least, maximize
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

Compare = Callable[[str, str, str], str] | Callable[[str, str], str]
"""Takes the names of the arms whose answers are shown first and second, and of an item if there are any. Says which is
better: "first", "second" or "tie"."""


def duel(
    metric: str, *, cost: float = 1.0, tolerance: float = 0.0, judge: str | None = None, unit: str | None = None
) -> Objective:
    """The objective to win most often against the problem's baseline. Results are "win", "tie" or "loss"; ties count
    half. Unless a constraint limits the metric otherwise, the answer must also win at least as often as it loses.

    >>> import bestarm as ba
    >>> problem = ba.Problem(arms=["terse", "friendly"], objective=ba.duel("preference"), baseline="plain")
    >>> problem.constraints[0].label
    'preference at least 0.5'
    """
    return maximize(metric, noise=Duel(), cost=cost, tolerance=tolerance, judge=judge, unit=unit)


def both_orders(compare: Compare, baseline: str) -> Callable[..., float]:
    """What `identify` calls where `compare(first, second, item)` says which of two answers is better, "first", "second"
    or "tie". It asks in both orders and takes the mean, so that a preference for what is shown first cancels.

    >>> import bestarm as ba
    >>> measure = ba.both_orders(lambda first, second, item: "first", baseline="plain")
    >>> measure("terse", "preference", "question 1")
    0.5
    """

    def measure(arm: str, metric: str, *item: str) -> float:
        first, second = compare(arm, baseline, *item), compare(baseline, arm, *item)
        return EVEN * (_won(first, "first") + _won(second, "second"))

    return measure


def _won(said: object, place: str) -> float:
    """What an arm won whose answer was shown in this place."""
    values = {"first": 0.0, "second": 0.0, "tie": EVEN} | {place: 1.0}
    if not isinstance(said, str) or said not in values:
        raise InvalidInput("compare", said, 'must return "first", "second" or "tie"', [*values], shown=quoted(said))
    return values[said]


def limits_of_duels(problem: Question) -> tuple[Constraint, ...]:
    """What a duel asks for unless the problem says otherwise: that the answer wins as often as it loses."""
    part = problem.objective
    if not part.noise.words or any(other.metric == part.metric for other in problem.constraints):
        return ()
    return (at_least(part.metric, EVEN, noise=part.noise, cost=part.cost, judge=part.judge),)


def check_duels(problem: Question) -> None:
    """Every arm is compared with the baseline, which is not compared with itself."""
    noun = problem.noun
    if problem.duels and problem.baseline is None:
        reason = f"must be stated: {problem.parts[problem.duels[0]].metric!r} says how each {noun.one} compares with it"
        raise InvalidInput("baseline", UNSTATED, reason, sentence=f"baseline {reason}")
    if problem.duels and problem.baseline in problem.arm_names and problem.set_aside is None:
        reason = f"cannot be one of the {noun.many} that are compared with it in a duel; leave it out of them"
        goals = ', or state goal = "any feasible" or "every feasible"' if problem.relative else ""
        raise InvalidInput("baseline", problem.baseline, reason + goals)
    if 0 in problem.duels and problem.objective.goal == "minimize":
        raise InvalidInput("objective.goal", "minimize", "must be maximize: a win counts as 1, and a loss as 0")
