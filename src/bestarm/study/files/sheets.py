"""Sheets to fill in: tests that were asked for, with room for their values; and the results in filled sheets."""

from __future__ import annotations

import csv
import itertools
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import NamedTuple, TextIO

from bestarm.problem import Plan
from bestarm.storage.base import Issued, Outcome, Pending
from bestarm.study.intake.names import Test, read_test
from bestarm.study.intake.results_file import COLUMNS, DUE, ITEM, PLACE, STUDY, ResultsFile, headings_of
from bestarm.study.intake.tables import Table, meant
from bestarm.study.intake.values import Result, in_words, values_in_words, values_of
from bestarm.study.live import LiveStudy
from bestarm.study.study import Study
from bestarm.texts import cell, from_cell, shown
from bestarm.validation import InvalidInput, exact

NOT_YIELDED = "n/a"
"""What stands in the column of a metric that a test does not yield."""


def write_blank_sheet(study: LiveStudy, tests: Sequence[Test], out: TextIO, delimiter: str = ",") -> None:
    """Write a line for each test, with an empty cell for each value.

    If a test of the study yields several metrics, each metric has a column; otherwise all values stand in one.
    """
    rows = [[*map(cell, row)] for row in with_headings(study.plan, sheet_rows(study, tests))]
    if not all(text.isascii() for row in rows for text in row):
        # Without it, spreadsheets take letters such as µ for those of another alphabet.
        out.write("\ufeff")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)


def sheet_rows(study: LiveStudy, tests: Sequence[Test]) -> list[list[str]]:
    """The header of a sheet, and its rows. Values are empty, or `NOT_YIELDED`."""
    held = {row.id: row for _, row in study.pending()}
    return [_header(study.plan, tests), *_rows(study, tests, held)]


def with_headings(plan: Plan, rows: Sequence[Sequence[str]]) -> list[list[str]]:
    """The same rows in the words of the study: what it calls an arm and a block, and metrics with their units."""
    shown_as = {name: heading for heading, name in headings_of(plan).items()}
    columns = rows[0]
    heads = [shown_as.get(name, name) if name in ("arm", ITEM) or _has_columns(plan) else name for name in columns]
    at = columns.index("metric") if "metric" in columns else None
    body = [[shown_as.get(text, text) if k == at else text for k, text in enumerate(row)] for row in rows[1:]]
    return [heads, *body]


def columns_to_fill(plan: Plan, tests: Sequence[Test]) -> list[str]:
    """The columns in which values are written."""
    return _metrics(tests) if _has_columns(plan) else ["value"]


def _has_columns(plan: Plan) -> bool:
    """Whether each metric gets a column. One that is called like another column cannot have one."""
    is_bundled = any(len(metrics) > 1 for metrics in plan.yields.values())
    return is_bundled and not {metric.casefold() for metric in plan.measured} & {*COLUMNS, ITEM, DUE, STUDY, PLACE}


def _metrics(tests: Sequence[Test]) -> list[str]:
    return list(dict.fromkeys(metric for test in tests for metric in test.metrics))


def _header(plan: Plan, tests: Sequence[Test]) -> list[str]:
    item = [] if plan.items is None else [ITEM]
    metric = [] if _has_columns(plan) else ["metric"]
    return ["test", "arm", *metric, *item, *columns_to_fill(plan, tests), "who", DUE, STUDY]


def _rows(study: LiveStudy, tests: Sequence[Test], held: dict[int, Pending]) -> Iterator[list[str]]:
    metrics, is_wide = _metrics(tests), _has_columns(study.plan)
    for test in tests:
        item = [] if study.plan.items is None else [test.item or ""]
        row = held.get(test.id)
        who, due = (study.holder, None) if row is None else (row.holder, row.due)
        end = [shown(who), _day(due), study.name]
        if is_wide:
            values = ["" if metric in test.metrics else NOT_YIELDED for metric in metrics]
            yield [str(test.id), test.arm, *item, *values, *end]
            continue
        for metric in test.metrics:
            yield [str(test.id), test.arm, metric, *item, "", *end]


