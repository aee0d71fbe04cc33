"""New results in data frames of every kind: a row for each value, or a column for each metric."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from bestarm.parsing import read_number
from bestarm.problem import Plan
from bestarm.storage.columns import Columns
from bestarm.storage.errors import SourceTaken
from bestarm.study.intake.adding import Row, columns_of
from bestarm.study.intake.csv_file import BadLines
from bestarm.study.intake.names import Numbering
from bestarm.study.intake.placing import Placing, item_name, items_of
from bestarm.study.intake.rows import needs_test
from bestarm.study.intake.values import Values, check_metric, check_result, in_words
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

T = TypeVar("T")

_NAME = "the frame"
_BESIDE = {"test", "holder", "who", "told", "issued", "due", "study"}
"""Columns that say nothing about the result: in a frame with a column for each metric, others must be metrics."""


@dataclasses.dataclass(frozen=True)
class FrameResults:
    """The results of a frame, checked, and the row on which each begins."""

    rows: Sequence[Row]
    at: Sequence[int]
    columns: Columns

    @property
    def digest(self) -> str:
        """What tells one frame from another: its results, in their order."""
        return hashlib.sha256("\n".join(map(repr, self.rows)).encode()).hexdigest()

    def places(self, placing: Placing) -> list[int]:
        """Where in the order of items the results belong."""
        bad_rows, places = BadLines(_NAME, "row"), []
        streams = [(row.arm, row.lead) for row in self.rows]
        for at, place in zip(self.at, placing.assign(streams, [row.item or "" for row in self.rows]), strict=True):
            if isinstance(place, InvalidInput):
                bad_rows.add(at, place)
            else:
                places.append(place)
        bad_rows.check()
        return places

    @contextlib.contextmanager
    def taken_once(self) -> Iterator[None]:
        """In the user's words: that the study has these results."""
        try:
            yield
        except SourceTaken:
            known = "its one result is" if len(self.rows) == 1 else f"all its {len(self.rows):,} results are"
            raise SourceTaken(
                f"{_NAME}: nothing new, since {known} in this study already; again=True records them once more"
            ) from None


def read_frame(
    plan: Plan, numbering: Numbering, frame: Any, *, arm: str, metric: str, value: str, item: str
) -> FrameResults:
    """The results of a frame, all of them checked."""
    table = _columns(frame)
    reader = _Reader(plan, numbering, table, arm, item)
    if metric in table and value in table:
        reader.read_long(table[metric], table[value], metric, value)
    else:
        reader.read_wide({arm, item, *_BESIDE})
    reader.bad_rows.check()
    if not reader.rows:
        raise InvalidInput(f"{_NAME}: has no results")
    return FrameResults(reader.rows, reader.at, columns_of(plan, reader.rows))


def _columns(frame: Any) -> dict[Any, list[Any]]:
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


def _values(column: Any) -> list[Any]:
    for method in ("tolist", "to_list"):  # pandas and numpy; polars
        if hasattr(column, method):
            return list(getattr(column, method)())
    return list(column)


