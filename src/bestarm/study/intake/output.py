"""Reads the result that a command prints: a number, a JSON object, or a line `name value` for each metric."""

from __future__ import annotations

from collections.abc import Sequence

from bestarm.parsing import read_json, read_number
from bestarm.study.intake.values import Result, check_names, in_words
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, is_boolean


def read_output(text: str, metrics: Sequence[str]) -> Result:
    """The result of a test of `metrics` that a command printed. `InvalidInput` says what is wrong with it.

    >>> read_output("1.5\\n", ["time"])
    1.5
    >>> read_output('{"time": 1.5, "memory": 340}', ["time", "memory"])
    {'time': 1.5, 'memory': 340}
    >>> read_output("time 1.5\\nmemory 340\\n", ["time", "memory"])
    {'time': 1.5, 'memory': 340.0}
    """
    if len(metrics) == 1 and len(text.split()) == 1 and not text.lstrip().startswith("{"):
        return read_number(text, "the command's output")
    found = _object(text) if text.lstrip().startswith("{") else _lines(text)
    check_names(metrics, found)
    return found


def wanted(metrics: Sequence[str]) -> str:
    """What a command must print."""
    if len(metrics) == 1:
        return "one number"
    return f"the values of {in_words(metrics)}, as a JSON object or as lines `name value`"


def _object(text: str) -> dict[str, float]:
    data = read_json(text)
    for name, value in data.items():
        if not is_boolean(value) and not isinstance(value, int | float):
            raise InvalidInput(quoted(name), value, "must be a number", shown=quoted(value))
    return dict(data)


def _lines(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        *words, number = line.rsplit(maxsplit=1)
        if not words:
            raise InvalidInput("line", line, "must be a name and a value", shown=quoted(line))
        [name] = words
        if name in found:
            raise InvalidInput("line", line, f"there is a value of {quoted(name)} already", shown=quoted(line))
        found[name] = read_number(number, name)
    return found
