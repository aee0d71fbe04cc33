"""A study in plain words: what it asks, what its answer means, what that rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from bestarm.analysis.standing.terms import required, statistic, subject
from bestarm.analysis.status.status import Status, StudyState
from bestarm.answer import (
    MOST_NAMES,
    Answer,
    all_names,
    feasible_words,
    good_words,
    promised,
    rounded_up,
)
from bestarm.noises.base import NoiseModel
from bestarm.policies import find_policy, policy_for
from bestarm.problem import Constraint, Objective, Plan, Problem
from bestarm.problem.items import count_of
from bestarm.texts import listed
from bestarm.validation import exact


def question(plan: Plan) -> str:
    """What the study asks."""
    goal = "largest" if plan.objective.goal == "maximize" else "smallest"
    sides = [f"{subject(c.title, statistic(c))} {required(c)}" for c in plan.constraints]
    such = f" among those with {' and '.join(sides)}" if sides else ""
    mean = "" if plan.objective.noise.is_exact else "mean "
    over = f"{_over_items(plan)}{f', where the baseline is {plan.baseline}' if plan.relative else ''}"
    aim, arms = f"the {goal} {mean}{plan.objective.metric}{such}{over}", f"{plan.arms_asked_about} arms"
    match plan.asks:
        case "any feasible" if plan.set_aside is not None and plan.arms_asked_about == 1:
            return f"Does {plan.arm_names[1 - plan.set_aside]} have {' and '.join(sides)}{over}?"
        case "any feasible":
            return f"Which of {arms}, whichever it is, has {' and '.join(sides)}{over}?"
        case "top":
            return f"Which {plan.top} of {arms} have {aim}?" if plan.top > 1 else f"Which of {arms} has {aim}?"
        case "short list":
            return f"Which short list of at most {plan.top} of {arms} contains the one that has {aim}?"
    return f"Which of {arms} has {aim}?"


def _over_items(plan: Plan) -> str:
    """What means are over, if there are items."""
    if plan.items is None:
        return ""
    number = _number_of_items(plan.items)
    if plan.repeats:
        return f", on average over {number} drawn again and again, and over how each varies"
    return f", on average over these {number}"


def guarantee(plan: Plan, answer: Answer | None, status: Status | None = None) -> str:
    """What the answer is worth. With the `status`, also what is certain while there is none."""
    now = answer or status
    if now is not None and now.guarantee == "void":
        return (
            "The results contradict what the guarantee rests on. Nothing is known about how often such an answer is "
            "wrong. What is said below of each arm (intervals, verdicts, reasons) is not guaranteed either."
        )
    if answer is None:
        known = "" if status is None else certain(plan, status)
        return (
            "The study is still running: no answer is certified yet. When it stops with an answer, that answer is "
            f"wrong with probability at most {100 * plan.delta:g}%, if what the guarantee rests on is true.{known}"
        )
    if answer.state == "budget_spent":
        return (
            "The budget was spent before the evidence sufficed for an answer. That the arm in the lead is the best "
            f"feasible one is not certain.{certain(plan, answer)}"
        )
    allowed = _allowed(plan)
    if answer.state == "no_feasible_arm":
        every = "every arm" if plan.set_aside is None else f"every arm that is compared with {plan.baseline}"
        return f"{allowed}: with that reservation, {every} violates at least one constraint."
    if plan.asks != "best":
        return f"{allowed}: with that reservation, {_set_guarantee(plan, answer)}."
    by = f" by more than {exact(plan.objective.tolerance)}" if plan.objective.tolerance else ""
    meets = f"{answer.arm} meets every constraint{_nearly(plan)}"
    return f"{allowed}: with that reservation, {meets}, and no feasible arm is better{by}."


def _set_guarantee(plan: Plan, answer: Answer) -> str:
    """What is certain about an answer with another goal than the best arm."""
    arms, margin = listed(answer.arms), plan.objective.tolerance
    if plan.asks == "short list":
        within = f" within {exact(margin)}" if margin else ""
        as_good = f", or one as good{within}{_nearly(plan)}," if margin or plan.slacks else ""
        return f"if any arm is feasible, the best one{as_good} is {listed(answer.arms, 'or')}"
    meets = f"{arms} {'meets' if len(answer.arms) == 1 else 'meet'} every constraint{_nearly(plan)}"
    if plan.asks == "any feasible":
        return f"{meets}; nothing is said of which arm is best"
    if len(answer.arms) < plan.top:
        return f"{meets}, and no other arm does"
    by = f" by more than {exact(margin)}" if margin else ""
    if plan.top == 1:
        return f"{meets}, and no feasible arm is better{by}"
    return f"{meets}, and none of them is worse{by} than number {plan.top} of the feasible arms"


def _allowed(plan: Plan) -> str:
    errs = f"the procedure errs in at most {100 * plan.delta:g}% of studies like this one"
    return f"If what the guarantee rests on is true, {errs}"


def _nearly(plan: Plan) -> str:
    return " (within the stated slack)" if plan.slacks else ""


def certain(plan: Plan, now: Answer | Status) -> str:
    """A sentence, or nothing, on what is certain before there is an answer: which arms are left, which are feasible,
    how far the leader can be from the best."""
    facts = []
    if now.candidates and len(now.candidates) < plan.arms_asked_about:
        out, every = plan.arms_asked_about - len(now.candidates), plan.arms_asked_about
        facts.append(
            f"if any arm is feasible, the best one{_or_as_good(plan)} is among {all_names(now.candidates)} "
            f"({out:,} of {every:,} arms {'is' if out == 1 else 'are'} excluded)"
        )
    if now.feasible and plan.constraints:
        meets = "meets" if len(now.feasible) == 1 else "meet"
        facts.append(f"{all_names(now.feasible)} {meets} every constraint{_nearly(plan)}")
    if now.regret_at_most is not None:
        leader = now.arm if isinstance(now, Answer) else now.leader
        facts.append(f"{leader} is {_regret(plan, now.regret_at_most)}")
    return f" {_allowed(plan)}: with that reservation, {'; and '.join(facts)}." if facts else ""


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
    margins = _margins(plan)
    if plan.asks == "any feasible":
        return feasible_words(plan.slacks)
    if plan.asks == "short list":
        near = f", or one as good {' and '.join(margins)}," if margins else ""
        perhaps = "" if is_sure else f"{'' if near else ','} if any is feasible,"
        return f"the best feasible arm{near}{perhaps} is one of these"
    what = "best feasible arm" if plan.top == 1 else f"{plan.top} best feasible arm"
    if len(arms) < plan.top:
        what, margins = "only feasible arm", ["within the slack"] if plan.slacks else []
    return f"the {what}{'' if len(arms) == 1 else 's'}{', ' if margins else ''}{' and '.join(margins)}"


def none_words(plan: Problem) -> str:
    """The answer that no arm is feasible. It says nothing of a baseline that is set aside."""
    return "no arm is feasible" if plan.set_aside is None else f"no arm compared with {plan.baseline} is feasible"


def _margins(plan: Problem) -> list[str]:
    tolerance = [f"within {exact(plan.objective.tolerance)}"] if plan.objective.tolerance else []
    return [*tolerance, "within the slack"] if plan.slacks else tolerance


def _or_as_good(plan: Plan) -> str:
    margins = _margins(plan)
    return f", or one that is as good {' and '.join(margins)}," if margins else ""


def _regret(plan: Plan, limit: float) -> str:
    """How good an arm is that can be this far below the best feasible arm."""
    if limit == 0.0:
        return "as good as the best"
    return f"at most {rounded_up(limit)} {'below' if plan.objective.goal == 'maximize' else 'above'} the best"


def known(
    plan: Plan,
    state: StudyState,
    leader: str | None,
    candidates: Sequence[str],
    feasible: Sequence[str],
    regret: float | None,
    *,
    is_void: bool = False,
) -> str:
    """What is certain now, in a sentence; nothing if nothing is. `is_void` says that the guarantee is.

    >>> import bestarm as ba
    >>> gain, price = ba.maximize("gain", noise=ba.Gaussian(1.0)), ba.at_most("price", 3, noise=ba.Gaussian(1.0))
    >>> plan = ba.Plan(arms=[f"prompt {k}" for k in range(1, 9)], objective=gain, constraints=[price])
    >>> known(plan, "budget_spent", "prompt 7", ["prompt 5", "prompt 6", "prompt 7"], ["prompt 7"], 0.321)
    'With 95% confidence the best is prompt 5, 6 or 7; prompt 7 is feasible and at most 0.33 below the best'
    >>> known(plan, "running", "prompt 7", ["prompt 5", "prompt 7"], [], None)
    'With 95% confidence, if any arm is feasible, the best is prompt 5 or 7'
    >>> plan = ba.Plan(arms=["a", "b", "c"], objective=ba.maximize("gain", noise=ba.Symmetric()))
    >>> known(plan, "running", "a", ["a", "b"], ["a", "b", "c"], 0.2).split("; ")[1]
    'a is at most 0.2 below the best (this has 95% confidence of its own, and 90% together with the rest)'
    """
    if is_void:
        return "Nothing is certain: the guarantee is void"
    sure = f"With {promised(plan.delta)} confidence"
    if state == "certified" and plan.asks in ("top", "any feasible"):
        are = "is" if len(candidates) == 1 else "are"
        return f"{sure} {all_names(candidates)} {are} {claim_words(plan, candidates, is_sure=True)}"
    if state == "certified" and plan.asks == "best":
        return f"{sure} {leader} is {good_words(plan.objective.tolerance, plan.slacks)}"
    if state == "no_feasible_arm":
        return f"{sure} {none_words(plan)}"
    facts = []
    if candidates and len(candidates) < plan.arms_asked_about:
        # Within the slack, an arm that is certified feasible may miss a threshold; so may every arm.
        is_any = not plan.constraints or (feasible and not plan.slacks)
        given = "" if is_any else ", if any arm is feasible,"
        few = len(candidates) <= MOST_NAMES
        which = listed(candidates, "or") if few else f"one of {len(candidates):,} arms"
        facts.append(f"{given} the best{_or_as_good(plan)} is {which}")
    elif not candidates:
        facts.append(f" {none_words(plan)}")
    if leader in feasible and (plan.constraints or regret is not None):
        words = [feasible_words(plan.slacks)] if plan.constraints else []
        words += [] if regret is None else [_regret(plan, regret)]
        # A claim that the policy cannot make together with the others, it makes alone.
        is_apart = regret is not None and facts and policy_for(plan, plan.policy).regret_is_apart(plan)
        both = f", and {promised(2 * plan.delta)} together with the rest" if plan.delta < 0.5 else ""
        own = f" (this has {promised(plan.delta)} confidence of its own{both})" if is_apart else ""
        facts.append(f" {leader} is {' and '.join(words)}{own}")
    others = [arm for arm in feasible if arm != leader] if plan.constraints else []
    if others:
        are = "is" if len(others) == 1 else "are"
        who = listed(others, "and") if len(others) <= MOST_NAMES else f"{len(others):,} arms"
        also = ", too" if leader in feasible else ""
        facts.append(f" {who} {are} {feasible_words(plan.slacks)}{also}")
    return f"{sure}{';'.join(facts)}" if facts else ""


def noise_in_words(part: Objective | Constraint, plan: Plan) -> str:
    """How single measurements of a metric are assumed to scatter; in a set of items, how the values of these do."""
    what = part.metric if not isinstance(part, Constraint) or part.per is None else part.formula
    return f"{what}: {_over_set(part.noise, plan).sentence()}"


def _over_set(noise: NoiseModel, plan: Plan) -> NoiseModel:
    """The noise of an item's values. For a set, a range is enough; without one, the values must look normal."""
    low, high = noise.range
    is_asked = plan.items is not None and not plan.repeats and not math.isfinite(high - low)
    return noise.of_set(count_of(plan.items)) if plan.items is not None and is_asked else noise


