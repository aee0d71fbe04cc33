"""Whether measured values can be the result of a test, in the user's words."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from bestarm.kernel.packing import is_packed
from bestarm.noises.bernoulli import OR_TRIALS
from bestarm.noises.duel import Duel
from bestarm.noises.shares import Share, as_told, is_share, told_words
from bestarm.parsing import read_number
from bestarm.problem import Constraint, Objective, Plan, Problem
from bestarm.problem.judges import check_score
from bestarm.storage.base import Outcome, Told
from bestarm.texts import listed, quoted
from bestarm.validation import Complaint, InvalidInput, exact, finite_number, moderate

Value = float | str | Share
"""A number, the verdict of a duel ("win", "tie" or "loss"), or the share of several trials (also as "k/n")."""

VERDICTS = frozenset(Duel.words)

Result = Value | Mapping[str, Value]
"""What a test yields: a value, or values by metric. A test of several metrics yields one value for each."""

Values = tuple[float, ...]
"""The numbers of a result, in the order of the record."""


def is_verdict(value: object) -> bool:
    """Whether a value is one of the words that some metrics take."""
    return isinstance(value, str) and value.strip().casefold() in VERDICTS


def is_in_words(value: object) -> bool:
    """Whether a value is a text or a share that some metrics take, and no number."""
    return is_verdict(value) or is_share(value)


def typed(text: str, where: str = "value") -> Value:
    """A value that a person or a program wrote: a number, or a verdict, where the metric takes it."""
    return text.strip() if is_in_words(text) else read_number(text, where)


class RefusedValue(InvalidInput):
    """A value that a metric with the stated noise cannot take."""

    kind = "refused value"


def check_value(part: Objective | Constraint, value: object, *, takes_trials: bool = True) -> float:
    """The value as a number, if the metric can take it."""
    try:
        read = part.noise.read_value(value)
        if is_share(value) and isinstance(read, float):
            return read  # the noise takes shares, and has packed this one
        number = moderate(finite_number(read))
        part.noise.check_value(number)
    except ValueError as error:
        reason = str(error) if takes_trials else str(error).removesuffix(OR_TRIALS)
        sentence = f"value of {part.metric!r} = {quoted(value)}: {reason}"
        raise RefusedValue("value", value, reason, sentence=sentence) from None
    return number


def check_metric(plan: Problem, metric: str, value: object) -> float:
    """The value as a number, if everything that the plan says of the metric allows it."""
    if metric in plan.judged:
        return _check_score(plan, metric, value)
    parts = [(k, part) for k, part in enumerate(plan.parts) if part.measures == (metric,)]
    numbers = [_check_part(plan, k, part, value) for k, part in parts]
    if metric in plan.denominators or not numbers:
        numbers = [_check_ratio_value(plan, metric, value)]
    return numbers[0]


def _check_part(plan: Problem, place: int, part: Objective | Constraint, value: object) -> float:
    """The value as a number. Raise `RefusedValue` if it stands for several trials and the part must know each."""
    why = _why_no_trials(plan, place, part)
    number = check_value(part, value, takes_trials=why is None)
    if why is not None and is_packed(number):
        told = as_told(number)
        raise RefusedValue("value", told, why, sentence=f"value of {part.metric!r} = {told}: {why}")
    return number


def _why_no_trials(plan: Problem, place: int, part: Objective | Constraint) -> str | None:
    """Why a value of a part cannot stand for several trials; None if it can."""
    if plan.blocks is not None:
        return "in blocks, what the trials of a test share is not known; tell 0 or 1 for each test"
    is_compared = isinstance(part, Objective) or part.relative_to_baseline
    if plan.items is not None and (is_compared or not plan.repeats or plan.of_slice(place)):
        return "arms are compared on items, one by one; tell 0 or 1 for each item"
    return None if part.judge is None else "a judge scores each item; tell 0 or 1 for each"


def _check_score(plan: Problem, judge: str, value: object) -> float:
    try:
        parts = [plan.parts[k] for k in plan.judged[judge]]
        number = finite_number(parts[0].noise.read_value(value))
        check_score(parts, number)
    except ValueError as error:
        sentence = f"value of {judge!r} = {quoted(value)}: {error}"
        raise RefusedValue("value", value, str(error), sentence=sentence) from None
    return number


def _check_ratio_value(plan: Problem, metric: str, value: object) -> float:
    """A ratio makes no statement about its two values, except that the denominator is positive."""
    try:
        number = moderate(finite_number(value))
        if metric in plan.denominators and not number > 0.0:
            raise ValueError("must be positive: another metric is divided by it")
    except ValueError as error:
        sentence = f"value of {metric!r} = {quoted(value)}: {error}"
        raise RefusedValue("value", value, str(error), sentence=sentence) from None
    return number


def check_ratios(plan: Problem, lead: int, values: Values) -> Values:
    """The same values of a test, if what counts of each ratio is possible."""
    given = dict(zip(plan.yields[lead], values, strict=True))
    for part in plan.constraints:
        if part.per is not None and part.metric in given:
            counts = given[part.metric] - part.threshold * given[part.per]
            try:
                part.noise.check_value(moderate(counts))
            except ValueError as error:
                sentence = f"{part.formula} = {exact(counts)}: {error}"
                raise RefusedValue("value", given, sentence, shown=quoted(given)) from None
    return values


def check_result(plan: Plan, lead: int, result: object) -> Values:
    """The values of a test, in the order of the record. `lead` is the first part of what it measures."""
    metrics = plan.yields[lead]
    if len(metrics) == 1 and not isinstance(result, Mapping):
        return (_checked(plan, lead, metrics[0], result),)
    if not isinstance(result, Mapping):
        reason = f"must be {in_words(metrics)}, by name, as in {example(metrics)}"
        sentence = f"result of a test of {plan.test_names[lead]!r} = {quoted(result)}: {reason}"
        raise RefusedValue("value", result, reason, metrics, sentence=sentence)
    check_names(metrics, result)
    values: list[float] = []
    wrong: list[Complaint] = []
    for metric in metrics:
        try:
            values.append(_checked(plan, lead, metric, result[metric]))
        except RefusedValue as error:
            wrong += [dataclasses.replace(one, field=f"value.{metric}") for one in error.complaints]
    if wrong:
        raise RefusedValue.of(wrong, "; ".join(complaint.sentence for complaint in wrong))
    return check_ratios(plan, lead, tuple(values))


def values_of(outcome: Outcome | Told) -> Values:
    """All values of a test; none if it was given up."""
    return () if outcome.value is None else (outcome.value, *outcome.more)


def shown(value: Value) -> str:
    """A value as it was told."""
    return f"{value:g}" if isinstance(value, float | int) else str(value)


def check_some(plan: Plan, lead: int, result: Mapping[str, object], known: Sequence[float]) -> Values:
    """Check a result that may leave out some values. Those stay as they are `known`."""
    metrics = plan.yields[lead]
    given = dict(zip(metrics, known, strict=True)) if known else {}
    if not result:
        raise RefusedValue("value", {}, f"has no values; give {in_words(metrics)}")
    _check_known(metrics, result)
    return check_result(plan, lead, given | dict(result))


def check_names(metrics: Sequence[str], given: Mapping[str, object]) -> None:
    """Raise `RefusedValue` unless there is a value for each of a test's metrics, and for nothing else."""
    _check_known(metrics, given)
    if missing := [metric for metric in metrics if metric not in given]:
        reason = f"lacks {in_words(missing)}; a test of {' + '.join(metrics)} is told all its values at once"
        raise RefusedValue("value", dict(given), reason, metrics, shown=quoted(dict(given)))


