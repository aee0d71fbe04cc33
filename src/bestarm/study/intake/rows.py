"""New results in rows, of a file or of a data frame: a row for each value, or for each test, a column for each metric.

Values of one test stand on rows that follow each other and have the same number in the column `test`, as in an export,
or on one row.
"""

from __future__ import annotations

import abc
import dataclasses
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from bestarm.problem import Plan
from bestarm.study.intake.adding import Row
from bestarm.study.intake.csv_file import ITEM, BadLines, CsvFile
from bestarm.study.intake.names import Numbering, measured_together
from bestarm.study.intake.placing import items_of
from bestarm.study.intake.values import Values, check_metric, check_ratios, in_words
from bestarm.texts import from_cell, quoted
from bestarm.validation import LONGEST_NAME, UNSTATED, InvalidInput

_NO_TEST = (-1, -1)


class Table(abc.ABC):
    """A file or a frame: its rows, and what their cells mean in a study. What cannot be read is `InvalidInput`."""

    noun: str
    """What a row is called."""
    metrics: Collection[str] = ()
    """Those that have a column. None if each row has one value."""

    @abc.abstractmethod
    def rows(self) -> Iterator[tuple[int, Any]]:
        """Each row, with its number."""

    @abc.abstractmethod
    def arm_and_item(self, row: Any) -> tuple[int, str | None]:
        """The arm by number and the item, if there are any."""

    @abc.abstractmethod
    def metric(self, row: Any) -> tuple[str, int]:
        """The metric of a row's one value, and the number of the test that yields it."""

    @abc.abstractmethod
    def test(self, row: Any) -> object:
        """What the rows of one test have in common; None if nothing is said."""

    @abc.abstractmethod
    def is_blank(self, row: Any, metric: str) -> bool:
        """Whether the cell in a metric's column is empty."""

    @abc.abstractmethod
    def value(self, row: Any, metric: str, number: int) -> float:
        """The value of a metric, which it can take. `number` is the row's."""

    @abc.abstractmethod
    def refuse(self, reason: str) -> InvalidInput:
        """What to raise of the whole table."""

    def column(self, metric: str) -> str:
        """How a complaint names the column of a metric."""
        return metric

    def round(self, row: Any) -> str:
        """What the tests of one round have in common."""
        return ""

    def passes_over(self, row: Any) -> bool:
        """Whether a row may have no value, and has none."""
        return False


@dataclasses.dataclass
class _Group:
    """The rows of one test, as far as they have been read. A value is None where its cell is empty."""

    key: tuple[object, int, int, str | None]
    line: int
    round: str
    values: dict[str, float | None]
    is_bad: bool = False


class Reader:
    """The tests of a table, one after the other. `skipped` counts those of an export that have no result."""

    def __init__(self, plan: Plan, table: Table, bad_rows: BadLines) -> None:
        self._plan = plan
        self._table = table
        self._bad_rows = bad_rows
        self._broken: set[object] = set()
        """Tests with a row whose names cannot be read: what they lack was complained of."""
        self.skipped: Counter[tuple[int, int]] = Counter()

    def read(self) -> list[Row]:
        """All tests, unless something is wrong with a row."""
        return list(self._wide() if self._table.metrics else self._long())

    def _long(self) -> Iterator[Row]:
        table, group = self._table, None
        for line, row in table.rows():
            test = table.test(row)
            try:
                arm, item = table.arm_and_item(row)
                metric, lead = table.metric(row)
                together = self._plan.yields[lead]
                if len(together) > 1 and test is None:
                    raise needs_test(metric, together)
            except InvalidInput as error:
                if table.passes_over(row):
                    self.skipped[_NO_TEST] += 1
                else:
                    self._bad_rows.add(line, error)
                    self._broken.add(test)
                continue
            key = (test if len(together) > 1 else None, arm, lead, item)
            if group is None or len(together) == 1 or group.key != key or metric in group.values:
                yield from self._finished(group)
                group = _Group(key, line, table.round(row), {})
            try:
                group.values[metric] = None if table.passes_over(row) else table.value(row, metric, line)
            except InvalidInput as error:
                self._bad_rows.add(line, error)
                group.values[metric], group.is_bad = None, True
        yield from self._finished(group)

    def _finished(self, group: _Group | None) -> Iterator[Row]:
        """The test of rows that belong together, unless something is wrong with them."""
        if group is None or group.is_bad:
            return
        test, arm, lead, item = group.key
        if not any(value is not None for value in group.values.values()):
            self.skipped[arm, lead] += 1
            return
        metrics = self._plan.yields[lead]
        values = tuple(value for metric in metrics if (value := group.values.get(metric)) is not None)
        try:
            if len(values) < len(metrics):
                if test in self._broken:
                    return
                missing = in_words([metric for metric in metrics if group.values.get(metric) is None])
                reason = f"lacks {missing}; the values of one test stand on {self._table.noun}s that follow each other"
                raise InvalidInput("test", test, reason, shown=quoted(test))
            yield Row(arm, lead, check_ratios(self._plan, lead, values), item, group.line, group.round)
        except InvalidInput as error:
            self._bad_rows.add(group.line, error)

    def _wide(self) -> Iterator[Row]:
        table = self._table
        tests = wide_tests(self._plan, table)
        for line, row in table.rows():
            try:
                arm, item = table.arm_and_item(row)
                found = wide_values(self._plan, table, tests, row, line)
                if not found:
                    nothing = f"is missing; there is none of {in_words(list(table.metrics))}"
                    raise InvalidInput("value", UNSTATED, nothing)
            except InvalidInput as error:
                self._bad_rows.add(line, error)
                continue
            for lead, values in found.items():
                yield Row(arm, lead, values, item, line, table.round(row))


