"""What a run counts as in the study of its race."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence

from bestarm.noises.shares import Share
from bestarm.race.pauses import Cutoffs, command_on, is_pause
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.runs import Run
from bestarm.study import Test
from bestarm.study.intake.values import Value
from bestarm.study.work.failures import MeasurementFailed, MeasurementTimedOut


def largest_of(
    metrics: Iterable[str], first: Mapping[str, Sequence[Run]], known: Mapping[str, float]
) -> dict[str, float]:
    """The largest value of each metric among the first runs and what was known before. They need not all have it."""
    found = {metric: known.get(metric, 0.0) for metric in metrics if metric not in (CANDIDATE, "pauses")}
    for run in (run for runs in first.values() for run in runs):
        values = {metric: run.value(metric) for metric in found}
        found |= {metric: max(found[metric], value) for metric, value in values.items() if not math.isnan(value)}
    return found


@dataclasses.dataclass(frozen=True)
class Counting:
    """What runs count as, once ceilings, cutoffs and the floor of memory are known."""

    question: Question
    ceilings: Mapping[str, float]
    cutoffs: Cutoffs
    floor: float
    ignores_failures: bool

    def check(self, name: str, run: Run, which: str, *, is_first: bool = False) -> None:
        """An undeclared failure ends the race, and so does a metric that cannot be read in a run that did not fail. A
        timeout counts as a time. In the first run of all a command is probably wrong."""
        allowed = self.ignores_failures or "failures" in self.question.metrics
        if run.unread and not (run.failed and allowed):
            how = "" if run.status == 0 else f" {run.how};"
            where = f" on {run.on}" if run.on else ""
            raise MeasurementFailed(f"{which} of {name!r}{where}:{how} {run.unread}")
        if run.status != 0 and not run.timed_out and not allowed:
            say = "This was its first run: mend the command, or say" if is_first else "Say"
            left = re.search(r"(?<!\$)\{[A-Za-z_]\w*\}", name)
            fill = f". {left[0]} stands as it is: -L {left[0][1:-1]} A,B fills in values" if left else ""
            raise MeasurementFailed(
                f"{which} of {name!r} {run.how}. {say} how many runs may fail, as in --at-most failures=1%, or that it "
                f"does not matter: --ignore-failure{fill}"
            )

    def values(self, test: Test, run: Run) -> dict[str, Value] | Value:
        values: dict[str, Value] = {metric: self.value(test.arm, metric, run) for metric in test.metrics}
        values |= {metric: share for metric, share in run.own.items() if metric in values and isinstance(share, Share)}
        return values if len(values) > 1 else next(iter(values.values()))

    def value(self, name: str, metric: str, run: Run) -> float:
        if metric == CANDIDATE:
            return float(name != self.question.baseline)
        if metric == "pauses":
            return float(is_pause(run, self.cutoffs[command_on(name, run.on)]))
        if run.timed_out and metric not in ("time", "failures"):
            return self._unfinished(name, metric, run)
        value = run.value(metric)
        if math.isnan(value):
            return self._unfinished(name, metric, run)
        if metric == "memory":
            value = max(value, self.floor)
        return min(value, self.ceilings.get(metric, math.inf))

    def _unfinished(self, name: str, metric: str, run: Run) -> float:
        """What a run that was stopped counts as. What it used until then says nothing about a whole run: a command that
        hangs writes nothing. So it counts as the most that there is.

        This certifies nothing false. A value that is told is at least the smaller of the ceiling and what a whole run
        would have yielded. So if the mean of what is told is below a limit, so is the mean of whole runs, cut off at
        the ceiling. The same holds for a quantile, where only values above the limit matter. Where more
        is better, such a run counts as the least possible value. A run that failed without
        saying a metric of the user's own counts in the same way.
        """
        kind, is_better = self.question.known[metric], metric in self.question.enlarged
        if kind.is_share:
            reason = "it is not known how many trials were lost with it. Tell what it counts as, as k/n"
            raise MeasurementTimedOut(f"{name!r} {run.how}, and its {metric} is a share: {reason}")
        sides = {limit.side for limit in self.question.limits if limit.metric == metric}
        is_minimized = metric == self.question.objective and self.question.goal == "minimize"
        if is_better and ("at_most" in sides or is_minimized):
            reason = "is to be small and to be large, so there is no value that is the worst for both"
            raise MeasurementTimedOut(f"{name!r} {run.how}, and its {metric} {reason}")
        if is_better:
            return kind.low
        if kind.has_range:
            return kind.high
        if metric in self.ceilings:
            return self.ceilings[metric]
        if metric in self.question.compared:
            raise MeasurementTimedOut(
                f"{name!r} {run.how}, so its {metric} is not known, and commands are compared by it. State a longer "
                "--timeout, or --assume range, which counts such a run as the most that can be; --fresh starts over"
            )
        return 2.0 * max(limit.value for limit in self.question.limits if limit.metric == metric)
