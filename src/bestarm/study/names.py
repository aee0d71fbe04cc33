"""What a study here and one on a server have in common: how tests, arms, metrics and holders are named."""

from __future__ import annotations

import dataclasses
import itertools
import os
import socket
from collections.abc import Iterable, Sequence

from bestarm.plan import Plan
from bestarm.texts import quoted
from bestarm.validation import InvalidInput


@dataclasses.dataclass(frozen=True)
class Test:
    """A test to make: measure `metric` of `arm` once, and tell the result under this `id`."""

    __test__ = False  # not a class of tests, whatever pytest thinks of the name

    id: int
    arm: str
    metric: str


def number_of(test: Test | int) -> int:
    """The number of a test, which may be given as such."""
    number = test.id if isinstance(test, Test) else test
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**63:
        raise InvalidInput("test", number, "must be a test, or the number of one", shown=quoted(number))
    return number


def numbers_of(tests: Iterable[Test | int] | Test | int) -> list[int]:
    """The numbers of one or several tests."""
    return [number_of(test) for test in ([tests] if isinstance(tests, Test | int) else tests)]


class Numbering:
    """The places of a plan's arms and metrics, by name."""

    def __init__(self, plan: Plan) -> None:
        self._arms = {name: k for k, name in enumerate(plan.arm_names)}
        self._metrics = {name: k for k, name in enumerate(plan.metrics)}

    def arm(self, name: str) -> int:
        return _place("arm", name, self._arms)

    def metric(self, name: str) -> int:
        return _place("metric", name, self._metrics)


def _place(what: str, name: str, known: dict[str, int]) -> int:
    if name not in known:
        raise InvalidInput(what, name, f"no such {what}; {_listed([*known])}", known)
    return known[name]


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(map(repr, names[:10]))
    return f"there are {listed}{f' and {len(names) - 10} more' if len(names) > 10 else ''}"


_serial = itertools.count(1)


class HolderName:
    """In whose name tests are held: as it was given, and made anew in a process that inherits it."""

    def __init__(self, given: str | None, user: str = "") -> None:
        self._name = given
        self._process = os.getpid()
        self._user = user

    def now(self) -> str:
        if self._name is None or self._process != os.getpid():
            before = f"{self._user}@" if self._user else ""
            self._name = f"{before}{socket.gethostname()}/{os.getpid()}-{next(_serial)}"
            self._process = os.getpid()
        return self._name
