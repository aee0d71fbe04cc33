"""Checks whether what a problem states goes together. Each raises `InvalidInput` that says what does not."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from bestarm.errors import Complaint
from bestarm.noises.shapes import shape_of
from bestarm.problem.duels import check_duels
from bestarm.problem.goals import GOALS, ignores_performance
from bestarm.problem.items import MOST_ITEMS, MOST_REPEATED, count_of
from bestarm.problem.measurements import name_of
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.question import Question
from bestarm.problem.slice_checks import check_means, check_slices
from bestarm.problem.stating import maximize, minimize
from bestarm.texts import Noun
from bestarm.validation import UNSTATED, InvalidInput, exact

_NO_ITEMS = "can only be stated of items; state items, how many or their names"
_NO_BLOCKS = "can only be stated of blocks; state blocks, their name and size"


_METRIC = Noun("metric", "metrics")


def unknown(field: str, given: object, kind: Noun, known: Collection[str]) -> InvalidInput:
    return InvalidInput(field, given, f"no such {kind.one}; the {kind.many} are {', '.join(map(repr, known))}", known)


def objective_of(problem: Question) -> Objective:
    """The objective of a problem that states none: the metric of the first constraint that is about a mean."""
    if not ignores_performance(problem.goal):
        reason = "is missing; only the goals 'any feasible' and 'every feasible' do without"
        raise InvalidInput("objective", UNSTATED, reason, sentence=f"objective {reason}")
    for part in problem.constraints:
        if part.per is None and not part.noise.is_share:
            made = minimize if part.at_least is None else maximize
            return made(part.metric, noise=part.noise, cost=part.cost, judge=part.judge)
    _check_goal(problem)
    reason = "is missing; it can only be left out where a constraint is about a mean, and not a quantile or a ratio"
    raise InvalidInput("objective", UNSTATED, reason, sentence=f"objective {reason}")


def check_question(problem: Question) -> None:
    """Raises `InvalidInput` with all that does not go together."""
    # The others look up what is in a slice.
    check_slices(problem)
    wrong: list[Complaint] = []
    checks = (
        _check_names,
        _check_baseline,
        _check_measurements,
        _check_items,
        _check_judges,
        _check_costs_of_arms,
        _check_blocks,
        _check_goal,
        _check_truth,
        _check_units,
    )
    for check in checks:
        try:
            check(problem)
        except InvalidInput as error:
            wrong += error.complaints
    if wrong:
        raise InvalidInput.of(wrong, "; ".join(complaint.sentence for complaint in wrong))


def check_limits(problem: Question) -> None:
    """Raises `InvalidInput` if a limit says what another says, or if no mean or quantile can meet both. Only new
    studies are asked: there are older ones with such limits."""
    for index, part in enumerate(problem.constraints):
        for other in problem.constraints[:index]:
            if _subject(part) != _subject(other):
                continue
            field = f"constraints[{index}].{part.side}"
            if (part.side, part.bound) == (other.side, other.bound):
                raise InvalidInput(field, part.threshold, f"another constraint says the same already: {other.label}")
            if part.relative_to_baseline or part.side == other.side:
                continue
            least, most = (part, other) if part.side == "at_least" else (other, part)
            if least.threshold > most.threshold:
                reason = f"contradicts another constraint, {other.label}: no {problem.noun.one} can meet both"
                raise InvalidInput(field, part.threshold, reason)


def _subject(part: Constraint) -> tuple[object, ...]:
    """What a constraint limits."""
    where = frozenset((part.where or {}).items())
    return part.metric, part.per, part.relative_to_baseline, where, part.noise if part.noise.is_share else None


def _check_units(problem: Question) -> None:
    """A metric has one unit, and a heading of its own."""
    for index, part in enumerate(problem.constraints):
        if part.unit is not None and part.unit != problem.units[part.metric]:
            reason = f"must be the same wherever {part.metric!r} is stated; it is {problem.units[part.metric]!r}, too"
            raise InvalidInput(f"constraints[{index}].unit", part.unit, reason)
    if problem.objective.unit not in (None, problem.units.get(problem.objective.metric)):
        reason = f"must be the same wherever {problem.objective.metric!r} is stated"
        raise InvalidInput("objective.unit", problem.objective.unit, reason)
    seen: set[str] = set()
    for metric, heading in problem.headings.items():
        if heading in seen or (heading != metric and heading in problem.headings):
            raise InvalidInput("unit", problem.units.get(metric), f"makes two columns called {heading!r}")
        seen.add(heading)


def _check_names(problem: Question) -> None:
    seen: set[str] = set()
    for index, arm in enumerate(problem.arms):
        field = f"arms[{index}].name"
        if arm.name == "none":
            raise InvalidInput(
                field, "none", f"this name is kept for the answer that no {problem.noun.one} is feasible"
            )
        if arm.name in seen:
            raise InvalidInput(field, arm.name, f"another {problem.noun.one} has this name already")
        seen.add(arm.name)
    for index, label in enumerate(problem.metrics):
        if label in problem.metrics[:index]:
            reason = f"another constraint says the same already: {label}"
            raise InvalidInput(f"constraints[{index - 1}].metric", problem.parts[index].title, reason)


def _check_baseline(problem: Question) -> None:
    check_duels(problem)
    # What duels are fought against need not be measured itself.
    is_measured = problem.relative or not problem.duels
    if is_measured and problem.baseline is not None and problem.baseline not in problem.arm_names:
        raise unknown("baseline", problem.baseline, problem.noun, problem.arm_names)
    for k, part in enumerate(problem.constraints):
        if part.relative_to_baseline and problem.baseline is None:
            reason = f"needs a baseline; name one of the {problem.noun.many} as the problem's baseline"
            raise InvalidInput(f"constraints[{k}].relative_to_baseline", True, reason)
        if part.relative_to_baseline and not part.noise.compares_with_baseline:
            reason = f"{part.noise.name} noise cannot be compared with a multiple of another {problem.noun.one}'s"
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
                raise unknown(field, metric, _METRIC, problem.measured)
            if metric in stated:
                raise InvalidInput(field, metric, f"is in measurements[{stated[metric]}] already; a metric is in one")
            stated[metric] = place
            if costs.get(metric, 1.0) != 1.0:
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


def _check_costs_of_arms(problem: Question) -> None:
    for index, arm in enumerate(problem.arms):
        for metric, times in (arm.cost if isinstance(arm.cost, Mapping) else {}).items():
            field = f"arms[{index}].cost[{metric!r}]"
            if metric not in problem.measured:
                raise unknown(field, times, _METRIC, problem.measured)
            together = next(metrics for metrics in problem.yields.values() if metric in metrics)
            if problem.times_of(arm, together) != times:
                raise InvalidInput(field, times, f"must be the same for all of {name_of(together)}, which is one test")


def _check_items(problem: Question) -> None:
    if problem.items is None and problem.repeats:
        raise InvalidInput("repeats", problem.repeats, _NO_ITEMS)
    count, most = count_of(problem.items or 0), MOST_REPEATED if problem.repeats else MOST_ITEMS
    if count > most:
        advice = "" if problem.repeats else "; with repeats = true there can be more"
        raise InvalidInput("items", count, f"there can be at most {most:,}{advice}")
    _check_shared_spreads(problem, "item_spreads", problem.items is not None and problem.blocks is None, _NO_ITEMS)
    for part in () if problem.items is None else problem.parts:
        if reason := part.noise.refuses_items(repeats=problem.repeats):
            raise InvalidInput("items", count, f"{part.title}: {reason}")


def _check_shared_spreads(problem: Question, field: str, is_allowed: bool, needed: str) -> None:
    """What items or blocks add to results."""
    for metric, spread in (getattr(problem, field) or {}).items():
        what = f"{field}[{metric!r}]"
        if metric not in problem.metrics:
            raise unknown(what, spread, _METRIC, problem.metrics)
        if not is_allowed:
            raise InvalidInput(what, spread, needed)


def _check_judges(problem: Question) -> None:
    """Raises `InvalidInput` if the judges do not go with the rest of the problem."""
    judges = problem.judged
    for judge, parts in judges.items():
        field = f"constraints[{parts[0] - 1}].judge" if parts[0] else "objective.judge"
        if problem.items is None or problem.repeats:
            reason = "needs items that are measured once each: state items, without repeats"
            if problem.blocks is not None:
                reason = "cannot be stated beside blocks; it scores items, which every arm is measured on"
            raise InvalidInput(field, judge, reason)
        if judge in {metric for part in problem.parts for metric in part.measures}:
            what = problem.parts[parts[0]].metric
            raise InvalidInput(field, judge, f"of {what!r} must be a metric that is measured for nothing else")
    for place, group in enumerate(problem.measurements):
        scores = [metric for metric in group.metrics if metric in judges]
        if scores and len(scores) < len(group.metrics):
            label = next(metric for metric in group.metrics if metric not in judges)
            reason = (
                f"scores of the judge {scores[0]!r} are told before the first {label!r}, and so in tests of their own"
            )
            raise InvalidInput(f"measurements[{place}].metrics", [*group.metrics], reason)


def _check_blocks(problem: Question) -> None:
    _check_shared_spreads(problem, "block_spreads", problem.blocks is not None, _NO_BLOCKS)
    if problem.blocks is not None:
        limits = {problem.leads[k] for k in problem.relative}
        least = 1 + (problem.top if problem.asks == "top" else 1) + len(limits)
        if problem.blocks.size < least:
            baseline = " the baseline," if limits else ""
            reason = f"must be at least {least}: what arms are compared with,{baseline} and one more are in every block"
            raise InvalidInput("blocks.size", problem.blocks.size, reason)
    for k, part in enumerate(problem.constraints):
        added = (problem.block_spreads or {}).get(problem.metrics[k + 1], 0.0)
        stated = part.noise.stated_scatter
        if not part.relative_to_baseline and stated is not None and added > stated:
            reason = f"is more than {exact(stated)}, the stated scatter: that of a fixed limit includes what blocks add"
            raise InvalidInput(f"block_spreads[{problem.metrics[k + 1]!r}]", added, reason)


def _check_goal(problem: Question) -> None:
    goal, top, arms = problem.goal, problem.top, len(problem.arms)
    arm = problem.noun.one
    if ignores_performance(goal) and top != 1:
        asks = f"one {arm}" if goal == "any feasible" else "all of them"
        raise InvalidInput("top", top, f"has no meaning with the goal {goal!r}, which asks for {asks}")
    if ignores_performance(goal) and not problem.constraints:
        raise InvalidInput("goal", goal, f"needs a constraint: without one every {arm} is feasible", GOALS)
    if problem.set_aside is not None and arms == 1:
        reason = f"is the only {arm}; the goal {goal!r} asks for one that is compared with it"
        raise InvalidInput("baseline", problem.baseline, reason)
    if top > arms:
        raise InvalidInput("top", top, f"there are only {problem.noun.counted(arms)}")
    if goal == "best" and top == arms > 1:
        raise InvalidInput(
            "top", top, f"a short list of all {problem.noun.counted(arms)} would say nothing; it must be shorter"
        )


def _check_truth(problem: Question) -> None:
    _check_means(problem)
    check_means(problem)
    _check_spreads(problem)


def _check_means(problem: Question) -> None:
    parts = dict(zip(problem.metrics, problem.parts, strict=True))
    for index, arm in enumerate(problem.arms):
        for metric, mean in (arm.means or {}).items():
            field = f"arms[{index}].means[{metric!r}]"
            ends = mean if isinstance(mean, tuple) else (mean, mean)
            if metric not in parts:
                # It counts only as part of a ratio.
                if metric not in problem.measured or metric in problem.judged:
                    raise unknown(field, mean, _METRIC, dict.fromkeys((*problem.metrics, *problem.measured)))
                if metric in problem.denominators and not ends[0] > 0.0:
                    raise InvalidInput(field, mean, "must be positive: another metric is divided by it")
                continue
            part = parts[metric]
            if metric != part.metric and not part.has_own_mean:
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
                raise unknown(field, spread, _METRIC, parts)
            noise = parts[metric].noise
            if not noise.takes_spread:
                raise InvalidInput(field, spread, f"cannot be stated: {metric} {noise.sentence()}")
            mean = (arm.means or {}).get(metric)
            for end in () if mean is None else mean if isinstance(mean, tuple) else (mean,):
                try:
                    shape_of(spread, end, noise.range, 1.0, 0.0)
                except ValueError as error:
                    raise InvalidInput(field, spread, str(error)) from None
