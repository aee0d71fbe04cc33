"""The one place that reads what people and programs write: JSON, TOML and numbers, wherever they come from.

Errors are reported in one line. A number that could be read in two ways is refused, because a value that is wrong
by a factor of a thousand looks like any other.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

LONGEST_NUMBER = 1000
"""In characters."""

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Not numbers to compute with. The caller refuses them in better words.
_WORD = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_PERCENT = re.compile(r"([+-]?[0-9.,]+)\s*([%‰])")
# Spaces of every kind and apostrophes separate thousands, too.
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,'’ \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]*)?")
# 1.234 may be 1234 with its thousands set apart. 0.123 and 1.2340 may not.
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")

UNGROUPED = "must be written without thousands separators, as in 1234.5"

_MOST_NOTED = 50
"""How many numbers of a kind are remembered, to be named in complaints."""


LARGEST_FILE = 64 * 2**20
"""Bytes that are read of a file. A pipe may have no end."""

MOST_NESTED = 100
"""Lists and objects inside each other, in what is read. Deeper ones would exhaust the stack of what works with them."""


def too_large(name: str, most: int) -> InvalidInput:
    """What to raise for a file that goes on after so many bytes."""
    return InvalidInput(f"{name}: is larger than {most // 2**20} MiB, the most that is read of such a file")


def read_bytes(file: BinaryIO, name: str, most: int = LARGEST_FILE) -> bytes:
    """Everything in a file."""
    data = file.read(most + 1)
    if len(data) > most:
        raise too_large(name, most)
    return data


def read_text(path: str | Path, most: int = LARGEST_FILE, *, encoding: str = "utf-8", errors: str = "strict") -> str:
    """The text in a file; `OSError` or `UnicodeDecodeError` if there is none, as of `Path.read_text`."""
    with open(path, "rb") as file:
        data = read_bytes(file, str(path), most)
    return data.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


class Malformed(InvalidInput):
    """A text that is no JSON or TOML at all."""

    kind = "malformed"


def read_json(data: str | bytes) -> Any:
    """The data in a JSON text, none of whose objects has a field twice."""
    return _parsed("JSON", lambda: json.loads(data, object_pairs_hook=_once))


def read_toml(text: str) -> dict[str, Any]:
    """The data in a TOML text."""
    data: dict[str, Any] = _parsed("TOML", lambda: tomllib.loads(text))
    return data


def _parsed(kind: str, parse: Callable[[], Any]) -> Any:
    try:
        data = parse()
        inner: list[Any] = [[data]]
        for _ in range(MOST_NESTED + 1):
            parts = (part for one in inner for part in (one.values() if isinstance(one, dict) else one))
            if not (inner := [part for part in parts if isinstance(part, dict | list)]):
                return data
        raise RecursionError
    except InvalidInput:
        raise
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        reason = str(error)
    except UnicodeDecodeError:
        reason = "is not UTF-8"
    except RecursionError:
        reason = f"is nested too deeply: at most {MOST_NESTED} lists and objects inside each other are read"
    except ValueError:
        # Python's reader gives up on a whole number of thousands of digits.
        reason = "a number in it has too many digits"
    raise Malformed(f"not valid {kind}: {reason}")


def _once(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object none of whose fields is given twice: Python's reader would take the last."""
    data = dict(fields)
    if len(data) < len(fields):
        times = Counter(name for name, _ in fields)
        name = next(name for name, count in times.items() if count > 1)
        shown = name if name.isidentifier() else quoted(name)
        reason = f"is given {'twice' if times[name] == 2 else 'several times'}"
        raise InvalidInput(name, UNSTATED, reason, sentence=f"{shown} {reason}")
    return data


def is_decimal(text: str) -> bool:
    """Whether a text is a number as people and programs write it. Python's `float` accepts more.

    >>> [is_decimal(text) for text in ("-1.5e3", ".5", "nan", "1_000", "\uff11", "0x10", " 1")]
    [True, True, True, False, False, False, False]
    """
    return bool(_DECIMAL.fullmatch(text) or _WORD.fullmatch(text))


def read_decimal(text: str) -> float:
    """A number with a decimal point, with white space around it or without. ValueError says what else it is."""
    text = text.strip()
    if len(text) > LONGEST_NUMBER:
        raise ValueError("must be a number")
    if is_decimal(text):
        return float(text)
    if percent := _PERCENT.fullmatch(text):
        raise ValueError(_no_percent(percent[1], percent[2]))
    if _GROUPED.fullmatch(text) and not _DOUBTFUL.fullmatch(text):
        raise ValueError(UNGROUPED)
    if is_decimal(text.replace(",", ".")):
        raise ValueError("must be written with a decimal point, as in 3.5")
    raise ValueError("must be a number")


def _no_percent(number: str = "45", sign: str = "%") -> str:
    number = number if is_decimal(number) else "45"
    share = float(f"{number}e-{2 if sign == '%' else 3}")
    return f"must be a number without a percent sign; {number}{sign} of 1 is {share!r}"


def read_hundredths(text: str) -> float:
    """A number of percent as the decimal number that is written: 0.01 * 70 would be another one.

    >>> read_hundredths("70"), read_hundredths("0.7")
    (0.7, 0.007)
    """
    return float(f"{read_decimal(text) / 100.0:.15g}")


