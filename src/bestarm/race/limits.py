"""The question of a race, as written on the command line: `--minimize time`, `--at-most p99(time)=2s`.

Times, sizes, shares and multiples are written as 150ms, 500MB, 1% and 1.02x, and a margin as baseline+5ms.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Literal

from bestarm.noises.shares import Share
from bestarm.parsing import is_decimal, read_decimal, read_hundredths
from bestarm.study.work.reading import Reader
from bestarm.texts import listed
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
    "K": 2.0**10,
    "M": 2.0**20,
    "G": 2.0**30,
    "T": 2.0**40,
}
"""As GNU's programs have them: MB are 10^6 bytes, M and MiB 2^20."""

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9.]*)\s*")


_COMMA = re.compile(r"[0-9],[0-9]")
_DOUBTFUL = re.compile(r"(?<![0-9])[1-9][0-9]{0,2},[0-9]{3}(?![0-9])")


def refuse_comma(field: str, text: str, amount: str) -> None:
    """Refuse an amount with a comma in its number, and say what to type instead of the whole text.

    >>> refuse_comma("--at-most", "time=1,05x", "1,05x")
    Traceback (most recent call last):
    bestarm.errors.InvalidInput: --at-most = 'time=1,05x': numbers have a decimal point and no other marks: time=1.05x
    """
    if not _COMMA.search(amount):
        return
    forms = [amount.replace(",", ".")] if amount.count(",") == 1 else []
    if not forms or _DOUBTFUL.search(amount):
        forms.append(amount.replace(",", ""))
    before = text[: len(text) - len(amount)] if text.endswith(amount) else ""
    instead = listed([f"{before}{form}" for form in forms], "or")
    raise InvalidInput(field, text, f"numbers have a decimal point and no other marks: {instead}")


def read_time(field: str, text: str) -> float:
    """A time in seconds.

    >>> read_time("timeout", "150ms"), read_time("timeout", "2s"), read_time("timeout", "1.5 min")
    (0.15, 2.0, 90.0)
    """
    return _read(field, text, TIMES, "a time such as 150ms, 2s or 1.5min", bare=("s", "ms", "min"))


def read_size(field: str, text: str) -> float:
    """A size in bytes. MB are 10^6 bytes, MiB and M are 2^20.

    >>> read_size("memory", "500MB"), read_size("memory", "1K"), read_size("memory", "12B")
    (500000000.0, 1024.0, 12.0)
    """
    return _read(field, text, SIZES, "a size such as 500MB or 2GiB", bare=("MB", "MiB", "B"))


def read_share(field: str, text: str) -> float:
    """A share from 0 to 1, or in percent.

    >>> read_share("failures", "1%"), read_share("failures", "0.25")
    (0.01, 0.25)
    """
    share = _read(field, text, {"%": 0.01}, "a share such as 1% or 0.01")
    if not share < 1.0:
        number = text.strip()
        hint = f"; {number} percent are written {number}%" if is_decimal(number) and share < 100.0 else ""
        raise InvalidInput(field, text, f"must be less than 100%{hint}")
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


def _read(field: str, text: str, units: dict[str, float], wanted: str, bare: Sequence[str] = ()) -> float:
    """A number with a unit. `bare` are units that a number without one could be meant in."""
    refuse_comma(field, text, text)
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
    if not unit and bare:
        choices = listed([f"{found[1]}{one}" for one in bare], "or")
        raise InvalidInput(field, text, f"needs a unit: {choices}", tuple(bare))
    amount = number * units.get(unit, 1.0)
    if not 1e-12 <= amount <= 1e18:
        raise InvalidInput(field, text, "is too small or too large")
    return amount


_stated_unit: ContextVar[str | None] = ContextVar("_stated_unit", default=None)


@contextlib.contextmanager
def times_in(unit: str | None) -> Iterator[None]:
    """Show all times in this unit; if None, in the one that fits.

    >>> with times_in("ms"):
    ...     time_words(2.5), time_words(0.00123)
    ('2,500.0 ms', '1.2 ms')
    """
    token = _stated_unit.set(unit)
    try:
        yield
    finally:
        _stated_unit.reset(token)


def times_unit() -> str | None:
    """The unit that all times are shown in, if one was stated."""
    return _stated_unit.get()


