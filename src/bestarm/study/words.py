"""A study in plain words: what it asks, what its answer means, what that rests on."""

from __future__ import annotations

from bestarm.answer import Answer
from bestarm.noise import Bernoulli, Gaussian
from bestarm.plan import Plan
from bestarm.problem import Constraint, Objective


def question(plan: Plan) -> str:
    """What the study asks."""
    goal = "largest" if plan.objective.goal == "maximize" else "smallest"
    sides = [f"{c.metric} {'below' if c.at_least is None else 'above'} {c.threshold:g}" for c in plan.constraints]
    such = f" among those with {' and '.join(sides)}" if sides else ""
    return f"Which of {len(plan.arms)} arms has the {goal} mean {plan.objective.metric}{such}?"


def guarantee(plan: Plan, answer: Answer | None) -> str:
    """What the answer is worth."""
    if answer is None:
        return (
            "The study is still running: nothing is certified yet. When it stops with an answer, that answer is wrong "
            f"with probability at most {100 * plan.delta:g} %."
        )
    if answer.state == "budget_spent":
        return (
            "The budget was spent before the evidence sufficed, so nothing is certified: the arm in the lead may be "
            "infeasible or not the best."
        )
    allowed = f"The procedure errs in at most {100 * plan.delta:g} % of studies like this one"
    if answer.state == "no_feasible_arm":
        return f"{allowed}: with that reservation, every arm violates at least one constraint."
    slack = any(constraint.slack for constraint in plan.constraints)
    nearly = " (within the stated slack)" if slack else ""
    best = (
        f"no feasible arm is better by more than {plan.objective.tolerance:g}"
        if plan.objective.tolerance
        else ("no feasible arm is better")
    )
    return f"{allowed}: with that reservation, {answer.arm} meets every constraint{nearly}, and {best}."


def noise_in_words(part: Objective | Constraint) -> str:
    """How single measurements of a metric are taken to scatter."""
    match part.noise:
        case Gaussian(sigma):
            return f"{part.metric}: scatters around its mean with a standard deviation of at most {sigma:g}"
        case Bernoulli():
            return f"{part.metric}: each measurement is 0 or 1"
        case bounded:
            return f"{part.metric}: each measurement lies between {bounded.low:g} and {bounded.high:g}"


def assumptions(plan: Plan) -> list[str]:
    """What has to hold for the guarantee to hold."""
    return [
        "Every measurement is fresh: what one shows does not depend on the others.",
        "The mean of each metric of each arm stays the same for the whole study.",
        *(noise_in_words(part) + "." for part in plan.parts),
        "Every result was recorded, whatever it was. Tests were given up, made again or handed to somebody else only "
        "for reasons that have nothing to do with their results; a failure that may have to do with them was counted.",
        *_order(plan),
        "The answer is about these arms and metrics, as they were measured, and about no others.",
    ]


def _order(plan: Plan) -> list[str]:
    if plan.order == "issue":
        return []
    return [
        "How long a test takes has nothing to do with its result: results count in the order in which they arrive, as "
        "the plan declares."
    ]
