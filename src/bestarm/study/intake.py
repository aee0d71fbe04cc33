"""The results in a CSV file, checked against the study that they are for."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from bestarm.plan import Plan
from bestarm.storage.base import Issued, Outcome
from bestarm.storage.columns import Columns
from bestarm.study.csv_reader import LONGEST_NUMBER, BadLines, CsvFile, read_test, read_value
from bestarm.study.placing import Placing, items_of
from bestarm.study.sheets import Names, Sheet, SheetRow, meant, wide_tests, wide_values
from bestarm.study.study import Study, Test
from bestarm.study.values import Result, check_metric, in_words, values_in_words
from bestarm.texts import cell, from_cell
from bestarm.validation import MOST, InvalidInput

T = TypeVar("T")

_LOOKED_UP = 500
"""How many tests are looked up at a time."""


class NewResults(NamedTuple):
    """Results measured without asking. `ends` has the positions of those that ended a round."""

    results: Columns
    ends: array[int]
    skipped: int
    """Tests of an export without a value: given up, or not yet told."""
    places: Callable[[Placing], Sequence[int]]
    """Where they belong in the order of items, if there are any."""


def read_new_results(study: Study, file: CsvFile) -> NewResults:
    """The results of a file with the columns arm, metric, value, or arm and a column for each metric."""
    plan = study.plan
    is_plain = plan.items is None and all(len(metrics) == 1 for metrics in plan.yields.values())
    return _read_lines(study, file) if is_plain and not file.metrics else _read_tests(study, file)


def _read_tests(study: Study, file: CsvFile) -> NewResults:
    """The results of a file of any form."""
    bad_lines, results, ends = BadLines(file.name), Columns(), array("q")
    sheet = Sheet(study.plan, file, bad_lines)
    rows = list(sheet.rows())
    bad_lines.check()
    items, last_round = items_of(study.plan), ""
    for row in rows:
        if row.round != last_round and results:
            ends.append(len(results) - 1)
        last_round = row.round
        item = None if items is None else items.number(row.item)
        results.append(row.arm, row.lead, row.values[0], row.values[1:], item)
    return NewResults(results, ends, sheet.skipped.total(), lambda placing: _placed(file, rows, sheet, placing))


def _placed(file: CsvFile, rows: Sequence[SheetRow], sheet: Sheet, placing: Placing) -> list[int]:
    """The place of each result in the order of items."""
    bad_lines, places = BadLines(file.name), []
    found = placing.assign([(row.arm, row.lead) for row in rows], [row.item for row in rows], sheet.skipped)
    for row, place in zip(rows, found, strict=True):
        if isinstance(place, InvalidInput):
            bad_lines.add(row.line, place)
        else:
            places.append(place)
    bad_lines.check()
    return places


def _read_lines(study: Study, file: CsvFile) -> NewResults:
    """The results of a file with a line for each value, of a study in which each is a test of its own."""
    file.need("arm", "metric", "value")
    at_arm, at_metric, at_value = map(file.columns.index, ("arm", "metric", "value"))
    at_round = file.columns.index("round") if "round" in file.columns else None
    arms = _as_written({name: k for k, name in enumerate(study.plan.arm_names)})
    metrics = _as_written(
        {metrics[0]: (k, *_range(study.plan, metrics[0])) for k, metrics in study.plan.yields.items()}
    )
    names, is_export = Names(study.plan), file.has("test") and file.has("told")
    bad_lines, results, ends = BadLines(file.name), Columns(), array("q")
    add_arm, add_metric, add_value = results.arms.append, results.metrics.append, results.values.append
    skipped, last_round = 0, ""
    for number, fields in file.lines(bad_lines):
        # There may be millions of lines. Nearly all are as an export writes them; the others get a second look.
        try:
            arm, (metric, low, high, is_whole) = arms[fields[at_arm]], metrics[fields[at_metric]]
            text = fields[at_value]
            value = float(text)
            # Python's `float` accepts 1_000 and digits of other scripts.
            is_plain = text.isascii() and "_" not in text and len(text) <= LONGEST_NUMBER
            if not is_plain or not low <= value <= high or (is_whole and value != int(value)):
                raise ValueError
        except (KeyError, ValueError):
            named = file.named(fields)
            if is_export and not named["value"]:
                skipped += 1
                continue
            try:
                arm = names.arm(named["arm"])
                name, metric = names.metric(named["metric"])
                value = check_metric(study.plan, name, read_value(named["value"]))
            except InvalidInput as error:
                bad_lines.add(number, error)
                continue
        if at_round is not None:
            this_round = fields[at_round].strip()
            if this_round != last_round and results:
                ends.append(len(results) - 1)
            last_round = this_round
        add_arm(arm)
        add_metric(metric)
        add_value(value)
    bad_lines.check()
    return NewResults(results, ends, skipped, lambda _: [])


def _as_written(known: dict[str, T]) -> dict[str, T]:
    """By names as people write them, and as an export writes them, which takes precedence."""
    return known | {cell(name): found for name, found in known.items()}


def _range(plan: Plan, metric: str) -> tuple[float, float, bool]:
    """The least and the largest value of a metric, and whether its values are whole numbers."""
    noises = [part.noise for part in plan.parts if part.metric == metric]
    low, high = max(noise.value_range[0] for noise in noises), min(noise.value_range[1] for noise in noises)
    return max(low, -MOST), min(high, MOST), any(noise.is_whole for noise in noises)


def read_told(study: Study, file: CsvFile) -> list[tuple[Test | int, Result]]:
    """The results of a file with the columns test and value, or test and a column for each metric.

    Arm, metric and item, if they are there, are checked against the test.
    """
    file.need("test", *([] if file.metrics else ["value"]))
    reader = _Told(study, file, BadLines(file.name))
    lines = file.lines(reader.bad_lines)
    while some := list(itertools.islice(lines, _LOOKED_UP)):
        reader.read(some)
    return reader.results()


class _Told:
    """Reads results of tests that were asked for."""

    def __init__(self, study: Study, file: CsvFile, bad_lines: BadLines) -> None:
        self._study, self._file, self.bad_lines = study, file, bad_lines
        self._seen: dict[tuple[int, str], int] = {}
        self._found: dict[int, dict[str, float]] = {}
        self._tests: dict[int, tuple[Test, int]] = {}
        """By number: the tests, and the line on which each begins."""
        self._columns = wide_tests(study.plan, file) if file.metrics else {}

    def read(self, lines: Sequence[tuple[int, list[str]]]) -> None:
        """Take in some lines."""
        rows: list[tuple[int, int, list[str]]] = []
        for number, fields in lines:
            try:
                rows.append((number, read_test(self._file.named(fields)["test"]), fields))
            except InvalidInput as error:
                self.bad_lines.add(number, error)
        found = self._study.storage.find_tests(self._study.record.key, [test for _, test, _ in rows])
        for number, test, fields in rows:
            try:
                self._take(number, test, found.get(test), fields)
            except InvalidInput as error:
                self.bad_lines.add(number, error)

    def _take(self, line: int, number: int, found: tuple[Issued, Outcome | None] | None, fields: list[str]) -> None:
        named = self._file.named(fields)
        test = None if found is None else self._study._test(found[0])
        several = test is not None and len(test.metrics) > 1 and not self._file.metrics
        metric = "" if test is None or not several else meant(named.get("metric", ""), test.metrics)
        if (number, metric) in self._seen:
            shown = number if not metric else f"{number} ({metric!r})"
            raise InvalidInput("test", number, f"is on line {self._seen[number, metric]} too", shown=str(shown))
        self._seen[number, metric] = line
        if test is None or found is None:
            raise InvalidInput("test", number, f"no such test in study {self._study.name!r}")
        self._check_meant(test, named, several)
        if self._file.metrics:
            values = self._wide(test, found[0].metric, fields)
        else:
            which = metric or test.metrics[0]
            values = {which: check_metric(self._study.plan, which, read_value(named["value"]))}
        outcome = found[1]
        if outcome is not None:
            self._check_same(test, outcome, values)
        self._tests.setdefault(number, (test, line))
        self._found.setdefault(number, {}).update(values)

    def _check_meant(self, test: Test, named: dict[str, str], several: bool) -> None:
        """Complain if a line is of another test than its number says."""
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

    def _wide(self, test: Test, lead: int, fields: list[str]) -> dict[str, float]:
        found = wide_values(self._study.plan, self._file, self._columns, fields)
        for other in found:
            if other != lead:
                raise InvalidInput(
                    "test", test.id, f"is {test.words}, and yields no {self._study.plan.test_names[other]!r}"
                )
        return dict(zip(test.metrics, found[lead], strict=True))

    def _check_same(self, test: Test, outcome: Outcome, values: dict[str, float]) -> None:
        """Complain of other values than the test has."""
        told = () if outcome.value is None else (outcome.value, *outcome.more)
        known = dict(zip(test.metrics, told, strict=True)) if told else {}
        if any(known.get(metric) != value for metric, value in values.items()):
            has = "was abandoned"
            if told:
                has = f"has the result {values_in_words(test.metrics, told)} already"
            raise InvalidInput("test", test.id, has, shown=f"{test.id} ({test.words})")

    def results(self) -> list[tuple[Test | int, Result]]:
        """All of them, unless something is wrong with a line."""
        told: list[tuple[Test | int, Result]] = []
        for number, values in self._found.items():
            test, line = self._tests[number]
            if missing := [m for m in test.metrics if m not in values and (number, m) not in self._seen]:
                reason = f"lacks {in_words(missing)}; a test of {test.metric} is told all its values at once"
                self.bad_lines.add(line, InvalidInput("test", number, reason))
            told.append((number, values if len(test.metrics) > 1 else values[test.metrics[0]]))
        self.bad_lines.check()
        return told
