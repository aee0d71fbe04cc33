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
from typing import Any, NamedTuple

from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

LONGEST_NUMBER = 1000
"""In characters."""

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Not numbers to compute with. The caller refuses them in better words.
_WORD = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]+")
_PERCENT = re.compile(r"[+-]?[0-9.,]+\s*[%‰]")
# Spaces of every kind and apostrophes separate thousands, too.
_GROUPED = re.compile(r"[+-]?[0-9]{1,3}([.,'’ \u00a0\u2009\u202f])[0-9]{3}(\1[0-9]{3})*([.,][0-9]*)?")
# 1.234 may be 1234 with its thousands set apart. 0.123 and 1.2340 may not.
_DOUBTFUL = re.compile(r"[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}")

_UNGROUPED = "must be written without thousands separators, as in 1234.5"


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
        return parse()
    except InvalidInput:
        raise
    except (json.JSONDecodeError, tomllib.TOMLDecodeError) as error:
        reason = str(error)
    except UnicodeDecodeError:
        reason = "is not UTF-8"
    except RecursionError:
        reason = "is nested too deeply"
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
    if _PERCENT.fullmatch(text):
        raise ValueError("must be a number without a percent sign; 45% of 1 is 0.45")
    if _GROUPED.fullmatch(text) and not _DOUBTFUL.fullmatch(text):
        raise ValueError(_UNGROUPED)
    if is_decimal(text.replace(",", ".")):
        raise ValueError("must be written with a decimal point, as in 3.5")
    raise ValueError("must be a number")


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


class _Noted(NamedTuple):
    """A number of a file."""

    line: int
    where: str
    text: str

    def refused(self, reason: str) -> InvalidInput:
        return InvalidInput(self.where, self.text, reason)


class Decimals:
    """Reads the numbers of one file, and finds out whether all of them have the same decimal mark.

    In a file with semicolons between its columns, the comma is a likely decimal mark. There, 1.234 is in doubt, too.
    """

    def __init__(self, delimiter: str) -> None:
        self._is_comma_likely = delimiter == ";"
        self._first: dict[tuple[str, bool], _Noted] = {}
        """By mark, and whether it is a decimal mark for certain: the first number with it."""

    def read(self, text: str, line: int, where: str = "value") -> float:
        """A number on a line. What it means is certain only after `check`."""
        if text.count(",") == 1 and "." not in text and is_decimal(text.replace(",", ".")):
            self._note(",", text, line, where)
            text = text.replace(",", ".")
        elif "." in text and is_decimal(text):
            self._note(".", text, line, where)
        return read_number(text, where)

    def note_point(self, text: str, line: int) -> bool:
        """Take note of a number with a decimal point that was read elsewhere. False: there is no need for more."""
        self._note(".", text, line, "value")
        return (".", True) not in self._first

    def _note(self, mark: str, text: str, line: int, where: str) -> None:
        self._first.setdefault((mark, _DOUBTFUL.fullmatch(text) is None), _Noted(line, where, text))

    def check(self, complain: Callable[[int, InvalidInput], None]) -> None:
        """Complain of a line if not all numbers can be understood in the same way."""
        comma, point = self._first.get((",", True)), self._first.get((".", True))
        maybe_comma, maybe_point = self._first.get((",", False)), self._first.get((".", False))
        if comma and (other := point or maybe_point):
            first, second = sorted((comma, other))
            mark, before = ("point", "comma") if "." in second.text else ("comma", "point")
            reason = f"has a decimal {mark}, and line {first.line} a decimal {before} ({first.text})"
            complain(second.line, second.refused(f"{reason}; use one of them throughout"))
        elif maybe_comma and (point or maybe_point) and not comma:
            complain(maybe_comma.line, maybe_comma.refused(_UNGROUPED))
        elif not comma and not point and (doubtful := maybe_comma or (self._is_comma_likely and maybe_point)):
            whole, mark, part = doubtful.text.partition("," if "," in doubtful.text else ".")
            reason = f"may be {whole}.{part} or {whole}{part}; write {whole}{mark}{part}0 or {whole}{part}"
            complain(doubtful.line, doubtful.refused(reason))
