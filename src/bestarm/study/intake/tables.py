"""New results in tables, files or data frames: a row for each value, or for each test, a column for each metric.

Values of one test stand on rows that follow each other and have the same number in the column `test`, as in an export,
or on one row.
"""

from __future__ import annotations

import dataclasses
import itertools
from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, TypeVar

from bestarm.noises.shares import is_share
from bestarm.parsing import LONGEST_NUMBER
from bestarm.problem import Plan
from bestarm.problem.blocks import BlockOrder
from bestarm.problem.items import ItemOrder
from bestarm.storage.columns import Columns
from bestarm.study.intake.csv_file import CsvFile
from bestarm.study.intake.items import items_of
from bestarm.study.intake.kinds import kind_of
from bestarm.study.intake.names import Numbering, measured_together
from bestarm.study.intake.new_results import NewResults, Row
from bestarm.study.intake.results_file import ITEM, BadLines, ResultsFile
from bestarm.study.intake.values import Value, Values, check_metric, check_ratios, in_words
from bestarm.texts import cell, from_cell, quoted
from bestarm.validation import LONGEST_NAME, UNSTATED, Complaint, InvalidInput

T = TypeVar("T")

_NO_TEST = (-1, -1)


@dataclasses.dataclass
class _Group:
    """The rows of one test, as far as they have been read. A value is None where its cell is empty."""

    key: tuple[object, int, int, str | None]
    line: int
    round: str
    values: dict[str, float | None]
    is_bad: bool = False


