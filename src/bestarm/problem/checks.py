"""Checks whether what a problem states goes together. Each raises `InvalidInput` that says what does not."""

from __future__ import annotations

from collections.abc import Collection

from bestarm.noises.shapes import shape_of
from bestarm.problem.goals import GOALS
from bestarm.problem.items import MOST_ITEMS, MOST_REPEATED, count_of
from bestarm.problem.parts import Constraint
from bestarm.problem.question import Question
from bestarm.validation import InvalidInput, exact

_NO_ITEMS = "can only be stated of items; state items, how many or their names"


def unknown(field: str, given: object, kind: str, known: Collection[str]) -> InvalidInput:
    return InvalidInput(field, given, f"no such {kind}; the {kind}s are {', '.join(map(repr, known))}", known)


def check_question(problem: Question) -> None:
    if not problem.arms:
        raise InvalidInput("arms", [], "a problem needs at least one arm")
    seen: set[str] = set()
    for index, arm in enumerate(problem.arms):
        field = f"arms[{index}].name"
        if arm.name == "none":
            raise InvalidInput(field, "none", "this name is kept for the answer that no arm is feasible")
        if arm.name in seen:
            raise InvalidInput(field, arm.name, "another arm has this name already")
        seen.add(arm.name)
    for index, label in enumerate(problem.metrics):
        if label in problem.metrics[:index]:
            reason = f"another constraint says the same already: {label}"
            raise InvalidInput(f"constraints[{index - 1}].metric", problem.parts[index].title, reason)
    _check_baseline(problem)
    _check_measurements(problem)
    _check_items(problem)
    _check_goal(problem)
    _check_means(problem)
    _check_spreads(problem)


def _check_baseline(problem: Question) -> None:
    if problem.baseline is not None and problem.baseline not in problem.arm_names:
        raise unknown("baseline", problem.baseline, "arm", problem.arm_names)
    for k, part in enumerate(problem.constraints):
        if part.relative_to_baseline and problem.baseline is None:
            reason = "needs a baseline; name one of the arms as the problem's baseline"
            raise InvalidInput(f"constraints[{k}].relative_to_baseline", True, reason)
        if part.relative_to_baseline and not part.noise.compares_with_baseline:
            reason = f"{part.noise.name} noise cannot be compared with a multiple of another arm's"
            raise InvalidInput(f"constraints[{k}].noise", part.noise, reason)


def _check_measurements(problem: Question) -> None:
    costs: dict[str, float] = {}
    for part in problem.parts:
        for metric in part.measures:
            if costs.setdefault(metric, part.cost) != part.cost:
                reason = f"of {metric!r}: the same metric costs {exact(costs[metric])} elsewhere"
                raise InvalidInput("cost", part.cost, reason)
    stated: dict[str, int] = {}
    for place, group in enumerate(problem.measurements):
        for k, metric in enumerate(group.metrics):
            field = f"measurements[{place}].metrics[{k}]"
            if metric not in problem.measured:
                raise unknown(field, metric, "metric", problem.measured)
            if metric in stated:
                raise InvalidInput(field, metric, f"is in measurements[{stated[metric]}] already; a metric is in one")
            stated[metric] = place
            if costs[metric] != 1.0:
                reason = (
                    f"cannot be stated, because it is measured with {group.name!r}; state the cost of that "
                    f"measurement instead, measurements[{place}].cost"
                )
                sentence = f"cost = {costs[metric]!r} of {metric!r} {reason}"
                raise InvalidInput("cost", costs[metric], f"of {metric!r}: {reason}", sentence=sentence)
    for part in problem.constraints:
        if part.per is not None and stated.get(part.metric) != stated.get(part.per):
            there, missing = (part.metric, part.per) if part.metric in stated else (part.per, part.metric)
            raise InvalidInput(
                f"measurements[{stated[there]}].metrics",
                [*problem.measurements[stated[there]].metrics],
                f"must have {missing!r} beside {there!r}: their ratio is limited, so one test yields both",
            )