def read_number(text: str, where: str = "value") -> float:
    """The same; `InvalidInput` says what is wrong, and where."""
    text = text.strip()
    if not text:
        raise InvalidInput(where, UNSTATED, "is missing")
    try:
        return read_decimal(text)
    except ValueError as error:
        raise InvalidInput(where, text, str(error), shown=quoted(text)) from None


def read_whole(text: str) -> int:
    """A whole number that a database can keep. Raises ValueError for anything else."""
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise ValueError("must be a whole number")
    if len(text) > 25 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"must be a whole number from {-(2**63)} to {2**63 - 1}")
    return int(text)


def read_parameter(text: str) -> bool | int | float | str:
    """A policy's parameter as a command line has it: true, false, a number, or any other text.

    >>> [read_parameter(text) for text in ("true", "3", "0.5", "tracking")]
    [True, 3, 0.5, 'tracking']
    """
    if text in ("true", "false"):
        return text == "true"
    return read_whole(text) if _WHOLE.fullmatch(text) else float(text) if is_decimal(text) else text


class Cell(str):
    """The text of a spreadsheet's cell, with what the spreadsheet knows about it."""

    number: float | None = None
    """The number that it holds. What its decimal mark looks like is no question then."""
    is_percent: bool = False
    """Whether the spreadsheet shows that number in percent: 0.9 as 90%."""
    refused: str = ""
    """Why no value can be read from it, such as a date."""


class _Noted(NamedTuple):
    """A number of a file: the line and the column it is in, what complaints call it, and the text."""

    line: int
    column: str
    where: str
    text: str

    def refused(self, reason: str) -> InvalidInput:
        return InvalidInput(self.column, self.text, reason, sentence=f"{self.where} = {quoted(self.text)}: {reason}")


class Decimals:
    """Reads the numbers of one file, and finds out whether all of them have the same decimal mark.

    In a file with semicolons between its columns, the comma is a likely decimal mark. There, 1.234 is in doubt, too.
    """

    def __init__(self, delimiter: str) -> None:
        self._is_comma_likely = delimiter == ";"
        self._noted: dict[tuple[str, bool], list[_Noted]] = {
            (mark, sure): [] for mark in ",." for sure in (True, False)
        }
        """By mark, and whether it is a decimal mark for certain: the first numbers with it."""

    def read(self, text: str, line: int, where: str = "value", *, column: str = "value", rate: bool = False) -> float:
        """A number on a line. What it means is certain only after `check`. If `rate`, 90% is 0.9."""
        if isinstance(text, Cell) and (text.refused or text.number is not None):
            if reason := text.refused or ("" if rate or not text.is_percent else _no_percent()):
                raise InvalidInput(where, str(text), reason, shown=quoted(str(text)))
            assert text.number is not None
            return text.number
        percent = _PERCENT.fullmatch(text) if rate else None
        plain = percent[1] if percent is not None and percent[2] == "%" else text
        mark = "," if plain.count(",") == 1 and "." not in plain else "."
        pointed = plain.replace(",", ".") if mark == "," else plain
        if not is_decimal(pointed) or len(pointed) > LONGEST_NUMBER:
            return read_number(text, where)
        if mark in plain:
            self._note(mark, plain, _Noted(line, column, where, text))
        return float(pointed if plain is text else f"{pointed}e-2")

    def note_point(self, text: str, line: int) -> bool:
        """Take note of a number with a decimal point that was read elsewhere. False: there is no need for more."""
        self._note(".", text, _Noted(line, "value", "value", text))
        return len(self._noted[".", True]) < _MOST_NOTED

    def _note(self, mark: str, plain: str, noted: _Noted) -> None:
        known = self._noted[mark, _DOUBTFUL.fullmatch(plain) is None]
        if len(known) < _MOST_NOTED:
            known.append(noted)

    def check(
        self,
        complain: Callable[[int, InvalidInput], None],
        place: Callable[[int, str], str] = lambda line, column: f"line {line}",
    ) -> None:
        """Complain of lines if not all numbers can be understood in the same way. `place` names a cell."""
        comma, point = self._noted[",", True], self._noted[".", True]
        maybe_comma, maybe_point = self._noted[",", False], self._noted[".", False]
        if comma and (points := sorted(point + maybe_point)):
            first = min(min(comma), points[0])
            mark, before = ("point", "comma") if "," in first.text else ("comma", "point")
            reason = f"has a decimal {mark}, and {place(first.line, first.column)} a decimal {before} ({first.text})"
            for other in points if mark == "point" else comma:
                complain(other.line, other.refused(f"{reason}; use one of them throughout"))
        elif maybe_comma and (point or maybe_point):
            for grouped in maybe_comma:
                complain(grouped.line, grouped.refused(UNGROUPED))
        elif not comma and not point:
            for doubtful in maybe_comma or (maybe_point if self._is_comma_likely else ()):
                complain(doubtful.line, doubtful.refused(two_readings(doubtful.text)))


def two_readings(text: str) -> str:
    """What a number may mean whose thousands may be set apart.

    >>> two_readings("1,234")
    'may be 1.234 or 1234; write 1,2340 or 1234'
    """
    plain = text.rstrip("% \u00a0\u2009\u202f")
    end = text[len(plain) :]
    whole, mark, part = plain.partition("," if "," in plain else ".")
    return f"may be {whole}.{part}{end} or {whole}{part}{end}; write {whole}{mark}{part}0{end} or {whole}{part}{end}"