def _differences(plan: Plan) -> Iterator[str]:
    """What is assumed about differences on the same item, where that does not follow from the noise of the values."""
    if plan.items is None:
        return
    relative = [part for part in plan.constraints if part.relative_to_baseline]
    compared: list[Objective | Constraint] = [] if plan.asks == "any feasible" else [plan.objective]
    for part in [*compared, *relative]:
        noise = _over_set(part.noise.differences(), plan)
        if not noise.is_symmetric:
            continue
        apart = "an arm and its limit, a multiple of the baseline," if part in relative else "two arms"
        like = "like normal values" if not plan.repeats else "as far up as down around their mean"
        unseen = " A rare, long pause of one arm that was not seen is not covered." if plan.repeats else ""
        yield (
            f"{part.metric}: differences between {apart} on the same item scatter {like}. That does not follow from "
            "how each arm's values scatter: differences of values that are 0 or 1, or mostly the same, often do not. "
            f"Where there is a range, state it instead (bounded): then nothing is assumed of differences.{unseen}"
        )


def assumptions(plan: Plan) -> list[str]:
    """What has to hold for the guarantee to hold."""
    stays = "distribution" if any(part.noise.is_share for part in plan.constraints) else "mean"
    together = [all_names(metrics) for metrics in plan.yields.values() if len(metrics) > 1]
    found = ["Every measurement is fresh: what one shows does not depend on the others."]
    if plan.items is not None:
        found = ["What a test shows depends on its arm and its item, and not on the tests before it."]
    found += [
        f"One test yields {metrics}, which may depend on each other in any way; all its values were recorded, or none."
        for metrics in together
    ]
    if plan.items is not None:
        again = "An item that comes again was measured again, independently of the first time."
        found += [
            "Each test was made on the item that the study named, in an order drawn at random for this study. "
            f"{again if plan.repeats else 'No item was measured twice on an arm.'}",
            "Nothing about an arm depends on that order: none was improved on the items that come first in it.",
        ]
    found += [
        f"The {stays} of each metric of each arm stays the same for the whole study.",
        *dict.fromkeys(noise_in_words(part, plan) + "." for part in plan.parts),
        *dict.fromkeys(_differences(plan)),
        "Every result was recorded, whatever it was. Tests were given up, made again or handed to others only "
        "for reasons that have nothing to do with their results; a failure that may have to do with them was counted.",
    ]
    if plan.order != "issue":
        found.append(
            "How long a test takes has nothing to do with its result: results count in the order in which they "
            "arrive, as the plan declares."
        )
    return [*found, "The answer is about these arms and metrics, as they were measured, and about no others."]


