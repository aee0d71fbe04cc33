"""The results in a CSV file, checked against the study that they are for."""

from __future__ import annotations

import itertools
from array import array
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from bestarm.problem import Constraint, Objective
from bestarm.storage.base import Issued, Outcome
from bestarm.storage.columns import Columns, Result
from bestarm.study.csv_reader import LONGEST_NUMBER, BadLines, CsvFile, read_test, read_value, short
from bestarm.study.study import Study, Test
from bestarm.study.values import check_value
from bestarm.texts import cell, from_cell
from bestarm.validation import LONGEST_NAME, MOST, UNSTATED, InvalidInput

T = TypeVar("T")

_LOOKED_UP = 500
"""How many tests are looked up at a time."""


class NewResults(NamedTuple):
    """Results measured without asking. `ends` has the positions of those that ended a round."""

    results: Columns
    ends: array[int]
    skipped: int
    """Lines of an export without a value: tests given up, or not yet told."""


def read_new_results(study: Study, file: CsvFile) -> NewResults:
    """The results of a file with the columns arm, metric, value."""
    file.need("arm", "metric", "value")
    at_arm, at_metric, at_value = map(file.columns.index, ("arm", "metric", "value"))
    at_round = file.columns.index("round") if "round" in file.columns else None
    arms = _as_written({name: k for k, name in enumerate(study.plan.arm_names)})
    metrics = _as_written({part.metric: (k, *_range(part)) for k, part in enumerate(study.plan.parts)})
    careful = _Careful(study, file)
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
            try:
                found = careful.read(fields)
            except InvalidInput as error:
                bad_lines.add(number, error)
                continue
            if found is None:
                skipped += 1
                continue
            arm, metric, value = found
        if at_round is not None:
            this_round = fields[at_round].strip()
            if this_round != last_round and results:
                ends.append(len(results) - 1)
            last_round = this_round
        add_arm(arm)
        add_metric(metric)
        add_value(value)
    bad_lines.check()
    return NewResults(results, ends, skipped)


def _as_written(known: dict[str, T]) -> dict[str, T]:
    """By names as people write them, and as an export writes them, which takes precedence."""
    return known | {cell(name): found for name, found in known.items()}


def _range(part: Objective | Constraint) -> tuple[float, float, bool]:
    """The least and the largest value of a metric, and whether its values are whole numbers."""
    low, high = part.noise.value_range
    return max(low, -MOST), min(high, MOST), part.noise.is_whole


class _Careful:
    """Reads lines one by one, and says what is wrong with them."""

    def __init__(self, study: Study, file: CsvFile) -> None:
        self._study = study
        self._file = file
        self._is_export = {"test", "told"} <= set(file.columns)
        self._has_listed = False

    def read(self, fields: list[str]) -> Result | None:
        """Arm, metric and value. None for a test without a value in an export."""
        named = self._file.named(fields)
        if self._is_export and not named["value"]:
            return None
        _check_name("arm", named["arm"])
        _check_name("metric", named["metric"])
        try:
            arm = self._study.arm_number(_meant(named["arm"], self._study.plan.arm_names))
            metric = self._study.metric_number(_meant(named["metric"], self._study.plan.metrics))
        except InvalidInput as error:
            if self._has_listed:
                # To list the choices once is enough.
                raise InvalidInput(str(error.field), error.value, f"no such {error.field}") from None
            self._has_listed = True
            raise
        return arm, metric, check_value(self._study.plan.parts[metric], read_value(named["value"]))


def _meant(text: str, names: Sequence[str]) -> str:
    """The name that a field stands for: as an export writes it, or as it is."""
    return from_cell(text) if from_cell(text) in names else text


def _check_name(field: str, name: str) -> None:
    if not name:
        raise InvalidInput(field, UNSTATED, "is missing")
    # A name in an export may have one more apostrophe.
    if len(name) > LONGEST_NAME + 1:
        raise InvalidInput(field, name, f"no such {field}", shown=short(name))


def read_told(study: Study, file: CsvFile) -> list[tuple[Test | int, float]]:
    """The results of a file with the columns test, value, and perhaps arm and metric to be checked against the test."""
    file.need("test", "value")
    bad_lines = BadLines(file.name)
    results: list[tuple[Test | int, float]] = []
    seen: dict[int, int] = {}
    lines = file.lines(bad_lines)
    while some := list(itertools.islice(lines, _LOOKED_UP)):
        rows: list[tuple[int, int, dict[str, str]]] = []
        for number, fields in some:
            named = file.named(fields)
            try:
                test = read_test(named["test"])
                if test in seen:
                    raise InvalidInput("test", test, f"is on line {seen[test]} too")
                seen[test] = number
                rows.append((number, test, named))
            except InvalidInput as error:
                bad_lines.add(number, error)
        found = study.storage.find_tests(study.record.key, [test for _, test, _ in rows])
        for number, test, named in rows:
            try:
                results.append((test, _checked_result(study, test, found.get(test), named)))
            except InvalidInput as error:
                bad_lines.add(number, error)
    bad_lines.check()
    return results


def _checked_result(
    study: Study, test: int, found: tuple[Issued, Outcome | None] | None, fields: dict[str, str]
) -> float:
    if found is None:
        raise InvalidInput("test", test, f"no such test in study {study.name!r}")
    issued, outcome = found
    arm, part = study.plan.arm_names[issued.arm], study.plan.parts[issued.metric]
    given = {name: {fields[name], from_cell(fields[name])} for name in ("arm", "metric") if name in fields}
    if arm not in given.get("arm", {arm}) or part.metric not in given.get("metric", {part.metric}):
        raise InvalidInput("test", test, f"is {part.metric!r} of {arm!r}")
    value = check_value(part, read_value(fields["value"]))
    if outcome is not None and outcome.value != value:
        has = "was abandoned" if outcome.value is None else f"has the result {outcome.value:g} already"
        raise InvalidInput("test", test, has, shown=f"{test} ({part.metric!r} of {arm!r})")
    return value
