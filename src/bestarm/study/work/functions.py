"""Functions that measure: `identify` calls them on any executor, `identify_async` in an event loop."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import numbers
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from bestarm.answer import Answer
from bestarm.problem import Budget, Plan, Problem
from bestarm.simulation.executors import open_workers
from bestarm.storage.base import Storage
from bestarm.storage.opening import open_storage
from bestarm.study.intake.values import Result
from bestarm.study.study import Study, Test
from bestarm.study.work.coroutines import Calls, in_event_loop
from bestarm.study.work.failures import IN_MEMORY, IN_PYTHON, Counted, Declared, MeasurementFailed
from bestarm.study.work.pace import Pace, Transient
from bestarm.study.work.watching import Display
from bestarm.study.work.workers import Submit, Watcher, create_or_open, drive
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, Parameter

Measure = Callable[[str, str], Result] | Callable[[str, str, str], Result]
"""Takes the names of an arm and a metric, and of an item if the study has items. Makes one fresh measurement, and
returns it: a number, or numbers by metric."""

MeasureAsync = Callable[[str, str], Awaitable[Result]] | Callable[[str, str, str], Awaitable[Result]]
"""The same as a coroutine function."""


def identify(
    problem: Problem,
    function: Measure,
    *,
    delta: float | None = None,
    policy: str | None = None,
    options: Mapping[str, Parameter] | None = None,
    budget: float | Budget | None = None,
    name: str | None = None,
    storage: str | os.PathLike[str] | Storage | None = None,
    executor: str | Executor | None = None,
    workers: int | None = None,
    per_minute: float | None = None,
    failed_as: Counted = None,
    timeout_as: Counted = None,
    retries: int = 0,
    retry_on: Sequence[Transient] | None = None,
    seed: int | None = None,
    items_seed: int | None = None,
    watch: Watcher[Study] | None = None,
    progress: bool = False,
) -> Answer:
    """Find the best feasible arm of `problem` by calling `function(arm, metric)` as often as it takes.

    `executor` is any `concurrent.futures.Executor` (Dask's included), or "threads", "processes", "dask:ADDRESS" or
    "ray:ADDRESS"; by default one thread makes one test at a time. With `storage` the study is durable: called again
    with the same problem and name, it goes on where it stopped. `budget` is the number of calls after which it stops
    without an answer, or a `Budget`; called again with a larger one, it goes on.

    If one test yields several metrics, `function` is called with all their names, such as "time + memory", and returns
    a dictionary with a value for each. With items it is called as `function(arm, metric, item)`.

    A call that raises stops the work with `MeasurementFailed`, because you have to say what it counts as. `failed_as`
    is the value of a failure, for every metric or by metric, and `timeout_as` that of a `TimeoutError`. Or `retries=N`
    says that failures have nothing to do with results; then a call that raises is made again, up to N times. With
    `retry_on` that is said of these errors only: HTTP statuses and classes of exceptions, such as `TRANSIENT`. Every
    attempt is in the study's log. A value that the metric cannot take always stops the work: the noise stated for it
    is wrong. If what is returned is no result at all, such as None, the test is given back.

    At most `per_minute` calls begin in any minute, spread evenly. After an error of `TRANSIENT` or `retry_on`, none
    begins for as long as the service says, or for longer each time, up to a minute.

    `seed` and `items_seed` are those of `Study.create`: drawn at random for a new study unless they are stated.

    With `progress`, what is known, what is open and how long it will take is shown as it goes on: on standard error,
    redrawn on a terminal and a line now and then elsewhere, or below the cell of a notebook.

    >>> import random
    >>> import bestarm as ba
    >>> rng = random.Random(1)
    >>> problem = ba.Problem(arms=["red", "blue"], objective=ba.maximize("clicks", noise=ba.Bernoulli()))
    >>> rates = {"red": 0.2, "blue": 0.7}
    >>> answer = ba.identify(problem, lambda arm, metric: rng.random() < rates[arm], delta=0.05)
    >>> answer.arm
    'blue'
    """
    _check_function(problem, function)
    if inspect.iscoroutinefunction(function):
        reason = "is a coroutine function (async def): await bestarm.identify_async(…) calls it"
        raise InvalidInput("function", function, reason, shown=_called(function))
    if workers is not None:
        _check_count("workers", workers)
    plan = Plan.of(problem, delta=delta, name=name, policy=policy, options=options, budget=budget)
    work = _Work.on(plan, storage, (seed, items_seed), (failed_as, timeout_as), (retries, retry_on), per_minute)
    alone = executor is None and workers is None
    # If executors retried on their own, what is recorded would depend on its value.
    with contextlib.closing(open_workers(executor, 1 if alone else workers, retries=0)) as pool:

        def submit(test: Test, tries: int) -> Future[Any]:
            call = (_measure, function, work.names(test), (test.id, tries))
            try:
                return pool.call(*call)
            except BrokenExecutor:
                if not pool.replace_broken():
                    raise
                return pool.call(*call)

        return work.answer(submit, pool.count, watch, progress=progress)


async def identify_async(
    problem: Problem,
    function: MeasureAsync,
    *,
    concurrency: int = 32,
    delta: float | None = None,
    policy: str | None = None,
    options: Mapping[str, Parameter] | None = None,
    budget: float | Budget | None = None,
    name: str | None = None,
    storage: str | os.PathLike[str] | Storage | None = None,
    per_minute: float | None = None,
    failed_as: Counted = None,
    timeout_as: Counted = None,
    retries: int = 0,
    retry_on: Sequence[Transient] | None = None,
    seed: int | None = None,
    items_seed: int | None = None,
    watch: Watcher[Study] | None = None,
    progress: bool = False,
) -> Answer:
    """`identify` for a coroutine function: `concurrency` calls at once, in the event loop that this is awaited in, of
    asyncio or of trio. Other arguments are as those of `identify`.

    The study itself works in a thread of its own, so its database and its decisions never hold the event loop. `watch`
    is called in that thread, too. Cancelled, it cancels the calls under way and gives their tests back.

    >>> import asyncio
    >>> import random
    >>> import bestarm as ba
    >>> rng = random.Random(1)
    >>> problem = ba.Problem(arms=["red", "blue"], objective=ba.maximize("clicks", noise=ba.Bernoulli()))
    >>> async def measure(arm, metric):
    ...     await asyncio.sleep(0)
    ...     return rng.random() < {"red": 0.2, "blue": 0.7}[arm]
    >>> asyncio.run(ba.identify_async(problem, measure, concurrency=8)).arm
    'blue'
    """
    _check_function(problem, function)
    _check_count("concurrency", concurrency)
    plan = Plan.of(problem, delta=delta, name=name, policy=policy, options=options, budget=budget)

    def act(calls: Calls) -> Answer:
        work = _Work.on(plan, storage, (seed, items_seed), (failed_as, timeout_as), (retries, retry_on), per_minute)

        def look(study: Study, running: int) -> None:
            calls.check_open()
            if watch is not None:
                watch(study, running)

        return work.answer(lambda test, _: calls.submit(work.names(test)), concurrency, look, progress=progress)

    return await in_event_loop(act, function)


@dataclasses.dataclass(frozen=True)
class _Work:
    """A study that is worked on, and what was declared for that."""

    study: Study
    declared: Declared
    pace: Pace

    @classmethod
    def on(
        cls,
        plan: Plan,
        storage: str | os.PathLike[str] | Storage | None,
        seeds: tuple[int | None, int | None],
        counted: tuple[Counted, Counted],
        retrying: tuple[int, Sequence[Transient] | None],
        per_minute: float | None,
    ) -> _Work:
        pace = Pace(per_minute)
        kept = open_storage(":memory:" if storage is None else storage, create=True)
        study = create_or_open(plan, kept, *seeds)
        retries, retry_on = retrying
        words = IN_MEMORY if kept.is_private else IN_PYTHON
        return cls(study, Declared.of(study.plan, *counted, retries, words, retry_on), pace)

    def names(self, test: Test) -> tuple[str, ...]:
        """What the function is called with."""
        has_item = test.item is not None and self.study.plan.blocks is None
        return (test.arm, test.metric, *([str(test.item)] if has_item else []))

    def answer(self, submit: Submit, workers: int, watch: Watcher[Study] | None, *, progress: bool) -> Answer:
        """Work until there is an answer."""
        with contextlib.ExitStack() as stack:
            display = stack.enter_context(Display(self.study, shows_end=True)) if progress else None

            def look(study: Study, running: int) -> None:
                if display is not None:
                    display(study, running)
                if watch is not None:
                    watch(study, running)

            # What it waits for is shown on a display, and need not be logged.
            how = {"declared": self.declared, "pace": self.pace, "watch": look, "says": not progress}
            try:
                return drive(self.study, submit, workers, **how)
            except MeasurementFailed as error:
                error.study = self.study
                raise


def _measure(function: Callable[..., Result], names: tuple[str, ...], attempt: tuple[int, int]) -> Result:
    """What an executor is asked to do. `attempt` tells calls apart for executors that recognize equal calls."""
    return function(*names)


def _check_count(name: str, count: object) -> None:
    if isinstance(count, bool) or not isinstance(count, numbers.Integral) or not 1 <= int(count) <= 10_000:
        reason = "must be a whole number from 1 to 10,000: how many calls may be under way"
        raise InvalidInput(name, count, reason, shown=quoted(count))


def _check_function(problem: Problem, function: Callable[..., object]) -> None:
    """Complain of a function that cannot be called with the names of a test. Otherwise every call would fail, and might
    count as a failed test."""
    if not isinstance(problem, Problem):
        raise InvalidInput("problem", problem, "must be a Problem or a Plan", shown=quoted(problem))
    called = _called(function)
    names = ("arm", "metric", "item") if problem.items is not None and problem.blocks is None else ("arm", "metric")
    if not callable(function):
        raise InvalidInput("function", function, f"must be a function of ({', '.join(names)})", shown=called)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # not every callable has a signature
    try:
        signature.bind(*names)
    except TypeError:
        why = ", because the problem has items" if "item" in names else ""
        reason = f"is called with the names of each test, so it must take ({', '.join(names)}){why}; it takes"
        raise InvalidInput("function", called, f"{reason} {signature}", shown=called) from None


def _called(function: object) -> str:
    return str(getattr(function, "__name__", quoted(function)))