def needs_test(metric: str, together: Sequence[str]) -> InvalidInput:
    """What to raise for a lone value whose test is unknown."""
    advice = "give the lines of one test the same number in a column test, or give each metric a column of its own"
    error = measured_together(metric, together)
    return InvalidInput("metric", metric, f"{error.reason.partition(';')[0]}; {advice}")


def wide_tests(plan: Plan, table: Table) -> dict[int, tuple[str, ...]]:
    """The tests whose metrics have columns: the number of each, and what it yields."""
    found = {lead: metrics for lead, metrics in plan.yields.items() if any(m in table.metrics for m in metrics)}
    for metrics in found.values():
        if missing := [metric for metric in metrics if metric not in table.metrics]:
            there = in_words([metric for metric in metrics if metric in table.metrics])
            raise table.refuse(f"the column {', '.join(missing)} must be there beside {there}: one test yields them")
    return found


def wide_values(plan: Plan, table: Table, tests: Mapping[int, Sequence[str]], row: Any, line: int) -> dict[int, Values]:
    """The values on a row, by test. It has all values of a test, or none."""
    found: dict[int, Values] = {}
    for lead, metrics in tests.items():
        blank = [metric for metric in metrics if table.is_blank(row, metric)]
        if len(blank) == len(metrics):
            continue
        if blank:
            there = in_words([metric for metric in metrics if metric not in blank])
            reason = f"is missing; one test yields it together with {there}"
            raise InvalidInput(table.column(blank[0]), UNSTATED, reason)
        read = tuple(table.value(row, metric, line) for metric in metrics)
        found[lead] = check_ratios(plan, lead, read)
    return found


class Names:
    """Finds the arms, metrics and items that cells name, and says what is wrong with them."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self._numbering = Numbering(plan)
        self._items = items_of(plan)
        self._item_names = frozenset(plan.items) if isinstance(plan.items, tuple) else frozenset()
        self.has_listed = False

    def arm(self, text: str) -> int:
        _check_name("arm", text)
        return self._listing_once(lambda: self._numbering.arm(meant(text, self.plan.arm_names)))

    def metric(self, text: str) -> tuple[str, int]:
        """A metric's name, and the number of the test that yields it."""
        _check_name("metric", text)
        name = meant(text, self.plan.measured)
        return name, self._listing_once(lambda: self._numbering.lead(name))

    def item(self, text: str | None) -> str | None:
        """An item's name; nothing if there are none."""
        items = self._items
        if items is None:
            return None
        name = text or ""
        _check_name(ITEM, name)
        if from_cell(name) in self._item_names:
            name = from_cell(name)
        self._listing_once(lambda: items.number(name))
        return name

    def _listing_once(self, find: Callable[[], int]) -> int:
        try:
            return find()
        except InvalidInput as error:
            if self.has_listed:
                # To list the choices once is enough.
                raise InvalidInput(str(error.field), error.value, f"no such {error.field}") from None
            self.has_listed = True
            raise


def meant(text: str, names: Sequence[str]) -> str:
    """The name that a field stands for: as an export writes it, or as it is."""
    return from_cell(text) if from_cell(text) in names else text


def _check_name(field: str, name: str) -> None:
    if not name:
        raise InvalidInput(field, UNSTATED, "is missing")
    # A name in an export may have one more apostrophe.
    if len(name) > LONGEST_NAME + 1:
        raise InvalidInput(field, name, f"no such {field}", shown=quoted(name))


class FileTable(Table):
    """A CSV file. A row is its fields by column."""

    noun = "line"

    def __init__(self, plan: Plan, file: CsvFile, bad_lines: BadLines) -> None:
        self._plan, self._file, self._bad_lines = plan, file, bad_lines
        self.metrics = file.metrics
        self._labels = {metric: f"value of {metric!r}" for metric in file.metrics}
        self._names = Names(plan)
        self._had_listed = False
        self._is_export = file.has("test") and file.has("told")

    def rows(self) -> Iterator[tuple[int, dict[str, str]]]:
        for line, fields in self._file.lines(self._bad_lines):
            self._had_listed = self._names.has_listed
            yield line, self._file.named(fields)

    def arm_and_item(self, row: dict[str, str]) -> tuple[int, str | None]:
        return self._names.arm(row["arm"]), self._names.item(row.get(ITEM))

    def metric(self, row: dict[str, str]) -> tuple[str, int]:
        return self._names.metric(row["metric"])

    def test(self, row: dict[str, str]) -> object:
        return row.get("test") or None

    def is_blank(self, row: dict[str, str], metric: str) -> bool:
        return not row[metric]

    def value(self, row: dict[str, str], metric: str, number: int) -> float:
        text, where = (row[metric], self._labels[metric]) if self.metrics else (row["value"], "value")
        return check_metric(self._plan, metric, self._file.decimals.read(text, number, where))

    def refuse(self, reason: str) -> InvalidInput:
        return self._file.complain(reason)

    def round(self, row: dict[str, str]) -> str:
        return row.get("round", "") if self._file.has("round") else ""

    def passes_over(self, row: dict[str, str]) -> bool:
        is_empty = self._is_export and not self.metrics and not row["value"]
        if is_empty:
            # A complaint about this line is not shown, so the next one still has to list the choices.
            self._names.has_listed = self._had_listed
        return is_empty
