"""The question of a race, as written on the command line: `--minimize time`, `--at-most p99(time)=2s`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence

from bestarm.race.units import read_multiple, read_share, read_size, read_time, size_words, time_words
from bestarm.validation import InvalidInput


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric of a run: how its limits are read, and how its values are shown."""

    read: Callable[[str, str], float]
    words: Callable[[float], str]
    meaning: str


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %"


METRICS = {
    "time": Metric(read_time, time_words, "time on the clock"),
    "user": Metric(read_time, time_words, "time of the processor in the program"),
    "system": Metric(read_time, time_words, "time of the processor in the system"),
    "memory": Metric(read_size, size_words, "peak memory"),
    "output": Metric(read_size, size_words, "size of what is written to standard output"),
    "failures": Metric(read_share, _percent, "share of runs that fail"),
    "pauses": Metric(read_share, _percent, "share of runs that take more than twice the first runs"),
}
"""What one run yields, all at once."""

SHARES = ("failures", "pauses")
"""Metrics that are 0 or 1 in each run. They can only be limited."""

OBJECTIVES = tuple(name for name in METRICS if name not in SHARES)

BY_MEDIAN = ("memory", "output")
"""A limit in bytes is about the median run, unless it says mean(memory). These metrics hardly vary, and a limit on the
mean of what never varies takes hundreds of runs: a rare run of many times the size could still be to come."""

_QUANTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)\(([^()]*)\)")
_MEAN = re.compile(r"mean\(([^()]*)\)")


@dataclasses.dataclass(frozen=True)
class Limit:
    """What must stay below what: a mean, or the quantile of that order; in units of the metric, or of the baseline."""

    metric: str
    value: float
    quantile: float | None = None
    is_relative: bool = False

    @property
    def words(self) -> str:
        """As a table shows it."""
        subject = self.metric if self.quantile is None else f"p{100 * self.quantile:g}({self.metric})"
        if self.metric in BY_MEDIAN and not self.is_relative:
            subject = {None: f"mean {self.metric}", 0.5: f"median {self.metric}"}.get(self.quantile, subject)
        value = f"{self.value:g}x the baseline" if self.is_relative else METRICS[self.metric].words(self.value)
        return f"{subject} at most {value}"


def read_objective(text: str) -> str:
    """The metric to make small."""
    name = text.strip()
    if name in SHARES:
        raise InvalidInput("--minimize", text, f"{name} can only be limited: --at-most {name}=1%", OBJECTIVES)
    if name not in OBJECTIVES:
        raise InvalidInput("--minimize", text, f"must be one of {', '.join(OBJECTIVES)}", OBJECTIVES)
    return name


def read_limit(text: str) -> Limit:
    """A limit such as `time=2s`, `p99(time)=2s`, `failures=1%` or, of the baseline, `time=1.02x`.

    `memory=500MB` and `output=1MB` are about the median run; `mean(memory)=500MB` is about the mean.

    >>> read_limit("p99(time)=2s")
    Limit(metric='time', value=2.0, quantile=0.99, is_relative=False)
    >>> read_limit("memory=1.1x").words
    'memory at most 1.1x the baseline'
    >>> read_limit("memory=500MB").words, read_limit("mean(memory)=500MB").words
    ('median memory at most 500 MB', 'mean memory at most 500 MB')
    """
    field = "--at-most"
    subject, equals, amount = (part.strip() for part in text.partition("="))
    if not equals or not amount:
        raise InvalidInput(field, text, "must be METRIC=LIMIT, such as time=2s, p99(time)=2s or memory=500MB")
    quantile = None
    is_mean = _MEAN.fullmatch(subject)
    if is_mean:
        subject = is_mean[1].strip()
    if found := _QUANTILE.fullmatch(subject):
        quantile, subject = round(float(found[1]) / 100, 12), found[2].strip()
        if not quantile > 0.0:
            raise InvalidInput(field, text, "a quantile lies between p1 and p99.99, such as p99(time)")
    if subject not in METRICS:
        others = "quantiles such as p99(time), and mean(memory)"
        reason = f"{subject!r} is not a metric; the metrics are {', '.join(METRICS)}, {others}"
        raise InvalidInput(field, text, reason, tuple(METRICS))
    if (quantile is not None or is_mean) and subject in SHARES:
        raise InvalidInput(field, text, f"{subject} are a share of runs already: --at-most {subject}=1%")
    factor = read_multiple(amount)
    if factor is not None and quantile is not None:
        raise InvalidInput(field, text, "a quantile needs a limit of its own, not so many times the baseline")
    if factor is not None and subject in SHARES:
        raise InvalidInput(field, text, f"{subject} need a limit of their own, such as 1%")
    if factor is not None:
        return Limit(subject, factor, is_relative=True)
    if subject in BY_MEDIAN and quantile is None and not is_mean:
        quantile = 0.5
    return Limit(subject, METRICS[subject].read(field, amount), quantile)


def read_limits(texts: Sequence[str], baseline: str | None) -> list[Limit]:
    """All limits. A relative limit needs a baseline, and a baseline needs a relative limit."""
    limits = [read_limit(text) for text in texts]
    for text, limit in zip(texts, limits, strict=True):
        if limit.is_relative and baseline is None:
            reason = "is so many times the baseline; say which command that is with --baseline"
            raise InvalidInput("--at-most", text, reason)
    return limits
