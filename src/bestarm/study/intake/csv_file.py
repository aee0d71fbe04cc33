"""A CSV file of results: what people, spreadsheets and our own export write, with every bad line named.

It is read once, from start to end, and is never held in memory as a whole.
"""

from __future__ import annotations

import bisect
import contextlib
import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from bestarm.parsing import Decimals
from bestarm.texts import from_cell, quoted
from bestarm.validation import InvalidInput

COLUMNS = ("test", "arm", "metric", "value", "reason", "who", "issued", "told", "round", "corrections")
"""The columns of an export. An import needs arm, metric and value, or test and value for tests that were asked for. In
place of metric and value, there may be a column for each metric."""

ITEM = "item"
"""An additional column, the last of an export, in studies with items."""

DUE, STUDY = "due", "study"
"""Columns that only a sheet to fill in has: when its results are wanted, and of which study."""

MOST_LISTED = 50
"""How many bad lines an error lists. The others are only counted."""

_DELIMITERS = ",;\t"
_SEPARATOR = re.compile(r'"?sep=([,;\t])"?', re.IGNORECASE)
"""What some spreadsheets write, and want to read, before the header."""
_WHICH = ("test", "arm", ITEM)
"""Columns that say what a line is about. Metrics with these names can only be given a line for each value."""
_PIECE = 1 << 16


class BadLines:
    """What is wrong with a file, line by line, or with a frame, row by row."""

    def __init__(self, name: str, noun: str = "line") -> None:
        self._name = name
        self.noun = noun
        self._listed: list[tuple[int, str]] = []
        self._count = 0

    def add(self, line: int, reason: object) -> None:
        """Note what is wrong with a line. Lines may come in any order."""
        self._count += 1
        if len(self._listed) < MOST_LISTED or line < self._listed[-1][0]:
            bisect.insort(self._listed, (line, str(reason)))
            del self._listed[MOST_LISTED:]

    def check(self) -> None:
        """Raise all of them, if there are any."""
        listed = [f"{self.noun} {line}: {reason}" for line, reason in self._listed]
        if self._count == 1:
            raise InvalidInput(f"{self._name}: {listed[0]}; nothing was recorded")
        if self._count:
            rest = self._count - len(listed)
            lines = [*listed, *([f"and {rest:,} more"] if rest else [])]
            head = f"{self._name}: {self._count:,} {self.noun}s cannot be accepted; nothing was recorded"
            raise InvalidInput("\n  ".join([head, *lines]))


