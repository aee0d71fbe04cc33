"""Whether measured values can be the result of a test, in the user's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bestarm.problem import Constraint, Objective, Plan, Problem
from bestarm.storage.base import Outcome, Told
from bestarm.texts import listed, quoted
from bestarm.validation import InvalidInput, exact, finite_number, moderate

Result = float | Mapping[str, float]
"""What a test yields: a number, or numbers by metric. A test of several metrics yields one number for each."""

Values = tuple[float, ...]
"""The numbers of a result, in the order of the record."""


class RefusedValue(InvalidInput):
    """A value that a metric with the stated noise cannot take."""

    kind = "refused value"


def check_value(part: Objective | Constraint, value: object) -> float:
    """The value as a number, if the metric can take it."""
    try:
        number = moderate(finite_number(part.noise.read_value(value)))
        part.noise.check_value(number)
    except ValueError as error:
        sentence = f"value of {part.metric!r} = {quoted(value)}: {error}"
        raise RefusedValue("value", value, str(error), sentence=sentence) from None
    return number


def check_metric(plan: Problem, metric: str, value: object) -> float:
    """The value as a number, if everything that the plan says of the metric allows it."""
    numbers = [check_value(part, value) for part in plan.parts if part.measures == (metric,)]
    if metric in plan.denominators or not numbers:
        numbers = [_check_ratio_value(plan, metric, value)]
    return numbers[0]


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
    return check_ratios(plan, lead, tuple(_checked(plan, lead, metric, result[metric]) for metric in metrics))


def values_of(outcome: Outcome | Told) -> Values:
    """All values of a test; none if it was given up."""
    return () if outcome.value is None else (outcome.value, *outcome.more)


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
    if len(plan.bundles) == len(plan.parts) and not plan.denominators:
        return check_value(plan.parts[lead], value)
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
        return f"{values[0]:g}"
    return ", ".join(f"{metric} {value:g}" for metric, value in zip(metrics, values, strict=True))