def _is_missing(cell: Any) -> bool:
    """Whether a cell is empty, in the sense of any of the libraries."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return True
    return isinstance(cell, float) and cell != cell


class _Reader:
    """Reads the rows of a frame, and notes what is wrong with each."""

    def __init__(self, plan: Plan, numbering: Numbering, table: dict[Any, list[Any]], arm: str, item: str) -> None:
        self._plan, self._numbering, self._table = plan, numbering, table
        self._arm, self._item = arm, item
        self._known_items = items_of(plan)
        self.bad_rows = BadLines(_NAME, "row")
        self.rows: list[Row] = []
        self.at: list[int] = []
        for name in (arm, *([] if plan.items is None else [item])):
            if name not in table:
                raise InvalidInput(f"{_NAME}: the column {name!r} must be there beside {_listed(table)}")
        if plan.items is None and item in table:
            raise InvalidInput(f"{_NAME}: has a column {item!r}, and this study has no items")

    # ------------------------------------------------------------------------------------- a row for each value

    def read_long(self, metrics: list[Any], values: list[Any], metric: str, value: str) -> None:
        tests = self._table.get("test", [None] * len(metrics))
        key: object = None
        found: dict[str, float] = {}
        broken: set[str] = set()
        for row, (name, cell, test) in enumerate(zip(metrics, values, tests, strict=True)):
            try:
                arm, item = self._of(row)
                lead = self._in_column(metric, name, functools.partial(self._numbering.lead, name))
                together = self._plan.yields[lead]
                if len(together) > 1 and _is_missing(test):
                    raise needs_test(name, together)
                number = self._number(value, name, cell)
            except InvalidInput as error:
                self.bad_rows.add(row, error)
                broken.add(repr(test))
                continue
            this = (test, arm, lead, item)
            if not found or this != key or name in found or len(together) == 1:
                self._finish(found, key, broken)
                key, found = this, {}
                self.at.append(row)
            found[name] = number
        self._finish(found, key, broken)

    def _finish(self, found: dict[str, float], key: Any, broken: set[str]) -> None:
        """Take in the values of one test, which are on the rows that have been read last."""
        if not found:
            return
        test, arm, lead, item = key
        metrics = self._plan.yields[lead]
        missing = [metric for metric in metrics if metric not in found]
        if missing and repr(test) not in broken:
            reason = f"lacks {in_words(missing)}; the values of one test stand on rows that follow each other"
            self.bad_rows.add(self.at[len(self.rows)], InvalidInput("test", test, reason, shown=quoted(test)))
        values: Values = ()
        if not missing:
            try:
                values = self._together(lead, found)
            except InvalidInput as error:
                self.bad_rows.add(self.at[len(self.rows)], error)
        self.rows.append(Row(arm, lead, values, item))

    # ---------------------------------------------------------------------------------- a column for each metric

    def read_wide(self, beside: set[str]) -> None:
        plan = self._plan
        columns = [name for name in self._table if name in plan.measured and name not in (self._arm, self._item)]
        if not columns:
            reason = f"needs columns metric and value, or a column for each metric ({', '.join(plan.measured)})"
            raise InvalidInput(f"{_NAME}: {reason}; it has {_listed(self._table)}")
        if unknown := [name for name in self._table if name not in columns and name not in beside]:
            reason = f"is not a metric of this study, which has {', '.join(plan.measured)}; leave it out"
            raise InvalidInput(f"{_NAME}: the column {quoted(unknown[0])} {reason}")
        tests = {lead: metrics for lead, metrics in plan.yields.items() if any(m in columns for m in metrics)}
        for metrics in tests.values():
            if missing := [metric for metric in metrics if metric not in columns]:
                there = in_words([metric for metric in metrics if metric in columns])
                raise InvalidInput(
                    f"{_NAME}: the column {missing[0]!r} must be there beside {there}: one test yields both"
                )
        for row in range(len(self._table[self._arm])):
            try:
                arm, item = self._of(row)
                cells = {lead: values for lead, metrics in tests.items() if (values := self._wide(row, metrics))}
                found = {lead: self._together(lead, values) for lead, values in cells.items()}
                if not found:
                    raise InvalidInput("value", UNSTATED, f"is missing; there is none of {in_words(columns)}")
            except InvalidInput as error:
                self.bad_rows.add(row, error)
                continue
            self.rows += [Row(arm, lead, values, item) for lead, values in found.items()]
            self.at += [row] * len(found)

    def _wide(self, row: int, metrics: Sequence[str]) -> dict[str, float]:
        """The values of a test, or none."""
        cells = {metric: self._table[metric][row] for metric in metrics}
        blank = [metric for metric, cell in cells.items() if _is_missing(cell)]
        if len(blank) == len(metrics):
            return {}
        if blank:
            there = in_words([metric for metric in metrics if metric not in blank])
            raise InvalidInput(
                f"column {blank[0]!r}", UNSTATED, f"is missing; one test yields it together with {there}"
            )
        return {metric: self._number(metric, metric, cell) for metric, cell in cells.items()}

    # ------------------------------------------------------------------------------------------------ cells

    def _of(self, row: int) -> tuple[int, str | None]:
        """The arm of a row, by number, and its item."""
        name = self._table[self._arm][row]
        # Names such as 25 may have become numbers on their way.
        text = str(name) if isinstance(name, int) and not isinstance(name, bool) else name
        arm = self._in_column(self._arm, name, lambda: self._numbering.arm(text))
        if self._known_items is None:
            return arm, None
        given, items = self._table[self._item][row], self._known_items
        item = self._in_column(self._item, given, lambda: item_name(given))
        self._in_column(self._item, given, lambda: items.number(item))
        return arm, item

    def _number(self, column: str, metric: str, cell: Any) -> float:
        def read() -> float:
            return check_metric(self._plan, metric, read_number(cell) if isinstance(cell, str) else cell)

        return self._in_column(column, cell, read)

    def _together(self, lead: int, values: dict[str, float]) -> Values:
        """The values of one test, if they can be its result together."""
        return check_result(self._plan, lead, values)

    def _in_column(self, column: str, cell: Any, read: Callable[[], T]) -> T:
        """What a cell holds; if it cannot be read, the complaint names its column."""
        if _is_missing(cell):
            raise InvalidInput(f"column {column!r}", UNSTATED, "is missing")
        try:
            return read()
        except InvalidInput as error:
            raise InvalidInput(f"column {column!r}", cell, error.reason or str(error), shown=quoted(cell)) from None


def _listed(table: Mapping[Any, Any]) -> str:
    return ", ".join(quoted(name) for name in list(table)[:10]) or "no column at all"
