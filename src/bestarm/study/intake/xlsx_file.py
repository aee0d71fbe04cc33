"""An Excel workbook of results, read as a CSV file would be, but cell by cell.

Numbers are numbers, whatever decimal mark a spreadsheet shows them with. What a spreadsheet may have made of a typed
value, such as a date, is refused: it is not what was measured. Workbooks come from strangers, too: how far they unpack
is limited before anything in them is read.
"""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import io
import itertools
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any

from bestarm.parsing import Cell, Decimals
from bestarm.study.intake.results_file import BadLines, ResultsFile
from bestarm.validation import InvalidInput, exact

ZIPPED = b"PK\x03\x04"
"""How an Excel workbook begins, and every other zip file."""

XLSX = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"
"""The media type of an Excel workbook."""

OLD_OR_LOCKED = b"\xd0\xcf\x11\xe0"
"""How an old workbook (.xls) begins, and one with a password."""

LARGEST = 16 * 2**20
MOST_UNPACKED = 64 * 2**20
MOST_PARTS = 1000
MOST_ROWS = 50_000
MOST_COLUMNS = 500
"""What a workbook may have: bytes, also unpacked; files inside; rows, empty ones too; and columns."""

LIST, ABOUT = "Tests", "About"
"""The worksheets of a sheet to fill in: its list of tests, and what it is."""

_DATE = (
    "is a date or a time: spreadsheets take values such as 3.5 or 3-5 for one; format the cell as a number, and type "
    "the value again"
)
_NO_RESULT = "is a formula whose result is not in the file; open it in a spreadsheet and save it, or type the value"


def needs_package(error: ImportError) -> InvalidInput:
    """What to raise if Excel workbooks cannot be read or written here."""
    reason = f"needs the package {error.name or 'openpyxl'!r}; pip install 'bestarm[sheets]'"
    return InvalidInput(f"Excel workbook: {reason}")


