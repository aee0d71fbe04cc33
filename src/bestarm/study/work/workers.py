"""Workers that make a study's tests: ask the study, measure on any executor, tell the study."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import logging
import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, TypeVar

from bestarm.analysis.status.waiting import SHOWN_AFTER
from bestarm.analysis.status.words import difference
from bestarm.answer import Answer
from bestarm.problem import Budget, Plan, Problem
from bestarm.simulation.executors import open_workers
from bestarm.storage.base import Aside, Storage
from bestarm.storage.errors import NameTaken, StorageError, StudyArchived
from bestarm.storage.opening import open_storage
from bestarm.study.intake.values import RefusedValue, Result
from bestarm.study.live import LiveStudy
from bestarm.study.record.amending import is_amended
from bestarm.study.record.checks import most_held
from bestarm.study.record.seeds import check_same_seeds
from bestarm.study.study import AlreadyTold, Study, Test
from bestarm.study.work.failures import Counted, Declared, MeasurementFailed, NotStarted
from bestarm.study.work.watching import Display
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, Parameter

_log = logging.getLogger("bestarm")

Measure = Callable[[str, str], Result] | Callable[[str, str, str], Result]
"""Takes the names of an arm and a metric, and of an item if the study has items. Makes one fresh measurement, and
returns it: a number, or numbers by metric."""

PATIENCE = 120.0
"""For how many seconds a result is offered to a database that is out of reach."""

_POLL = 0.5


S = TypeVar("S", bound=LiveStudy)
Watcher = Callable[[S, int], None]
"""Called now and then with the study and the number of tests under way."""


def _measure(function: Callable[..., Result], names: tuple[str, ...], attempt: tuple[int, int]) -> Result:
    """What an executor is asked to do. `attempt` tells calls apart for executors that recognize equal calls."""
    return function(*names)


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
    failed_as: Counted = None,
    timeout_as: Counted = None,
    retries: int = 0,
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
    says that failures have nothing to do with results; then a call that raises is made again, up to N times. A value
    that the metric cannot take always stops the work: the noise stated for it is wrong.

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
    if problem.items is not None:
        _check_takes_items(function)
    kept = open_storage(":memory:" if storage is None else storage, create=True)
    plan = Plan.of(problem, delta=delta, name=name, policy=policy, options=options, budget=budget)
    study = create_or_open(plan, kept, seed, items_seed)
    declared = Declared.of(study.plan, failed_as, timeout_as, retries)
    alone = executor is None and workers is None
    # If executors retried on their own, what is recorded would depend on its value.
    with contextlib.closing(open_workers(executor, 1 if alone else workers, retries=0)) as pool:

        def submit(test: Test, tries: int) -> Future[Any]:
            names = (test.arm, test.metric, *([] if test.item is None else [test.item]))
            call = (_measure, function, names, (test.id, tries))
            try:
                return pool.call(*call)
            except BrokenExecutor:
                if not pool.replace_broken():
                    raise
                return pool.call(*call)

        if not progress:
            return drive(study, submit, pool.count, declared=declared, watch=watch)
        with Display(study, shows_end=True) as display:

            def watch_both(study: Study, running: int) -> None:
                display(study, running)
                if watch is not None:
                    watch(study, running)

            # What it waits for is shown, and need not be logged.
            return drive(study, submit, pool.count, declared=declared, watch=watch_both, says=False)


def _check_takes_items(function: Callable[..., Result]) -> None:
    """Complain of a function that takes no item. Otherwise every call would fail, and might count as a failed test."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # not every callable has a signature
    try:
        signature.bind("arm", "metric", "item")
    except TypeError:
        called = getattr(function, "__name__", quoted(function))
        reason = f"must take (arm, metric, item), because the problem has items; it takes {signature}"
        raise InvalidInput("function", called, reason, shown=called) from None


def create_or_open(
    plan: Plan,
    storage: Storage,
    seed: int | None,
    items_seed: int | None = None,
    *,
    advice: str = "give another name to start over",
) -> Study:
    """A new study of this plan, or the study of that name if it has the same plan. If not, an error with `advice`."""
    if storage.find_study(plan.name) is None:
        # Another process may be quicker. Then we join its study.
        with contextlib.suppress(NameTaken):
            return Study.create(plan, storage=storage, seed=seed, items_seed=items_seed)
    study = Study.open(plan.name, storage=storage)
    # A study goes on by the rules that it began with.
    plan = dataclasses.replace(plan, rules=study.plan.rules)
    if not is_amended(study.plan, plan):
        raise InvalidInput(
            "name",
            plan.name,
            f"there is a study of this name in {storage.url!r} with another plan "
            f"({difference(study.plan, plan)}); {advice}",
        )
    check_same_seeds(study.plan, study.record, seed, items_seed)
    if plan.budget is not None:
        study._extend_to(plan.budget)
    return study