class Table:
    """The tests in a file, one after the other. A row is its fields by column. What is wrong goes to `bad_rows`.

    `frames` overrides what the cells of a data frame mean.
    """

    def __init__(self, plan: Plan, file: ResultsFile) -> None:
        self._file = file
        self._begin(plan, file.metrics, file.bad_lines())
        self._kinds = {metric: kind_of(plan, metric) for metric in plan.measured}
        self._labels = {metric: f"value of {metric!r}" for metric in file.metrics}
        self._item_names = frozenset(plan.items) if isinstance(plan.items, tuple) else frozenset()
        self._has_listed = self._had_listed = False
        """Whether a complaint has listed the choices, which is enough; and whether one had before this row."""
        self.is_export = file.has("test") and file.has("told")

    def _begin(self, plan: Plan, metrics: Collection[str], bad_rows: BadLines) -> None:
        self.plan = plan
        self.metrics = metrics
        """Those that have a column. None if each row has one value."""
        self.bad_rows = bad_rows
        self._numbering = Numbering(plan)
        self._items = items_of(plan)
        self._broken: set[object] = set()
        """Tests with a row whose names cannot be read: what they lack was complained of."""
        self._skipped: Counter[tuple[int, int]] = Counter()
        self._tests = {lead: names for lead, names in plan.yields.items() if any(name in metrics for name in names)}
        """The tests whose metrics have columns: the number of each, and what it yields."""
        for names in self._tests.values():
            if missing := [name for name in names if name not in metrics]:
                there = in_words([name for name in names if name in metrics])
                lacks = f"the column {', '.join(missing)} must be there beside {there}: one test yields them"
                raise self.refuse(lacks)

    # ----------------------------------------------------------------------------------------- what a row means

    def rows(self) -> Iterator[tuple[int, Any]]:
        """Each row, with its number."""
        for line, fields in self._file.lines(self.bad_rows):
            self._had_listed = self._has_listed
            row = self._file.named(fields)
            if "metric" in row:
                row["metric"] = self._file.known_as(row["metric"])
            yield line, row

    def arm_and_item(self, row: Any) -> tuple[int, str | None]:
        """The arm by number and the item, if there are any."""
        return self.arm(row["arm"]), None if self._items is None else self._item(self._items, row.get(ITEM) or "")

    def metric(self, row: Any) -> tuple[str, int]:
        """The metric of a row's one value, and the number of the test that yields it."""
        return self.metric_named(row["metric"])

    def test(self, row: Any) -> object:
        """What the rows of one test have in common; None if nothing is said."""
        return row.get("test") or None

    def is_blank(self, row: Any, metric: str) -> bool:
        """Whether the cell in a metric's column is empty."""
        return not row[metric]

    def value(self, row: Any, metric: str, number: int) -> float:
        """The value of a metric, which it can take. `number` is the row's."""
        column, where = (metric, self._labels[metric]) if self.metrics else ("value", "value")
        text, kind = row[column], self._kinds[metric]
        value: Value | None = text if is_share(text) else kind.words.get(text.casefold())
        if value is None:
            read = self._file.decimals.read
            try:
                value = read(text, number, where, column=column, rate=kind.is_rate)
            except InvalidInput as error:
                reason = kind.accepted(error.reason) if text else error.reason
                raise InvalidInput(where, error.value, reason, shown=quoted(text)) from None
        return check_metric(self.plan, metric, value)

    def refuse(self, reason: str) -> InvalidInput:
        """What to raise of the whole table."""
        return self._file.complain(reason)

    def column(self, metric: str) -> str:
        """How a complaint names the column of a metric."""
        return metric

    def round(self, row: Any) -> str:
        """What the tests of one round have in common."""
        return row.get("round", "") if self._file.has("round") else ""

    def passes_over(self, row: Any) -> bool:
        """Whether a row may have no value, and has none."""
        is_empty = self.is_export and not self.metrics and not row["value"]
        if is_empty:
            # A complaint about this line is not shown, so the next one still has to list the choices.
            self._has_listed = self._had_listed
        return is_empty

    def arm(self, text: str) -> int:
        _check_name("arm", text)
        return self._listing_once(lambda: self._numbering.arm(meant(text, self.plan.arm_names)))

    def metric_named(self, text: str) -> tuple[str, int]:
        _check_name("metric", text)
        name = meant(text, self.plan.measured)
        return name, self._listing_once(lambda: self._numbering.lead(name))

    def _item(self, items: ItemOrder | BlockOrder, text: str) -> str:
        _check_name(ITEM, text)
        name = meant(text, self._item_names)
        self._listing_once(lambda: items.number(name))
        return name

    def _listing_once(self, find: Callable[[], int]) -> int:
        try:
            return find()
        except InvalidInput as error:
            if self._has_listed:
                raise InvalidInput(str(error.field), error.value, f"no such {error.field}") from None
            self._has_listed = True
            raise

    # --------------------------------------------------------------------------------------------------- reading

    def read(self) -> NewResults:
        """All tests, unless something is wrong with a row."""
        rows = list(self._wide() if self.metrics else self._long())
        self.check()
        found = NewResults.of(self.plan, rows)
        found.ends = [k for k, (row, after) in enumerate(itertools.pairwise(rows)) if row.round != after.round]
        found.skipped, found.bad_rows = self._skipped, self.bad_rows
        return found

    def check(self) -> None:
        """Raise what is wrong with the rows, if anything is."""
        self._file.decimals.check(self.bad_rows.add, self.bad_rows.place)
        self.bad_rows.check()

    def _long(self) -> Iterator[Row]:
        group = None
        for line, row in self.rows():
            test = self.test(row)
            try:
                arm, item = self.arm_and_item(row)
                metric, lead = self.metric(row)
                together = self.plan.yields[lead]
                if len(together) > 1 and test is None:
                    raise _needs_test(metric, together)
            except InvalidInput as error:
                if self.passes_over(row):
                    self._skipped[_NO_TEST] += 1
                else:
                    self.bad_rows.add(line, error)
                    self._broken.add(test)
                continue
            key = (test if len(together) > 1 else None, arm, lead, item)
            if group is None or len(together) == 1 or group.key != key or metric in group.values:
                yield from self._finished(group)
                group = _Group(key, line, self.round(row), {})
            try:
                group.values[metric] = None if self.passes_over(row) else self.value(row, metric, line)
            except InvalidInput as error:
                self.bad_rows.add(line, error)
                group.values[metric], group.is_bad = None, True
        yield from self._finished(group)

    def _finished(self, group: _Group | None) -> Iterator[Row]:
        """The test of rows that belong together, unless something is wrong with them."""
        if group is None or group.is_bad:
            return
        test, arm, lead, item = group.key
        if not any(value is not None for value in group.values.values()):
            self._skipped[arm, lead] += 1
            return
        metrics = self.plan.yields[lead]
        values = tuple(value for metric in metrics if (value := group.values.get(metric)) is not None)
        try:
            if len(values) < len(metrics):
                if test in self._broken:
                    return
                missing = in_words([metric for metric in metrics if group.values.get(metric) is None])
                noun = self.bad_rows.noun
                reason = f"lacks {missing}; the values of one test stand on {noun}s that follow each other"
                raise InvalidInput("test", test, reason, shown=quoted(test))
            yield Row(arm, lead, check_ratios(self.plan, lead, values), item, group.line, group.round)
        except InvalidInput as error:
            self.bad_rows.add(group.line, error)

    def _wide(self) -> Iterator[Row]:
        for line, row in self.rows():
            try:
                arm, item = self.arm_and_item(row)
                found = self.wide_values(row, line)
                if not found:
                    nothing = f"has no value of {in_words(list(self.metrics))}"
                    raise InvalidInput("value", UNSTATED, nothing, sentence=nothing)
            except InvalidInput as error:
                self.bad_rows.add(line, error)
                continue
            for lead, values in found.items():
                yield Row(arm, lead, values, item, line, self.round(row))

    def wide_values(self, row: Any, line: int) -> dict[int, Values]:
        """The values on a row, by test. It has all values of a test, or none."""
        found: dict[int, Values] = {}
        wrong: list[Complaint] = []
        for lead, metrics in self._tests.items():
            blank = [metric for metric in metrics if self.is_blank(row, metric)]
            if len(blank) == len(metrics):
                continue
            if blank:
                there = in_words([metric for metric in metrics if metric not in blank])
                reason = f"is missing; one test yields it together with {there}"
                wrong += [Complaint(f"{name}: {reason}", name, UNSTATED, reason) for name in map(self.column, blank)]
            read = []
            for metric in metrics:
                try:
                    read += [self.value(row, metric, line)] if metric not in blank else []
                except InvalidInput as error:
                    wrong += [dataclasses.replace(one, field=self.column(metric)) for one in error.complaints]
            if not wrong:
                found[lead] = check_ratios(self.plan, lead, tuple(read))
        if wrong:
            raise InvalidInput.of(wrong, "; ".join(complaint.sentence for complaint in wrong))
        return found


