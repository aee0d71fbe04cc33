"""What a race found of each limit: measured, the ratio to the baseline, and intervals that are valid at any time."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from bestarm.analysis.standing.arms import MetricStanding
from bestarm.answer import finite
from bestarm.policies.levels import levels_of
from bestarm.race.counting import Counting
from bestarm.race.limits import METRICS, Limit
from bestarm.race.own_metrics import read_metric
from bestarm.race.pauses import noun_for_pauses
from bestarm.race.ratios import Interval, ratio_interval
from bestarm.race.result import RaceResult


@dataclasses.dataclass(frozen=True)
class LimitFound:
    """A limit of a gate, and where the candidate stands with it. `low` and `high` are about the ratio if the limit is
    a multiple of the baseline, and else about what was measured; None: nothing is known."""

    limit: str
    metric: str
    verdict: str
    """It "holds", is "violated", or "open"."""
    is_relative: bool
    at_most: float | None
    """The limit of the ratio, or of what is measured; None for a margin above the baseline."""
    candidate: float | None
    baseline: float | None
    """The mean or quantile that was measured, in seconds, bytes, or as a share."""
    ratio: float | None
    """None, too, where the limit is no multiple of the baseline."""
    low: float | None
    high: float | None
    at_least: float | None = None
    """The limit, if it is one from below; then `at_most` is None."""
    stated: str = ""
    """A metric of the user's own, as it was written."""

    @property
    def words(self) -> Callable[[float], str]:
        """How values of the metric are shown."""
        return read_metric(self.stated).words if self.stated else METRICS[self.metric].words

    @property
    def is_multiple(self) -> bool:
        """Whether it is about the ratio to the baseline: it is relative, and no margin."""
        return self.is_relative and any(one is not None for one in (self.at_most, self.at_least, self.ratio))

    @property
    def cells(self) -> tuple[str, str, str, str, str, str]:
        """The limit, the verdict, the ratio, what the interval is, the candidate's figure and the baseline's."""
        figures = ["–" if figure is None else self.words(figure) for figure in (self.candidate, self.baseline)]
        ratio = "–" if self.ratio is None else multiple(self.ratio)
        return self.limit, self.verdict, ratio, self.interval, figures[0], figures[1]

    @property
    def interval(self) -> str:
        words = multiple if self.is_multiple else self.words
        if self.low is None and self.high is None:
            return "unknown"
        if self.low is None or self.high is None:
            return f"{words(self.low)} or more" if self.low is not None else f"at most {words(self.high or 0.0)}"
        return f"{words(self.low)} to {words(self.high)}"


HEADINGS = ("limit", "verdict", "ratio", "interval", "candidate", "baseline")


def multiple(number: float) -> str:
    """So many times the baseline.

    >>> multiple(1.05), multiple(0.98765)
    ('1.05x', '0.9877x')
    """
    return f"{number:.4g}x"


def interval_words(result: RaceResult) -> str:
    """What the intervals of limits promise."""
    metrics = result.question.symmetric
    of = f", for runs without {noun_for_pauses(metrics)}, or if these strike both alike" if metrics else ""
    return f"Each end of an interval holds at any number of runs with {100 * (1 - result.delta):g}% confidence{of}."


def limits_found(result: RaceResult) -> tuple[LimitFound, ...]:
    """Every limit of a gate."""
    candidate, places = result.contestants[-1].name, range(1, len(result.question.limits) + 1)
    return tuple(_found(result, candidate, place) for place in places)


def limit_verdict(result: RaceResult, limit: Limit, stands: MetricStanding) -> str:
    """What is certain of a limit: nothing, where its verdict rests on a symmetry that cannot be assumed."""
    return "open" if _is_doubted(result, limit) else stands.verdict or "open"


def _is_doubted(result: RaceResult, limit: Limit) -> bool:
    return bool(result.conclusion.withheld) and limit.is_relative and limit.metric in result.question.symmetric


def _found(result: RaceResult, name: str, place: int) -> LimitFound:
    arms = {arm.name: arm for arm in result.status.arms}
    limit, stands = result.question.limits[place - 1], arms[name].metrics[place]
    base = arms[result.question.baseline].metrics[place] if result.question.baseline in arms else None
    is_known = result.found != "void" and not _is_doubted(result, limit)
    ratio, ends = None, known_of(result, name, limit, stands.low, stands.high) if is_known else None
    if limit.is_relative and not limit.margin and base is not None:
        ratio = ratio_to(result, stands, base, limit)
        ends = None if ratio is None else ratio_interval_of(result, name, place)
    low, high = ends or Interval(-math.inf, math.inf)
    value = None if limit.margin else limit.value
    return LimitFound(
        *(limit.words, limit.metric, limit_verdict(result, limit, stands), limit.is_relative),
        *(value if limit.side == "at_most" else None, finite(stands.mean)),
        *(None if base is None else finite(base.mean), ratio, finite(low), finite(high)),
        *(value if limit.side == "at_least" else None, "" if limit.own is None else limit.own.text),
    )


def ratio_to(result: RaceResult, own: MetricStanding, base: MetricStanding, limit: Limit) -> float | None:
    """The measured mean, so many times that of the baseline. None where there is no such multiple: before the first
    runs, where the baseline needs nothing, or no memory that can be seen."""
    floor = result.run_log.floor if limit.metric == "memory" else 0.0
    return own.mean / base.mean if own.tests and base.tests and base.mean > floor else None


def ratio_interval_of(result: RaceResult, name: str, place: int) -> Interval | None:
    """Between what the ratio of a command's mean to the baseline's lies, for a limit relative to the baseline, at the
    levels that decide on it. None: it is not known, since nothing can be said of how runs scatter, or since they are
    those of several machines."""
    question, baseline = result.question, result.question.baseline
    limit = question.limits[place - 1]
    if baseline is None or limit.metric not in question.symmetric or result.plan.blocks is not None:
        return None
    if result.found == "void" or result.conclusion.withheld:
        return None
    counting = Counting(question, result.ceilings, result.cutoffs, result.run_log.floor, ignores_failures=True)
    own, base = (
        [counting.value(command, limit.metric, run) for run in result.run_log.of(command)]
        for command in (name, baseline)
    )
    arm = result.plan.arm_names.index(name)
    levels = levels_of(result.plan, result.plan.delta)
    rejects = float(levels.rejecting[arm]) + math.log(len(question.limits))
    ends = (rejects, float(levels.certifying[arm]))
    # A limit from below is certified by the lower end, and refuted by the upper one.
    found = ratio_interval(own, base, limit.value, *(ends if limit.side == "at_most" else reversed(ends)))
    return None if found is None else known_of(result, name, limit, *found)


def known_of(result: RaceResult, name: str, limit: Limit, low: float, high: float) -> Interval:
    """What is known of an interval that rests on symmetry: runs that were stopped would have taken longer."""
    if limit.metric != "time" or not limit.is_relative or limit.metric not in result.question.symmetric:
        return Interval(low, high)
    is_open = result.question.baseline is not None and result.stopped(result.question.baseline)
    return Interval(-math.inf if is_open else low, math.inf if result.stopped(name) else high)
