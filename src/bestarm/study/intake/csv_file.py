"""A CSV file of results: what people, spreadsheets and our own export write, with every bad line named.

It is read once, from start to end, and is never held in memory as a whole.
"""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import re
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from bestarm.parsing import Decimals, too_large
from bestarm.study.intake.results_file import BadLines, ResultsFile
from bestarm.validation import InvalidInput

_DELIMITERS = ",;\t"
_SEPARATOR = re.compile(r'"?sep=([,;\t])"?', re.IGNORECASE)
"""What some spreadsheets write, and want to read, before the header."""
_PIECE = 1 << 16
LARGEST = 256 * 2**20
"""Bytes that are read of a file of results: some ten million. A pipe may have no end."""


@contextlib.contextmanager
def reading(name: str) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{name}: cannot be read: {error.strerror or error}") from None


class _Bytes(io.BufferedIOBase):
    """A file on its way to the decoder: hashed, with its lines counted, and with errors in the user's words."""

    def __init__(self, file: BinaryIO, name: str, begun: bytes) -> None:
        self._file = file
        self._begun = begun
        self.name = name
        self._is_begun = False
        self._size = 0
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
        self._size += len(data)
        if self._size > LARGEST:
            raise too_large(self.name, LARGEST)
        return data

    def _read(self) -> bytes:
        if self._begun:
            data, self._begun = self._begun, b""
            return data
        with reading(self.name):
            return self._file.read(_PIECE)


class CsvFile(ResultsFile):
    """A CSV file with a header: commas, semicolons or tabs; UTF-8; blank lines do not count.

    `begun` is what has been read from the file already.
    """

    def __init__(self, data: bytes | BinaryIO, name: str, *, begun: bytes = b"", **known: Any) -> None:
        super().__init__(name, **known)
        self._bytes = _Bytes(io.BytesIO(data) if isinstance(data, bytes) else data, name, begun)
        # Line ends are left as they are, since some are inside quotes.
        self._text = io.TextIOWrapper(self._bytes, "utf-8-sig", newline="")
        with self._decoding():
            first, header = self._header()
        self._take_header(first, header)

    @property
    def digest(self) -> str:
        return self._bytes.hash.hexdigest()

    @contextlib.contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except UnicodeDecodeError as error:
            line = self._bytes.ends - error.object.count(b"\n", error.start) + 1
            if b"\0" in error.object + self._bytes.read1() or self.name.casefold().endswith(".xlsx"):
                reason = "is neither a CSV file nor an Excel workbook that can be read; save it as one of these again"
                raise InvalidInput(f"{self.name}: {reason}") from None
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

    def lines(self, bad_lines: BadLines) -> Iterator[tuple[int, list[str]]]:
        # White space is kept as in the file.
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

    def _below(self) -> Sequence[str]:
        with self._decoding(), contextlib.suppress(csv.Error):
            return next(csv.reader(self._text, delimiter=self._delimiter, skipinitialspace=True), [])
        return []

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
        return dict(zip(self.columns, map(str.strip, fields), strict=False))
