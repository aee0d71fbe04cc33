"""The question of a race, as written on the command line: `--minimize time`, `--at-most p99(time)=2s`.

Times, sizes, shares and multiples are written as 150ms, 500MB, 1% and 1.02x.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Sequence

from bestarm.parsing import read_decimal
from bestarm.validation import InvalidInput

TIMES = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
SIZES = {
    "B": 1.0,
    "kB": 1e3,
    "KB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "KiB": 2.0**10,
    "MiB": 2.0**20,
    "GiB": 2.0**30,
    "TiB": 2.0**40,
}

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9.]*)\s*")


def read_time(field: str, text: str) -> float:
    """A time in seconds; a bare number is in seconds.

    >>> read_time("timeout", "150ms"), read_time("timeout", "2"), read_time("timeout", "1.5 min")
    (0.15, 2.0, 90.0)
    """
    return _read(field, text, TIMES, "a time such as 150ms, 2s or 1.5min")


def read_size(field: str, text: str) -> float:
    """A size in bytes; a bare number is in bytes. MB are 10^6 bytes, MiB are 2^20.

    >>> read_size("memory", "500MB"), read_size("memory", "1KiB"), read_size("memory", "12")
    (500000000.0, 1024.0, 12.0)
    """
    return _read(field, text, SIZES, "a size such as 500MB or 2GiB")


def read_share(field: str, text: str) -> float:
    """A share from 0 to 1, or in percent.

    >>> read_share("failures", "1%"), read_share("failures", "0.25")
    (0.01, 0.25)
    """
    share = _read(field, text, {"%": 0.01}, "a share such as 1% or 0.01")
    if not share < 1.0:
        raise InvalidInput(field, text, "must be less than 100%")
    return share


def read_multiple(text: str) -> float | None:
    """A multiple of the baseline; None if the text is something else.

    >>> read_multiple("1.02x"), read_multiple("2s")
    (1.02, None)
    """
    number = text.strip()
    if not number.endswith(("x", "×")):
        return None
    try:
        factor = read_decimal(number[:-1])
    except ValueError:
        return None
    return factor if 0.0 < factor < math.inf else None


def _read(field: str, text: str, units: dict[str, float], wanted: str) -> float:
    found = _QUANTITY.fullmatch(text)
    try:
        number = read_decimal(found[1]) if found else math.nan
    except ValueError:
        number = math.nan
    if not found or not number > 0.0:
        raise InvalidInput(field, text, f"must be {wanted}")
    unit = found[2]
    if unit and unit not in units:
        raise InvalidInput(field, text, f"unknown unit {unit!r}; must be {wanted}", tuple(units))
    amount = number * units.get(unit, 1.0)
    if not 1e-12 <= amount <= 1e18:
        raise InvalidInput(field, text, "is too small or too large")
    return amount


def time_words(seconds: float) -> str:
    """A time with three digits, in the unit that fits.

    >>> time_words(0.0123), time_words(2.5), time_words(90.0), time_words(0.0)
    ('12.3 ms', '2.5 s', '90 s', '0 s')
    """
    for unit in ("s", "ms", "us"):
        if abs(seconds) >= TIMES[unit]:
            return f"{seconds / TIMES[unit]:.3g} {unit}" if abs(seconds) < 999.5 else f"{seconds:,.0f} s"
    return f"{seconds:.3g} s"


def size_words(size: float) -> str:
    """A size with three digits, in the unit that fits.

    >>> size_words(5e8), size_words(999.0), size_words(0.0)
    ('500 MB', '999 B', '0 B')
    """
    for unit in ("TB", "GB", "MB", "kB"):
        if abs(size) >= SIZES[unit]:
            return f"{size / SIZES[unit]:.3g} {unit}" if abs(size) < 999.5e12 else f"{size / 1e12:,.0f} TB"
    return f"{size:.3g} B"


@dataclasses.dataclass(frozen=True)
class Metric:
    """A metric of a run: how its limits are read, and how its values are shown."""

    read: Callable[[str, str], float]
    words: Callable[[float], str]


def _percent(share: float) -> str:
    return f"{100 * share:.3g}%"


METRICS = {
    "time": Metric(read_time, time_words),
    "user": Metric(read_time, time_words),
    "system": Metric(read_time, time_words),
    "memory": Metric(read_size, size_words),
    "output": Metric(read_size, size_words),
    "failures": Metric(read_share, _percent),
    "pauses": Metric(read_share, _percent),
}
"""The metrics that every run yields."""

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
    """A limit on a mean, or on the quantile of that order: in units of the metric, or as a multiple of the baseline."""

    metric: str
    value: float
    quantile: float | None = None
    is_relative: bool = False

    @property
    def words(self) -> str:
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
        raise InvalidInput(field, text, "a quantile needs a limit of its own, not a multiple of the baseline")
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
            reason = "is a multiple of the baseline; say which command that is with --baseline"
            raise InvalidInput("--at-most", text, reason)
    return limits
