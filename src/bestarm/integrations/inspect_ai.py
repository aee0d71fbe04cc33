"""Evaluations of language models with inspect_ai: which model, prompt or solver is best, by its scorers' values.

Arms are tasks, items are their samples, and one sample run to its end yields the values of all scorers.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from bestarm.answer import Answer
from bestarm.integrations.inspect_tasks import (
    check_models,
    check_scores,
    package,
    sample_names,
    samples_of,
    score_among,
)
from bestarm.integrations.matching import Matching
from bestarm.problem import Budget, Plan, Problem
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Storage
from bestarm.storage.opening import open_storage
from bestarm.study.study import Study
from bestarm.study.work.failures import Counted, Declared, MeasurementFailed, MeasurementRefused, NotStarted
from bestarm.study.work.workers import create_or_open, drive
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

if TYPE_CHECKING:
    import inspect_ai

OURS = (
    *("tasks", "task_args", "limit", "sample_id", "sample_shuffle", "epochs", "fail_on_error", "continue_on_fail"),
    *("retry_on_error", "max_samples", "max_tasks", "log_samples", "run_samples", "score", "score_on_error", "trace"),
)
"""Options of inspect_ai's `eval` that users cannot set: the study decides which samples run, and when."""

CANCELLED = ("CancelledError(", "Cancelled(")
"""How errors begin that mean that the evaluation was cancelled, for example by Ctrl-C: those of asyncio and of trio."""


def identify_with_inspect(
    problem: Problem,
    tasks: Mapping[str, inspect_ai.Task],
    *,
    delta: float | None = None,
    budget: float | Budget | None = None,
    name: str | None = None,
    storage: str | os.PathLike[str] | Storage | None = None,
    workers: int = 10,
    failed_as: Counted = None,
    retries: int = 0,
    seed: int | None = None,
    items_seed: int | None = None,
    **options: Any,
) -> Answer:
    """Find the best feasible arm of `problem` by evaluating `tasks`, one for each arm, with inspect_ai.

    The study decides which task runs which sample next. An evaluation stops early when its arm is decided, and all of
    them when the study is done. `workers` samples run at the same time. Other arguments are as those of `identify`;
    `options` go to inspect_ai's `eval`, such as `model`, `log_dir` or `display`.

    A sample that fails stops the work with `MeasurementFailed`, unless `failed_as` says what that counts as, or
    `retries=N` that failures have nothing to do with scores; then it is run again, up to N times.
    """
    evaluate = package().eval
    _check_options(options, workers)
    plan = Plan.of(problem, delta=delta, name=name, budget=budget)
    _check_problem(plan, tasks)
    check_models(tasks, options)
    declared = Declared.of(plan, failed_as, None, retries)
    kept = open_storage(":memory:" if storage is None else storage, create=True)
    study = create_or_open(plan, kept, seed, items_seed)
    assert study.plan.items is not None
    order = ItemOrder(study.plan.items, False, study.record.order_seed)
    matching = Matching(workers, functools.cache(order.place))
    driver = _Driver(study, matching, workers, declared)
    driver.start()
    try:
        while driver.is_alive():
            needless = driver.decided.keys() - matching.wanted_arms()
            left = {arm: study.items_left(arm) for arm in tasks if arm not in needless}
            open_tasks = [_prepared(study, arm, tasks[arm], items, matching) for arm, items in left.items() if items]
            if not open_tasks:
                # The remaining tests are held by other processes, or about to be told.
                driver.join(0.2)
                continue
            matching.begin({arm: set(items) for arm, items in left.items()})
            with _listening(matching):
                logs = evaluate(
                    open_tasks,
                    max_samples=workers,
                    max_tasks=len(open_tasks),
                    fail_on_error=False,
                    # The study has failed samples run again: those that inspect_ai repeats queue up behind all others,
                    # which wait until the study wants them.
                    retry_on_error=0,
                    log_samples=True,
                    **options,
                )
            for log in logs:
                if log.status == "cancelled":
                    raise KeyboardInterrupt
                if log.status == "error":
                    raise MeasurementFailed(f"the evaluation {log.eval.task!r} ended: {log.error.message}")
            for arm in left:
                matching.end(arm, "the evaluation has ended without it")
    finally:
        matching.close("the evaluation has ended")
        driver.join()
    if driver.error is not None:
        raise driver.error
    assert driver.answer is not None
    return driver.answer


class _Driver(threading.Thread):
    """Asks the study, has tests made by evaluations, and tells their results."""

    def __init__(self, study: Study, matching: Matching, workers: int, declared: Declared) -> None:
        super().__init__(name="bestarm study", daemon=True)
        self._study = study
        self._matching = matching
        self._workers = workers
        self._declared = declared
        self._next_look = 0.0
        self.decided: dict[str, str] = {}
        self.answer: Answer | None = None
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.answer = drive(
                self._study, self._matching.submit, self._workers, declared=self._declared, watch=self._look
            )
        except BaseException as error:
            self.error = error
        self._matching.close(str(self.answer or self.error))

    def _look(self, study: Study, running: int) -> None:
        """Check which arms are decided. Checking takes at most a tenth of the time."""
        self._matching.check_open()
        begun = time.monotonic()
        if begun < self._next_look:
            return
        status = study.status()
        decided = {arm.name: arm.reason for arm in status.arms if arm.name not in status.candidates}
        if status.state == "running" and decided != self.decided:
            self.decided = decided
            self._matching.decide(decided)
        now = time.monotonic()
        self._next_look = now + 9 * (now - begun)