def _check_items(problem: Question) -> None:
    if problem.items is None and problem.repeats:
        raise InvalidInput("repeats", problem.repeats, _NO_ITEMS)
    count, most = count_of(problem.items or 0), MOST_REPEATED if problem.repeats else MOST_ITEMS
    if count > most:
        advice = "" if problem.repeats else "; with repeats = true there can be more"
        raise InvalidInput("items", count, f"there can be at most {most:,}{advice}")
    for metric, spread in (problem.item_spreads or {}).items():
        field = f"item_spreads[{metric!r}]"
        if metric not in problem.metrics:
            raise unknown(field, spread, "metric", problem.metrics)
        if problem.items is None:
            raise InvalidInput(field, spread, _NO_ITEMS)
    for part in () if problem.items is None else problem.parts:
        if reason := part.noise.refuses_items(repeats=problem.repeats):
            raise InvalidInput("items", count, f"{part.title}: {reason}")


def _check_goal(problem: Question) -> None:
    goal, top, arms = problem.goal, problem.top, len(problem.arms)
    if goal == "any feasible" and top != 1:
        raise InvalidInput("top", top, "has no meaning with the goal 'any feasible', which asks for one arm")
    if goal == "any feasible" and not problem.constraints:
        raise InvalidInput("goal", goal, "needs a constraint: without one every arm is feasible", GOALS)
    if problem.set_aside is not None and arms == 1:
        reason = "is the only arm; the goal 'any feasible' asks for one that is compared with it"
        raise InvalidInput("baseline", problem.baseline, reason)
    if top > arms:
        raise InvalidInput("top", top, f"there are only {arms} arms")
    if goal == "best" and top == arms > 1:
        raise InvalidInput("top", top, f"a short list of all {arms} arms would say nothing; it must be shorter")


def _check_means(problem: Question) -> None:
    parts = dict(zip(problem.metrics, problem.parts, strict=True))
    for index, arm in enumerate(problem.arms):
        for metric, mean in (arm.means or {}).items():
            field = f"arms[{index}].means[{metric!r}]"
            ends = mean if isinstance(mean, tuple) else (mean, mean)
            if metric not in parts:
                # It counts only as part of a ratio.
                if metric not in problem.measured:
                    raise unknown(field, mean, "metric", dict.fromkeys((*problem.metrics, *problem.measured)))
                if metric in problem.denominators and not ends[0] > 0.0:
                    raise InvalidInput(field, mean, "must be positive: another metric is divided by it")
                continue
            part = parts[metric]
            if metric != part.metric and not part.is_derived:
                raise InvalidInput(field, mean, f"is the mean of {part.metric!r}; state it there")
            low, high = part.noise.range
            if not low <= ends[0] <= ends[1] <= high:
                what = "the range of its values"
                if isinstance(part, Constraint) and part.noise.is_share:
                    beyond = "above" if part.at_least is None else "below"
                    what = f"for it is the share of results {beyond} {exact(part.threshold)}, as of every quantile"
                raise InvalidInput(field, mean, f"must lie between {exact(low)} and {exact(high)}, {what}")


def _check_spreads(problem: Question) -> None:
    parts = dict(zip(problem.metrics, problem.parts, strict=True))
    for index, arm in enumerate(problem.arms):
        for metric, spread in (arm.spreads or {}).items():
            field = f"arms[{index}].spreads[{metric!r}]"
            if metric not in parts:
                raise unknown(field, spread, "metric", parts)
            noise = parts[metric].noise
            if not noise.takes_spread:
                raise InvalidInput(field, spread, f"cannot be stated: {metric} {noise.sentence()}")
            mean = (arm.means or {}).get(metric)
            for end in () if mean is None else mean if isinstance(mean, tuple) else (mean,):
                try:
                    shape_of(spread, end, noise.range, 1.0, 0.0)
                except ValueError as error:
                    raise InvalidInput(field, spread, str(error)) from None
