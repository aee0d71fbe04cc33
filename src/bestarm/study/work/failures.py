"""What a failed attempt at a test counts as. The user must say this before results are seen.

Retrying a failed test until it succeeds would record only results that succeed: a program that crashes on every third
input would look safe. So unless the user declares something, a failure stops the worker.
"""

from __future__ import annotations

import dataclasses
import inspect
import numbers
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from bestarm.noises.shares import is_share
from bestarm.parsing import read_decimal
from bestarm.problem import Plan
from bestarm.storage.base import Aside
from bestarm.study.intake.names import Test
from bestarm.study.intake.values import RefusedValue, check_metric, check_names, example, in_words, is_verdict
from bestarm.study.work.pace import TRANSIENT, Transient, check_transient, is_transient
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput, is_boolean

if TYPE_CHECKING:
    from bestarm.study.study import Study

Counted = float | Mapping[str, float] | None
"""A value for every metric, values by metric, or nothing."""


class MeasurementFailed(RuntimeError):
    """A test could not be measured, and no value is declared for that. The study is safe: declare one and go on."""

    kind: ClassVar[Aside] = "failed"
    study: Study | None = None
    """The study that `identify` worked on. One in memory goes on with `storage=error.study.storage`."""


class MeasurementTimedOut(MeasurementFailed, TimeoutError):
    """A test took longer than it may."""

    kind = "timed out"


class MeasurementRefused(MeasurementFailed):
    """The output is not a value at all. Whether it is may depend on what was measured."""

    kind = "refused"


class NotStarted(MeasurementFailed):
    """Nothing was measured, because the program that measures cannot be started."""


class ProgramMistake(NotStarted):
    """A function is at fault, whatever it measures: it returned what is no result. It can be mended."""


@dataclasses.dataclass(frozen=True)
class Words:
    """How the users of a front end declare what failures count as."""

    failed: str
    timed_out: str
    retries: str
    release: str
    go_on: str
    tell: str = ""
    """How to record a value that was printed in another form."""
    where: str = ""
    """The option that says where the study is."""

    def about(self, words: str, study: str, test: Test) -> str:
        """What to type about a test."""
        return words.format(test=test.id, study=study, quoted=shlex.quote(study), where=self.where)


IN_PYTHON = Words(
    "failed_as=VALUE",
    "timeout_as=VALUE",
    "retries=N",
    "bestarm.Study.open({study!r}, storage=…).release({test})",
    "call again with the same storage and name to go on",
)
IN_MEMORY = dataclasses.replace(
    IN_PYTHON,
    release="sys.last_value.study.release({test})",
    go_on="call again with storage=sys.last_value.study.storage to go on (this study is in memory only; storage=FILE "
    "would keep it)",
)
ON_THE_COMMAND_LINE = Words(
    "--failed-as VALUE",
    "--timeout-as VALUE",
    "--retry N",
    "`bestarm release {quoted} {test}{where}`",
    "run it again to go on",
    "; or record what was measured: `bestarm tell {quoted} {test} VALUE{where}`",
)


