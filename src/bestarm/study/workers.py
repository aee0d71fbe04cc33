"""Workers that make a study's tests: the study asks, any executor measures, the study is told."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from typing import Any, Protocol, TypeVar

from bestarm.answer import Answer
from bestarm.plan import Plan
from bestarm.problem import Problem
from bestarm.simulation.executors import open_workers
from bestarm.study.storage import Storage, StorageError, open_storage
from bestarm.study.study import AlreadyTold, Study, Test
from bestarm.validation import InvalidInput

Measure = Callable[[str, str], float]
"""Takes the names of an arm and a metric, makes one fresh measurement, and returns it."""

LEASE = 60.0
"""Seconds for which a worker holds its tests; it renews them as long as it lives."""

PATIENCE = 120.0
"""Seconds for which a result in hand is offered to a database that is out of reach."""

_POLL = 0.5


class MeasurementFailed(RuntimeError):
    """A test failed so often that it is no use to go on. The study is safe; mend the cause and go on with it."""


class LiveStudy(Protocol):
    """What `drive` needs of a study, be it here or on a server: the methods and properties of `Study`."""

    @property
    def done(self) -> bool: ...

    @property
    def answer(self) -> Answer | None: ...

    def ask(self, n: int = 1, *, lease: float = LEASE) -> list[Test]: ...

    def tell(self, test: Test | int, value: float) -> None: ...

    def fail(self, test: Test | int, reason: str = "") -> None: ...

    def release(self, tests: Iterable[Test | int]) -> None: ...

    def renew(self, tests: Iterable[Test | int], lease: float = LEASE) -> None: ...


S = TypeVar("S", bound=LiveStudy)
Watched = TypeVar("Watched", bound=LiveStudy, contravariant=True)


class Watcher(Protocol[Watched]):
    """Is told now and then how the work goes: the study, and how many tests are being made."""

    def __call__(self, study: Watched, running: int) -> None: ...


def _measure(function: Measure, arm: str, metric: str, attempt: tuple[int, int]) -> float:
    """What an executor is asked to do. `attempt` tells calls apart for executors that know equal calls again."""
    return function(arm, metric)


def identify(
    problem: Problem,
    function: Measure,
    *,
    delta: float | None = None,
    policy: str | None = None,
    name: str | None = None,
    storage: str | os.PathLike[str] | Storage | None = None,
    executor: str | Executor | None = None,
    workers: int | None = None,
    retries: int = 2,
    seed: int = 0,
    watch: Watcher[Study] | None = None,
) -> Answer:
    """Find the best feasible arm of `problem` by calling `function(arm, metric)` as often as it takes.

    `executor` is any `concurrent.futures.Executor` (Dask's included), or "threads", "processes", "dask:ADDRESS" or
    "ray:ADDRESS"; by default one thread makes one test at a time. With `storage` the study is durable: called again
    with the same problem and name it goes on where it ended. A call that raises is tried `retries` more times.

    >>> import random
    >>> import bestarm as ba
    >>> lots = random.Random(1)
    >>> problem = ba.Problem(arms=["red", "blue"], objective=ba.maximize("clicks", noise=ba.Bernoulli()))
    >>> rates = {"red": 0.2, "blue": 0.7}
    >>> answer = ba.identify(problem, lambda arm, metric: lots.random() < rates[arm], delta=0.05)
    >>> answer.arm
    'blue'
    """
    kept = open_storage(":memory:" if storage is None else storage, create=True)
    study = _create_or_open(problem, name, delta, policy, kept, seed)
    alone = executor is None and workers is None
    with contextlib.closing(open_workers(executor, 1 if alone else workers)) as pool:

        def submit(test: Test, tries: int) -> Future[Any]:
            call = (_measure, function, test.arm, test.metric, (test.id, tries))
            try:
                return pool.call(*call)
            except BrokenExecutor:
                if not pool.replace_broken():
                    raise
                return pool.call(*call)

        return drive(study, submit, pool.count, retries=retries, watch=watch)


def _create_or_open(
    problem: Problem, name: str | None, delta: float | None, policy: str | None, storage: Storage, seed: int
) -> Study:
    plan = Plan.of(problem, delta=delta, name=name, policy=policy)
    if storage.find_study(plan.name) is None:
        return Study.create(plan, storage=storage, seed=seed)
    study = Study.open(plan.name, storage=storage)
    if study.plan != plan:
        raise InvalidInput(
            f"name = {plan.name!r}: there is a study of this name in {storage.url!r} with another plan; "
            "give another name to start anew"
        )
    return study


def drive(
    study: S,
    submit: Callable[[Test, int], Future[Any]],
    workers: int,
    *,
    retries: int = 2,
    lease: float = LEASE,
    watch: Watcher[S] | None = None,
) -> Answer:
    """Keep `workers` tests under way until the study is done. `submit` starts one, given how often it has failed.

    Interrupted, by an exception or by Ctrl-C, it gives back the tests that are not finished.
    """
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        raise InvalidInput(f"retries = {retries!r}: must be a whole number from 0 on")
    held: dict[int, Test] = {}
    running: dict[Future[Any], Test] = {}
    failures: dict[int, int] = {}
    renewed = time.monotonic()
    try:
        while True:
            room = workers - len(running)
            tests = _patiently(functools.partial(study.ask, room, lease=lease)) if room else []
            held.update((test.id, test) for test in tests)
            for test in tests:
                running[submit(test, failures.get(test.id, 0))] = test
            if not running and not tests and _patiently(lambda: study.done):
                break
            # Nothing to do here means that others are at work: look again soon.
            finished = wait(running, timeout=_POLL, return_when=FIRST_COMPLETED).done if running else _pause()
            for future in finished:
                test = running.pop(future)
                reason = _tell(study, test, future)
                del held[test.id]
                if reason is not None:
                    failures[test.id] = failures.get(test.id, 0) + 1
                    if failures[test.id] > retries:
                        raise MeasurementFailed(
                            f"test {test.id} ({test.metric!r} of {test.arm!r}) failed {failures[test.id]} times, "
                            f"the last time: {reason}"
                        )
            if running and time.monotonic() - renewed > lease / 3:
                renewed = time.monotonic()
                _patiently(lambda: study.renew(held.values(), lease))
            if watch is not None:
                watch(study, len(running))
    finally:
        for future in running:
            future.cancel()
        if held:
            # Without the database they come free by themselves, when their lease is over.
            with contextlib.suppress(StorageError):
                study.release(held.values())
    answer = study.answer
    assert answer is not None, "the study is done"
    return answer


def _pause() -> set[Future[Any]]:
    time.sleep(_POLL)
    return set()


def _tell(study: LiveStudy, test: Test, future: Future[Any]) -> str | None:
    """Tell what came of a test; returns the reason if it failed."""
    try:
        value = future.result()
    except Exception as error:
        reason = str(error) or type(error).__name__
        if not isinstance(error, MeasurementFailed | InvalidInput):
            reason = f"{type(error).__name__}: {error}"
        _patiently(lambda: study.fail(test, reason))
        return reason
    try:
        _patiently(lambda: study.tell(test, value))
    except AlreadyTold:
        # Its lease had run out and somebody else was quicker; one result a test is heard.
        return None
    except InvalidInput as error:
        reason = str(error)
        _patiently(lambda: study.fail(test, reason))
        return reason
    return None


def _patiently(act: Callable[[], Any]) -> Any:
    """Do it, and if the database is out of reach do it again for a while: nothing done twice counts twice."""
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
