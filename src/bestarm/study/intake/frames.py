"""New results in data frames of every kind: a row for each value, or a column for each metric."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bestarm.problem import Plan
from bestarm.storage.errors import SourceTaken
from bestarm.study.intake.items import item_name
from bestarm.study.intake.new_results import NewResults
from bestarm.study.intake.results_file import BadLines
from bestarm.study.intake.tables import Table
from bestarm.study.intake.values import check_metric, typed
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

T = TypeVar("T")

_NAME = "the frame"
_BESIDE = {"test", "holder", "who", "told", "issued", "due", "study"}
"""Columns that say nothing about the result: in a frame with a column for each metric, others must be metrics."""


def read_frame(
    plan: Plan, frame: Any, *, arm: str, metric: str, value: str, item: str, ignore: Collection[str] = ()
) -> NewResults:
    """The results of a frame, all of them checked. Columns to `ignore` are left out."""
    table = _without(columns_of(frame), ignore, (*plan.measured, arm, metric, value, item))
    found = _FrameTable(plan, table, arm, metric, value, item).read()
    if not found.rows:
        raise InvalidInput(f"{_NAME}: has no results")
    return found


def digest_of(found: NewResults) -> str:
    """What tells one frame from another: its results, in their order. Databases keep it."""
    words = [f"Row(arm={row.arm}, lead={row.lead}, values={row.values}, item={row.item!r})" for row in found.rows]
    return hashlib.sha256("\n".join(words).encode()).hexdigest()


def taken_already(found: NewResults) -> SourceTaken:
    """What to raise if the study has these results."""
    known = "its one result is" if len(found.rows) == 1 else f"all its {len(found.rows):,} results are"
    return SourceTaken(f"{_NAME}: nothing new, since {known} in this study already; again=True records them once more")


def columns_of(frame: Any) -> dict[Any, list[Any]]:
    """The columns of a frame as lists of Python's own values."""
    if hasattr(frame, "to_pydict"):  # pyarrow
        return dict(frame.to_pydict())
    names = list(frame) if isinstance(frame, Mapping) else getattr(frame, "columns", None)
    if names is None:
        reason = "must be a data frame, or a dictionary of lists"
        raise InvalidInput("frame", frame, reason, shown=quoted(frame))
    if len(set(names)) < len(names):
        twice = next(name for name in names if list(names).count(name) > 1)
        raise InvalidInput(f"{_NAME}: has the column {quoted(twice)} twice")
    found = {name: _values(frame[name]) for name in names}
    if len({len(column) for column in found.values()}) > 1:
        raise InvalidInput(f"{_NAME}: its columns differ in length")
    return found


def _without(table: dict[Any, list[Any]], ignore: Collection[str], known: Collection[str]) -> dict[Any, list[Any]]:
    """The columns that are not ignored. Those that are `known` to mean something cannot be."""
    for column in ignore:
        if column in known:
            raise InvalidInput("ignore", column, "is one of the study's columns, which cannot be ignored")
        if column not in table:
            raise InvalidInput("ignore", column, f"{_NAME} has no such column; it has {_listed(table)}")
    return {name: values for name, values in table.items() if name not in ignore}


def _values(column: Any) -> list[Any]:
    for method in ("tolist", "to_list"):  # pandas and numpy; polars
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def is_missing(cell: Any) -> bool:
    """Whether a cell is empty, in the sense of any of the libraries."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and cell != cell


class _FrameTable(Table):
    """The columns of a frame, whatever they are called. A row is its number."""

    def __init__(self, plan: Plan, table: dict[Any, list[Any]], arm: str, metric: str, value: str, item: str) -> None:
        if not table:
            raise self.refuse("has no columns")
        self._table = table
        self._arm, self._metric, self._value, self._item_column = arm, metric, value, item
        for name in (arm, *([] if plan.items is None else [item])):
            if name not in table:
                raise self.refuse(f"the column {name!r} must be there beside {_listed(table)}")
        if plan.items is None and item in table:
            raise self.refuse(f"has a column {item!r}, and this study has no items")
        is_long = metric in table and value in table
        self._begin(plan, [] if is_long else self._columns_of_metrics(plan.measured), BadLines(_NAME, "row"))

    def _columns_of_metrics(self, measured: Sequence[str]) -> list[str]:
        columns = [name for name in self._table if name in measured and name not in (self._arm, self._item_column)]
        if not columns:
            reason = f"needs columns metric and value, or a column for each metric ({', '.join(measured)})"
            raise self.refuse(f"{reason}; it has {_listed(self._table)}")
        beside = {self._arm, self._item_column, *_BESIDE}
        if unknown := [name for name in self._table if name not in columns and name not in beside]:
            many = f"columns {', '.join(map(quoted, unknown))} are no metrics"
            what = f"column {quoted(unknown[0])} is not a metric" if len(unknown) == 1 else many
            advice = f"if they do not belong to it, leave them out: ignore={unknown!r}"
            raise self.refuse(f"the {what} of this study, which has {', '.join(measured)}; {advice}")
        return columns

    def check(self) -> None:
        self.bad_rows.check()

    def round(self, row: int) -> str:
        return ""

    def passes_over(self, row: int) -> bool:
        return False

    def rows(self) -> Iterator[tuple[int, int]]:
        return ((row, row) for row in range(len(self._table[self._arm])))

    def arm_and_item(self, row: int) -> tuple[int, str | None]:
        name = self._table[self._arm][row]
        # Names such as 25 may have become numbers on their way.
        text = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
        arm = self._in_column(self._arm, name, lambda: self._numbering.arm(text))
        if self._items is None:
            return arm, None
        given, items = self._table[self._item_column][row], self._items
        item = self._in_column(self._item_column, given, lambda: item_name(given))
        self._in_column(self._item_column, given, lambda: items.number(item))
        return arm, item

    def metric(self, row: int) -> tuple[str, int]:
        name = self._table[self._metric][row]
        return name, self._in_column(self._metric, name, lambda: self._numbering.lead(name))

    def test(self, row: int) -> object:
        test = self._table["test"][row] if "test" in self._table else None
        return None if is_missing(test) else test

    def is_blank(self, row: int, metric: str) -> bool:
        return is_missing(self._table[metric][row])

    def value(self, row: int, metric: str, number: int) -> float:
        column = metric if self.metrics else self._value
        cell = self._table[column][row]

        def read() -> float:
            return check_metric(self.plan, metric, typed(cell) if isinstance(cell, str) else cell)

        return self._in_column(column, cell, read)

    def refuse(self, reason: str) -> InvalidInput:
        return InvalidInput(f"{_NAME}: {reason}")

    def column(self, metric: str) -> str:
        return f"column {metric!r}"

    def _in_column(self, column: str, cell: Any, read: Callable[[], T]) -> T:
        """What a cell holds; if it cannot be read, the complaint names its column."""
        if is_missing(cell):
            raise InvalidInput(f"column {column!r}", UNSTATED, "is missing")
        try:
            return read()
        except InvalidInput as error:
            raise InvalidInput(f"column {column!r}", cell, error.reason or str(error), shown=quoted(cell)) from None


def _listed(table: Mapping[Any, Any]) -> str:
    return ", ".join(quoted(name) for name in list(table)[:10])