class XlsxFile(ResultsFile):
    """A workbook with a table of results on one of its worksheets: the one that begins with a header."""

    noun = "row"

    def __init__(self, data: bytes, name: str, **known: Any) -> None:
        super().__init__(name, **known)
        self._digest = hashlib.sha256(data).hexdigest()
        self.decimals = Decimals(";")
        self.about: dict[str, str] = {}
        """What a sheet to fill in says about itself."""
        self._check_size(data)
        # Twice: with the results of formulas, and with the formulas, to tell those without a result from empty cells.
        self._values, self._formulas = (self._load(data, data_only) for data_only in (True, False))
        self._sheet, first, header = self._find_table()
        self._take_header(first, header)

    @property
    def digest(self) -> str:
        return self._digest

    def bad_lines(self) -> BadLines:
        return BadLines(self.name, self.noun, self._place)

    def _place(self, line: int, column: str) -> str:
        from openpyxl.utils import get_column_letter

        if column not in self.columns:
            return f"row {line}"
        return f"{get_column_letter(self.columns.index(column) + 1)}{line}"

    def _check_size(self, data: bytes) -> None:
        if data.startswith(OLD_OR_LOCKED):
            reason = "is an old Excel file (.xls), or has a password; save it as .xlsx without a password, or as CSV"
            raise InvalidInput(f"{self.name}: {reason}")
        if len(data) > LARGEST:
            raise InvalidInput(f"{self.name}: is too large: a workbook may have {LARGEST // 2**20} MiB; save it as CSV")
        with self._reading():
            parts = zipfile.ZipFile(io.BytesIO(data)).infolist()
        # A part never unpacks to more than it says here.
        if len(parts) > MOST_PARTS or sum(part.file_size for part in parts) > MOST_UNPACKED:
            reason = f"is too large: a workbook may unpack to {MOST_UNPACKED // 2**20} MiB in {MOST_PARTS:,} parts"
            raise InvalidInput(f"{self.name}: {reason}; save it as CSV")
        if "[Content_Types].xml" not in {part.filename for part in parts}:
            raise InvalidInput(f"{self.name}: is a zip file, but no Excel workbook; save it as .xlsx or as CSV")

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Whatever goes wrong in a broken file is the file's fault."""
        try:
            with warnings.catch_warnings():
                # They are about features of a spreadsheet that this reader does not need.
                warnings.simplefilter("ignore")
                yield
        except InvalidInput:
            raise
        except Exception as error:
            reason = f"cannot be read as an Excel workbook ({type(error).__name__}); save it as .xlsx again, or as CSV"
            raise InvalidInput(f"{self.name}: {reason}") from error

    def _load(self, data: bytes, data_only: bool) -> Any:
        try:
            from openpyxl import load_workbook
        except ImportError as error:
            raise needs_package(error) from None
        with self._reading():
            return load_workbook(io.BytesIO(data), read_only=True, data_only=data_only, keep_links=False)

    def _find_table(self) -> tuple[str, int, list[str]]:
        """The worksheet with a table of results, the row of its header, and what that says."""
        found: list[tuple[str, int, list[str]]] = []
        first: tuple[str, int, list[str]] | None = None
        for sheet in self._values.worksheets:
            if sheet.title == ABOUT:
                self._read_about()
                continue
            for number, row in self._rows(sheet.title, MOST_COLUMNS):
                texts = [str(cell).strip() for cell in row]
                if any(texts):
                    first = first or (sheet.title, number, texts)
                    if any(self.known_as(text).casefold() in ("arm", "test") for text in texts):
                        found.append((sheet.title, number, texts))
                    break
        if len(found) > 1:
            named = ", ".join(repr(title) for title, _, _ in found)
            raise InvalidInput(f"{self.name}: has several worksheets with results ({named}); keep one of them")
        if not found and first is None:
            raise InvalidInput(f"{self.name}: is empty; it must have the header arm, metric, value or test, value")
        return found[0] if found else first  # type: ignore[return-value]

    def _read_about(self) -> None:
        for _, row in itertools.islice(self._rows(ABOUT, 2), 20):
            if len(row) > 1 and row[0]:
                self.about[str(row[0])] = str(row[1])

    def _rows(self, title: str, width: int) -> Iterator[tuple[int, list[Cell]]]:
        """The rows of a worksheet that have something in the first `width` columns, with their numbers."""
        with self._reading():
            sheets = [book[title] for book in (self._values, self._formulas)]
            for sheet in sheets:
                # Some programs state it wrongly.
                sheet.reset_dimensions()
            both = zip(*(sheet.iter_rows(max_col=width) for sheet in sheets), strict=True)
        for first in range(1, MOST_ROWS, _AT_ONCE):
            with self._reading():
                some = [[_cell(*pair) for pair in zip(*rows, strict=True)] for rows in itertools.islice(both, _AT_ONCE)]
            yield from ((number, row) for number, row in enumerate(some, first) if any(row))
            if len(some) < _AT_ONCE:
                return
        raise InvalidInput(f"{self.name}: has too many rows: at most {MOST_ROWS:,} are read; save it as CSV")

    def lines(self, bad_lines: BadLines) -> Iterator[tuple[int, list[str]]]:
        from openpyxl.utils import get_column_letter

        width = len(self.columns)
        for number, row in self._rows(self._sheet, width + _BESIDE):
            if number <= self._first:
                continue
            for k, beside in enumerate(row[width:], width + 1):
                if beside:
                    place = f"{get_column_letter(k)}{number}"
                    bad_lines.add(number, f"{place} is not below a heading; keep notes on another worksheet")
            if any(row[:width]):
                yield number, [*row[:width]]

    def _below(self) -> Sequence[str]:
        rows = self._rows(self._sheet, MOST_COLUMNS)
        return next(([*map(str, row)] for number, row in rows if number > self._first), [])

    def named(self, fields: list[str]) -> dict[str, str]:
        return dict(zip(self.columns, fields, strict=False))


_EMPTY = Cell("")
_AT_ONCE = 500
_BESIDE = 20
"""How many rows are read at a time, and how many columns right of the table are looked at for forgotten values."""


def _cell(value: Any, formula: Any) -> Cell:
    """What is in a cell, of which `formula` is the same with formulas in place of their results."""
    given = value.value
    if given is None:
        is_open = formula.value is not None and formula.data_type == "f"
        return _refused(str(formula.value), _NO_RESULT) if is_open else _EMPTY
    if value.data_type == "e":
        return _refused(str(given), f"is an error of the spreadsheet ({given})")
    if isinstance(given, bool):
        return Cell(str(given).upper())
    if isinstance(given, int | float):
        number = float(given)
        shows_percent = "%" in str(value.number_format)
        cell = Cell(f"{exact(round(100 * number, 10))}%" if shows_percent else exact(number))
        cell.number, cell.is_percent = number, shows_percent
        return cell
    if isinstance(given, datetime.datetime | datetime.date | datetime.time | datetime.timedelta):
        return _refused(str(given), _DATE)
    text = str(given).strip()
    if "_x" in text:
        from openpyxl.utils.escape import unescape

        # How spreadsheets write control characters.
        text = unescape(text).strip()
    return Cell(text)


def _refused(text: str, reason: str) -> Cell:
    cell = Cell(text)
    cell.refused = reason
    return cell
