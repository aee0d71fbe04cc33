"""How a metric is read from what a command prints: `json:.latency.p99`, `regex:Requests: ([0-9.]+)`, `last-line`."""

from __future__ import annotations

import dataclasses
import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bestarm.parsing import read_json
from bestarm.study.intake.values import in_words
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

HOW = "json:.latency.p99, regex:Requests/sec: ([0-9.]+) or last-line"

_STEP = re.compile(r'\.?\["([^"]*)"\]|\.?\[(-?[0-9]+)\]|\.([^\s."\[\]]+)')
_SHOWN = 300
"""Characters of an output's end that a complaint quotes."""


class Unreadable(ValueError):
    """There is no such value in what a command printed."""


@dataclasses.dataclass(frozen=True)
class Reader:
    """Finds one value in an output. Two readers with the same text do the same."""

    text: str
    find: Callable[[str], str] = dataclasses.field(repr=False, compare=False)

    def __call__(self, output: str) -> str:
        """The value as text, or "k/n" if the reader finds two numbers. `Unreadable` says what was looked for, and how
        the output ends."""
        try:
            return self.find(output).strip()
        except Unreadable as error:
            end = output.strip()[-_SHOWN:]
            printed = f"the output ends with {quoted(end)}" if end else "nothing was printed on standard output"
            raise Unreadable(f"{self.text}: {error}; {printed}") from None


def readers_of(texts: Iterable[str], metrics: Sequence[str]) -> dict[str, Reader]:
    """By metric: how each of a study's metrics is read, as in `p99=json:.latency.p99`."""
    found: dict[str, Reader] = {}
    for text in texts:
        # A name may have any character, and so may a reader.
        name = next((one for one in sorted(metrics, key=len, reverse=True) if text.startswith(f"{one}=")), None)
        if name is None:
            reason = f"must be NAME=READER, with a metric of the study: {in_words(metrics)}"
            raise InvalidInput("--metric", text, reason, tuple(metrics))
        if name in found:
            raise InvalidInput("--metric", text, f"there is a reader of {name!r} already")
        found[name] = reader_of("--metric", text.removeprefix(f"{name}="))
    if found and (missing := [name for name in metrics if name not in found]):
        raise InvalidInput("--metric", UNSTATED, f"say how {in_words(missing)} is read, or leave out all readers")
    return found


def reader_of(field: str, text: str) -> Reader:
    """
    >>> reader_of("metric", "json:.runs[-1].mean")('{"runs": [{"mean": 2.5}]}')
    '2.5'
    >>> reader_of("metric", "regex:([0-9]+) errors of ([0-9]+)")("2 errors of 40\\n3 errors of 80\\n")
    '3/80'
    >>> reader_of("metric", "last-line")("loading\\n0.93\\n")
    '0.93'
    """
    how, _, what = text.strip().partition(":")
    if text.strip() == "last-line":
        return Reader(text.strip(), _last_line)
    if how == "json" and what:
        steps = _steps(field, what.strip())
        return Reader(text.strip(), lambda output: _in_json(output, steps))
    if how == "regex" and what:
        pattern = _pattern(field, what)
        return Reader(text.strip(), lambda output: _last_match(output, pattern))
    raise InvalidInput(field, text, f"must say how it is read, as in {HOW}")


def _last_line(output: str) -> str:
    lines = output.strip().splitlines()
    if not lines:
        raise Unreadable("there is no line")
    return lines[-1]


def _pattern(field: str, text: str) -> re.Pattern[str]:
    try:
        pattern = re.compile(text, re.MULTILINE)
    except re.error as error:
        raise InvalidInput(field, text, f"is no regular expression: {error}") from None
    if pattern.groups > 2:
        reason = "must have one group for the number, or two for a share, k of n; (?:…) is no group"
        raise InvalidInput(field, text, reason)
    return pattern


def _last_match(output: str, pattern: re.Pattern[str]) -> str:
    """Programs that report as they go say the final number last."""
    matches = deque(pattern.finditer(output), maxlen=1)
    if not matches:
        raise Unreadable("nothing matches")
    [found] = matches
    groups = found.groups() or (found[0],)
    if None in groups:
        raise Unreadable("the last match lacks a group")
    return "/".join(group.strip() for group in groups)


def _steps(field: str, path: str) -> list[str | int]:
    """
    >>> _steps("metric", '.runs[0]["p 99"].mean')
    ['runs', 0, 'p 99', 'mean']
    """
    if path == ".":
        return []
    found: list[str | int] = []
    place = 0
    while place < len(path):
        step = _STEP.match(path, place)
        if step is None:
            reason = 'must be a path such as .latency.p99, .runs[0].mean or .["requests per second"]'
            raise InvalidInput(field, path, reason)
        key, number, word = step.groups()
        found.append(int(number) if number is not None else word if key is None else key)
        place = step.end()
    return found


def _in_json(output: str, steps: list[str | int]) -> str:
    found = _json_of(output)
    for step in steps:
        in_list = isinstance(step, int) and isinstance(found, list) and -len(found) <= step < len(found)
        if not in_list and not (isinstance(step, str) and isinstance(found, dict) and step in found):
            raise Unreadable(f"there is no {quoted(step)} in {_shortened(found)}")
        found = found[step]
    parts = found if isinstance(found, list) and len(found) == 2 else [found]
    if not all(isinstance(part, str | int | float) for part in parts):
        raise Unreadable(f"{_shortened(found)} is no number")
    return "/".join(part if isinstance(part, str) else str(json.dumps(part)) for part in parts)


def _json_of(output: str) -> Any:
    """The whole output as JSON, or its last line."""
    for text in (output, _last_line(output)):
        try:
            return read_json(text)
        except InvalidInput as error:
            reason = str(error)
    raise Unreadable(f"neither the output nor its last line is JSON: {reason}")


def _shortened(data: Any) -> str:
    text = json.dumps(data, ensure_ascii=False)
    return text if len(text) <= 80 else f"{text[:79]}…"
