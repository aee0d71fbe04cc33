"""The audit: who did what in a study, with which tests, a line for each request; and of all studies and tokens."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from bestarm.storage.rows import Event


_MOST_AT_ONCE = 10**6


class AuditLine(NamedTuple):
    """Something that was done in a study at once: `who` asked for these tests, or told them."""

    time: float
    """In seconds since 1970."""
    kind: str
    """As in the study's log."""
    who: str
    """Empty if it is not known."""
    tests: tuple[int, ...]
    detail: str


class AuditEntry(NamedTuple):
    """A line of the audit of a whole database, and what it is about: a study, or the name of a token."""

    study: str | None
    token: str | None
    line: AuditLine

    def to_dict(self) -> dict[str, Any]:
        return {"study": self.study, "token": self.token, **self.line._asdict()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> AuditEntry:
        """
        >>> entry = AuditEntry("cache", None, AuditLine(1.0, "told", "ann", (1, 3), ""))
        >>> AuditEntry.from_dict(json.loads(json.dumps(entry.to_dict()))) == entry
        True
        """
        line = {name: data[name] for name in AuditLine._fields} | {"tests": tuple(data["tests"])}
        return cls(data["study"], data["token"], AuditLine(**line))


def audit_of(events: Iterable[Event]) -> list[AuditLine]:
    """What was done, from a study's log: events of the same moment, kind and holder are one line.

    >>> from bestarm.storage.rows import Event
    >>> [line] = audit_of([Event(1.0, "told", 3, "ann", ""), Event(1.0, "told", 1, "ann", "")])
    >>> line.who, line.tests
    ('ann', (1, 3))
    """
    together: dict[tuple[float, str, str, str], list[int]] = {}
    for event in events:
        tests = together.setdefault((event.time, event.kind, event.holder, event.detail), [])
        tests += [] if event.test is None else [event.test]
    lines = [
        AuditLine(time, kind, who, tuple(sorted(tests)), detail)
        for (time, kind, who, detail), tests in together.items()
    ]
    return sorted(lines, key=lambda line: line.time)


def in_ranges(tests: Iterable[int]) -> str:
    """Numbers of tests as people read them, and as a request for tests is noted in the log.

    >>> in_ranges([1, 2, 3, 7])
    '1-3, 7'
    """
    ordered = sorted(tests)
    groups = itertools.groupby(enumerate(ordered), lambda pair: pair[1] - pair[0])
    runs = [[test for _, test in group] for _, group in groups]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def encode_tests(tests: Sequence[int]) -> str:
    """First and last numbers of runs, as JSON."""
    found = [part.split("-") for part in in_ranges(tests).split(", ")]
    return json.dumps([[int(run[0]), int(run[-1])] for run in found])


def decode_tests(text: str) -> list[int]:
    """
    >>> decode_tests(encode_tests([1, 2, 3, 7]))
    [1, 2, 3, 7]
    """
    runs = [range(first, last + 1) for first, last in json.loads(text)]
    if sum(map(len, runs)) > _MOST_AT_ONCE:
        raise ValueError("more tests than one request can have")
    return [test for run in runs for test in run]