def _check_known(metrics: Sequence[str], given: Mapping[str, object]) -> None:
    for metric in given:
        if metric not in metrics:
            reason = f"this test yields {in_words(metrics)}, and no {quoted(metric)}"
            raise RefusedValue("value", dict(given), reason, metrics, shown=quoted(dict(given)))


def _checked(plan: Plan, lead: int, metric: str, value: object) -> float:
    """Checked against every part of the metric: one value counts for all of them."""
    if len(plan.bundles) == len(plan.parts) and not plan.denominators and lead < len(plan.parts):
        part = plan.parts[lead]
        return _check_part(plan, lead, part, value)
    return check_metric(plan, metric, value)


def in_words(metrics: Sequence[str]) -> str:
    """Names, quoted, as a list in words.

    >>> in_words(["time", "memory", "cost"])
    "'time', 'memory' and 'cost'"
    """
    return listed(map(repr, metrics))


def example(metrics: Sequence[str]) -> str:
    """What a result of these metrics looks like in Python.

    >>> print(example(["time", "memory"]))
    {"time": VALUE, "memory": VALUE}
    """
    return "{" + ", ".join(f'"{metric}": VALUE' for metric in metrics) + "}"


def values_in_words(metrics: Sequence[str], values: Sequence[float]) -> str:
    """The values of a test: the number of one metric, or each with its name.

    >>> values_in_words(["time"], [1.5]), values_in_words(["time", "memory"], [1.5, 340.0])
    ('1.5', 'time 1.5, memory 340')
    """
    if len(metrics) == 1:
        return told_words(values[0])
    return ", ".join(f"{metric} {told_words(value)}" for metric, value in zip(metrics, values, strict=True))
