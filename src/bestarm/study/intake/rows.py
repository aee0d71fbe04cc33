"""New results in CSV files of every form: a line for each value, or a line for each test with a column for each metric.

Values of one test stand on lines that follow each other and have the same number in the column `test`, as in an export,
or on one line.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from bestarm.problem import Plan
from bestarm.study.intake.csv_file import ITEM, BadLines, CsvFile
from bestarm.study.intake.names import Numbering, measured_together
from bestarm.study.intake.placing import items_of
from bestarm.study.intake.values import Values, check_metric, check_ratios, in_words
from bestarm.texts import from_cell, quoted
from bestarm.validation import LONGEST_NAME, UNSTATED, InvalidInput

_NOBODY = (-1, -1)


@dataclasses.dataclass(frozen=True)
class SheetRow:
    """A test with its result. `line` is where it begins."""

    line: int
    arm: int
    lead: int
    values: Values
    item: str
    round: str


@dataclasses.dataclass
class _Group:
    """The lines of one test, as far as they have been read. A value is None where its cell is empty."""

    key: tuple[str, int, int, str]
    line: int
    round: str
    values: dict[str, float | None]
    is_bad: bool = False


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

    def item(self, text: str | None) -> str:
        """An item's name; nothing if there are none."""
        items = self._items
        if items is None:
            return ""
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


class Sheet:
    """The tests of a file, one after the other. `skipped` counts those of an export that have no result."""

    def __init__(self, plan: Plan, file: CsvFile, bad_lines: BadLines) -> None:
        self._plan = plan
        self._file = file
        self._bad_lines = bad_lines
        self._names = Names(plan)
        self._is_export = file.has("test") and file.has("told")
        self.skipped: Counter[tuple[int, int]] = Counter()
        file.need("arm", *([] if file.metrics else ["metric", "value"]), *([] if plan.items is None else [ITEM]))

    def rows(self) -> Iterator[SheetRow]:
        yield from self._wide() if self._file.metrics else self._long()
        self._file.decimals.check(self._bad_lines.add)

    # ------------------------------------------------------------------------------------ a line for each value

    def _long(self) -> Iterator[SheetRow]:
        group: _Group | None = None
        for line, fields in self._file.lines(self._bad_lines):
            named, has_listed = self._file.named(fields), self._names.has_listed
            try:
                arm = self._names.arm(named["arm"])
                metric, lead = self._names.metric(named["metric"])
                item = self._names.item(named.get(ITEM))
                together = self._plan.yields[lead]
                if len(together) > 1 and not named.get("test"):
                    raise needs_test(metric, together)
            except InvalidInput as error:
                if self._is_export and not named["value"]:
                    # This complaint is not shown, so the next one still has to list the choices.
                    self._names.has_listed = has_listed
                    self.skipped[_NOBODY] += 1
                else:
                    self._bad_lines.add(line, error)
                continue
            key = (named["test"] if len(together) > 1 else "", arm, lead, item)
            if group is None or len(together) == 1 or group.key != key or metric in group.values:
                yield from self._finished(group)
                group = _Group(key, line, named.get("round", ""), {})
            try:
                group.values[metric] = self._value(metric, named["value"], line)
            except InvalidInput as error:
                self._bad_lines.add(line, error)
                group.values[metric], group.is_bad = None, True
        yield from self._finished(group)

    def _value(self, metric: str, text: str, line: int) -> float | None:
        if self._is_export and not text:
            return None
        return check_metric(self._plan, metric, self._file.decimals.read(text, line))

    def _finished(self, group: _Group | None) -> Iterator[SheetRow]:
        """The test that consecutive lines describe, unless something is wrong with them."""
        if group is None or group.is_bad:
            return
        test, arm, lead, item = group.key
        if not any(value is not None for value in group.values.values()):
            self.skipped[arm, lead] += 1
            return
        metrics = self._plan.yields[lead]
        values = [group.values.get(metric) for metric in metrics]
        if missing := [metric for metric, value in zip(metrics, values, strict=True) if value is None]:
            reason = f"lacks {in_words(missing)}; the values of one test stand on lines that follow each other"
            self._bad_lines.add(group.line, InvalidInput("test", test, reason, shown=quoted(test)))
            return
        try:
            checked = check_ratios(self._plan, lead, tuple(value for value in values if value is not None))
        except InvalidInput as error:
            self._bad_lines.add(group.line, error)
            return
        yield SheetRow(group.line, arm, lead, checked, item, group.round)

    # ------------------------------------------------------------------------------------- a line for each test

    def _wide(self) -> Iterator[SheetRow]:
        tests = wide_tests(self._plan, self._file)
        for line, fields in self._file.lines(self._bad_lines):
            named = self._file.named(fields)
            try:
                arm, item = self._names.arm(named["arm"]), self._names.item(named.get(ITEM))
                found = wide_values(self._plan, self._file, tests, fields, line)
                if not found:
                    nothing = f"is missing; there is none of {in_words(list(self._file.metrics))}"
                    raise InvalidInput("value", UNSTATED, nothing)
            except InvalidInput as error:
                self._bad_lines.add(line, error)
                continue
            this_round = named.get("round", "") if self._file.has("round") else ""
            for lead, values in found.items():
                yield SheetRow(line, arm, lead, values, item, this_round)


def needs_test(metric: str, together: Sequence[str]) -> InvalidInput:
    """What to raise for a lone value whose test is unknown."""
    advice = "give the lines of one test the same number in a column test, or give each metric a column of its own"
    error = measured_together(metric, together)
    return InvalidInput("metric", metric, f"{error.reason.partition(';')[0]}; {advice}")


def wide_tests(plan: Plan, file: CsvFile) -> dict[int, tuple[str, ...]]:
    """The tests whose metrics have columns: the number of each, and what it yields."""
    found = {lead: metrics for lead, metrics in plan.yields.items() if any(m in file.metrics for m in metrics)}
    for metrics in found.values():
        if missing := [metric for metric in metrics if metric not in file.metrics]:
            there = in_words([metric for metric in metrics if metric in file.metrics])
            raise file.complain(f"the column {', '.join(missing)} must be there beside {there}: one test yields them")
    return found


def wide_values(
    plan: Plan, file: CsvFile, tests: Mapping[int, Sequence[str]], fields: list[str], line: int
) -> dict[int, Values]:
    """The values on a line, by test. It has all values of a test, or none."""
    found: dict[int, Values] = {}
    for lead, metrics in tests.items():
        cells = {metric: fields[file.metrics[metric]].strip() for metric in metrics}
        if not any(cells.values()):
            continue
        if missing := [metric for metric, text in cells.items() if not text]:
            there = in_words([metric for metric, text in cells.items() if text])
            raise InvalidInput(missing[0], UNSTATED, f"is missing; one test yields it together with {there}")
        read = [
            check_metric(plan, metric, file.decimals.read(text, line, f"value of {metric!r}"))
            for metric, text in cells.items()
        ]
        found[lead] = check_ratios(plan, lead, tuple(read))
    return found
