"""Limits on logs, as written on the command line: `accuracy=-1pp`, `p95(latency)=2`, `cost=1.05x`, `quality=80%`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal

from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.parsing import read_decimal, read_hundredths
from bestarm.problem import Constraint, at_least, at_most
from bestarm.race.logs.log import Log
from bestarm.texts import first_ten, quoted
from bestarm.validation import InvalidInput

Side = Literal["at_most", "at_least"]

_QUANTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)\((.+)\)")
_MARGIN = re.compile(r"(?:baseline\s*)?([+-])\s*([0-9.]+(?:[eE][+-]?[0-9]+)?)\s*(pp)?")
_HOW = (
    "must be METRIC=LIMIT, such as accuracy=80% or p95(latency)=2 or, relative to the baseline, accuracy=-1pp "
    "(percentage points), score=baseline-0.5 or cost=1.05x"
)


@dataclasses.dataclass(frozen=True)
class WrittenLimit:
    """A limit whose noise is not known before the logs are read."""

    metric: str
    constrain: Callable[[Noise], Constraint]
    noise: Noise | None = None
    """That of a quantile, which needs no more."""


def read_limit(side: Side, text: str) -> WrittenLimit:
    """
    >>> read_limit("at_least", "accuracy=-1pp").constrain(Bernoulli()).label
    'accuracy at least the baseline − 0.01'
    >>> read_limit("at_most", "cost=1.05x").constrain(Bounded(0, 9)).label
    'cost at most 1.05 × the baseline'
    """
    field = f"--{side.replace('_', '-')}"
    subject, equals, amount = (part.strip() for part in text.rpartition("="))
    if not equals or not subject or not amount:
        raise InvalidInput(field, text, _HOW)
    quantile = _QUANTILE.fullmatch(subject)
    noise = None
    if quantile:
        subject, order = quantile[2].strip(), round(float(quantile[1]) / 100, 12)
        if not order > 0.0:
            raise InvalidInput(field, text, "a quantile lies between p1 and p99.99, such as p95(latency)")
        noise = Quantile(order)
    margin, threshold, is_relative = None, 1.0, True
    relative = _MARGIN.fullmatch(amount) if amount.startswith("baseline") or amount.endswith("pp") else None
    try:
        if relative:
            read = read_hundredths if relative[3] else read_decimal
            more = read(relative[2]) * (1.0 if relative[1] == "+" else -1.0)
            margin = (more if side == "at_most" else -more) or None
        elif amount == "baseline":
            pass
        elif amount.endswith(("x", "×")):
            threshold = read_decimal(amount[:-1])
        else:
            is_relative = False
            read = read_hundredths if amount.endswith("%") else read_decimal
            threshold = read(amount.removesuffix("%"))
    except ValueError:
        raise InvalidInput(field, text, _HOW) from None
    if noise is not None and is_relative:
        raise InvalidInput(field, text, "a quantile needs a limit of its own, not one relative to the baseline")

    def constrain(noise: Noise) -> Constraint:
        limit = at_most if side == "at_most" else at_least
        return limit(subject, threshold, noise=noise, relative_to_baseline=is_relative, margin=margin)

    return WrittenLimit(subject, constrain, noise)


def label(limit: Constraint) -> str:
    """What a limit says. It names the order of a quantile."""
    order = getattr(limit.noise, "q", None)
    return limit.label if order is None else f"p{100 * order:g}({limit.metric}){limit.label.removeprefix(limit.title)}"


def read_ranges(texts: Sequence[str]) -> dict[str, tuple[float, float]]:
    """
    >>> read_ranges(["score=0..10"])
    {'score': (0.0, 10.0)}
    """
    found = {}
    for text in texts:
        metric, _, ends = text.rpartition("=")
        try:
            low, high = map(read_decimal, ends.split("..", 1))
        except ValueError:
            raise InvalidInput("--range", text, "must be METRIC=LOW..HIGH, such as score=0..10") from None
        if not metric or not low < high:
            raise InvalidInput("--range", text, "must be METRIC=LOW..HIGH, and the low end must be below the high one")
        found[metric.strip()] = (low, high)
    return found


def noise_of(
    metric: str, logs: Sequence[Log], ranges: Mapping[str, tuple[float, float]], symmetric: Collection[str]
) -> Noise:
    """How the values of a metric scatter: by its range, as it is stated or as the logs say it."""
    values = {value for log in logs for row in log.values.values() for value in row.get(metric, ()) if value == value}
    if not values:
        known = [name for name in logs[0].metrics if all(name in log.metrics for log in logs)]
        reason = f"no such metric in both logs; they share {first_ten(known) or 'none'}"
        raise InvalidInput("metric", metric, reason, known)
    if metric in ranges and metric in symmetric:
        raise InvalidInput("--symmetric", metric, "cannot be stated beside its --range; state one of the two")
    if metric in symmetric:
        return Symmetric()
    if metric in ranges:
        return Bounded(*ranges[metric])
    if values <= {0.0, 1.0}:
        # The mean of several epochs may be anything between.
        return Bernoulli() if max(log.epochs for log in logs) == 1 else Bounded(0.0, 1.0)
    for log in logs:
        if metric in log.ranges and values <= {0.0, 0.5, 1.0}:
            return Bounded(*log.ranges[metric])
    advice = f"--range {quoted(metric)[1:-1]}=LOW..HIGH states it"
    reason = f"has values from {min(values):g} to {max(values):g}, and its range is not known; {advice}"
    other = f"--symmetric {metric} assumes that differences scatter as far up as down"
    raise InvalidInput("metric", metric, f"{reason}, or {other}")