@dataclasses.dataclass(frozen=True)
class Declared:
    """What was declared about failures: values to count, by metric, or how often to try again."""

    failed_as: Mapping[str, float] = dataclasses.field(default_factory=dict)
    timeout_as: Mapping[str, float] = dataclasses.field(default_factory=dict)
    retries: int = 0
    words: Words = IN_PYTHON
    retry_on: tuple[Transient, ...] | None = None
    """The errors that are tried again; None if that is any."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        failed_as: Counted,
        timeout_as: Counted,
        retries: int,
        words: Words = IN_PYTHON,
        retry_on: Sequence[Transient] | None = None,
    ) -> Declared:
        """Checked against the plan: every value must be one that its metric can take."""
        if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
            name = words.retries.partition("=")[0].partition(" ")[0]
            raise InvalidInput(name, retries, "must be a whole number, 0 or more", shown=quoted(retries))
        failed = _by_metric(plan, failed_as, words.failed)
        timed_out = _by_metric(plan, timeout_as, words.timed_out)
        return cls(failed, timed_out, retries, words, check_transient(retry_on, retries))

    def result(self, test: Test, kind: Aside) -> Mapping[str, float] | None:
        """What an attempt that ended this way counts as. None unless it is declared for all the test's metrics."""
        declared = {"failed": self.failed_as, "timed out": self.timeout_as}.get(kind, {})
        if not declared.keys() >= set(test.metrics):
            return None
        return {metric: declared[metric] for metric in test.metrics}

    def may_retry(self, kind: Aside, failures: int, *, is_transient: bool = False) -> bool:
        """Whether a test that failed this often may be tried again. A refused value never is."""
        return kind != "refused" and failures <= self.retries and (is_transient or self.retry_on is None)

    def is_transient(self, error: BaseException) -> bool:
        """Whether the error says that a service has not done what was asked."""
        return is_transient(error, TRANSIENT if self.retry_on is None else self.retry_on)

    def advice(self, plan: Plan, test: Test, kind: Aside) -> str:
        """What can be declared about such a failure."""
        free = self.words.about(self.words.release, plan.name, test)
        if kind == "refused":
            return (
                "An impossible value is not measured again by itself: the noise that the study states for "
                f"{test.metric!r} is wrong, or what measures it is. If it is the noise, start a study that states what "
                f"is true of its values. If what measures was mended, free the test with {free}, and "
                f"{self.words.go_on}{self.words.about(self.words.tell, plan.name, test)}"
            )
        again = f"or {self.words.retries}, if failures have nothing to do with results, to try again"
        if self.retry_on is not None:
            again = f"or add it to retry_on, if it has nothing to do with results, and free the test with {free}"
        if kind == "lost":
            return (
                "The processes of a pool end together, so it is unknown whose measurement ended this one: let each "
                f"test have a process of its own (workers=1, or `bestarm run`); {again}"
            )
        how = self.words.timed_out if kind == "timed out" else self.words.failed
        ranges = [(metric, _range_words(plan, metric)) for metric in test.metrics]
        again = f"{again}; or, once a mistake of what measures is mended, free the test with {free}"
        again = f"{again}. Then {self.words.go_on}"
        if len(ranges) == 1:
            return f"Declare what it counts: {how}{ranges[0][1]} to record that value; {again}"
        each = ", ".join(f"{metric!r}{words}" for metric, words in ranges)
        return f"Declare what it counts for each of {each}: {how}, or values by metric, to record them; {again}"


def rescue(study: str, test: Test) -> str:
    """What to do about the first output of a command, if it cannot be read."""
    name = shlex.quote(study)
    return (
        ". Nothing is recorded, and the test is free: mend the command (--dry-run shows what is read) and run it "
        "again; or, if the output stands for a value, record that: "
        f"`bestarm ask {name}` and `bestarm tell {name} {test.id} VALUE`"
    )


def wrong_form(metrics: Sequence[str], result: object, *, takes_verdicts: bool = False) -> str:
    """Why what a function returned is no result of a test of these metrics, whatever the values; empty if it is one.
    `takes_verdicts` says that one of them is a duel.

    >>> print(wrong_form(["time"], None))
    None is no result; the function must return a number, the value of 'time'. If an attempt failed, it must raise
    >>> print(wrong_form(["time", "memory"], {"time": 3}))
    {'time': 3}: lacks 'memory'; a test of time + memory is told all its values at once
    >>> wrong_form(["time"], 3.5), wrong_form(["time"], {"time": True})
    ('', '')
    >>> wrong_form(["preference"], "tie", takes_verdicts=True)
    ''
    """
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()
        return "a coroutine is no result; `await bestarm.identify_async(…)` calls functions that are `async def`"
    verdict = '"win", "tie", "loss" or ' if takes_verdicts else ""
    wanted = example(metrics) if len(metrics) > 1 else f"{verdict}a number, the value of {in_words(metrics)}"
    no_result = f"{quoted(result)} is no result; the function must return {wanted}"
    values: Sequence[object] = [result]
    if isinstance(result, Mapping):
        try:
            check_names(metrics, result)
        except RefusedValue as error:
            return f"{quoted(dict(result))}: {error.reason}"
        values = [*result.values()]
    if any(value is None for value in values):
        return f"{no_result}. If an attempt failed, it must raise"
    has_form = all(
        isinstance(value, numbers.Real)
        or is_boolean(value)
        or is_share(value)
        or (takes_verdicts and is_verdict(value))
        for value in values
    )
    if has_form and len(values) == len(metrics):
        return ""
    is_near = len(metrics) == 1 and hasattr(result, "__float__")
    return f"{no_result}{'; float(…) makes one of it' if is_near else ''}"


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
