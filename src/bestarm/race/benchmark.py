"""One command alone: how long it takes, and how sure that is. Nothing is compared, so nothing is claimed of others."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from bestarm.race.intervals import Estimate, median_of
from bestarm.race.limits import time_words
from bestarm.race.result import RaceResult
from bestarm.race.summary import figures_of, mean_of, memory_words
from bestarm.texts import listed

_FAR = 10.0
"""A run is an outlier if it lies more than so many standard deviations from the median, estimated by the median
deviation, which outliers hardly move."""
_PER_DEVIATION = statistics.NormalDist().inv_cdf(0.75)
_MOST_NAMED = 5
_LEAST_RUNS = 6
"""With fewer runs no scatter is known."""
_MOST_SHARE = 0.1
"""If more of the runs are far off, something else is the matter."""


def outliers_of(values: Sequence[float]) -> list[int]:
    """The places of values far from all others.

    >>> outliers_of([1.0, 1.1, 0.9, 1.05, 0.95, 9.0]), outliers_of([1.0, 1.0, 1.0])
    ([5], [])
    """
    middle = statistics.median(values)
    scatter = statistics.median(abs(value - middle) for value in values) / _PER_DEVIATION
    return [place for place, value in enumerate(values) if scatter > 0.0 and abs(value - middle) > _FAR * scatter]


def benchmark_lines(result: RaceResult) -> Iterator[tuple[str, str]]:
    """What was measured: what a line is about, and what it says."""
    [command] = result.contestants
    runs = result.run_log.of(command.name)
    found = figures_of(runs, result.run_log.floor)
    if found.mean is None or found.min is None or found.max is None or found.memory is None:
        yield "runs", "none"
        return
    spread = "" if found.stddev is None else f" ± {time_words(found.stddev)}"
    processor = f"user {time_words(found.user or 0.0)}, system {time_words(found.system or 0.0)}"
    yield "time", f"{time_words(found.mean)}{spread} (mean ± σ); {processor}"
    yield "range", f"{time_words(found.min)} to {time_words(found.max)}, {len(runs):,} run{'s' * (len(runs) != 1)}"
    yield "median", _median_words(result)
    yield "memory", f"{memory_words(found.memory, result.run_log.floor)} (peak of the largest process)"
    for metric in result.question.own:
        yield metric.name, f"{metric.words(mean_of(runs, metric.name))} (mean)"
    if found.failures:
        stopped = sum(run.timed_out for run in runs)
        more = f"; {stopped:,} were stopped after {time_words(result.timeout)}" if stopped else ""
        yield "failed", f"{found.failures:,} of {len(runs):,} runs{more}"
    yield "outliers", _outlier_words([run.time for run in runs])


def median_of_runs(result: RaceResult) -> Estimate:
    """The median of what is minimized, which is the time unless stated. Its limits are right at all times at once with
    probability 1 - delta, if only runs are independent of each other. A run that was stopped, or failed without
    saying it, counts as worst."""
    [command] = result.contestants
    worst = math.inf if result.question.goal == "minimize" else -math.inf
    runs = result.run_log.of(command.name)
    values = [worst if run.timed_out else run.value(result.question.objective) for run in runs]
    found = median_of([worst if math.isnan(value) else value for value in values], 0.5 * result.question.delta)
    # Limits that leave out what was measured show that runs depend on each other.
    return found if found.low <= found.value <= found.high else Estimate(found.value, math.nan, math.nan)


def _median_words(result: RaceResult) -> str:
    metric = result.question.objective
    words = result.question.known[metric].words
    found = median_of_runs(result)
    of = "" if metric == "time" else f" of {metric}"
    sure = f"{100 * (1 - result.question.delta):g}% confidence, at any number of runs"
    if math.isinf(found.value):
        return f"unknown{of}: at least half of the runs were stopped, or failed without saying it"
    if math.isnan(found.low):
        return f"{words(found.value)}{of}; runs have changed over time, so there is no interval"
    if not found.is_known:
        return f"{words(found.value)}{of}; how sure that is takes more runs to tell"
    return f"{words(found.value)}{of}; between {words(found.low)} and {words(found.high)} with {sure}"


def _outlier_words(times: Sequence[float]) -> str:
    places = outliers_of(times)
    if not places or len(times) < _LEAST_RUNS:
        return "none"
    if len(places) > _MOST_SHARE * len(times):
        return f"{len(places):,} of {len(times):,} runs are far from the median, so these are no rare disturbances"
    named = [f"run {place + 1} ({time_words(times[place])})" for place in places[:_MOST_NAMED]]
    named += [f"{len(places) - _MOST_NAMED:,} more"] if len(places) > _MOST_NAMED else []
    if places == [0]:
        return f"{named[0]}, the first: caches may have been cold; --warmup N makes runs that do not count"
    return f"{listed(named)}: other programs may have disturbed them; use an idle machine"
