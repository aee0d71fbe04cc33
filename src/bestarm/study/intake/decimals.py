"""Numbers as spreadsheets write them: with a decimal point, or with a decimal comma where the whole file has one.

A number that could be read in two ways is refused, because a value that is wrong by a factor of a thousand looks like
any other.
"""

from __future__ import annotations

import re
from typing import Protocol

from bestarm.parsing import is_decimal
from bestarm.study.intake.values import read_number
from bestarm.validation import UNSTATED, InvalidInput

LONGEST_NUMBER = 100

_PERCENT = re.compile(r"[+-]?[0-9.,]+\s*[%‰]")
# Spaces of every kind and apostrophes separate thousands, too.
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,'’ \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]*)?")
# 1.234 may be 1234 with its thousands set apart. 0.123 and 1.2340 may not.
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")


class Complaints(Protocol):
    """Where to say what is wrong with a line."""

    def add(self, line: int, reason: object) -> None: ...


class Decimals:
    """Reads the numbers of one file, and finds out whether all of them have the same decimal mark.

    In a file with semicolons between its columns, the comma may be a decimal mark. There, 1.234 is in doubt, too.
    """

    def __init__(self, delimiter: str) -> None:
        self._is_comma_likely = delimiter == ";"
        self._first: dict[tuple[str, bool], tuple[int, str, str]] = {}
        """By mark, and whether it is a decimal mark for certain: the first line, column and number with it."""

    def read(self, text: str, line: int, where: str = "value") -> float:
        """A number on a line. What it means is certain only after `check`."""
        if text.count(",") == 1 and "." not in text and is_decimal(text.replace(",", ".")):
            self._note(",", text, line, where)
            text = text.replace(",", ".")
        elif "." in text and is_decimal(text):
            self._note(".", text, line, where)
        return read_value(text, where)

    def note_point(self, text: str, line: int) -> bool:
        """Take note of a number with a decimal point that was read elsewhere. False: there is no need for more."""
        self._note(".", text, line, "value")
        return (".", True) not in self._first

    def _note(self, mark: str, text: str, line: int, where: str) -> None:
        self._first.setdefault((mark, _DOUBTFUL.fullmatch(text) is None), (line, where, text))

    def check(self, complaints: Complaints) -> None:
        """Complain if not all numbers can be understood in the same way."""
        comma, point = self._first.get((",", True)), self._first.get((".", True))
        maybe_comma, maybe_point = self._first.get((",", False)), self._first.get((".", False))
        if comma and (point or maybe_point):
            _add_mixed(complaints, comma, point or maybe_point or comma)
        elif maybe_comma and (point or maybe_point) and not comma:
            line, where, text = maybe_comma
            complaints.add(line, _grouped(where, text))
        elif not comma and not point and (doubtful := maybe_comma or (self._is_comma_likely and maybe_point)):
            line, where, text = doubtful
            whole, mark, part = text.partition("," if "," in text else ".")
            reason = f"may be {whole}.{part} or {whole}{part}; write {whole}{mark}{part}0 or {whole}{part}"
            complaints.add(line, InvalidInput(where, text, reason))


def _add_mixed(complaints: Complaints, comma: tuple[int, str, str], point: tuple[int, str, str]) -> None:
    (first, _, shown), (line, where, text) = sorted((comma, point))
    marks = ("point", "comma") if "." in text else ("comma", "point")
    reason = f"has a decimal {marks[0]}, and line {first} a decimal {marks[1]} ({shown}); use one of them throughout"
    complaints.add(line, InvalidInput(where, text, reason))


def _grouped(where: str, text: str) -> InvalidInput:
    return InvalidInput(where, text, "must be written without thousands separators, as in 1234.5")


def read_value(text: str, where: str = "value") -> float:
    """A number as people and spreadsheets write it, with a decimal point."""
    if not text:
        raise InvalidInput(where, UNSTATED, "is missing")
    if len(text) > LONGEST_NUMBER:
        raise InvalidInput(where, text, "must be a number", shown=short(text))
    if _PERCENT.fullmatch(text):
        raise InvalidInput(where, text, "must be a number without a percent sign; 45 % of 1 is 0.45")
    if not is_decimal(text) and _GROUPED.fullmatch(text) and not _DOUBTFUL.fullmatch(text):
        raise _grouped(where, text)
    if "," in text and is_decimal(text.strip().replace(",", ".")):
        raise InvalidInput(where, text, "must be written with a decimal point, as in 3.5")
    return read_number(text, where)


def short(text: str) -> str:
    """A text as it is quoted in a complaint."""
    return repr(text if len(text) <= 80 else f"{text[:40]}…{text[-20:]}")