def time_words(seconds: float) -> str:
    """A time with three digits, in the unit that fits.

    >>> time_words(0.0123), time_words(2.5), time_words(90.0), time_words(0.0), time_words(4.2e-8)
    ('12.3 ms', '2.5 s', '90 s', '0 s', '42 ns')
    """
    if unit := _stated_unit.get():
        return f"{seconds / TIMES[unit]:,.{3 if unit == 's' else 1}f} {unit}"
    for unit in ("s", "ms", "us", "ns"):
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
    """A metric of a run: how amounts of it are read, and how its values are shown."""

    name: str
    read: Callable[[str, str], float]
    words: Callable[[float], str]
    is_share: bool = False
    """Whether it is a share of runs, or of trials. Then it can only be limited."""
    by_median: bool = False
    """Whether a limit is about the median, unless it says mean(memory). Memory and output hardly vary, and a limit on
    the mean of what never varies takes hundreds of runs: a rare run of many times the size could still be to come."""
    low: float = 0.0
    high: float = math.inf
    """The range of its values. If it is finite, it was stated, and nothing else is assumed of how they scatter."""
    find: Reader | None = None
    """How a metric of one's own is found in what the command prints."""
    read_value: Callable[[str], float | Share] | None = None
    """How its text becomes a value."""
    text: str = ""
    """A metric of one's own as it was written."""

    @property
    def has_range(self) -> bool:
        return self.high < math.inf and not self.is_share


def percent_words(share: float) -> str:
    return f"{100 * share:.3g}%"


Metrics = Mapping[str, Metric]

METRICS: Metrics = {
    metric.name: metric
    for metric in (
        Metric("time", read_time, time_words),
        Metric("user", read_time, time_words),
        Metric("system", read_time, time_words),
        Metric("memory", read_size, size_words, by_median=True),
        Metric("output", read_size, size_words, by_median=True),
        Metric("failures", read_share, percent_words, is_share=True),
        Metric("pauses", read_share, percent_words, is_share=True),
    )
}
"""The metrics that every run yields."""

SHARES = tuple(name for name, metric in METRICS.items() if metric.is_share)
"""Metrics that are 0 or 1 in each run. They can only be limited."""

Side = Literal["at_most", "at_least"]
_SIDES: dict[Side, str] = {"at_most": "at most", "at_least": "at least"}

_NAME = re.compile(r"[A-Za-z_][\w.-]*")
_QUANTILE = re.compile(r"p([0-9]{1,2}(?:\.[0-9]+)?)\(([^()]*)\)")
_MARGIN = re.compile(r"baseline\s*([+-])\s*(.+)")
_PERCENT = re.compile(r"\+?([0-9]+\.?[0-9]*)\s*%")
_MEAN = re.compile(r"mean\(([^()]*)\)")


@dataclasses.dataclass(frozen=True)
class Limit:
    """A limit on a mean, or on the quantile of that order: in units of the metric, or as a multiple of the baseline
    plus a margin in units of the metric."""

    metric: str
    value: float
    quantile: float | None = None
    is_relative: bool = False
    margin: float = 0.0
    side: Side = "at_most"
    own: Metric | None = dataclasses.field(default=None, repr=False)
    """The metric, if it is one of the user's own."""

    @property
    def kind(self) -> Metric:
        return METRICS[self.metric] if self.own is None else self.own

    @property
    def words(self) -> str:
        amount = self.kind.words
        subject = self.metric if self.quantile is None else f"p{100 * self.quantile:g}({self.metric})"
        if self.kind.by_median and not self.is_relative:
            subject = {None: f"mean {self.metric}", 0.5: f"median {self.metric}"}.get(self.quantile, subject)
        value = f"{self.value:g}x the baseline" if self.is_relative else amount(self.value)
        if self.margin:
            side = "above" if self.margin > 0.0 else "below"
            multiple = "the baseline" if self.value == 1.0 else f"{self.value:g}x the baseline"
            value = f"{amount(abs(self.margin))} {side} {multiple}"
        return f"{subject} {_SIDES[self.side]} {value}"


def read_objective(text: str, option: str = "--minimize", known: Metrics = METRICS) -> str:
    """The metric to make small, or large."""
    name = text.strip()
    objectives = tuple(one for one, metric in known.items() if not metric.is_share)
    if name in known and known[name].is_share:
        raise InvalidInput(option, text, f"{name} can only be limited: --at-most {name}=1%", objectives)
    if name not in objectives:
        raise InvalidInput(option, text, f"must be one of {', '.join(objectives)}{_own_words(name)}", objectives)
    return name


def _own_words(name: str) -> str:
    """How to say what a metric is that is not known, if it can be one that commands print."""
    return f"; if commands print it, --metric '{name}=last-line' says how to read it" if _NAME.fullmatch(name) else ""


def read_tolerance(text: str, metric: Metric) -> tuple[float, float]:
    """An amount in units of the metric, or a share of what the best command needs.

    >>> read_tolerance("5ms", METRICS["time"]), read_tolerance("5%", METRICS["time"])
    ((0.005, 0.0), (0.0, 0.05))
    """
    field = "--tolerance"
    if text.strip().endswith("%"):
        return 0.0, read_share(field, text)
    return metric.read(field, text), 0.0


