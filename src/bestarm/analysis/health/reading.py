"""From what has been seen to notes: which evidence suffices, and what it means in plain words."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from bestarm.analysis.health.evidence import log_mean, pooled
from bestarm.analysis.health.notes import HealthKind, HealthNote, Severity
from bestarm.analysis.health.seen import Seen, has_wide_range
from bestarm.kernel.state import Floats
from bestarm.problem import Problem

WIDE_SIGMA = 3.0
WIDE_RANGE = 100.0
"""How many times too wide a stated sigma or range must be to be mentioned."""

_ENOUGH_OF_ARM = 10
_ENOUGH = 30
"""Results of an arm, and of all such arms, by which sigma is judged too wide."""

_ENOUGH_FOR_RANGE = 100

_GRAVEST_FIRST = {"broken": 0, "doubtful": 1, "hint": 2}

_LOST = "The guarantee rests on this and does not hold"


def notes_of(problem: Problem, seen: Seen) -> tuple[HealthNote, ...]:
    """What the results say, the gravest first."""
    found = sorted(_Reading(problem, seen).notes(), key=lambda note: _GRAVEST_FIRST[note.severity])
    return tuple(found)


class _Reading:
    def __init__(self, problem: Problem, seen: Seen) -> None:
        self._problem = problem
        self._seen = seen
        self._names = [part.title for part in problem.parts]

    def notes(self) -> Iterator[HealthNote]:
        yield from self._not_exact()
        yield from self._scatter()
        yield from self._skewness()
        yield from self._drift()
        yield from self._dependence()
        yield from self._workers()
        yield from self._too_wide_sigma()
        yield from self._too_wide_range()

    def _note(
        self, kind: HealthKind, severity: Severity, metric: int, arm: int | None, seen: str, effect: str
    ) -> HealthNote:
        """What was seen, as it can follow "because", and what that does, in sentences. Advice is in `advice.py`."""
        name = None if arm is None else self._problem.arm_names[arm]
        return HealthNote(kind, severity, self._names[metric], name, seen, effect)

    def _found(self, peaks: Floats) -> Iterator[tuple[int, int, int | None]]:
        """Where evidence, by bet, direction, metric and arm, suffices: the metric, the stronger direction, and the arm
        if all of it is there."""
        if not peaks.any():
            return
        of_sides = log_mean(pooled(peaks))
        for metric in np.flatnonzero(log_mean(of_sides) >= self._seen.log_level).tolist():
            side = int(np.argmax(of_sides[:, metric]))
            yield metric, side, self._alone(peaks[:, side, metric])

    def _alone(self, of_bets: Floats) -> int | None:
        """The arm whose evidence suffices by itself, if there is one and no other shows any."""
        log_peaks = of_bets.max(axis=0)
        order = np.argsort(log_peaks)
        suffices = self._seen.log_level + math.log(2 * len(log_peaks))
        is_alone = len(order) == 1 or log_peaks[order[-2]] < math.log(20.0)
        return int(order[-1]) if log_peaks[order[-1]] >= suffices and is_alone else None

    def _not_exact(self) -> Iterator[HealthNote]:
        for metric, (arm, test, first, other) in sorted(self._seen.unequal.items()):
            seen = (
                f"test {test} gave {other!r} where an earlier one gave {first!r}, and results were stated to be exact"
            )
            yield self._note("not exact", "broken", metric, arm, seen, f"{_LOST}: one result does not settle an arm.")

    def _scatter(self) -> Iterator[HealthNote]:
        scattered = set()
        for metric, _, arm in self._found(self._seen.scatter):
            scattered.add(metric)
            sigma = self._seen.noises[metric].stated_scatter or 0.0
            often = self._seen.counts[metric] > 1
            free = self._seen.counts[metric, often] - 1.0
            times = math.sqrt(self._seen.squares[metric, often].sum() / free.sum())
            if arm is not None:
                times = math.sqrt(self._seen.squares[metric, arm] / (self._seen.counts[metric, arm] - 1.0))
            seen = (
                f"results scatter by about {times * sigma:.2g}, {times:.2g} times the stated standard deviation of "
                f"{sigma:.6g}"
            )
            effect = f"{_LOST}: the answer can be wrong far more often than δ."
            yield self._note("scatter", "broken", metric, arm, seen, effect)
        for metric, outlier in sorted(self._seen.outliers.items()):
            if metric in scattered:
                continue
            sigma = self._seen.noises[metric].stated_scatter or 0.0
            name = self._problem.arm_names[outlier.arm]
            more = "" if outlier.count == 1 else f" ({outlier.count:,} results are like that)"
            seen = (
                f"test {outlier.test} of {name} gave {outlier.value:.6g}, further from the results before it than a "
                f"standard deviation of {sigma:.6g} allows{more}"
            )
            effect = "If such results occur, the stated scatter is wrong and the guarantee does not hold."
            yield self._note("outlier", "doubtful", metric, outlier.arm if outlier.count == 1 else None, seen, effect)

    def _skewness(self) -> Iterator[HealthNote]:
        for metric, side, arm in self._found(self._seen.skewness):
            seen = (
                f"results are skewed: the far ones lie {('above', 'below')[side]} the others, and they were stated to "
                "scatter as far up as down"
            )
            effect = f"{_LOST}: the answer can be wrong more often than δ."
            yield self._note("skewness", "broken", metric, arm, seen, effect)

    def _drift(self) -> Iterator[HealthNote]:
        for metric, side, arm in self._found(self._seen.drift):
            seen = f"later results are {('larger', 'smaller')[side]} than earlier ones"
            effect = f"{_LOST}: there is no one mean to find, and arms tested at different times are compared unfairly."
            yield self._note("drift", "broken", metric, arm, seen, effect)

    def _dependence(self) -> Iterator[HealthNote]:
        for metric, side, arm in self._found(self._seen.dependence):
            like = ("resemble each other", "tend to opposite sides")[side]
            effect = f"{_LOST}: results that depend on each other prove less than they seem to."
            yield self._note("dependence", "broken", metric, arm, f"results that follow each other {like}", effect)

    def _workers(self) -> Iterator[HealthNote]:
        seen = self._seen
        if len(seen.by_worker) < 2:
            return
        names = {number: name for name, number in seen.workers.items()}
        # Who appears later has the same share of the false alarms as those who are there from the start.
        of_sides = np.array([log_mean(pooled(peaks)) for peaks in seen.by_worker])
        by_worker = np.array([*map(log_mean, of_sides)]) - math.log(seen.most_workers)
        for metric in np.flatnonzero(np.logaddexp.reduce(by_worker, axis=0) >= seen.log_level).tolist():
            worker = int(np.argmax(by_worker[:, metric]))
            side = int(np.argmax(of_sides[worker, :, metric]))
            what = f"results of {names[worker]} are {('larger', 'smaller')[side]} than those that others measure"
            effect = "The answer then depends on who measured what, and the guarantee does not cover that."
            arm = self._alone(seen.by_worker[worker][:, side, metric])
            yield self._note("worker", "doubtful", metric, arm, what, effect)

    def _too_wide_sigma(self) -> Iterator[HealthNote]:
        seen = self._seen
        for metric, noise in enumerate(seen.noises):
            often = seen.counts[metric] >= _ENOUGH_OF_ARM
            if noise.stated_scatter is None or seen.counts[metric, often].sum() < _ENOUGH:
                continue
            times = math.sqrt((seen.squares[metric, often] / (seen.counts[metric, often] - 1.0)).max())
            if times * WIDE_SIGMA > 1.0:
                continue
            if times == 0.0:
                what = "every arm gives the same value each time"
                effect = 'The noise "exact" takes one test of each.'
            elif times < 1e-3:
                what = f"the stated standard deviation of {noise.stated_scatter:.6g} is over 1,000 times what is seen"
                effect = "The answer is safe, but takes very many more tests than it needs."
            else:
                what = (
                    f"the stated standard deviation of {noise.stated_scatter:.6g} is about {1 / times:.2g} times what "
                    f"is seen ({times * noise.stated_scatter:.2g})"
                )
                effect = f"The answer is safe, but takes about {times**-2:.2g} times the tests that it needs."
            yield self._note("too wide", "hint", metric, None, what, effect)

    def _too_wide_range(self) -> Iterator[HealthNote]:
        seen = self._seen
        for metric, noise in enumerate(seen.noises):
            if not has_wide_range(noise) or seen.results[metric] < _ENOUGH_FOR_RANGE:
                continue
            (low, high), spread = noise.value_range, seen.high[metric] - seen.low[metric]
            if spread * WIDE_RANGE >= high - low:
                continue
            times = "far wider than" if spread == 0.0 else f"about {(high - low) / spread:.2g} times as wide as"
            what = f"the stated range from {low:.6g} to {high:.6g} is {times} all results so far"
            effect = "The answer is safe. Unless far results do occur, a narrower range takes fewer tests."
            yield self._note("too wide", "hint", metric, None, what, effect)
