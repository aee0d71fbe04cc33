"""What a failed attempt at a test counts as. The user must say this before results are seen.

Retrying a failed test until it succeeds would record only results that succeed: a program that crashes on every third
input would look safe. So unless the user declares something, a failure stops the worker.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import ClassVar

from bestarm.parsing import read_decimal
from bestarm.problem import Plan
from bestarm.storage.base import Aside
from bestarm.study.intake.names import Test
from bestarm.study.intake.values import check_metric
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

Counted = float | Mapping[str, float] | None
"""A value for every metric, values by metric, or nothing."""


class MeasurementFailed(RuntimeError):
    """A test could not be measured, and no value is declared for that. The study is safe: declare one and go on."""

    kind: ClassVar[Aside] = "failed"


class MeasurementTimedOut(MeasurementFailed, TimeoutError):
    """A test took longer than it may."""

    kind = "timed out"


class MeasurementRefused(MeasurementFailed):
    """The output is not a value at all."""

    kind = "refused"


class NotStarted(MeasurementFailed):
    """Nothing was measured, because the program that measures cannot be started."""


@dataclasses.dataclass(frozen=True)
class Words:
    """How the users of a front end declare what failures count as."""

    failed: str
    timed_out: str
    retries: str


IN_PYTHON = Words("failed_as=VALUE", "timeout_as=VALUE", "retries=N")
ON_THE_COMMAND_LINE = Words("--failed-as VALUE", "--timeout-as VALUE", "--retry N")


@dataclasses.dataclass(frozen=True)
class Declared:
    """What was declared about failures: values to count, by metric, or how often to try again."""

    failed_as: Mapping[str, float] = dataclasses.field(default_factory=dict)
    timeout_as: Mapping[str, float] = dataclasses.field(default_factory=dict)
    retries: int = 0
    words: Words = IN_PYTHON

    @classmethod
    def of(
        cls, plan: Plan, failed_as: Counted, timeout_as: Counted, retries: int, words: Words = IN_PYTHON
    ) -> Declared:
        """Checked against the plan: every value must be one that its metric can take."""
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            name = words.retries.partition("=")[0].partition(" ")[0]
            raise InvalidInput(name, retries, "must be a whole number, 0 or more", shown=quoted(retries))
        failed = _by_metric(plan, failed_as, words.failed)
        return cls(failed, _by_metric(plan, timeout_as, words.timed_out), retries, words)

    def result(self, test: Test, kind: Aside) -> Mapping[str, float] | None:
        """What an attempt that ended this way counts as. None unless it is declared for all the test's metrics."""
        declared = {"failed": self.failed_as, "timed out": self.timeout_as}.get(kind, {})
        if not declared.keys() >= set(test.metrics):
            return None
        return {metric: declared[metric] for metric in test.metrics}

    def may_retry(self, kind: Aside, failures: int) -> bool:
        """Whether a test that failed this often may be tried again. A refused value never is."""
        return kind != "refused" and failures <= self.retries

    def advice(self, plan: Plan, test: Test, kind: Aside) -> str:
        """What can be declared about such a failure."""
        if kind == "refused":
            return (
                "An impossible value is never measured again: the noise that the study states for "
                f"{test.metric!r} is wrong, or what measures it is. Start a study that states what is true of its "
                "values"
            )
        again = f"or {self.words.retries}, if failures have nothing to do with results, to try again"
        if kind == "lost":
            return (
                "The processes of a pool end together, so it is unknown whose measurement ended this one: let each "
                f"test have a process of its own (workers=1, or `bestarm run`); {again}"
            )
        how = self.words.timed_out if kind == "timed out" else self.words.failed
        ranges = [(metric, _range_words(plan, metric)) for metric in test.metrics]
        if len(ranges) == 1:
            return f"Declare what it counts: {how}{ranges[0][1]} to record that value; {again}"
        each = ", ".join(f"{metric!r}{words}" for metric, words in ranges)
        return f"Declare what it counts for each of {each}: {how}, or values by metric, to record them; {again}"


def _range_words(plan: Plan, metric: str) -> str:
    ranges = [part.noise.value_range for part in plan.parts if part.measures == (metric,)]
    low = max((low for low, _ in ranges), default=-float("inf"))
    high = min((high for _, high in ranges), default=float("inf"))
    return f" (from {low:g} to {high:g})" if low > -float("inf") else ""


def _by_metric(plan: Plan, counted: Counted, words: str) -> dict[str, float]:
    name = words.partition("=")[0].partition(" ")[0]
    if counted is None:
        return {}
    known = plan.measured
    given = counted if isinstance(counted, Mapping) else dict.fromkeys(known, counted)
    checked: dict[str, float] = {}
    for metric, value in given.items():
        if metric not in known:
            raise InvalidInput(name, UNSTATED, f"no metric {metric!r}; there are {', '.join(map(repr, known))}", known)
        try:
            checked[metric] = check_metric(plan, metric, value)
        except InvalidInput as error:
            hint = "" if isinstance(counted, Mapping) else "; values can be given for each metric by name"
            raise InvalidInput(name, value, str(error), sentence=f"{name}: {error}{hint}") from None
    return checked


def read_declared(options: Sequence[str], name: str) -> Counted:
    """Values from the command line: VALUE for every metric, or METRIC=VALUE, several times.

    >>> read_declared(["1"], "--failed-as")
    1.0
    >>> read_declared(["crash=1", "latency=60"], "--failed-as")
    {'crash': 1.0, 'latency': 60.0}
    """
    found: dict[str, float] = {}
    for option in options:
        metric, equals, text = option.rpartition("=")
        try:
            value = read_decimal(text)
        except ValueError:
            raise InvalidInput(name, option, "must be VALUE or METRIC=VALUE") from None
        if not equals:
            if len(options) > 1:
                raise InvalidInput(name, option, "stands for every metric and must stand alone")
            return value
        if metric in found:
            raise InvalidInput(name, option, f"{metric!r} is given twice")
        found[metric] = value
    return found or None
