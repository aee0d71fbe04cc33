"""Results measured without asking, checked and put into the terms of the record."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bestarm.problem import Plan
from bestarm.storage.columns import Columns
from bestarm.study.intake.csv_file import BadLines
from bestarm.study.intake.names import Numbering
from bestarm.study.intake.placing import Placing, check_item, item_name, items_of
from bestarm.study.intake.values import Result, Values, check_result
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

GivenResult = (
    tuple[str, str, Result]
    | tuple[str, Mapping[str, float]]
    | tuple[str, str, Result, str | int]
    | tuple[str, Mapping[str, float], str | int]
)
"""Arm, metric and value; or arm and values by metric, of one test that yields several. And the item, if there are any.
"""

_FORMS = (
    "must be (arm, metric, value), or (arm, {metric: value, …}) for a test of several metrics; then the item, if any"
)


class Row(NamedTuple):
    """A result by number, and the name of its item. In a table: where it begins, and its round."""

    arm: int
    lead: int
    values: Values
    item: str | None
    at: int = 0
    round: str = ""


def read_rows(plan: Plan, numbering: Numbering, results: Iterable[GivenResult]) -> list[Row]:
    """The results, each one checked."""
    rows = []
    for result in results:
        arm, metric, values, item = fields_of(result)
        check_item(plan.items is not None, item)
        where = numbering.arm(arm)
        lead = _lead(numbering, metric, values)
        checked = check_result(plan, lead, values)
        rows.append(Row(where, lead, checked, None if item is None else item_name(item)))
    return rows


def fields_of(result: object) -> tuple[str, str | None, object, object]:
    if not isinstance(result, tuple | list) or not 2 <= len(result) <= 4:
        raise InvalidInput("results", result, _FORMS, shown=quoted(result))
    arm, second, *rest = result
    if isinstance(second, Mapping):
        if len(rest) > 1:
            raise InvalidInput("results", result, _FORMS, shown=quoted(result))
        return arm, None, second, rest[0] if rest else None
    if not rest:
        raise InvalidInput("results", result, _FORMS, shown=quoted(result))
    return arm, second, rest[0], rest[1] if len(rest) > 1 else None


def _lead(numbering: Numbering, metric: str | None, values: object) -> int:
    if metric is not None:
        return numbering.test(metric)
    assert isinstance(values, Mapping)
    return numbering.measured_with(values)


def columns_of(plan: Plan, rows: Sequence[Row]) -> Columns:
    """The results as a storage takes them, with the numbers of their items."""
    columns, order = Columns(), items_of(plan)
    for row in rows:
        item = None if order is None or row.item is None else order.number(row.item)
        columns.append(row.arm, row.lead, row.values[0], row.values[1:], item)
    return columns


def places_of(
    rows: Sequence[Row],
    placing: Placing,
    bad_rows: BadLines | None = None,
    skipped: Counter[tuple[int, int]] | None = None,
) -> list[int]:
    """Where in the order of items the results belong. In a table, every bad row is named."""
    places = []
    found = placing.assign([(row.arm, row.lead) for row in rows], [row.item or "" for row in rows], skipped)
    for row, place in zip(rows, found, strict=True):
        if not isinstance(place, InvalidInput):
            places.append(place)
        elif bad_rows is None:
            raise place
        else:
            bad_rows.add(row.at, place)
    if bad_rows is not None:
        bad_rows.check()
    return places