def _day(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


_LOOKED_UP = 500
"""How many tests are looked up at a time."""


class ToldResults(NamedTuple):
    """The new results of a sheet, how many of its results the study has already, and its tests without a value."""

    results: list[tuple[Test | int, Result]]
    known: int
    skipped: int


def read_told(study: Study, file: ResultsFile) -> ToldResults:
    """The results of a file with the columns test and value, or test and a column for each metric.

    Arm, metric, item and study, if they are there, are checked against the test. A test without a value has not been
    measured yet.
    """
    file.need("test", *([] if file.metrics else ["value"]))
    reader = _Told(study, file)
    lines = reader.table.rows()
    while some := list(itertools.islice(lines, _LOOKED_UP)):
        reader.read(some)
    return reader.results()


class _Told:
    """Reads results of tests that were asked for."""

    def __init__(self, study: Study, file: ResultsFile) -> None:
        self._study, self._file, self.table = study, file, Table(study.plan, file)
        self._seen: dict[tuple[int, str], int] = {}
        self._blank: set[tuple[int, str]] = set()
        self._found: dict[int, dict[str, float]] = {}
        self._known: set[int] = set()
        self._tests: dict[int, tuple[Test, int]] = {}
        """The tests by number, and the line on which each begins."""

    def read(self, lines: Sequence[tuple[int, dict[str, str]]]) -> None:
        """Take in some lines."""
        rows: list[tuple[int, int, dict[str, str]]] = []
        for number, named in lines:
            try:
                rows.append((number, read_test(named["test"]), named))
            except InvalidInput as error:
                self.table.bad_rows.add(number, error)
        found = self._study.storage.find_tests(self._study.record.key, [test for _, test, _ in rows])
        for number, test, named in rows:
            try:
                self._take(number, test, found.get(test), named)
            except InvalidInput as error:
                self.table.bad_rows.add(number, error)

    def _take(self, line: int, number: int, found: tuple[Issued, Outcome | None] | None, named: dict[str, str]) -> None:
        test = None if found is None else self._study._test(found[0])
        several = test is not None and len(test.metrics) > 1 and not self._file.metrics
        metric = "" if test is None or not several else meant(named.get("metric", ""), test.metrics)
        if (number, metric) in self._seen:
            shown = number if not metric else f"{number} ({metric!r})"
            raise InvalidInput("test", number, f"is on line {self._seen[number, metric]} too", shown=str(shown))
        self._seen[number, metric] = line
        self._check_study(named)
        if test is None or found is None:
            raise InvalidInput("test", number, f"no such test in study {self._study.name!r}")
        self._check_meant(test, named, several)
        if self._file.metrics:
            values = self._wide(test, found[0].metric, named, line)
        elif named["value"]:
            which = metric or test.metrics[0]
            values = {which: self.table.value(named, which, line)}
        else:
            values = {}
        if not values:
            self._blank.add((number, metric))
        elif found[1] is not None:
            self._check_same(test, found[1], values)
            self._known.add(number)
        self._tests.setdefault(number, (test, line))
        self._found.setdefault(number, {}).update(values)

    def _check_study(self, named: dict[str, str]) -> None:
        """Complain of a sheet of another study, whose tests have the same numbers."""
        given = named.get(STUDY, "") if self._file.has(STUDY) else ""
        if given and self._study.name not in (given, from_cell(given)):
            raise InvalidInput(STUDY, given, f"this is study {self._study.name!r}")

    def _check_meant(self, test: Test, named: dict[str, str], several: bool) -> None:
        """Complain if a line does not match the test with its number."""
        given = {name: {named[name], from_cell(named[name])} for name in ("arm", "metric", "item") if name in named}
        if self._file.metrics:
            given.pop("metric", None)
        metrics = {*test.metrics, test.metric} if several else {test.metrics[0]}
        is_meant = test.arm in given.get("arm", {test.arm}) and bool(metrics & given.get("metric", metrics))
        if not is_meant or (test.item or "") not in given.get("item", {test.item or ""}):
            raise InvalidInput("test", test.id, f"is {test.words}")
        if several and not given.get("metric", set()) & set(test.metrics):
            advice = "name the metric of each value in a column metric, or give each metric a column"
            raise InvalidInput("test", test.id, f"is {test.words}; {advice}")

    def _wide(self, test: Test, lead: int, named: dict[str, str], line: int) -> dict[str, float]:
        not_yielded = {
            m: "" for m in self._file.metrics if m not in test.metrics and named[m].casefold() == NOT_YIELDED
        }
        found = self.table.wide_values(named | not_yielded, line)
        for other in found:
            if other != lead:
                raise InvalidInput(
                    "test", test.id, f"is {test.words}, and yields no {self._study.plan.test_names[other]!r}"
                )
        return dict(zip(test.metrics, found[lead], strict=True)) if found else {}

    def _check_same(self, test: Test, outcome: Outcome, values: dict[str, float]) -> None:
        """Complain of values that differ from the test's."""
        told = values_of(outcome)
        known = dict(zip(test.metrics, told, strict=True)) if told else {}
        differing = {metric: value for metric, value in values.items() if known.get(metric) != value}
        if differing:
            has = "was abandoned"
            if told:
                has = f"has the result {values_in_words(test.metrics, told)} already; {self._advice(test, differing)}"
            raise InvalidInput("test", test.id, has, shown=f"{test.id} ({test.words})")

    def _advice(self, test: Test, values: dict[str, float]) -> str:
        """How to replace what a test has."""
        if len(test.metrics) == 1:
            [said] = (exact(value) for value in values.values())
        else:
            said = " ".join(shlex.quote(f"{metric}={exact(value)}") for metric, value in values.items())
        name = shlex.quote(self._study.name)
        return f"if that is wrong, `bestarm tell {name} {test.id} {said} --correct --reason WHY` replaces it"

    def results(self) -> ToldResults:
        """All of them, unless something is wrong with a line."""
        told: list[tuple[Test | int, Result]] = []
        skipped = 0
        for number, values in self._found.items():
            test, line = self._tests[number]
            if not values:
                skipped += 1
                continue
            if missing := [m for m in test.metrics if m not in values and not self._is_complained_of(number, m)]:
                reason = f"lacks {in_words(missing)}; a test of {test.metric} is told all its values at once"
                self.table.bad_rows.add(line, InvalidInput("test", number, reason))
            elif number not in self._known:
                told.append((number, values if len(test.metrics) > 1 else values[test.metrics[0]]))
        self.table.check()
        return ToldResults(told, len(self._known), skipped)

    def _is_complained_of(self, number: int, metric: str) -> bool:
        return (number, metric) in self._seen and (number, metric) not in self._blank
