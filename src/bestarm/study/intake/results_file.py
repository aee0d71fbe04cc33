"""Files of results: what their columns are called, and every line or cell that cannot be accepted, named at once."""

from __future__ import annotations

import abc
import bisect
import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from bestarm.parsing import Decimals
from bestarm.problem import Plan
from bestarm.texts import from_cell, quoted
from bestarm.validation import Complaint, InvalidInput

COLUMNS = ("test", "arm", "metric", "value", "reason", "who", "issued", "told", "round", "corrections")
"""The columns of an export. An import needs arm, metric and value, or test and value for tests that were asked for. In
place of metric and value, there may be a column for each metric."""

ITEM = "item"
"""An additional column, the last of an export, in studies with items."""

DUE, STUDY, PLACE = "due", "study", "place"
"""Columns that only a sheet to fill in has: when its results are wanted, of which study, and where a test is made, such
as a well of a plate."""

IGNORE = "ignore"
"""The option that leaves out columns that the study does not know."""

LONGEST_CHOICES = 2_000
"""How many characters of unknown names are given back as what can be ignored."""

MOST_LISTED = 50
"""How many complaints about a file an error lists. The others are only counted."""

_WHICH = ("test", "arm", ITEM)
"""Columns that say what a line is about. Metrics with these names can only be given a line for each value."""


def headings_of(plan: Plan) -> dict[str, str]:
    """What stands in sheets for the name of a column or a metric, if that is not the name itself: what the study calls
    an arm and a block, and metrics with their units."""
    found = {heading: metric for metric, heading in plan.headings.items() if heading != metric}
    for word, column in ((plan.noun.one, "arm"), (plan.item_word, ITEM)):
        taken = {*COLUMNS, ITEM, DUE, STUDY, PLACE, *(name.casefold() for name in (*plan.measured, *found))}
        if word.casefold() not in taken:
            found[word] = column
    return found


class BadLines:
    """What is wrong with a file, line by line, or with a frame, row by row.

    `place` names the cell that a complaint is about, by line and column, where a file has cells with names.
    """

    def __init__(self, name: str, noun: str = "line", place: Callable[[int, str], str] | None = None) -> None:
        self._name = name
        self.noun = noun
        self._has_cells = place is not None
        self.place = place or (lambda line, column: f"{noun} {line}")
        self._listed: list[tuple[int, int, Complaint]] = []
        self._count = 0

    def add(self, line: int, error: InvalidInput | str) -> None:
        """Note what is wrong with a line. Lines may come in any order."""
        complaints = (Complaint(error, reason=error),) if isinstance(error, str) else error.complaints
        for complaint in complaints:
            self._count += 1 if self._has_cells or complaint is complaints[0] else 0
            if len(self._listed) < MOST_LISTED or line < self._listed[-1][0]:
                where = self.place(line, complaint.field or "")
                said = dataclasses.replace(complaint, field=where, sentence=f"{where}: {complaint.sentence}")
                bisect.insort(self._listed, (line, self._count, said), key=lambda entry: entry[:2])
                del self._listed[MOST_LISTED:]

    def check(self) -> None:
        """Raise all of them, if there are any."""
        complaints = [complaint for _, _, complaint in self._listed]
        listed = [complaint.sentence for complaint in complaints]
        if len(listed) == 1:
            raise InvalidInput.of(complaints, f"{self._name}: {listed[0]}; nothing was recorded")
        if self._count:
            rest = max(self._count - len(listed), 0)
            lines = [*listed, *([f"and {rest:,} more"] if rest else [])]
            what = "cells" if self._has_cells else f"{self.noun}s"
            if self._count == 1:
                what = what[:-1]
            head = f"{self._name}: {self._count:,} {what} cannot be accepted; nothing was recorded"
            raise InvalidInput.of(complaints, "\n  ".join([head, *lines]))


