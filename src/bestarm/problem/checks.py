"""Checks whether what a problem states goes together."""

from __future__ import annotations

from collections.abc import Collection

from bestarm.noises.shapes import shape_of
from bestarm.problem.goals import check_goal
from bestarm.problem.items import check_items, count_of
from bestarm.problem.measurements import check_measurements, check_ratios
from bestarm.problem.parts import Constraint
from bestarm.problem.question import Question
from bestarm.validation import InvalidInput, exact


def check_question(problem: Question) -> None:
    """Raise `InvalidInput` unless everything that a problem states goes together."""
    if not problem.arms:
        raise InvalidInput("arms", [], "a problem needs at least one arm")
    seen: set[str] = set()
    for index, arm in enumerate(problem.arms):
        if arm.name == "none":
            raise InvalidInput(
                f"arms[{index}].name", "none", "this name is kept for the answer that no arm is feasible"
            )
        if arm.name in seen:
            raise InvalidInput(f"arms[{index}].name", arm.name, "another arm has this name already")
        seen.add(arm.name)
    for index, label in enumerate(problem.metrics):
        if label in problem.metrics[:index]:
            raise InvalidInput(
                f"constraints[{index - 1}].metric",
                problem.parts[index].title,
                f"another constraint says the same already: {label}",
            )
    costs: dict[str, float] = {}
    for part in problem.parts:
        for metric in part.measures:
            if costs.setdefault(metric, part.cost) != part.cost:
                reason = f"of {metric!r}: the same metric costs {exact(costs[metric])} elsewhere"
                raise InvalidInput("cost", part.cost, reason)
    _check_baseline(problem)
    check_measurements(problem.measurements, problem.measured, costs)
    check_ratios(problem.measurements, [(c.metric, c.per) for c in problem.constraints if c.per is not None])
    check_items(problem.items, problem.repeats)
    _check_items(problem)
    check_goal(problem.goal, problem.top, len(problem.arms), len(problem.constraints))
    _check_means(problem)
    _check_spreads(problem)


def _check_baseline(problem: Question) -> None:
    if problem.baseline is not None:
        if problem.baseline not in problem.arm_names:
            raise _unknown("baseline", problem.baseline, "arm", problem.arm_names)
    elif relative := [k for k, part in enumerate(problem.constraints) if part.relative_to_baseline]:
        reason = "needs a baseline; name one of the arms as the problem's baseline"
        raise InvalidInput(f"constraints[{relative[0]}].relative_to_baseline", True, reason)
    for k, part in enumerate(problem.constraints):
        if part.relative_to_baseline and not part.noise.compares_with_baseline:
            reason = f"{part.noise.name} noise cannot be compared with so many times another arm's"
            raise InvalidInput(f"constraints[{k}].noise", part.noise, reason)


def _check_items(problem: Question) -> None:
    for metric, spread in (problem.item_spreads or {}).items():
        field = f"item_spreads[{metric!r}]"
        if metric not in problem.metrics:
            raise _unknown(field, spread, "metric", problem.metrics)
        if problem.items is None:
            raise InvalidInput(field, spread, "can only be stated of items; state items, how many or their names")
    if problem.items is None:
        return
    for part in problem.parts:
        if reason := part.noise.refuses_items(repeats=problem.repeats):
            raise InvalidInput("items", count_of(problem.items), f"{part.title}: {reason}")


def _check_spreads(problem: Question) -> None:
    parts = dict(zip(problem.metrics, problem.parts, strict=True))
    for index, arm in enumerate(problem.arms):
        for metric, spread in (arm.spreads or {}).items():
            field = f"arms[{index}].spreads[{metric!r}]"
            if metric not in parts:
                raise _unknown(field, spread, "metric", parts)
            noise = parts[metric].noise
            if not noise.takes_spread:
                raise InvalidInput(field, spread, f"cannot be stated: {metric} {noise.sentence()}")
            mean = (arm.means or {}).get(metric)
            for end in () if mean is None else mean if isinstance(mean, tuple) else (mean,):
                try:
                    shape_of(spread, end, noise.range, 1.0, 0.0)
                except ValueError as error:
                    raise InvalidInput(field, spread, str(error)) from None


def _check_means(problem: Question) -> None:
    parts = dict(zip(problem.metrics, problem.parts, strict=True))
    for index, arm in enumerate(problem.arms):
        for metric, mean in (arm.means or {}).items():
            field = f"arms[{index}].means[{metric!r}]"
            ends = mean if isinstance(mean, tuple) else (mean, mean)
            if metric not in parts:
                _check_ratio_mean(problem, field, metric, mean, ends[0])
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


def _check_ratio_mean(problem: Question, field: str, metric: str, mean: object, least: float) -> None:
    """Check a mean of a metric that counts only as part of a ratio."""
    if metric not in problem.measured:
        raise _unknown(field, mean, "metric", tuple(dict.fromkeys((*problem.metrics, *problem.measured))))
    if metric in problem.denominators and not least > 0.0:
        raise InvalidInput(field, mean, "must be positive: another metric is divided by it")


def _unknown(field: str, given: object, kind: str, known: Collection[str]) -> InvalidInput:
    return InvalidInput(field, given, f"no such {kind}; the {kind}s are {', '.join(map(repr, known))}", known)
