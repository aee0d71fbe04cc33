"""How objectives and constraints are stated in Python: `maximize`, `minimize`, `at_most` and `at_least`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bestarm.noises import Noise
from bestarm.problem.parts import Constraint, Objective
from bestarm.validation import UNSTATED, InvalidInput, is_boolean

_UNSTATED: Any = None


def maximize(
    metric: str,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    tolerance: float = 0.0,
    judge: str | None = None,
    unit: str | None = None,
) -> Objective:
    """The objective to make `metric` as large as possible.

    `judge` names a cheap metric that tells much of it. Its scores of every arm on every item are told first. `unit`,
    such as "ms", is shown in headings of sheets, tables and charts.

    >>> import bestarm as ba
    >>> ba.maximize("human score", noise=ba.Bernoulli(), judge="model score").judge
    'model score'
    """
    return Objective(metric, "maximize", noise, cost, tolerance, judge=judge, unit=unit)


def minimize(
    metric: str,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    tolerance: float = 0.0,
    judge: str | None = None,
    unit: str | None = None,
) -> Objective:
    """The objective to make `metric` as small as possible. `judge` and `unit` are as for `maximize`."""
    return Objective(metric, "minimize", noise, cost, tolerance, judge=judge, unit=unit)


def at_most(
    metric: str,
    threshold: float | None = None,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    slack: float = 0.0,
    weight: float = 1.0,
    relative_to_baseline: float | bool = False,
    per: str | None = None,
    margin: float | None = None,
    judge: str | None = None,
    unit: str | None = None,
    where: Mapping[str, str | int] | None = None,
    for_each: str | None = None,
) -> Constraint:
    """The constraint that the mean of `metric` stays below `threshold`; its quantile q with `noise=Quantile(q)`.

    With `relative_to_baseline=1.05`, it must stay below 1.05 times the mean of the problem's baseline, and with
    `relative_to_baseline=True` and a `margin` of 5 below that mean plus 5. With `per`, the ratio of the mean of
    `metric` to that of `per` must stay below `threshold`. `where={"topic": "law"}` limits the mean
    over the items with this value of an attribute, `for_each="topic"` that over the items with each of its values.

    >>> import bestarm as ba
    >>> ba.at_most("latency", relative_to_baseline=True, margin=5, noise=ba.Gaussian(3)).label
    'latency at most the baseline + 5'
    """
    return _constraint("at_most", locals())


def at_least(
    metric: str,
    threshold: float | None = None,
    *,
    noise: Noise = _UNSTATED,
    cost: float = 1.0,
    slack: float = 0.0,
    weight: float = 1.0,
    relative_to_baseline: float | bool = False,
    per: str | None = None,
    margin: float | None = None,
    judge: str | None = None,
    unit: str | None = None,
    where: Mapping[str, str | int] | None = None,
    for_each: str | None = None,
) -> Constraint:
    """The constraint that the mean of `metric` stays above `threshold`; its quantile q with `noise=Quantile(q)`.

    With `relative_to_baseline=0.95`, it must stay above 0.95 times the mean of the problem's baseline, and with
    `relative_to_baseline=True` and a `margin` of 2 above that mean minus 2. With `per`, the ratio of the mean of
    `metric` to that of `per` must stay above `threshold`. `where={"topic": "law"}` limits the mean
    over the items with this value of an attribute, `for_each="topic"` that over the items with each of its values.

    >>> import bestarm as ba
    >>> ba.at_least("yield", relative_to_baseline=True, margin=2, noise=ba.Gaussian(1)).label
    'yield at least the baseline − 2'
    """
    return _constraint("at_least", locals())


def _constraint(side: str, stated: dict[str, Any]) -> Constraint:
    """A constraint, of what was stated for it. The factor of the baseline may stand in either place: at_most("time",
    relative_to_baseline=1.05) or at_most("time", 1.05, relative_to_baseline=True). Without one, it is 1."""
    metric, threshold, relative = (stated.pop(name) for name in ("metric", "threshold", "relative_to_baseline"))
    if not is_boolean(relative):
        if threshold is not None:
            reason = f"of {metric!r} cannot be stated beside a threshold ({threshold!r}); state one of the two"
            raise InvalidInput("relative_to_baseline", relative, reason)
        threshold, relative = relative, True
    if threshold is None and relative:
        threshold = 1.0
    if threshold is None:
        needed = "a number, the threshold, or relative_to_baseline, that many times the baseline"
        raise InvalidInput(side, UNSTATED, f"of {metric!r} must be stated: {needed}")
    return Constraint(metric, relative_to_baseline=bool(relative) or None, **{side: threshold}, **stated)