def _needs_test(metric: str, together: Sequence[str]) -> InvalidInput:
    """What to raise for a lone value whose test is unknown."""
    advice = "give the lines of one test the same number in a column test, or give each metric a column of its own"
    error = measured_together(metric, together)
    return InvalidInput("metric", metric, f"{error.reason.partition(';')[0]}; {advice}")


def meant(text: str, names: Collection[str]) -> str:
    """The name that a field stands for: as an export writes it, or as it is."""
    return from_cell(text) if from_cell(text) in names else text


def _check_name(field: str, name: str) -> None:
    if not name:
        raise InvalidInput(field, UNSTATED, "is missing")
    # A name in an export may have one more apostrophe.
    if len(name) > LONGEST_NAME + 1:
        raise InvalidInput(field, name, f"no such {field}", shown=quoted(name))


def read_file(plan: Plan, file: ResultsFile) -> NewResults:
    """The results of a file with the columns arm, metric, value, or arm and a column for each metric."""
    file.need("arm", *([] if file.metrics else ["metric", "value"]), *([] if plan.items is None else [ITEM]))
    is_plain = plan.items is None and all(len(metrics) == 1 for metrics in plan.yields.values())
    is_text = isinstance(file, CsvFile) and not file.metrics
    return _read_lines(plan, file) if is_plain and is_text else Table(plan, file).read()


def _read_lines(plan: Plan, file: ResultsFile) -> NewResults:
    """The same as `Table.read`, twelve times as fast, if each value is a test of its own and has a line."""
    at_arm, at_metric, at_value = map(file.columns.index, ("arm", "metric", "value"))
    at_round = file.columns.index("round") if "round" in file.columns else None
    arms = _as_written({name: k for k, name in enumerate(plan.arm_names)})
    metrics = _as_written({metrics[0]: (k, *kind_of(plan, metrics[0])[:3]) for k, metrics in plan.yields.items()})
    table, results, ends = Table(plan, file), Columns(), array("q")
    add_arm, add_metric, add_value = results.arms.append, results.metrics.append, results.values.append
    skipped, last_round, notes_points = 0, "", True
    for number, fields in file.lines(table.bad_rows):
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
            row = file.named(fields)
            if table.is_export and not row["value"]:
                skipped += 1
                continue
            row["metric"] = file.known_as(row["metric"])
            try:
                arm, _ = table.arm_and_item(row)
                name, metric = table.metric(row)
                value = table.value(row, name, number)
            except InvalidInput as error:
                table.bad_rows.add(number, error)
                continue
        else:
            if notes_points and "." in text:
                notes_points = file.decimals.note_point(text.strip(), number)
        if at_round is not None:
            this_round = fields[at_round].strip()
            if this_round != last_round and results:
                ends.append(len(results) - 1)
            last_round = this_round
        add_arm(arm)
        add_metric(metric)
        add_value(value)
    table.check()
    return NewResults(results, ends=ends, skipped=Counter({_NO_TEST: skipped}))


def _as_written(known: dict[str, T]) -> dict[str, T]:
    """By names as people write them, and as an export writes them, which takes precedence."""
    return known | {cell(name): found for name, found in known.items()}