class _Bytes(io.BufferedIOBase):
    """A file on its way to the decoder: hashed, with its lines counted, and with errors in the user's words."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file = file
        self.name = name
        self._is_begun = False
        self.hash = hashlib.sha256()
        self.ends = 0
        """Line ends in what has been read."""

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1, /) -> bytes:
        data = self._read()
        if not self._is_begun:
            # From a pipe even these two bytes may arrive one at a time.
            while len(data) < 2 and (more := self._read()):
                data += more
            self._is_begun = True
            if data.startswith((b"\xff\xfe", b"\xfe\xff")):
                raise InvalidInput(f"{self.name}: is UTF-16; save it as CSV in UTF-8")
        self.hash.update(data)
        self.ends += data.count(b"\n")
        return data

    def _read(self) -> bytes:
        try:
            return self._file.read(_PIECE)
        except OSError as error:
            raise InvalidInput(f"{self.name}: cannot be read: {error.strerror or error}") from None


class CsvFile:
    """A CSV file with a header: commas, semicolons or tabs; UTF-8; blank lines do not count.

    `metrics` are the study's, each of which may have a column. Only with `items` is there a column for them.
    """

    def __init__(self, data: bytes | BinaryIO, name: str, *, metrics: Sequence[str] = (), items: bool = False) -> None:
        self.name = name
        self._known = (*COLUMNS, *([ITEM] if items else []), DUE, STUDY)
        self._metrics = {metric.casefold(): metric for metric in metrics} | {metric: metric for metric in metrics}
        self.metrics: dict[str, int] = {}
        """By metric: the place of its column. Empty if the file has a line for each value."""
        self._bytes = _Bytes(io.BytesIO(data) if isinstance(data, bytes) else data, name)
        # Line ends are left as they are, since some are inside quotes.
        self._text = io.TextIOWrapper(self._bytes, "utf-8-sig", newline="")
        with self._decoding():
            first, header = self._header()
        self._first = first
        self.columns = self._checked(first, header)

    @property
    def digest(self) -> str:
        """The digest of what has been read so far; of the whole file once all lines have been read."""
        return self._bytes.hash.hexdigest()

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            line = self._bytes.ends - error.object.count(b"\n", error.start) + 1
            raise InvalidInput(f"{self.name}: line {line}: is not UTF-8; save the file as CSV in UTF-8") from None

    def _header(self) -> tuple[int, list[str]]:
        """The line number and the fields of the header, split at the delimiter that makes most sense."""
        lines = enumerate(iter(self._text.readline, ""), 1)
        found = ((k, line) for k, line in lines if line.strip(_DELIMITERS + " \r\n"))
        number, line = next(found, (0, ""))
        if _SEPARATOR.fullmatch(line.strip(" \r\n")):
            number, line = next(found, (0, ""))
        if not number:
            raise InvalidInput(f"{self.name}: is empty; it must begin with the header arm,metric,value or test,value")
        readings: dict[str, list[str]] = {}
        for delimiter in _DELIMITERS:
            try:
                fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
            except csv.Error:
                continue
            readings[delimiter] = [field.strip() for field in fields]
        if not readings:
            raise InvalidInput(f"{self.name}: line {number}: is not a header such as arm,metric,value")
        self._delimiter = max(readings, key=lambda d: sum(map(self._is_known, readings[d])))
        self.decimals = Decimals(self._delimiter)
        self._widest = len(readings[self._delimiter])
        return number, readings[self._delimiter]

    def _is_known(self, field: str) -> bool:
        return field.casefold() in self._known or self._metric(field) is not None

    def _metric(self, field: str) -> str | None:
        """The metric that a column is of, by its name, as an export would write it, or in other capitals."""
        found = (self._metrics.get(name) for name in (field, from_cell(field), field.casefold()))
        return next((metric for metric in found if metric is not None), None)

    def _checked(self, number: int, fields: list[str]) -> list[str]:
        while fields and not fields[-1]:
            fields = fields[:-1]
        where = f"{self.name}: line {number}: "
        header = [field.casefold() for field in fields]
        if not set(header) & set(self._known):
            raise InvalidInput(f"{where}is not a header; a file of results begins with arm,metric,value or test,value")
        if not {"metric", "value"} <= set(header):
            self._find_metrics(fields, header)
        for k, field in enumerate(header):
            if field not in self._known and k not in self.metrics.values():
                known = ", ".join(self._known)
                raise InvalidInput(f"{where}column {quoted(field)}: is not known; there are {known}")
            if header.count(field) > 1:
                raise InvalidInput(f"{where}column {field!r}: is there {header.count(field)} times")
        others = {field for k, field in enumerate(header) if k not in self.metrics.values()}
        if self.metrics and {"metric", "value"} & others:
            raise InvalidInput(
                f"{where}has a column {', '.join(self.metrics)}; metric and value have no place beside it"
            )
        return header

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
        return InvalidInput(f"{self.name}: line {self._first}: {reason}")

    def need(self, *columns: str) -> None:
        """Raise `InvalidInput` if a column is missing."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            named = f"the column{'s'[: len(missing) - 1]} {', '.join(missing)}"
            raise self.complain(f"{named} must be there beside {', '.join(self.columns)}")

    def lines(self, bad_lines: BadLines) -> Iterator[tuple[int, list[str]]]:
        """The readable lines below the header with their numbers, once. White space is kept as in the file."""
        rows = csv.reader(self._text, delimiter=self._delimiter, skipinitialspace=True, strict=True)
        width, below = len(self.columns), self._first + 1
        following = below
        with self._decoding():
            try:
                for fields in rows:
                    number, following = following, below + rows.line_num
                    if len(fields) != width or not fields[0].strip():
                        if not any(map(str.strip, fields)):
                            continue
                        if len(fields) < width or self._has_too_many(fields):
                            bad_lines.add(number, self._wrong_width(fields))
                            continue
                    yield number, fields
            except csv.Error as error:
                # The text after a broken quote cannot be separated from it.
                bad_lines.add(following, f"cannot be read ({error})")

    def _has_too_many(self, fields: list[str]) -> bool:
        """Whether there is something beyond the columns. A spreadsheet may add empty cells, to the header as well; one
        that is empty on this line alone may be due to a decimal comma before it."""
        is_wider = self._delimiter == "," and len(fields) > self._widest
        return is_wider or any(map(str.strip, fields[len(self.columns) :]))

    def _wrong_width(self, fields: list[str]) -> str:
        reason = f"has {len(fields)} fields; the header has {len(self.columns)}"
        if self._delimiter == "," and len(fields) > len(self.columns):
            return f"{reason}; a number with a decimal comma needs quotes, or semicolons between the columns"
        return reason

    def named(self, fields: list[str]) -> dict[str, str]:
        """The fields of a line by column, without the white space around them."""
        return dict(zip(self.columns, map(str.strip, fields), strict=False))