def about_intervals(plan: Plan, *, brief: bool = False) -> str:
    """What the intervals are, for the report; with `brief`, for the small print below a chart."""
    note = find_policy(plan.policy).note_on_intervals(plan, brief=brief)
    if not any(part.noise.is_share for part in plan.constraints):
        return note
    return f"{note} That of a quantile has every value for which the share of results beyond it may still be the limit."


def about_tests(problem: Problem) -> list[str]:
    """Sentences on what one test yields and what it is made on; none if each metric is measured on its own.

    >>> import bestarm as ba
    >>> time, memory = ba.minimize("time", noise=ba.Bounded(0, 9)), ba.at_most("memory", 5, noise=ba.Bounded(0, 9))
    >>> together = ba.measurement("time", "memory")
    >>> about_tests(ba.Problem(["a", "b"], time, [memory], measurements=[together]))
    ['One test yields time and memory together, all or none.']
    """
    together = [listed(metrics) for metrics in problem.yields.values() if len(metrics) > 1]
    alone = [metrics[0] for metrics in problem.yields.values() if len(metrics) == 1]
    sentences = [f"One test yields {metrics} together, all or none." for metrics in together]
    if together and alone:
        sentences.append(f"Measured alone: {listed(alone)}.")
    if problem.items is not None and problem.repeats:
        sentences.append(
            f"Each measurement is made on one of {_number_of_items(problem.items)}, drawn at random again and again, "
            "in the same order for every arm; the question is about the mean over all items and over the scatter of "
            "each."
        )
    elif problem.items is not None:
        sentences.append(
            f"Each arm is measured on the same {_number_of_items(problem.items)}, in the same random order; the "
            "question is about the mean over these items."
        )
    return sentences


def _number_of_items(items: int | tuple[str, ...]) -> str:
    return "1 item" if count_of(items) == 1 else f"{count_of(items):,} items"


def difference(there: Plan, here: Plan) -> str:
    """The first thing in which two plans differ.

    >>> import bestarm as ba
    >>> one = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    >>> difference(one, ba.Plan.of(one, delta=0.1))
    'delta is 0.05 there and 0.1 here'
    """
    return _difference(there.to_data(), here.to_data(), "") or "in something that files do not show"


def _difference(there: Any, here: Any, path: str) -> str:
    if there == here:
        return ""
    if isinstance(there, dict) and isinstance(here, dict):
        pairs = [(there.get(key), here.get(key), f"{path}.{key}" if path else key) for key in {**there, **here}]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(old, new, f"{path}[{k}]") for k, (old, new) in enumerate(zip(there, here, strict=True))]
    elif isinstance(there, list) and isinstance(here, list):
        return f"{path} are {len(there):,} there and {len(here):,} here"
    else:
        return f"{path} is {_short(there)} there and {_short(here)} here"
    return next(filter(None, (_difference(*pair) for pair in pairs)), "")


def _short(value: Any) -> str:
    text = "not given" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
