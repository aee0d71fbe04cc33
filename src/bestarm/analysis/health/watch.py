"""Watches the results of a study as they come, and says in plain words what they contradict."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bestarm.analysis.health.bets import MOST_WORKERS, Result
from bestarm.analysis.health.checks import Finding, MetricChecks, count_checks, has_wide_range, is_yes_or_no
from bestarm.analysis.health.notes import Health, HealthKind, HealthNote, Severity, gravest_first
from bestarm.kernel.packing import is_packed, unpack
from bestarm.kernel.state import Floats, Ints
from bestarm.problem import Problem

FALSE_ALARMS = 0.001
"""In how many studies, at most, the checks say "broken" although everything is as stated."""

MOST_PARTS = 256
"""The most small pieces of the record to keep until the next look: each takes more room than its results."""

_PROCESS = re.compile(r"/\d+-\d+$")


class Watch:
    """The checks of one study. `extend` takes results in the order in which they count, `health` says what is seen.

    What is seen depends on the results in their order, not on when it is asked for, and evidence only grows: what was
    found once is found again.
    """

    def __init__(self, problem: Problem, *, false_alarms: float = FALSE_ALARMS) -> None:
        self._problem = problem
        noises = problem.noises
        tests = sum(count_checks(problem, noise) for noise in noises)
        log_level = math.log(max(1, tests) / false_alarms)
        # The same numbers every time, so that a study that is opened again is seen as before.
        draw = random.Random(17).random
        self._draw = random.Random(19).random
        self._metrics = [MetricChecks(problem, metric, log_level, draw) for metric in range(len(noises))]
        # Checks that state what was seen cannot be wrong: are values equal, is sigma or a range too wide?
        plain = [n.is_exact or n.stated_scatter is not None or has_wide_range(n) for n in noises]
        self._checks = tests + sum(plain)
        self._workers: dict[str, int] = {}
        self._names: list[str] = []
        self._since = np.array([arm.since for arm in problem.arms])
        self._new: list[tuple[Ints, Ints, Ints, Floats, list[int], Floats | Ints, Ints]] = []
        self._health: Health | None = None

    def extend(
        self,
        tests: Ints,
        arms: Ints,
        metrics: Ints,
        values: Floats,
        holders: Sequence[Any] = (),
        issued: Floats | None = None,
        items: Ints | None = None,
    ) -> None:
        """Add results: the test's number, its arm and metric by number, its value and, if known, who measured it,
        when the test was issued, and the place of its item. Tests that were issued at the same time were asked for, or
        entered, together.

        They are only kept until the next look: asking and telling do not wait for the checks. A result without a
        value (NaN) does not count.
        """
        groups = -tests if issued is None or not len(issued) else issued
        places = np.full(len(tests), -1) if items is None or not len(items) else items
        # An arm that came later may have been made to suit the items before its own.
        values = np.where((places >= 0) & (places < self._since[arms]), np.nan, values)
        workers = [self._worker(holder) for holder in holders]
        self._new.append((tests, arms, metrics, values, workers, groups, places))
        if len(self._new) > MOST_PARTS:
            self._catch_up()

    def _worker(self, holder: object) -> int:
        """The number of a worker; -1 if there are too many to tell apart."""
        full = str(holder)
        number = self._workers.get(full)
        if number is None:
            # A process that is started again is the same worker.
            name = _PROCESS.sub("", full)
            if name not in self._names and len(self._names) < MOST_WORKERS:
                self._names.append(name)
            number = self._workers[full] = self._names.index(name) if name in self._names else -1
        return number

    def health(self) -> Health:
        """What the results say."""
        self._catch_up()
        if self._health is None:
            readings = [_Reading(self._problem, checks, self._names) for checks in self._metrics]
            self._health = Health(self._checks, gravest_first(note for one in readings for note in one.notes()))
        return self._health

    def _catch_up(self) -> None:
        new, self._new = self._new, []
        for tests, arms, metrics, values, workers, groups, places in new:
            self._health = None
            who = workers or itertools.repeat(0)
            columns = (tests.tolist(), arms.tolist(), values.tolist(), who, groups.tolist(), places.tolist())
            for metric, *result in zip(metrics.tolist(), *columns, strict=False):
                if is_packed(result[2]):
                    # The checks see one of several trials, drawn at random. So they are as sure as of single results.
                    k, n = unpack(result[2])
                    result[2] = float(self._draw() * n < k)
                if result[2] == result[2]:
                    self._metrics[metric].enter(Result(*result))


WIDE_SIGMA = 3.0
WIDE_RANGE = 5.0
"""How many times too wide a stated sigma or range must be to be mentioned."""

_ENOUGH_OF_ARM = 10
_ENOUGH = 30
"""Results of an arm, and of all such arms, by which sigma is judged too wide; and of all arms, a range."""

_LOST = "The guarantee rests on this and does not hold"
_CHARACTER = (
    "Values change in character. If their mean stays the same, the guarantee holds, since the study states nothing "
    "else about them. If their mean changes too, the guarantee does not hold."
)
_IN_ORDER: Mapping[HealthKind, tuple[str, str]] = {
    "drift": (
        "later results {larger} than earlier ones",
        "there is no one mean to find, and what is tested at different times is compared unfairly",
    ),
    "dependence": (
        "results that follow each other {like}",
        "results that depend on each other prove less than they seem to",
    ),
    "together": (
        "results that were asked for or entered together resemble each other",
        "they share something, such as a plate, a batch or a day, and prove less than they seem to",
    ),
}
"""What was seen in the order of results, and what that does to the guarantee."""


class _Reading:
    """Reads what was found in one metric. `workers` are by number."""

    def __init__(self, problem: Problem, checks: MetricChecks, workers: Sequence[str]) -> None:
        self._problem, self._checks, self._workers = problem, checks, workers
        self._noise = checks.part.noise

    def notes(self) -> Iterator[HealthNote]:
        if self._checks.unequal is not None:
            arm, test, first, other = self._checks.unequal
            seen = f"test {test} gave {other!r} where an earlier one gave {first!r}"
            effect = f"{_LOST}: one result does not settle anything."
            yield self._note("not exact", "broken", arm, f"{seen}, and results were stated to be exact", effect)
        yield from self._scatter()
        if strange := self._checks.strange:
            seen = f"test {strange.test} gave {strange.value:.6g} where {strange.usual.words()}"
            yield self._note("outlier", "doubtful", strange.arm, seen, "If it was measured, leave it as it is.")
        yield from self._skewness()
        yield from self._order()
        if found := self._checks.found("worker"):
            finding, _ = found
            seen = f"results of {self._workers[finding.column]} {self._larger(finding)} than those that others measure"
            effect = "The answer then depends on who measured what, and the guarantee does not cover that."
            yield self._note("worker", "doubtful", finding.arm, seen, effect)
        yield from self._too_wide_sigma()
        yield from self._too_wide_range()

    def _note(self, kind: HealthKind, severity: Severity, arm: int | None, seen: str, effect: str) -> HealthNote:
        """What was seen, as it can follow "because", and what that does, in sentences."""
        name = None if arm is None else self._problem.arm_names[arm]
        return HealthNote(kind, severity, self._checks.part.title, name, seen, effect)

    def _larger(self, finding: Finding) -> str:
        if self._noise.is_share:
            return f"lie beyond the threshold {('more', 'less')[finding.sign]} often"
        return f"are {('larger', 'smaller')[finding.sign]}"

    def _scatter(self) -> Iterator[HealthNote]:
        scatter = self._checks.scatter
        if scatter is None:
            return
        sigma, outlier = self._noise.stated_scatter, scatter.outlier
        assert sigma is not None
        if found := self._checks.found("scatter"):
            arm = found[0].arm
            times = scatter.times(arm)
            seen = (
                f"results scatter by about {times * sigma:.2g}, {times:.2g} times the stated standard deviation of "
                f"{sigma:.6g}"
            )
            yield self._note(
                "scatter", "broken", arm, seen, f"{_LOST}: the answer can be wrong far more often than stated."
            )
        elif outlier is not None:
            name = self._problem.arm_names[outlier.arm]
            more = "" if outlier.count == 1 else f" ({outlier.count:,} results are like that)"
            gave = "gave" if self._problem.blocks is None else "gave, beside what it is compared with,"
            seen = (
                f"test {outlier.test} of {name} {gave} {outlier.value:.6g}, further from the results before it than a "
                f"standard deviation of {sigma:.6g} allows{more}"
            )
            effect = "If such results occur, the stated scatter is wrong and the guarantee does not hold."
            yield self._note("outlier", "doubtful", outlier.arm if outlier.count == 1 else None, seen, effect)

    def _skewness(self) -> Iterator[HealthNote]:
        if found := self._checks.found("skewness"):
            finding, is_broken = found
            of = "results" if self._problem.items is None else f"differences between {self._problem.noun.many}"
            seen = (
                f"{of} are skewed: the far ones lie {('above', 'below')[finding.sign]} the others, and they were "
                "stated to scatter as far up as down"
            )
            wrong = "the answer can be wrong more often than stated"
            effect = f"{_LOST}: {wrong}." if is_broken else f"If those on all items of the set are like that, {wrong}."
            yield self._note("skewness", "broken" if is_broken else "doubtful", finding.arm, seen, effect)

    def _order(self) -> Iterator[HealthNote]:
        for kind, (seen, means) in _IN_ORDER.items():
            if found := self._checks.found(kind):
                finding, is_broken = found
                # On items, which tests are asked for together may follow from what is known of the items; not so in
                # blocks that were stated to add the same to all arms.
                blocks = self._problem.blocks
                is_excused = self._problem.items is not None and not (blocks is not None and blocks.same_for_all)
                is_broken = is_broken and not (kind == "together" and is_excused)
                like = ("resemble each other", "tend to opposite sides")[finding.sign]
                said = seen.format(larger=self._larger(finding), like=like)
                effect = f"{_LOST}: {means}." if is_broken else _CHARACTER
                yield self._note(kind, "broken" if is_broken else "doubtful", finding.arm, said, effect)

    def _too_wide_sigma(self) -> Iterator[HealthNote]:
        scatter = self._checks.scatter
        if scatter is None:
            return
        times, results = scatter.largest(_ENOUGH_OF_ARM)
        if results < _ENOUGH or times * WIDE_SIGMA > 1.0:
            return
        sigma = self._noise.stated_scatter
        assert sigma is not None
        if times == 0.0:
            seen = f"every {self._problem.noun.one} gives the same value each time"
            effect = 'The noise "exact" takes one test of each.'
        elif times < 1e-3:
            seen = f"the stated standard deviation of {sigma:.6g} is over 1,000 times what is seen"
            effect = "The answer is safe, but takes very many more tests than it needs."
        else:
            seen = (
                f"the stated standard deviation of {sigma:.6g} is about {1 / times:.2g} times what is seen "
                f"({times * sigma:.2g})"
            )
            effect = f"The answer is safe, but takes about {times**-2:.2g} times the tests that it needs."
        yield self._note("too wide", "hint", None, seen, effect)

    def _too_wide_range(self) -> Iterator[HealthNote]:
        if not has_wide_range(self._noise) or is_yes_or_no(self._noise) or self._checks.results < _ENOUGH:
            return
        (low, high), least, most = self._noise.value_range, self._checks.low, self._checks.high
        if (most - least) * WIDE_RANGE >= high - low:
            return
        stated = f"the stated range from {low:.6g} to {high:.6g}"
        if least == most:
            seen = f"all results so far are {least:.6g}, anywhere in {stated}"
            effect = 'The answer is safe. If results never vary, the noise "exact" takes one test of each.'
        else:
            times = (high - low) / (most - least)
            seen = (
                f"results have stayed within {least:.6g} to {most:.6g}, and {stated} is about {times:.2g} times as wide"
            )
            is_set = self._problem.items is not None and not self._problem.repeats
            like = "like normal values" if is_set else "as far up as down around their mean"
            effect = (
                'The answer is safe, but may take many times the tests that it needs. The noise "symmetric" is true if '
                f"results scatter {like}, and a narrower range if no result can lie outside it. Choose by what you "
                "know of them, in a new study."
            )
        yield self._note("too wide", "hint", None, seen, effect)