def drive(
    study: S,
    submit: Callable[[Test, int], Future[Any]],
    workers: int,
    *,
    declared: Declared | None = None,
    watch: Watcher[S] | None = None,
    says: bool = True,
) -> Answer:
    """Keep `workers` tests under way until the study is done. `submit` starts one, given how often it has failed.

    A failure without a declared value ends it, once everything else under way has ended. When interrupted
    by Ctrl-C or any other exception, it gives back the tests that are not finished. Unless `says` is false, it logs it
    when everything waits for another holder's test.
    """
    declared = declared or Declared()
    workers = min(workers, most_held(study.plan))
    held: dict[int, Test] = {}
    running: dict[Future[Any], Test] = {}
    failures: dict[int, int] = {}
    notice = Notice()
    stopped: MeasurementFailed | None = None
    try:
        settle_failures(study, declared)
        while True:
            if stopped is not None and not running:
                raise stopped
            room = workers - len(running) if stopped is None else 0
            tests = _patiently(functools.partial(study.ask, room)) if room else []
            held.update((test.id, test) for test in tests)
            for test in tests:
                running[submit(test, failures.get(test.id, 0))] = test
            if not running and not tests and stopped is None and _patiently(lambda: study.done):
                break
            if not running:
                # Nothing to do here means that others are at work. Look again soon.
                time.sleep(_POLL)
            for future in wait(running, timeout=_POLL, return_when=FIRST_COMPLETED).done:
                test = running.pop(future)
                del held[test.id]
                try:
                    _tell(study, test, future, declared, failures, alone=workers == 1)
                except MeasurementFailed as error:
                    # Finish what is under way first. Giving it back would favor quick results.
                    stopped = stopped or error
            if says:
                notice.look(study)
            if watch is not None:
                watch(study, len(running))
    finally:
        for future in running:
            future.cancel()
        if held:
            # If the database is out of reach, they come free on their own once our heartbeat is missed.
            with contextlib.suppress(StorageError, StudyArchived):
                study.release(held.values())
    answer: Answer | None = _patiently(lambda: study.answer)
    assert answer is not None, "the study is done"
    return answer


def settle_failures(study: LiveStudy, declared: Declared) -> None:
    """Apply what is declared now to earlier failures. Raise an error for those that nothing is declared for."""
    for test, row in _patiently(study.pending):
        if row.aside is None:
            continue
        counted = declared.result(test, row.aside)
        if counted is not None:
            _patiently(functools.partial(study.tell, test, _plain(counted)))
        elif declared.may_retry(row.aside, 1):
            _patiently(functools.partial(study.fail, test, f"{row.aside}; declared to be tried again"))
        else:
            raise _failed(study, test, row.aside, row.reason, declared, attempts=1)


def _plain(result: Mapping[str, float]) -> Result:
    """A result of one metric as its number."""
    return result if len(result) > 1 else next(iter(result.values()))


def _tell(
    study: LiveStudy, test: Test, future: Future[Any], declared: Declared, failures: dict[int, int], *, alone: bool
) -> None:
    """Tell a test's result, or what its failure counts as. If that is not declared, set it aside and stop."""
    try:
        value: Result = future.result()
    except NotStarted as error:
        _patiently(lambda: study.release([test]))
        raise MeasurementFailed(f"test {test.id} ({test.words}) was not made: {error}") from error
    except Exception as error:
        kind, reason = _how(error, alone=alone)
        counted = declared.result(test, kind)
        if counted is None:
            failures[test.id] = failures.get(test.id, 0) + 1
            if not declared.may_retry(kind, failures[test.id]):
                _patiently(lambda: study.set_aside(test, reason, kind=kind))
                raise _failed(study, test, kind, reason, declared, attempts=failures[test.id]) from error
            _patiently(lambda: study.fail(test, reason))
            return
        value = _plain(counted)
    try:
        _patiently(lambda: study.tell(test, value))
    except AlreadyTold:
        # While we were silent, the test was handed on, or told. Each test has one result.
        return
    except RefusedValue as error:
        reason = str(error)
        _patiently(lambda: study.set_aside(test, reason, kind="refused"))
        raise _failed(study, test, "refused", reason, declared, attempts=1) from None


def _how(error: Exception, *, alone: bool) -> tuple[Aside, str]:
    """How an attempt ended, and what to say about it."""
    if isinstance(error, MeasurementFailed):
        return error.kind, str(error)
    reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if isinstance(error, TimeoutError):
        return "timed out", reason
    # A broken pool takes all of its tests down, whichever one broke it.
    return "lost" if isinstance(error, BrokenExecutor) and not alone else "failed", reason


def _failed(
    study: LiveStudy, test: Test, kind: Aside, reason: str, declared: Declared, *, attempts: int
) -> MeasurementFailed:
    often = f" {attempts} times, the last time" if attempts > 1 else ""
    how = {"failed": "failed", "timed out": "timed out", "refused": "gave an impossible value", "lost": "was lost"}
    return MeasurementFailed(
        f"test {test.id} ({test.words}) {how[kind]}{often}: {reason}. It is set aside, and no later result counts "
        f"before it. {declared.advice(study.plan, test, kind)}."
    )


class Notice:
    """Logs, once each, which tests of others everything waits for."""

    def __init__(self) -> None:
        self._looked = time.monotonic()
        self._said: set[tuple[int, str]] = set()

    def look(self, study: LiveStudy) -> None:
        if time.monotonic() - self._looked < SHOWN_AFTER:
            return
        self._looked = time.monotonic()
        try:
            awaited = study.awaited()
        except StorageError:
            return
        if awaited is None or not awaited.needs_attention or awaited.holder == study.holder:
            return
        if (awaited.test, awaited.state) not in self._said:
            self._said.add((awaited.test, awaited.state))
            _log.warning("No result counts before that of %s", awaited)


def _patiently(act: Callable[[], Any]) -> Any:
    """Do it, and retry for a while if the database is out of reach. Nothing counts twice."""
    give_up = time.monotonic() + PATIENCE
    delay = 0.1
    while True:
        try:
            return act()
        except StorageError:
            if time.monotonic() + delay > give_up:
                raise
            time.sleep(delay)
            delay = min(2 * delay, 5.0)
