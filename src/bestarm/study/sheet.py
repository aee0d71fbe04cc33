"""A CSV file of results: what people, spreadsheets and our own export write, with every bad line named."""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator

from bestarm.study.values import read_number
from bestarm.validation import InvalidInput

COLUMNS = ("test", "arm", "metric", "value", "reason", "who", "issued", "told", "round", "corrections")
"""Of an export. What is imported needs arm, metric and value, or, for tests that were asked for, test and value."""

MOST_LISTED = 50
"""Bad lines that a complaint lists; the others are counted."""

_LONGEST_NUMBER = 100
_DELIMITERS = ",;\t"


class Complaints:
    """What is wrong with a file, line by line."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._listed: list[str] = []
        self._count = 0

    def add(self, line: int, reason: object) -> None:
        self._count += 1
        if self._count <= MOST_LISTED:
            self._listed.append(f"line {line}: {reason}")

    def check(self) -> None:
        """Raise all of them, if there are any."""
        if self._count == 1:
            raise InvalidInput(f"{self._name}: {self._listed[0]}; nothing was recorded")
        if self._count:
            rest = self._count - len(self._listed)
            lines = [*self._listed, *([f"and {rest:,} more"] if rest else [])]
            raise InvalidInput(
                "\n  ".join([f"{self._name}: {self._count:,} lines cannot be accepted; nothing was recorded", *lines])
            )


class Sheet:
    """A CSV file with a header: commas, semicolons or tabs; UTF-8; blank lines do not count."""

    def __init__(self, data: bytes, name: str) -> None:
        self.name = name
        self.digest = hashlib.sha256(data).hexdigest()
        self._text = _decoded(data, name)
        first, header = self._header()
        self._first = first
        self.columns = self._checked(first, header)

    def _header(self) -> tuple[int, list[str]]:
        """The line number and the fields of the header, by the delimiter that makes most sense of it."""
        lines = enumerate(io.StringIO(self._text, newline=""), 1)
        number, line = next(((k, line) for k, line in lines if line.strip(_DELIMITERS + " \r\n")), (0, ""))
        if not number:
            raise InvalidInput(f"{self.name}: is empty; it must begin with the header arm,metric,value or test,value")
        readings: dict[str, list[str]] = {}
        for delimiter in _DELIMITERS:
            try:
                fields = next(csv.reader([line], delimiter=delimiter, skipinitialspace=True, strict=True), [])
            except csv.Error:
                continue
            readings[delimiter] = [field.strip().casefold() for field in fields]
        if not readings:
            raise InvalidInput(f"{self.name}: line {number}: is not a header such as arm,metric,value")
        self._delimiter = max(readings, key=lambda d: sum(field in COLUMNS for field in readings[d]))
        return number, readings[self._delimiter]

    def _checked(self, number: int, header: list[str]) -> list[str]:
        while header and not header[-1]:
            header = header[:-1]
        where = f"{self.name}: line {number}: "
        if not set(header) & set(COLUMNS):
            raise InvalidInput(f"{where}is not a header; a file of results begins with arm,metric,value or test,value")
        for field in header:
            if field not in COLUMNS:
                raise InvalidInput(f"{where}column {short(field)}: is not known; there are {', '.join(COLUMNS)}")
            if header.count(field) > 1:
                raise InvalidInput(f"{where}column {field!r}: is there {header.count(field)} times")
        return header

    def need(self, *columns: str) -> None:
        """Complain if a column is missing."""
        missing = [column for column in columns if column not in self.columns]
        if missing:
            raise InvalidInput(
                f"{self.name}: line {self._first}: the column{'s'[: len(missing) - 1]} {', '.join(missing)} "
                f"must be there beside {', '.join(self.columns)}"
            )

    def lines(self, complaints: Complaints) -> Iterator[tuple[int, dict[str, str]]]:
        """The lines below the header that can be read, with their numbers."""
        rows = csv.reader(
            io.StringIO(self._text, newline=""), delimiter=self._delimiter, skipinitialspace=True, strict=True
        )
        width = len(self.columns)
        while True:
            number = rows.line_num + 1
            try:
                fields = next(rows, None)
            except csv.Error as error:
                # What follows a broken quotation cannot be told apart from it.
                complaints.add(number, f"cannot be read ({error})")
                return
            if fields is None:
                return
            if number <= self._first or not any(map(str.strip, fields)):
                continue
            if len(fields) < width or any(map(str.strip, fields[width:])):
                complaints.add(number, f"has {len(fields)} fields; the header has {width}")
                continue
            yield number, dict(zip(self.columns, map(str.strip, fields), strict=False))


def _decoded(data: bytes, name: str) -> str:
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise InvalidInput(f"{name}: is UTF-16; save it as CSV in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InvalidInput(f"{name}: line {line}: is not UTF-8; save the file as CSV in UTF-8") from None


def short(text: str) -> str:
    return repr(text if len(text) <= 80 else f"{text[:40]}…{text[-20:]}")


def read_value(text: str, where: str = "value") -> float:
    """A number as people and spreadsheets write it, with a decimal point."""
    if not text:
        raise InvalidInput(f"{where}: is missing")
    if len(text) > _LONGEST_NUMBER:
        raise InvalidInput(f"{where} = {short(text)}: must be a number")
    if "," in text and _is_number(text.replace(",", ".")):
        raise InvalidInput(f"{where} = {text!r}: must be written with a decimal point, as in 3.5")
    return read_number(text, where)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_test(text: str) -> int:
    """The number of a test, from a file or the command line."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 2**63 and len(text) <= 20):
        raise InvalidInput(f"test = {short(text)}: must be the number of a test, as `bestarm ask` gives it")
    return int(text)