class ResultsFile(abc.ABC):
    """A table of results with a header. Subclasses read lines of a text, or rows of a workbook.

    `metrics` are the study's, each of which may have a column. Only with `items` is there a column for them. `headings`
    are other names of columns and metrics, as `headings_of` has them. Columns that are `ignored` are left out; only
    those that the study does not know can be. A sheet of another study than `study` is called that.
    """

    noun = "line"
    decimals: Decimals

    def __init__(
        self,
        name: str,
        metrics: Sequence[str] = (),
        items: bool = False,
        headings: Mapping[str, str] = {},
        ignored: Collection[str] = (),
        study: str = "",
    ) -> None:
        self.name = name
        self._study = study
        self._ignored = {column.casefold(): column for column in ignored}
        self._words = {known: heading for heading, known in headings.items()}
        self._headings = {heading.casefold(): known for heading, known in headings.items()}
        self._known = (*COLUMNS, *([ITEM] if items else []), DUE, STUDY, PLACE)
        self._metrics = {metric.casefold(): metric for metric in metrics} | {metric: metric for metric in metrics}
        self.metrics: dict[str, int] = {}
        """By metric: the place of its column. Empty if the file has a line for each value."""
        self.columns: list[str] = []
        self._first = 0
        """The line of the header."""

    @property
    @abc.abstractmethod
    def digest(self) -> str:
        """The digest of what has been read so far; of the whole file once all lines have been read."""

    @abc.abstractmethod
    def lines(self, bad_lines: BadLines) -> Iterator[tuple[int, list[str]]]:
        """The readable lines below the header with their numbers, once."""

    @abc.abstractmethod
    def named(self, fields: list[str]) -> dict[str, str]:
        """The fields of a line by column, without the white space around them."""

    @abc.abstractmethod
    def _below(self) -> Sequence[str]:
        """The fields of the first line below the header. Nothing is read of the file afterwards."""

    def bad_lines(self) -> BadLines:
        """Where to note what is wrong with it."""
        return BadLines(self.name, self.noun)

    def known_as(self, text: str) -> str:
        """The name that a heading stands for; other texts as they are."""
        return self._headings.get(text.casefold()) or self._headings.get(from_cell(text).casefold()) or text

    def _is_known(self, field: str) -> bool:
        field = self.known_as(field)
        return field.casefold() in self._known or self._metric(field) is not None

    def _metric(self, field: str) -> str | None:
        """The metric that a column is of, by its name, as an export would write it, or in other capitals."""
        found = (self._metrics.get(name) for name in (field, from_cell(field), field.casefold()))
        return next((metric for metric in found if metric is not None), None)

    def _take_header(self, number: int, fields: list[str]) -> None:
        """Take the texts on a line for the names of columns."""
        self._first = number
        self.columns = self._checked(self._without_ignored([*map(self.known_as, fields)]))

    def _without_ignored(self, fields: list[str]) -> list[str]:
        """The same, with names that mean nothing for columns that are ignored."""
        ignored = [k for k, field in enumerate(fields) if field.casefold() in self._ignored]
        for k in ignored:
            if self._is_known(fields[k]):
                raise self.complain(f"column {quoted(fields[k])}: is one of the study's, which cannot be ignored")
        there = {fields[k].casefold() for k in ignored}
        if missing := [column for name, column in self._ignored.items() if name not in there]:
            raise self.complain(f"has no column {quoted(missing[0])}, which was to be ignored")
        return [f"ignored column {k + 1}" if k in ignored else field for k, field in enumerate(fields)]

    def _checked(self, fields: list[str]) -> list[str]:
        while fields and not fields[-1]:
            fields = fields[:-1]
        header = [field.casefold() for field in fields]
        if not set(header) & set(self._known):
            raise self.complain("is not a header; a file of results begins with arm,metric,value or test,value")
        if not {"metric", "value"} <= set(header):
            self._find_metrics(fields, header)
        for field in header:
            if header.count(field) > 1:
                raise self.complain(f"column {field!r}: is there {header.count(field)} times")
        known = {k for k, field in enumerate(header) if field in self._known} | {*self.metrics.values()}
        names = [f"ignored column {k + 1}" for k in range(len(fields))]
        if unknown := [field for k, field in enumerate(fields) if k not in known and field != names[k]]:
            self._check_study(header)
            raise self._unknown(unknown, is_long={"metric", "value"} <= set(header))
        others = {field for k, field in enumerate(header) if k not in self.metrics.values()}
        if self.metrics and {"metric", "value"} & others:
            raise self.complain(f"has a column {', '.join(self.metrics)}; metric and value have no place beside it")
        return header

    def _check_study(self, header: Sequence[str]) -> None:
        """Raise `InvalidInput` if its lines say that it is a sheet of another study."""
        below = self._below() if STUDY in header and self._study else ()
        given = below[header.index(STUDY)].strip() if len(below) >= len(header) else ""
        if given and self._study not in (given, from_cell(given)):
            raise InvalidInput(f"{self.name}: is a sheet of study {quoted(given)}, and this is study {self._study!r}")

    def _in_words(self, columns: Iterable[str]) -> str:
        """The columns as the study calls them."""
        return ", ".join(self._words.get(column, column) for column in columns)

    def _unknown(self, fields: Sequence[str], *, is_long: bool) -> InvalidInput:
        """What to raise about columns that the study does not know. The complaint names them, to be ignored."""
        known = self._in_words([*self._known, *(() if is_long else dict.fromkeys(self._metrics.values()))])
        which = ", ".join(map(quoted, fields))
        what, it = (f"column {which}: is", "it") if len(fields) == 1 else (f"columns {which}: are", "them")
        said = self.complain(f"{what} not known; there are {known}; to leave {it} out, ignore {it} by name")
        is_short = sum(map(len, fields)) <= LONGEST_CHOICES
        return InvalidInput.of([Complaint(str(said), IGNORE, choices=tuple(fields if is_short else ()))], str(said))

    def _find_metrics(self, fields: list[str], header: list[str]) -> None:
        """Find the columns of metrics. A name that a metric shares with another column is the metric's, unless there is
        a value on each line."""
        found = {k: metric for k, field in enumerate(fields) if (metric := self._metric(field)) is not None}
        found = {k: metric for k, metric in found.items() if header[k] not in _WHICH}
        is_long = "value" in header and ("test" in header or self._metric("value") is None)
        if is_long and all(header[k] in self._known for k in found):
            return
        for k, metric in found.items():
            header[k] = metric
            self.metrics.setdefault(metric, k)

    def has(self, column: str) -> bool:
        """Whether there is such a column, which is not a metric's."""
        return column in self.columns and column not in self.metrics

    def complain(self, reason: str) -> InvalidInput:
        """What to raise about the header."""
        return InvalidInput(f"{self.name}: {self.noun} {self._first}: {reason}")

    def need(self, *columns: str) -> None:
        """Raise `InvalidInput` if a column is missing."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            named = f"the column{'s'[: len(missing) - 1]} {self._in_words(missing)}"
            raise self.complain(f"{named} must be there beside {self._in_words(self.columns)}")