def read_limit(text: str, side: Side = "at_most", known: Metrics = METRICS) -> Limit:
    """A limit such as `time=2s`, `p99(time)=2s`, `failures=1%`, or of the baseline: `time=1.02x`, `time=baseline+5ms`.

    `memory=500MB` and `output=1MB` are about the median run; `mean(memory)=500MB` is about the mean.

    >>> read_limit("p99(time)=2s")
    Limit(metric='time', value=2.0, quantile=0.99, is_relative=False, margin=0.0, side='at_most')
    >>> read_limit("memory=1.1x").words, read_limit("time=baseline+5ms").words
    ('memory at most 1.1x the baseline', 'time at most 5 ms above the baseline')
    >>> read_limit("memory=500MB").words, read_limit("mean(memory)=500MB").words
    ('median memory at most 500 MB', 'mean memory at most 500 MB')
    """
    field = f"--{side.replace('_', '-')}"
    subject, equals, amount = (part.strip() for part in text.partition("="))
    if not equals or not amount:
        relative = "" if read_multiple(text) is None else f"time={text.strip()}, "
        raise InvalidInput(
            field, text, f"must be METRIC=LIMIT, such as {relative}time=2s, p99(time)=2s or memory=500MB"
        )
    quantile = None
    is_mean = _MEAN.fullmatch(subject)
    if is_mean:
        subject = is_mean[1].strip()
    if found := _QUANTILE.fullmatch(subject):
        quantile, subject = round(float(found[1]) / 100, 12), found[2].strip()
        if not quantile > 0.0:
            raise InvalidInput(field, text, "a quantile lies between p1 and p99.99, such as p99(time)")
    if subject not in known:
        others = "quantiles such as p99(time), and mean(memory)"
        reason = f"{subject!r} is not a metric; the metrics are {', '.join(known)}, {others}{_own_words(subject)}"
        raise InvalidInput(field, text, reason, tuple(known))
    metric = known[subject]
    own = None if subject in METRICS else metric
    if (quantile is not None or is_mean) and metric.is_share:
        raise InvalidInput(field, text, f"{subject} are a share of runs already: {field} {subject}=1%")
    refuse_comma(field, text, amount)
    margin = _MARGIN.fullmatch(amount)
    factor = 1.0 if margin else read_multiple(amount)
    if factor is not None and quantile is not None:
        raise InvalidInput(field, text, "a quantile needs a limit of its own, not one relative to the baseline")
    if factor is not None and metric.is_share:
        raise InvalidInput(field, text, f"{subject} need a limit of their own, such as 1%")
    if margin:
        more = _amount(metric, field, text, margin[2])
        more = more if margin[1] == "+" else -more
        return Limit(subject, 1.0, is_relative=True, margin=more, side=side, own=own)
    if factor is not None:
        return Limit(subject, factor, is_relative=True, side=side, own=own)
    if metric.by_median and quantile is None and not is_mean:
        quantile = 0.5
    value = _amount(metric, field, text, amount)
    if metric.has_range and not metric.low < value < metric.high:
        ends = f"{metric.words(metric.low)} to {metric.words(metric.high)}"
        raise InvalidInput(field, text, f"must lie inside the stated range of {subject}, {ends}")
    return Limit(subject, value, quantile, side=side, own=own)


def _amount(metric: Metric, field: str, text: str, amount: str) -> float:
    """An amount of a metric. What is refused is the limit as it was typed."""
    try:
        return metric.read(field, amount)
    except InvalidInput as error:
        reason, choices = error.reason, error.choices
    if metric.text and "[" not in metric.text:
        reason = f"{reason}; --metric '{metric.name}[ms]=…' says the unit, if there is one"
    if not metric.is_share and (example := _multiple_meant(field, amount)):
        reason = f"a limit relative to the baseline is a multiple of it: {metric.name}={example}"
    raise InvalidInput(field, text, reason, choices)


def _multiple_meant(field: str, amount: str) -> str:
    """The multiple of the baseline that a share of it, or a bad multiple, may stand for; empty if it is neither.

    >>> _multiple_meant("--at-most", "5%"), _multiple_meant("--at-least", "5%"), _multiple_meant("--at-most", "0x")
    ('1.05x', '0.95x', '1.05x')
    """
    percent = _PERCENT.fullmatch(amount)
    more = read_hundredths(percent[1]) if percent else 0.05 if amount.endswith(("x", "×")) else 0.0
    return f"{1.0 - more if field == '--at-least' else 1.0 + more:g}x" if 0.0 < more < 1.0 else ""


def read_limits(
    texts: Sequence[str], baseline: str | None, at_least: Sequence[str] = (), known: Metrics = METRICS
) -> list[Limit]:
    """All limits. A relative limit needs a baseline, and a baseline needs a relative limit."""
    written: list[tuple[Side, str]] = [("at_most", text) for text in texts]
    written += [("at_least", text) for text in at_least]
    limits = [read_limit(text, side, known) for side, text in written]
    for (side, text), limit in zip(written, limits, strict=True):
        if limit.is_relative and baseline is None:
            reason = "is relative to the baseline; say which command that is with --baseline"
            raise InvalidInput(f"--{side.replace('_', '-')}", text, reason)
    return limits
