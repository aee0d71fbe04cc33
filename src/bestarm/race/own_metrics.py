"""Metrics of one's own, read from what a command prints: `p99[ms]=json:.latency.p99`, `score[0..10]=last-line`."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Sequence

from bestarm.noises.shares import Share, as_share, is_share
from bestarm.parsing import is_decimal, read_decimal
from bestarm.race.limits import (
    METRICS,
    SIZES,
    TIMES,
    Metric,
    Metrics,
    percent_words,
    read_share,
    size_words,
    time_words,
)
from bestarm.race.runs import Run
from bestarm.study.work.reading import HOW, Unreadable, reader_of
from bestarm.validation import InvalidInput, finite_number, moderate

_WRITTEN = re.compile(r"\s*([A-Za-z_][\w.-]*)\s*(?:\[([^\[\]]*)\])?\s*=(.+)", re.DOTALL)
_RANGE = re.compile(r"(.+?)\.\.(.+)")
SHARE = "share"
"""What stands for the unit of a metric that is 1 or 0 in each run, or k of the n trials in it."""
_TAKEN = ("candidate", "baseline")

Units = dict[str, float]
Words = Callable[[float], str]


def read_metric(text: str) -> Metric:
    """
    >>> p99 = read_metric("p99[ms]=json:.latency.p99")
    >>> p99.read("--at-most", "200ms"), p99.read_value("1.5"), p99.read_value("2 s"), p99.words(0.0015)
    (0.2, 0.0015, 2.0, '1.5 ms')
    >>> score = read_metric("score[points, 0..10]=last-line")
    >>> score.low, score.high, score.words(7.5)
    (0.0, 10.0, '7.5 points')
    """
    written = _WRITTEN.fullmatch(text)
    if not written:
        raise InvalidInput("--metric", text, f"must be NAME=READER or NAME[UNIT]=READER, with a reader such as {HOW}")
    name, about, how = written.groups()
    if name in METRICS or name in _TAKEN:
        raise InvalidInput("--metric", text, f"{name!r} means something else already; choose another name")
    find = reader_of("--metric", how)
    if (about or "").strip() == SHARE:
        return Metric(name, read_share, percent_words, True, high=1.0, find=find, read_value=_read_yes_or_no, text=text)
    units, stated, ends = _about(text, about or "")
    scale, words = units.get(stated, 1.0), _words_of(stated, units)
    low, high = (end * scale for end in ends)
    if not -math.inf < low < high:
        raise InvalidInput("--metric", text, "the low end of its range must be below the high end, as in score[0..10]")

    def read_value(value: str) -> float:
        try:
            number = _amount(value, units, scale)
        except ValueError as error:
            bare, unit = _split(value, {**TIMES, **SIZES, "%": 0.01})
            if units or not unit or not is_decimal(bare.strip()):
                raise
            raise ValueError(f"{error}; values with a unit are read by --metric '{name}[{unit}]=…'") from None
        if not low <= number <= high:
            if high < math.inf:
                raise ValueError(f"{words(number)} lies outside the stated range, {words(low)} to {words(high)}")
            raise ValueError(f"{words(number)} is below 0, so its range must be stated, as in {name}[-10..10]")
        return number

    read = functools.partial(_read_limit, units=units, is_positive=high == math.inf)
    return Metric(name, read, words, low=low, high=high, find=find, read_value=read_value, text=text)


def read_metrics(texts: Sequence[str]) -> Metrics:
    """By name: the metrics that every run yields, and one's own."""
    known = dict(METRICS)
    for text in texts:
        metric = read_metric(text)
        if metric.name in known:
            raise InvalidInput("--metric", text, f"there is a metric {metric.name!r} already")
        known[metric.name] = metric
    return known


def measured(run: Run, own: Sequence[Metric]) -> Run:
    """The run with the metrics of one's own that it printed. A run that was stopped has none."""
    if not own or run.timed_out:
        return dataclasses.replace(run, printed="")
    found: dict[str, float | Share] = {}
    reasons: list[str] = []
    for metric in own:
        assert metric.find is not None
        assert metric.read_value is not None
        try:
            text = metric.find(run.printed)
            try:
                found[metric.name] = metric.read_value(text)
            except ValueError as error:
                raise Unreadable(f"{metric.find.text}: found {text[:80]!r}: {error}") from None
        except Unreadable as error:
            reasons.append(f"{metric.name!r} cannot be read with {error}")
    return dataclasses.replace(run, own=found, unread="; ".join(reasons), printed="")


def _read_yes_or_no(text: str) -> float | Share:
    """One run that did or did not, 1 or 0; or k of its n trials."""
    words = {"true": 1.0, "false": 0.0, "1": 1.0, "0": 0.0}
    if is_share(text):
        try:
            return as_share(text)
        except InvalidInput as error:
            raise ValueError(error.reason) from None
    if text not in words:
        raise ValueError("must be 1 or 0, true or false, or two numbers: k of n")
    return words[text]


def _about(text: str, about: str) -> tuple[Units, str, tuple[float, float]]:
    """What the brackets say: the units that values may have, the one of bare numbers, and the range."""
    unit, ends = "", (0.0, math.inf)
    for part in filter(None, map(str.strip, about.split(","))):
        if found := _RANGE.fullmatch(part):
            try:
                ends = (read_decimal(found[1]), read_decimal(found[2]))
            except ValueError as error:
                raise InvalidInput("--metric", text, f"an end of the range {part} {error}") from None
        elif unit:
            raise InvalidInput("--metric", text, f"has two units, {unit} and {part}; a range is written 0..10")
        else:
            unit = part
    known = next((table for table in (TIMES, SIZES, {"%": 0.01}) if unit in table), None)
    return ({unit: 1.0} if unit else {}) if known is None else known, unit, ends


def _words_of(unit: str, units: Units) -> Words:
    known = {id(TIMES): time_words, id(SIZES): size_words}.get(id(units))
    if known is not None:
        return known
    return percent_words if unit == "%" else lambda value: f"{value:.4g} {unit}".rstrip()


def _amount(text: str, units: Units, scale: float) -> float:
    """A number with one of the units, or without."""
    number, unit = _split(text, units)
    return moderate(finite_number(read_decimal(number) * units.get(unit, scale)))


def _split(text: str, units: Units) -> tuple[str, str]:
    """A number, and the unit that is written after it."""
    unit = next((one for one in sorted(units, key=len, reverse=True) if text.strip().endswith(one)), "")
    return text.strip().removesuffix(unit), unit


def _read_limit(field: str, text: str, units: Units, is_positive: bool) -> float:
    """A limit, a margin or a tolerance. Units must be written where a number could be in several."""
    _, unit = _split(text, units)
    if not unit and len(units) > 1:
        raise InvalidInput(field, text, f"must be a number with one of the units {', '.join(units)}", tuple(units))
    try:
        number = _amount(text, units, 1.0)
    except ValueError as error:
        raise InvalidInput(field, text, str(error), tuple(units)) from None
    if is_positive and not number > 0.0:
        raise InvalidInput(field, text, "must be more than 0; a metric with other values needs a range, as in x[-5..5]")
    return number