class _Stopping:
    """What inspect_ai asks before and after every sample of a task: its protocol `EarlyStopping`."""

    def __init__(self, study: Study, arm: str, matching: Matching) -> None:
        self._study = study
        self._arm = arm
        self._matching = matching
        [self._metrics] = study.plan.yields.values()

    async def start_task(self, task: Any, samples: list[Any], epochs: int) -> str:
        _arm_of_task[task.eval_id] = (self._matching, self._arm)
        return "bestarm"

    async def schedule_sample(self, id: str | int, epoch: int) -> Any:  # noqa: A002 - inspect_ai's name
        reason = await self._matching.admit(self._arm, str(id))
        return None if reason is None else package().util.EarlyStop(id=id, epoch=epoch, reason=reason)

    async def complete_sample(self, id: str | int, epoch: int, scores: Mapping[str, Any]) -> None:  # noqa: A002
        try:
            plain = {scorer: row.score.value for scorer, row in scores.items()}
            values: Mapping[str, float] | Exception = {metric: score_among(plain, metric) for metric in self._metrics}
        except MeasurementRefused as error:
            values = error
        self._matching.finish(self._arm, str(id), values)

    async def complete_task(self) -> dict[str, Any]:
        self._matching.end(self._arm, "the evaluation has ended without it")
        return {"study": self._study.name, "arm": self._arm}


def _prepared(
    study: Study, arm: str, task: inspect_ai.Task, items: Sequence[str], matching: Matching
) -> inspect_ai.Task:
    """The task with these samples, in the study's order, and the study to say when each may run."""
    by_name = dict(zip(sample_names(task), task.dataset, strict=True))
    wanted = ((item, by_name[item]) for item in items)
    samples = [one.model_copy(update={"id": int(item)}) if one.id is None else one for item, one in wanted]
    prepared = copy.copy(task)
    prepared.dataset = package().dataset.MemoryDataset(samples, name=task.dataset.name, location=task.dataset.location)
    prepared.early_stopping = _Stopping(study, arm, matching)
    prepared.metadata = {**(task.metadata or {}), "bestarm": {"study": study.name, "arm": arm}}
    return prepared


def _check_problem(plan: Plan, tasks: Mapping[str, inspect_ai.Task]) -> None:
    if set(tasks) != set(plan.arm_names):
        odd = sorted(set(tasks) ^ set(plan.arm_names))[0]
        raise InvalidInput("tasks", UNSTATED, f"must have a task for each arm, and no others; see {odd!r}")
    names = samples_of(tasks)
    metrics = [metric for bundle in plan.yields.values() for metric in bundle]
    for arm, task in tasks.items():
        check_scores(arm, task, metrics)
    if plan.items is None or plan.repeats:
        raise InvalidInput("items", UNSTATED, "must be the tasks' samples, each once; from_inspect(...) states them")
    order = ItemOrder(plan.items, False, 0)
    if order.count != len(names):
        raise InvalidInput("items", order.count, f"must be as many as there are samples: {len(names):,}")
    for item in names:
        order.number(item)
    if len(plan.bundles) > 1:
        raise InvalidInput(
            "measurements", UNSTATED, "must have all metrics in one: a sample that is run yields all scores"
        )


def _check_options(options: Mapping[str, Any], workers: int) -> None:
    if isinstance(workers, bool) or not isinstance(workers, int) or workers < 1:
        raise InvalidInput("workers", workers, "must be a whole number, at least 1", shown=quoted(workers))
    for option in OURS:
        if option in options:
            raise InvalidInput(option, options[option], "cannot be set: the study decides what runs when")
    if options.get("display") == "conversation":
        raise InvalidInput("display", "conversation", "shows one sample at a time, and the study needs several")


_arm_of_task: dict[str, tuple[Matching, str]] = {}
"""By inspect_ai's number of an evaluation that is under way."""


@contextlib.contextmanager
def _listening(matching: Matching) -> Iterator[None]:
    """Notice samples that fail: the early-stopping hook is not told of them."""
    _listener()
    try:
        yield
    finally:
        for number in [number for number, (other, _) in _arm_of_task.items() if other is matching]:
            del _arm_of_task[number]


@functools.cache
def _listener() -> type:
    hooks = importlib.import_module("inspect_ai.hooks")

    class Listener(hooks.Hooks):  # type: ignore[misc, name-defined]
        """Notices samples that fail."""

        def enabled(self) -> bool:
            return bool(_arm_of_task)

        async def on_sample_end(self, data: Any) -> None:
            if data.eval_id in _arm_of_task and data.sample.error is not None:
                matching, arm = _arm_of_task[data.eval_id]
                message = data.sample.error.message
                # A cancelled sample was not measured, so it has not failed.
                is_cancelled = message.startswith(CANCELLED)
                failure = NotStarted("the evaluation was cancelled") if is_cancelled else RuntimeError(message)
                matching.finish(arm, str(data.sample.id), failure)

    register: Callable[[type], type] = hooks.hooks(name="bestarm", description="Tells a study of samples that fail.")
    return register(Listener)
