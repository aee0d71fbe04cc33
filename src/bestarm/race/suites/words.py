"""What a gate on a suite came to, in words: the verdict, a row for each benchmark, and what it rests on."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from bestarm.answer import void_words
from bestarm.race.limits import time_words
from bestarm.race.suites.result import Standing, SuiteGate
from bestarm.texts import listed

_NAMED = 5
"""So many benchmarks are named in a sentence; the table has all."""
_LEAST = 2
"""The least N worth stating: "rarer than 1 in 1" says nothing."""


def names(benchmarks: Sequence[Standing]) -> str:
    """The first few of several benchmarks.

    >>> names([Standing(name, "new") for name in ("sort", "sum")])
    'sort and sum'
    """
    found = [one.name for one in benchmarks[:_NAMED]]
    rest = len(benchmarks) - len(found)
    return listed([*found, f"{rest} more"] if rest else found)


def _counted(number: int) -> str:
    return f"{number:,} benchmark{'s' * (number != 1)}"


def verdict(gate: SuiteGate) -> str:
    """The conclusion in one sentence."""
    after = f"after {gate.pairs:,} pair{'s' * (gate.pairs != 1)} of runs"
    sure = f"with {100 * (1 - gate.delta):g}% confidence"
    refuted, certified, open_ones = gate.of("refuted"), gate.of("certified"), gate.of("undecided")
    if gate.found == "void":
        return f"VOID: nothing is guaranteed {after}; {void_words(gate.void_because)}."
    if refuted:
        some = f"{_counted(len(refuted))} of {len(gate.compared):,} exceed{'s' * (len(refuted) == 1)} the limit"
        rest = f"; {len(open_ones):,} undecided" if open_ones else ""
        return f"REFUTED: {some}: {names(refuted)}{exception(refuted)}, {sure}, {after}{rest}."
    if gate.found == "certified":
        what = f"each of {_counted(len(certified))} is within its limit"
        return f"CERTIFIED: {what}{exception(certified)}, {sure}, {after}."
    how = "stopped" if gate.is_interrupted else "the budget is spent"
    within = f"; {len(certified):,} of {len(gate.compared):,} are certified to be within their limits" * bool(certified)
    return f"UNDECIDED: {how} {after}, and {names(open_ones)} may be within the limit or not{within}."


def exception(benchmarks: Sequence[Standing]) -> str:
    """What one and the same verdict on several benchmarks does not cover: pauses of the program that it favors.

    >>> certified = [Standing("sort", "certified", pauses_rarer_than=5), Standing("sum", "certified", paused=(2, 2))]
    >>> exception(certified[:1])
    ', except for pauses of the candidate rarer than 1 in 5'
    >>> exception(certified)
    ', except for pauses of the candidate rarer than 1 in 5 and those seen in sum'
    """
    program = "baseline" if benchmarks[0].verdict == "refuted" else "candidate"
    rarest = [one.pauses_rarer_than for one in benchmarks if one.pauses_rarer_than is not None]
    seen = [one for one in benchmarks if one.pauses_rarer_than is None]
    rare = f" rarer than 1 in {min(rarest):,}" if rarest and min(rarest) >= _LEAST else ""
    words = [f"pauses of the {program}{rare}"] if rarest else []
    words += [f"{'those' if words else f'pauses of the {program}'} seen in {names(seen)}"] if seen else []
    return f", except for {' and '.join(words)}"


def limit_words(limit: float) -> str:
    return "" if math.isnan(limit) else f"{limit:.6g}x"


def ratio_words(one: Standing) -> str:
    """The ratio, and between what it lies.

    >>> ratio_words(Standing("sort", "undecided", 1.05, (1.0,), (1.1,), 0.9, 1.25))
    '1.10 (0.90 to 1.25)'
    """
    if not one.old:
        return ""
    if math.isnan(one.low) or (one.low == 0.0 and math.isinf(one.high)):
        return f"{one.ratio:.2f}"
    high = f"to {one.high:.2f}" if math.isfinite(one.high) else "or more"
    return f"{one.ratio:.2f} ({one.low:.2f} {high})"


def rows(gate: SuiteGate) -> Iterator[tuple[str, str, str, str, str, str]]:
    """For each benchmark: its name, verdict and limit, the mean times of baseline and candidate, and their ratio. Those
    that do not pass come first."""
    order = ("refuted", "undecided", "absent", "new", "certified")
    for one in sorted(gate.benchmarks, key=lambda one: order.index(one.verdict)):
        old, new = (time_words(statistics.fmean(times)) if times else "" for times in (one.old, one.new))
        yield one.name, one.verdict, limit_words(one.limit), old, new, ratio_words(one)


def notes(gate: SuiteGate) -> Iterator[str]:
    """What the verdict rests on, and what it says nothing about."""
    ratio, low, high = gate.geometric_mean
    if not math.isnan(ratio):
        ends = f", between {low:.3f} and {high:.3f}" if 0.0 < low <= high < math.inf else ""
        yield f"Geometric mean of the ratios: {ratio:.3f}{ends}."
    if absent := gate.of("absent"):
        yield f"Not compared: the candidate has no {names(absent)} (absent)."
    if new := gate.of("new"):
        yield f"Not compared: the baseline has no {names(new)} (new)."
    for one in gate.of("undecided"):
        if one.withheld:
            yield f"{one.name} has no verdict: {one.withheld}."
    if seen := gate.pauses_seen:
        counts = [f"{one.name} ({one.paused[0]:,} and {one.paused[1]:,})" for one in seen[:_NAMED]]
        more = [f"{len(seen) - _NAMED:,} more"] if len(seen) > _NAMED else []
        yield (
            f"Runs of baseline and candidate that took far longer than the first, of {gate.pairs:,} each: "
            f"{listed([*counts, *more])}. Nothing is said of how rare that is; it is taken to strike both alike."
        )
    if moved := [one for one in gate.compared if any(one.paused) and (one.ratio < one.low or one.ratio > one.high)]:
        yield f"Pauses moved the measured ratio of {names(moved)} out of its interval, which is about other runs."
    yield (
        "Assumed: pairs of runs are independent of each other, and the difference between a benchmark's two runs "
        "scatters as far above its mean as below, except for pauses. Benchmarks may depend on each other in any way."
    )
    yield f"All verdicts and intervals hold together. The order of runs was drawn by --seed {gate.seed}."
    for warning in gate.warnings:
        yield f"Warning: {warning}"
