"""The results in a CSV file, checked against the study that they are for."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from bestarm.parsing import LONGEST_NUMBER
from bestarm.problem import Plan
from bestarm.storage.columns import Columns
from bestarm.study.intake.adding import columns_of, places_of
from bestarm.study.intake.csv_file import ITEM, BadLines, CsvFile
from bestarm.study.intake.placing import Placing
from bestarm.study.intake.rows import FileTable, Names, Reader
from bestarm.study.intake.values import check_metric
from bestarm.texts import cell
from bestarm.validation import MOST, InvalidInput

T = TypeVar("T")


class NewResults(NamedTuple):
    """Results measured without asking. `ends` has the positions of those that ended a round."""

    results: Columns
    ends: array[int]
    skipped: int
    """Tests of an export without a value: given up, or not yet told."""
    places: Callable[[Placing], Sequence[int]]
    """Where they belong in the order of items, if there are any."""


def read_new_results(plan: Plan, file: CsvFile) -> NewResults:
    """The results of a file with the columns arm, metric, value, or arm and a column for each metric."""
    is_plain = plan.items is None and all(len(metrics) == 1 for metrics in plan.yields.values())
    return _read_lines(plan, file) if is_plain and not file.metrics else _read_tests(plan, file)


def _read_tests(plan: Plan, file: CsvFile) -> NewResults:
    """The results of a file of any form."""
    file.need("arm", *([] if file.metrics else ["metric", "value"]), *([] if plan.items is None else [ITEM]))
    bad_lines, ends = BadLines(file.name), array("q")
    reader = Reader(plan, FileTable(plan, file, bad_lines), bad_lines)
    rows = reader.read()
    file.decimals.check(bad_lines.add)
    bad_lines.check()
    for place, (before, row) in enumerate(itertools.pairwise(rows)):
        if row.round != before.round:
            ends.append(place)

    def places(placing: Placing) -> list[int]:
        return places_of(rows, placing, BadLines(file.name), reader.skipped)

    return NewResults(columns_of(plan, rows), ends, reader.skipped.total(), places)


def _read_lines(plan: Plan, file: CsvFile) -> NewResults:
    """The results of a file with a line for each value, of a study in which each is a test of its own."""
    file.need("arm", "metric", "value")
    at_arm, at_metric, at_value = map(file.columns.index, ("arm", "metric", "value"))
    at_round = file.columns.index("round") if "round" in file.columns else None
    arms = _as_written({name: k for k, name in enumerate(plan.arm_names)})
    metrics = _as_written({metrics[0]: (k, *_range(plan, metrics[0])) for k, metrics in plan.yields.items()})
    names, is_export = Names(plan), file.has("test") and file.has("told")
    bad_lines, results, ends = BadLines(file.name), Columns(), array("q")
    add_arm, add_metric, add_value = results.arms.append, results.metrics.append, results.values.append
    skipped, last_round, notes_points = 0, "", True
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
                value = check_metric(plan, name, file.decimals.read(named["value"], number))
            except InvalidInput as error:
                bad_lines.add(number, error)
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
    file.decimals.check(bad_lines.add)
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
