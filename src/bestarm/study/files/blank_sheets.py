"""Sheets to fill in: tests that were asked for, with room for their values. `exchange.tell_results` takes them back."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Protocol, TextIO

from bestarm.problem import Plan
from bestarm.storage.base import Pending
from bestarm.study.intake.csv_file import COLUMNS, DUE, ITEM, STUDY
from bestarm.study.intake.names import Test
from bestarm.texts import cell


class Asked(Protocol):
    """A study, here or on a server, that was asked for tests."""

    @property
    def name(self) -> str: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def holder(self) -> str: ...

    def pending(self) -> list[tuple[Test, Pending]]: ...


NOT_YIELDED = "n/a"
"""What stands in the column of a metric that a test does not yield."""


def write_blank_sheet(study: Asked, tests: Sequence[Test], out: TextIO, delimiter: str = ",") -> None:
    """Write a line for each test, with an empty cell for each value.

    If a test of the study yields several metrics, each metric has a column; otherwise all values stand in one.
    """
    due = {row.id: row.due for _, row in study.pending()}
    rows = [_header(study.plan, tests), *_rows(study, tests, due)]
    if not all(text.isascii() for row in rows for text in row):
        # Without it, spreadsheets take letters such as µ for those of another alphabet.
        out.write("\ufeff")
    csv.writer(out, delimiter=delimiter, lineterminator="\n").writerows(rows)


def columns_to_fill(plan: Plan, tests: Sequence[Test]) -> list[str]:
    """The columns in which values are written."""
    return _metrics(tests) if _has_columns(plan) else ["value"]


def _has_columns(plan: Plan) -> bool:
    """Whether each metric gets a column. One that is called like another column cannot have one."""
    is_bundled = any(len(metrics) > 1 for metrics in plan.yields.values())
    return is_bundled and not {metric.casefold() for metric in plan.measured} & {*COLUMNS, ITEM, DUE, STUDY}


def _metrics(tests: Sequence[Test]) -> list[str]:
    return list(dict.fromkeys(metric for test in tests for metric in test.metrics))


def _header(plan: Plan, tests: Sequence[Test]) -> list[str]:
    item = [] if plan.items is None else [ITEM]
    metric = [] if _has_columns(plan) else ["metric"]
    return ["test", "arm", *metric, *item, *map(cell, columns_to_fill(plan, tests)), "who", DUE, STUDY]


def _rows(study: Asked, tests: Sequence[Test], due: dict[int, float | None]) -> Iterator[list[str]]:
    metrics, is_wide = _metrics(tests), _has_columns(study.plan)
    for test in tests:
        item = [] if study.plan.items is None else [cell(test.item or "")]
        end = [cell(study.holder), _day(due.get(test.id)), cell(study.name)]
        if is_wide:
            values = ["" if metric in test.metrics else NOT_YIELDED for metric in metrics]
            yield [str(test.id), cell(test.arm), *item, *values, *end]
            continue
        for metric in test.metrics:
            yield [str(test.id), cell(test.arm), cell(metric), *item, "", *end]


def _day(seconds: float | None) -> str:
    return "" if seconds is None else f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
