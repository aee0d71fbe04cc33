"""JSON, TOML and numbers from files, requests and command lines: errors are reported in one line."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from typing import Any

from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

_TOO_DEEP = "is nested too deeply"
_TOO_LONG = "a number in it has too many digits"

_DECIMAL = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
# Accepted here so that the caller can refuse them with a better message.
_WORD = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]+")


class Malformed(InvalidInput):
    """A text that is no JSON or TOML at all."""

    kind = "malformed"


def read_json(data: str | bytes) -> Any:
    """The data in a JSON text, none of whose objects has a field twice."""
    try:
        return json.loads(data, object_pairs_hook=_once)
    except json.JSONDecodeError as error:
        raise Malformed(f"not valid JSON: {error}") from None
    except UnicodeDecodeError:
        raise Malformed("not valid JSON: is not UTF-8") from None
    except RecursionError:
        raise Malformed(f"not valid JSON: {_TOO_DEEP}") from None
    except ValueError as error:
        # Python's reader gives up on a whole number of thousands of digits.
        raise error if isinstance(error, InvalidInput) else Malformed(f"not valid JSON: {_TOO_LONG}") from None


def read_toml(text: str) -> dict[str, Any]:
    """The data in a TOML text."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise Malformed(f"not valid TOML: {error}") from None
    except RecursionError:
        raise Malformed(f"not valid TOML: {_TOO_DEEP}") from None
    except ValueError:
        raise Malformed(f"not valid TOML: {_TOO_LONG}") from None


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
    """Whether a text is a number as people and programs write it, which Python's own reader takes more than.

    >>> [is_decimal(text) for text in ("-1.5e3", ".5", "nan", "1_000", "\uff11", "0x10", " 1")]
    [True, True, True, False, False, False, False]
    """
    return bool(_DECIMAL.fullmatch(text) or _WORD.fullmatch(text))


def read_decimal(text: str) -> float:
    """A number in decimal notation, with white space around it or without. Raises ValueError for anything else."""
    text = text.strip()
    if not is_decimal(text):
        raise ValueError("must be a number")
    return float(text)


def read_whole(text: str) -> int:
    """A whole number that a database can keep. Raises ValueError for anything else."""
    text = text.strip()
    if not _WHOLE.fullmatch(text):
        raise ValueError("must be a whole number")
    if len(text) > 25 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"must be a whole number from {-(2**63)} to {2**63 - 1}")
    return int(text)
