"""A study in plain words: what it asks, what its answer means, what that rests on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bestarm.analysis.standing.terms import is_free, statistic, subject, wanted
from bestarm.analysis.status.blocks import on_blocks, what_stays
from bestarm.analysis.status.claims import claim_words, known_of_each, margins_of, none_words, rejected
from bestarm.analysis.status.status import Status, StudyState
from bestarm.analysis.status.tests_made import judged_by, number_of_items
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
from bestarm.problem import Constraint, Objective, Plan
from bestarm.problem.goals import ignores_performance
from bestarm.problem.items import count_of
from bestarm.texts import Noun, listed
from bestarm.validation import exact


def question(plan: Plan) -> str:
    """What the study asks."""
    goal = "largest" if plan.objective.goal == "maximize" else "smallest"
    sides = [f"{subject(c.title, statistic(c))} {wanted(c)}" for c in plan.constraints]
    such = f" among those with {' and '.join(sides)}" if sides else ""
    against = f" against {plan.baseline}" if 0 in plan.duels else ""
    mean = "" if plan.objective.noise.is_exact else f"{statistic(plan.objective)} {'of ' if against else ''}"
    over = f"{_over_items(plan)}{f', where the baseline is {plan.baseline}' if plan.relative else ''}"
    aim = f"the {goal} {mean}{plan.objective.metric}{against}{such}{over}"
    arms = plan.noun.counted(plan.arms_asked_about)
    match plan.asks:
        case "any feasible" if plan.set_aside is not None and plan.arms_asked_about == 1:
            return f"Does {plan.arm_names[1 - plan.set_aside]} have {' and '.join(sides)}{over}?"
        case "every feasible" if plan.arms_asked_about == 1:
            [only] = [name for k, name in enumerate(plan.arm_names) if k != plan.set_aside]
            return f"Does {only} have {' and '.join(sides)}{over}?"
        case "every feasible":
            return f"Which of {arms} have {' and '.join(sides)}{over}?"
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
    if plan.blocks is not None:
        return f", on average over all {Noun.of(plan.blocks.name).many} like these"
    number = number_of_items(plan.items)
    if plan.repeats:
        return f", on average over {number} drawn again and again, and over how each varies"
    return f", on average over these {number}"


def guarantee(plan: Plan, answer: Answer | None, status: Status | None = None) -> str:
    """What the answer is worth. With the `status`, also what is certain while there is none."""
    now = answer or status
    if now is not None and now.guarantee == "void":
        return (
            "The results contradict what the guarantee rests on. Nothing is known about how often such an answer is "
            f"wrong. What is said below of each {plan.noun.one} (intervals, verdicts, reasons) is not guaranteed "
            "either."
        )
    if answer is None:
        known = "" if status is None else certain(plan, status)
        return (
            "The study is still running: no answer is certified yet. When it stops with an answer, that answer is "
            f"wrong with probability at most {100 * plan.delta:g}%, if what the guarantee rests on is true.{known}"
        )
    if answer.state == "budget_spent":
        spent = "The budget was spent before the evidence sufficed for an answer."
        return f"{spent} {_not_certain(plan)}{certain(plan, answer)}"
    allowed = _allowed(plan)
    if answer.state == "no_feasible_arm":
        every = f"every {plan.noun.one}"
        every = every if plan.set_aside is None else f"{every} that is compared with {plan.baseline}"
        return f"{allowed}: with that reservation, {every} violates at least one constraint."
    if plan.asks != "best":
        return f"{allowed}: with that reservation, {_set_guarantee(plan, answer)}."
    by = f" by more than {exact(plan.objective.tolerance)}" if plan.objective.tolerance else ""
    meets = f"{answer.arm} meets every constraint{_nearly(plan)}"
    if not plan.constraints:
        return f"{allowed}: with that reservation, no {plan.noun.one} is better than {answer.arm}{by}."
    return f"{allowed}: with that reservation, {meets}, and no feasible {plan.noun.one} is better{by}."


def _not_certain(plan: Plan) -> str:
    if plan.asks == "every feasible":
        return f"Of the {plan.noun.many} that are undecided, nothing is certain."
    return f"That the {plan.noun.one} in the lead is the best feasible one is not certain."


def _set_guarantee(plan: Plan, answer: Answer) -> str:
    """What is certain about an answer with another goal than the best arm."""
    arms, margin = listed(answer.arms), plan.objective.tolerance
    if plan.asks == "short list":
        within = f" within {exact(margin)}" if margin else ""
        as_good = f", or one as good{within}{_nearly(plan)}," if margin or plan.slacks else ""
        return f"if any {plan.noun.one} is feasible, the best one{as_good} is {listed(answer.arms, 'or')}"
    meets = f"{arms} {'meets' if len(answer.arms) == 1 else 'meet'} every constraint{_nearly(plan)}"
    if plan.asks == "any feasible":
        return f"{meets}; nothing is said of which {plan.noun.one} is best"
    if plan.asks == "every feasible" and len(answer.arms) == plan.arms_asked_about:
        return meets
    if plan.asks == "every feasible" or len(answer.arms) < plan.top:
        return f"{meets}, and no other {plan.noun.one} does"
    by = f" by more than {exact(margin)}" if margin else ""
    if plan.top == 1:
        return f"{meets}, and no feasible {plan.noun.one} is better{by}"
    return f"{meets}, and none of them is worse{by} than number {plan.top} of the feasible {plan.noun.many}"


def _allowed(plan: Plan) -> str:
    errs = f"the procedure errs in at most {100 * plan.delta:g}% of studies like this one"
    return f"If what the guarantee rests on is true, {errs}"


def _nearly(plan: Plan) -> str:
    return " (within the stated slack)" if plan.slacks else ""


def certain(plan: Plan, now: Answer | Status) -> str:
    """A sentence, or nothing, on what is certain before there is an answer: which arms are left, which are feasible,
    how far the leader can be from the best."""
    facts = []
    if plan.asks == "every feasible":
        if infeasible := rejected(plan, now.candidates):
            violates = "violates" if len(infeasible) == 1 else "violate"
            facts.append(f"{all_names(infeasible)} {violates} at least one constraint")
    elif now.candidates and len(now.candidates) < plan.arms_asked_about:
        out, every = plan.arms_asked_about - len(now.candidates), plan.arms_asked_about
        facts.append(
            f"if any {plan.noun.one} is feasible, the best one{_or_as_good(plan)} is among "
            f"{all_names(now.candidates)} ({out:,} of {plan.noun.counted(every)} {'is' if out == 1 else 'are'} "
            "excluded)"
        )
    if now.feasible and plan.constraints:
        meets = "meets" if len(now.feasible) == 1 else "meet"
        facts.append(f"{all_names(now.feasible)} {meets} every constraint{_nearly(plan)}")
    if now.regret_at_most is not None:
        leader = now.arm if isinstance(now, Answer) else now.leader
        facts.append(f"{leader} is {_regret(plan, now.regret_at_most)}")
    return f" {_allowed(plan)}: with that reservation, {'; and '.join(facts)}." if facts else ""


def _or_as_good(plan: Plan) -> str:
    margins = margins_of(plan)
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
    out: Mapping[str, str] | None = None,
) -> str:
    """What is certain now, in a sentence; nothing if nothing is. `is_void` says that the guarantee is, and `out`, which
    arms cannot be the answer, and why: they are named as long as they are few.

    >>> import bestarm as ba
    >>> gain, price = ba.maximize("gain", noise=ba.Gaussian(1.0)), ba.at_most("price", 3, noise=ba.Gaussian(1.0))
    >>> plan = ba.Plan(arms=[f"prompt {k}" for k in range(1, 9)], objective=gain, constraints=[price])
    >>> known(plan, "budget_spent", "prompt 7", ["prompt 5", "prompt 6", "prompt 7"], ["prompt 7"], 0.321)
    'With 95% confidence the best is prompt 5, 6 or 7; prompt 7 is feasible and at most 0.33 below the best'
    >>> known(plan, "running", "prompt 7", ["prompt 5", "prompt 7"], [], None)
    'With 95% confidence, if any arm is feasible, the best is prompt 5 or 7'
    >>> known(plan, "running", "prompt 7", plan.arm_names[1:], [], None, out={"prompt 1": "price too high"})
    'With 95% confidence prompt 1 is out: price too high'
    >>> plan = ba.Plan(arms=["a", "b", "c"], objective=ba.maximize("gain", noise=ba.Symmetric()))
    >>> known(plan, "running", "a", ["a", "b"], ["a", "b", "c"], 0.2).split("; ")[1]
    'a is at most 0.2 below the best (this has 95% confidence of its own, and 90% together with the rest)'
    """
    if is_void:
        return "Nothing is certain: the guarantee is void"
    sure = f"With {promised(plan.delta)} confidence"
    if state == "certified" and plan.asks in ("top", "any feasible", "every feasible"):
        are = "is" if len(candidates) == 1 else "are"
        return f"{sure} {all_names(candidates)} {are} {claim_words(plan, candidates, is_sure=True)}"
    if state == "certified" and plan.asks == "best":
        return f"{sure} {leader} is {good_words(plan.objective.tolerance, plan.slacks)}"
    if state == "no_feasible_arm":
        return f"{sure} {none_words(plan)}"
    if plan.asks == "every feasible":
        each = known_of_each(plan, candidates, feasible)
        return f"{sure} {each}" if each else ""
    facts = []
    if candidates and out and len(out) < len(candidates):
        facts.append(f" {'; '.join(out_words(out))}")
    elif candidates and len(candidates) < plan.arms_asked_about:
        # Within the slack, an arm that is certified feasible may miss a threshold; so may every arm.
        is_any = not plan.constraints or (feasible and not plan.slacks)
        given = "" if is_any else f", if any {plan.noun.one} is feasible,"
        few = len(candidates) <= MOST_NAMES
        which = listed(candidates, "or") if few else f"one of {plan.noun.counted(len(candidates))}"
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
        who = listed(others, "and") if len(others) <= MOST_NAMES else plan.noun.counted(len(others))
        also = ", too" if leader in feasible else ""
        facts.append(f" {who} {are} {feasible_words(plan.slacks)}{also}")
    return f"{sure}{';'.join(facts)}" if facts else ""


def out_words(out: Mapping[str, str]) -> list[str]:
    """Which arms are out, and why; those with the same reason together.

    >>> out_words({"F5": "toxicity too high", "F7": "worse than F4", "F8": "toxicity too high"})
    ['F5 and F8 are out: toxicity too high', 'F7 is out: worse than F4']
    """
    same: dict[str, list[str]] = {}
    for name, why in out.items():
        same.setdefault(why, []).append(name)
    return [f"{listed(names)} {'is' if len(names) == 1 else 'are'} out: {why}" for why, names in same.items()]


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
    same = "on the same item" if plan.blocks is None else f"in the same {plan.blocks.name}"
    relative = [part for part in plan.constraints if part.relative_to_baseline]
    noun = plan.noun
    compared: list[Objective | Constraint] = [] if ignores_performance(plan.asks) else [plan.objective]
    for part in [*compared, *relative]:
        noise = _over_set(plan.noise_between(part.noise), plan)
        if not noise.is_symmetric or noise.stated_scatter is not None:
            continue
        apart = f"{noun.a} and its limit, a multiple of the baseline," if part in relative else f"two {noun.many}"
        like = "like normal values" if not plan.repeats else "as far up as down around their mean"
        is_race = plan.repeats and plan.blocks is None
        unseen = f" A rare, long pause of one {noun.one} that was not seen is not covered." if is_race else ""
        yield (
            f"{part.metric}: differences between {apart} {same} scatter {like}. That does not follow from "
            f"how each {noun.one}'s values scatter: differences of values that are 0 or 1, or mostly the same, "
            "often do not. Where there is a range, state it instead (bounded): then nothing is assumed of "
            f"differences.{unseen}"
        )


def assumptions(plan: Plan) -> list[str]:
    """What has to hold for the guarantee to hold."""
    stays = "distribution" if any(part.noise.is_share for part in plan.constraints) else "mean"
    together = [all_names(metrics) for metrics in plan.yields.values() if len(metrics) > 1]
    arm = plan.noun.one
    found = ["Every measurement is fresh: what one shows does not depend on the others."]
    if plan.items is not None:
        on = plan.item_word
        found = [f"What a test shows depends on its {arm} and its {on}, and not on the tests before it."]
    found += [
        f"One test gives {metrics}, which may depend on each other in any way; all its values were recorded, or none."
        for metrics in together
    ]
    if plan.blocks is not None:
        found.append(on_blocks(plan.blocks, plan.noun))
    elif plan.items is not None:
        again = "An item that comes again was measured again, independently of the first time."
        found += [
            "Each test was made on the item that the study named, in an order drawn at random for this study. "
            f"{again if plan.repeats else f'No item was measured twice on {plan.noun.a}.'}",
            f"Nothing about {plan.noun.a} depends on that order: none was improved on the items that come first in it.",
        ]
    found += [
        f"Every score of {judge} was made before the first result of {metrics}, and the order of the items did not "
        "change it. Nothing is assumed of how right the scores are."
        for judge, metrics in judged_by(plan)
    ]
    found += what_stays(plan, stays)
    found += [
        *dict.fromkeys(noise_in_words(part, plan) + "." for part in plan.parts if not is_free(plan, part)),
        *dict.fromkeys(_differences(plan)),
        "Every result was recorded, whatever it was. Tests were given up, made again or handed to others only "
        "for reasons that have nothing to do with their results; a failure that may have to do with them was counted.",
    ]
    if plan.order != "issue":
        found.append(
            "How long a test takes has nothing to do with its result: results count in the order in which they "
            "arrive, as the plan declares."
        )
    return [
        *found,
        f"The answer is about these {plan.noun.many} and metrics, as they were measured, and about no others.",
    ]


def about_intervals(plan: Plan, *, brief: bool = False) -> str:
    """What the intervals are, for the report; with `brief`, for the small print below a chart."""
    note = find_policy(plan.policy).note_on_intervals(plan, brief=brief)
    if is_free(plan, plan.objective):
        alone = f"The mean {plan.objective.metric} of one {plan.noun.one} has none"
        note = f"{note} {alone}: nothing is assumed of how its own values scatter, only of how differences do."
    if not any(part.noise.is_share for part in plan.constraints):
        return note
    return f"{note} That of a quantile has every value for which the share of results beyond it may still be the limit."


_MOST_NAMED = 5


def differences(there: Plan, here: Plan) -> str:
    """How two plans differ.

    >>> import bestarm as ba
    >>> one = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    >>> differences(one, ba.Plan.of(one, delta=0.1, name="b"))
    "name is 'study' there and 'b' here; delta is 0.05 there and 0.1 here"
    """
    found = [*_differing(there.to_data(), here.to_data(), "")]
    more = [f"{len(found) - _MOST_NAMED:,} more"] if len(found) > _MOST_NAMED else []
    return "; ".join([*found[:_MOST_NAMED], *more]) or "in something that files do not show"


def _differing(there: Any, here: Any, path: str) -> Iterator[str]:
    if there == here:
        return
    if isinstance(there, dict) and isinstance(here, dict):
        pairs = [(there.get(key), here.get(key), f"{path}.{key}" if path else key) for key in {**there, **here}]
    elif isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = [(old, new, f"{path}[{k}]") for k, (old, new) in enumerate(zip(there, here, strict=True))]
    elif isinstance(there, list) and isinstance(here, list):
        yield f"{path} are {len(there):,} there and {len(here):,} here"
        return
    else:
        yield f"{path} is {_short(there)} there and {_short(here)} here"
        return
    for pair in pairs:
        yield from _differing(*pair)


def _short(value: Any) -> str:
    text = "not given" if value is None else repr(value)
    return text if len(text) <= 80 else f"{text[:80]}…"
