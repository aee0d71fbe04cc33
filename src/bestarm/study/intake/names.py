"""What a study here and one on a server have in common: how tests, arms, metrics, items and holders are named."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import socket
from collections.abc import Collection, Iterable, Sequence

from bestarm.problem import Plan
from bestarm.study.intake.values import in_words
from bestarm.texts import first_ten, quoted
from bestarm.validation import InvalidInput


@dataclasses.dataclass(frozen=True)
class Test:
    """A test to make: measure `metric` of `arm` once, and tell the result under this `id`.

    If one test yields several metrics, `metrics` are their names, and `metric` names them all, such as "time + memory".
    In a study with items, `item` is the one to measure on.
    """

    __test__ = False  # tells pytest that this is not a class of tests

    id: int
    arm: str
    metric: str
    metrics: tuple[str, ...] = ()
    item: str | None = None

    def __post_init__(self) -> None:
        if not self.metrics:
            object.__setattr__(self, "metrics", (self.metric,))

    @property
    def words(self) -> str:
        """What it measures.

        >>> Test(7, "a", "time").words, Test(7, "a", "time + memory", ("time", "memory"), "question 3").words
        ("'time' of 'a'", "'time + memory' of 'a' on 'question 3'")
        """
        on = "" if self.item is None else f" on {self.item!r}"
        return f"{self.metric!r} of {self.arm!r}{on}"


def number_of(test: Test | int) -> int:
    """The number of a test, which may be given as such."""
    number = test.id if isinstance(test, Test) else test
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number < 2**63:
        raise InvalidInput("test", number, "must be a test, or the number of one", shown=quoted(number))
    return number


def read_test(text: str) -> int:
    """The number of a test, from a file or the command line."""
    if not (text.isascii() and text.isdecimal() and 0 < int(text[:20]) < 2**63 and len(text) <= 20):
        raise InvalidInput("test", text, "must be the number of a test, as `bestarm ask` gives it", shown=quoted(text))
    return int(text)


def numbers_of(tests: Iterable[Test | int] | Test | int) -> list[int]:
    """The numbers of one or several tests."""
    return [number_of(test) for test in ([tests] if isinstance(tests, Test | int) else tests)]


class Numbering:
    """The places of a plan's arms and metrics, by name."""

    def __init__(self, plan: Plan) -> None:
        self._arms = {name: k for k, name in enumerate(plan.arm_names)}
        leads = {name: lead for lead, name in plan.test_names.items()}
        # The names of single metrics take precedence.
        self._metrics = leads | {name: k for k, name in enumerate(plan.metrics)}
        self._tests = leads | {metrics[0]: lead for lead, metrics in plan.yields.items() if len(metrics) == 1}
        self._yields = plan.yields
        self._leads = {metric: lead for lead, metrics in plan.yields.items() for metric in metrics}

    def arm(self, name: str) -> int:
        return _place("arm", name, self._arms)

    def metric(self, name: str) -> int:
        """The number of a metric, or of a test that yields several, which is that of its first."""
        return _place("metric", name, self._metrics)

    def lead(self, metric: str | None) -> int:
        """The number of the test that yields the metric."""
        return _place("metric", metric, self._leads)

    def test(self, name: str | None) -> int:
        """The number of the test of that name. A metric that is measured with others has no test of its own."""
        if isinstance(name, str) and name in self._tests:
            return self._tests[name]
        raise measured_together(name, self._yields[self.lead(name)])

    def measured_with(self, metrics: Collection[str]) -> int:
        """The number of the test that yields these metrics, or some of them."""
        if not metrics:
            raise InvalidInput("values", {}, "has no values")
        first, *others = metrics
        lead = self.lead(first)
        for metric in others:
            if self.lead(metric) != lead:
                reason = f"is not measured together with {first!r}; give its value in a result of its own"
                raise InvalidInput("metric", metric, reason)
        return lead


def measured_together(metric: str | None, metrics: Sequence[str]) -> InvalidInput:
    """What to raise for a lone value of a metric that is measured with others."""
    others = in_words([other for other in metrics if other != metric])
    return InvalidInput("metric", metric, f"is measured together with {others}; give the values of one test together")


def _place(what: str, name: str | None, known: dict[str, int]) -> int:
    if not isinstance(name, str) or name not in known:
        raise InvalidInput(what, name, f"no such {what}; there are {first_ten([*known])}", known)
    return known[name]


_serial = itertools.count(1)


def user_here() -> str:
    """Who runs this program, and where.

    >>> "@" in user_here()
    True
    """
    import getpass

    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = "somebody"
    return f"{user}@{socket.gethostname()}"


class HolderName:
    """The name under which tests are held: as given, or a new one in a process that inherits it."""

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


def is_gone(holder: str) -> bool:
    """Whether a holder was named by `HolderName` for a process of this machine that has ended."""
    found = re.search(r"(?:^|@)([^@/]+)/([0-9]+)-[0-9]+$", holder)
    if found is None or found[1] != socket.gethostname():
        return False
    try:
        os.kill(int(found[2]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # another user's
    return False
