"""Results measured without asking, checked and put into the terms of the record."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bestarm.noises.shares import as_told
from bestarm.problem import Plan
from bestarm.storage.columns import Columns
from bestarm.study.intake.blocks import FreeBlocks
from bestarm.study.intake.items import FreeItems, item_name, items_of
from bestarm.study.intake.names import Numbering
from bestarm.study.intake.results_file import BadLines
from bestarm.study.intake.values import Result, Value, Values, check_result
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

GivenResult = (
    tuple[str, str, Result]
    | tuple[str, Mapping[str, Value]]
    | tuple[str, str, Result, str | int]
    | tuple[str, Mapping[str, Value], str | int]
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


@dataclasses.dataclass
class NewResults:
    """Results as a storage takes them. `rows` has the names of their items, and is empty if there are none."""

    columns: Columns
    rows: Sequence[Row] = ()
    ends: Sequence[int] = ()
    """The positions of results that ended a round."""
    skipped: Counter[tuple[int, int]] = dataclasses.field(default_factory=Counter)
    """Tests of an export without a value, by arm and test: given up, or not yet told."""
    bad_rows: BadLines | None = None
    """In a table, every bad row is named."""

    @classmethod
    def of(cls, plan: Plan, rows: Sequence[Row]) -> NewResults:
        columns, order = Columns(), items_of(plan)
        for row in rows:
            item = None if order is None or row.item is None else order.number(row.item)
            columns.append(row.arm, row.lead, row.values[0], row.values[1:], item)
        return cls(columns, rows)

    def named(self, plan: Plan) -> list[GivenResult]:
        """The rows in the terms of the user, as `Study.add` takes them."""
        return [
            (
                plan.arm_names[row.arm],
                dict(zip(plan.yields[row.lead], map(as_told, row.values), strict=True)),
                *(() if row.item is None else (row.item,)),
            )
            for row in self.rows
        ]

    def put_first(self, leads: Collection[int]) -> list[int] | None:
        """Move the results of some tests to the front. Returns where each result is now; None if nothing has moved."""
        order = sorted(range(len(self.rows)), key=lambda k: self.rows[k].lead not in leads)
        if order == [*range(len(order))]:
            return None
        columns = Columns()
        for k in order:
            columns.append(*self.columns[k])
        self.columns, self.rows, self.ends = columns, [self.rows[k] for k in order], ()
        return sorted(range(len(order)), key=order.__getitem__)

    def places(self, free: FreeItems | FreeBlocks) -> list[int]:
        """Where in the order of items the results belong."""
        places = []
        tests, items = [(row.arm, row.lead) for row in self.rows], [row.item or "" for row in self.rows]
        for row, place in zip(self.rows, free.assign(tests, items, self.skipped), strict=True):
            if not isinstance(place, InvalidInput):
                places.append(place)
            elif self.bad_rows is None:
                raise place
            else:
                self.bad_rows.add(row.at, place)
        if self.bad_rows is not None:
            self.bad_rows.check()
        return places


def read_given(plan: Plan, numbering: Numbering, results: Iterable[GivenResult]) -> list[Row]:
    """The results, each one checked."""
    rows = []
    for result in results:
        arm, metric, values, item = fields_of(result)
        if plan.items is None and item is not None:
            raise InvalidInput("item", item, "this study has no items", shown=quoted(item))
        if plan.items is not None and item is None:
            of = "an item" if plan.blocks is None else f"a {plan.blocks.name}"
            raise InvalidInput("item", UNSTATED, f"is missing; results of this study are of {of} each")
        number = numbering.arm(arm)
        if metric is None and isinstance(values, Mapping):
            lead = numbering.measured_with(values)
        else:
            lead = numbering.test(metric)
        rows.append(Row(number, lead, check_result(plan, lead, values), None if item is None else item_name(item)))
    return rows


def fields_of(result: Any) -> tuple[str, str | None, object, object]:
    """Arm, metric, value or values, and item; no metric if the values are by metric."""
    match result:
        case (arm, Mapping() as values):
            return arm, None, values, None
        case (arm, Mapping() as values, item):
            return arm, None, values, item
        case (_, Mapping(), *_):
            pass
        case (arm, metric, value):
            return arm, metric, value, None
        case (arm, metric, value, item):
            return arm, metric, value, item
    raise InvalidInput("results", result, _FORMS, shown=quoted(result))
