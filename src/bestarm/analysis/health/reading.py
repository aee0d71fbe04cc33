"""From what has been found to notes: what it means, in plain words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from bestarm.analysis.health.metric import Finding, MetricChecks, has_wide_range, yes_or_no
from bestarm.analysis.health.notes import HealthKind, HealthNote, Severity
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
_CHARACTER = (
    "Values change in character. If their mean stays the same, the guarantee holds, since the study states nothing "
    "else of them; if it does not, it does not."
)


def notes_of(problem: Problem, metrics: Sequence[MetricChecks], workers: Sequence[str]) -> tuple[HealthNote, ...]:
    """What the results say, the gravest first. `workers` are by number."""
    found = [
        note
        for metric, checks in enumerate(metrics)
        for note in _Reading(problem, problem.parts[metric].title, checks, workers).notes()
    ]
    return tuple(sorted(found, key=lambda note: _GRAVEST_FIRST[note.severity]))


class _Reading:
    """Reads what was found in one metric."""

    def __init__(self, problem: Problem, name: str, checks: MetricChecks, workers: Sequence[str]) -> None:
        self._problem, self._name, self._checks, self._workers = problem, name, checks, workers
        self._noise = checks.part.noise

    def notes(self) -> Iterator[HealthNote]:
        yield from self._not_exact()
        yield from self._scatter()
        yield from self._strange()
        yield from self._skewness()
        yield from self._drift()
        yield from self._dependence()
        yield from self._together()
        yield from self._worker()
        yield from self._too_wide_sigma()
        yield from self._too_wide_range()

    def _note(self, kind: HealthKind, severity: Severity, arm: int | None, seen: str, effect: str) -> HealthNote:
        """What was seen, as it can follow "because", and what that does, in sentences. Advice is in `advice.py`."""
        name = None if arm is None else self._problem.arm_names[arm]
        return HealthNote(kind, severity, self._name, name, seen, effect)

    def _of_order(self, kind: HealthKind, finding: Finding, is_broken: bool, seen: str, means: str) -> HealthNote:
        """What was seen in the order of results, and what that does to the guarantee."""
        effect = f"{_LOST}: {means}." if is_broken else _CHARACTER
        return self._note(kind, "broken" if is_broken else "doubtful", finding.arm, seen, effect)

    def _larger(self, finding: Finding) -> str:
        if self._noise.is_share:
            return f"lie beyond the threshold {('more', 'less')[finding.sign]} often"
        return f"are {('larger', 'smaller')[finding.sign]}"

    def _not_exact(self) -> Iterator[HealthNote]:
        if self._checks.unequal is not None:
            arm, test, first, other = self._checks.unequal
            seen = (
                f"test {test} gave {other!r} where an earlier one gave {first!r}, and results were stated to be exact"
            )
            yield self._note("not exact", "broken", arm, seen, f"{_LOST}: one result does not settle an arm.")

    def _scatter(self) -> Iterator[HealthNote]:
        scatter = self._checks.scatter
        if scatter is None:
            return
        sigma, outlier = scatter.sigma, scatter.outlier
        if found := self._checks.found("scatter"):
            arm = found[0].arm
            times = scatter.times(arm)
            seen = (
                f"results scatter by about {times * sigma:.2g}, {times:.2g} times the stated standard deviation of "
                f"{sigma:.6g}"
            )
            effect = f"{_LOST}: the answer can be wrong far more often than δ."
            yield self._note("scatter", "broken", arm, seen, effect)
        elif outlier is not None:
            name = self._problem.arm_names[outlier.arm]
            more = "" if outlier.count == 1 else f" ({outlier.count:,} results are like that)"
            seen = (
                f"test {outlier.test} of {name} gave {outlier.value:.6g}, further from the results before it than a "
                f"standard deviation of {sigma:.6g} allows{more}"
            )
            effect = "If such results occur, the stated scatter is wrong and the guarantee does not hold."
            yield self._note("outlier", "doubtful", outlier.arm if outlier.count == 1 else None, seen, effect)

    def _strange(self) -> Iterator[HealthNote]:
        if strange := self._checks.strange:
            seen = f"test {strange.test} gave {strange.value:.6g} where {strange.usual.words()}"
            effect = "If it was measured, leave it as it is."
            yield self._note("outlier", "doubtful", strange.arm, seen, effect)

    def _skewness(self) -> Iterator[HealthNote]:
        if found := self._checks.found("skewness"):
            finding, is_broken = found
            of = "results" if self._problem.items is None else "differences between arms"
            seen = (
                f"{of} are skewed: the far ones lie {('above', 'below')[finding.sign]} the others, and they were "
                "stated to scatter as far up as down"
            )
            wrong = "the answer can be wrong more often than δ"
            effect = f"{_LOST}: {wrong}." if is_broken else f"If those on all items of the set are like that, {wrong}."
            yield self._note("skewness", "broken" if is_broken else "doubtful", finding.arm, seen, effect)

    def _drift(self) -> Iterator[HealthNote]:
        if found := self._checks.found("drift"):
            yield self._of_order(
                "drift",
                *found,
                f"later results {self._larger(found[0])} than earlier ones",
                "there is no one mean to find, and arms tested at different times are compared unfairly",
            )

    def _dependence(self) -> Iterator[HealthNote]:
        if found := self._checks.found("dependence"):
            like = ("resemble each other", "tend to opposite sides")[found[0].sign]
            yield self._of_order(
                "dependence",
                *found,
                f"results that follow each other {like}",
                "results that depend on each other prove less than they seem to",
            )

    def _together(self) -> Iterator[HealthNote]:
        if found := self._checks.found("together"):
            finding, is_broken = found
            # On items, which tests are asked for together may follow from what is known of the items.
            is_broken = is_broken and self._problem.items is None
            yield self._of_order(
                "together",
                finding,
                is_broken,
                "results that were asked for or entered together resemble each other",
                "they share something, such as a plate, a batch or a day, and prove less than they seem to",
            )

    def _worker(self) -> Iterator[HealthNote]:
        if found := self._checks.found("worker"):
            finding, _ = found
            seen = f"results of {self._workers[finding.column]} {self._larger(finding)} than those that others measure"
            effect = "The answer then depends on who measured what, and the guarantee does not cover that."
            yield self._note("worker", "doubtful", finding.arm, seen, effect)

    def _too_wide_sigma(self) -> Iterator[HealthNote]:
        scatter = self._checks.scatter
        if scatter is None:
            return
        times, results = scatter.largest(_ENOUGH_OF_ARM)
        if results < _ENOUGH or times * WIDE_SIGMA > 1.0:
            return
        sigma = scatter.sigma
        if times == 0.0:
            seen = "every arm gives the same value each time"
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
        if not has_wide_range(self._noise) or yes_or_no(self._noise) or self._checks.results < _ENOUGH_FOR_RANGE:
            return
        (low, high), spread = self._noise.value_range, self._checks.high - self._checks.low
        if spread * WIDE_RANGE >= high - low:
            return
        times = "far wider than" if spread == 0.0 else f"about {(high - low) / spread:.2g} times as wide as"
        seen = f"the stated range from {low:.6g} to {high:.6g} is {times} all results so far"
        effect = "The answer is safe. Unless far results do occur, a narrower range takes fewer tests."
        yield self._note("too wide", "hint", None, seen, effect)
