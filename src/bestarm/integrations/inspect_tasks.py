"""What tasks and logs of inspect_ai hold: samples, the scores that they will give, and the values of scores."""

from __future__ import annotations

import fnmatch
import importlib
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from bestarm.problem import Arm, Constraint, Objective, Problem
from bestarm.problem.goals import Goal
from bestarm.problem.items import ItemOrder
from bestarm.problem.measurements import measurement
from bestarm.study.intake.new_results import GivenResult
from bestarm.study.work.failures import MeasurementRefused
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

if TYPE_CHECKING:
    import inspect_ai
    import inspect_ai.log

    Log: TypeAlias = str | os.PathLike[str] | inspect_ai.log.EvalLog
    """A log of inspect_ai, or where it is."""

LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""Correct, partially correct, incorrect, no answer: as inspect_ai counts them."""


def package(part: str = "") -> Any:
    """inspect_ai, or a part of it."""
    try:
        return importlib.import_module(f"inspect_ai{part}")
    except ImportError:
        raise InvalidInput("evaluations with inspect_ai need it: pip install 'bestarm[inspect]'") from None


def from_inspect(
    tasks: Mapping[str, inspect_ai.Task | Log],
    objective: Objective,
    constraints: Iterable[Constraint] = (),
    *,
    cost: float = 1.0,
    goal: Goal = "best",
    top: int = 1,
    baseline: str | None = None,
) -> Problem:
    """A problem: which of these tasks has the best mean score, within limits of other scores?

    Each task is an arm: the same samples with another model, prompt or solver. In place of a task there may be a log of
    it, or the path of one (`.eval` or `.json`), whose scores `inspect_results` reads. Metrics are called as their
    scorers are; a value of a scorer that gives several is called "scorer/key". One sample yields all of them, at the
    cost `cost`. `goal`, `top` and `baseline` are those of `Problem`.
    """
    limits = tuple(constraints)
    parts: tuple[Objective | Constraint, ...] = (objective, *limits)
    metrics = dict.fromkeys(metric for part in parts for metric in part.measures)
    logs = {arm: read_log(task, f"tasks[{arm!r}]") for arm, task in tasks.items() if not _is_task(task)}
    items = samples_of({arm: logs.get(arm, task) for arm, task in tasks.items()})
    for arm, task in tasks.items():
        if arm not in logs:
            check_scores(arm, task, metrics)
    return Problem(
        arms=tuple(Arm(name) for name in tasks),
        objective=objective,
        constraints=limits,
        measurements=(measurement(*metrics, cost=cost),),
        items=items,
        goal=goal,
        top=top,
        baseline=baseline,
    )


def inspect_results(problem: Problem, logs: Mapping[str, Log | Sequence[Log]]) -> list[GivenResult]:
    """The scores in logs of inspect_ai, one or several for each arm, as `Study.add` takes them.

    Give every log there is of these arms and samples: to pick some of them would bias the answer. A sample that failed
    has no scores. It is refused unless another log of the arm has it without an error. Samples that were not run are
    left for the study to ask for.
    """
    order = ItemOrder(problem.items or (), False, 0) if problem.items is not None and not problem.repeats else None
    if order is None:
        raise InvalidInput("problem", UNSTATED, "must have the samples as items, each once, as from_inspect(...) makes")
    metrics = list(dict.fromkeys(metric for part in problem.parts for metric in part.measures))
    found: list[GivenResult] = []
    for arm, given in logs.items():
        if arm not in problem.arm_names:
            known = ", ".join(map(repr, problem.arm_names))
            raise InvalidInput("logs", arm, f"no such arm; the arms are {known}", problem.arm_names)
        several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
        values: dict[str, Mapping[str, float]] = {}
        failed: dict[str, str] = {}
        for one in several:
            for sample in read_log(one, f"logs[{arm!r}]").samples or []:
                name = str(sample.id)
                order.number(name)
                if sample.error is not None:
                    failed[name] = sample.error.message
                elif name in values:
                    reason = "has scores twice; each sample counts once (epochs=1, and each log once)"
                    raise InvalidInput(f"logs[{arm!r}]", name, reason, shown=f"sample {name!r}")
                else:
                    scores = {scorer: score.value for scorer, score in (sample.scores or {}).items()}
                    values[name] = {metric: score_among(scores, metric) for metric in metrics}
        for name in failed.keys() - values.keys():
            reason = f"failed ({failed[name]}) and has no scores; run it again, and give that log, too"
            raise InvalidInput(f"logs[{arm!r}]", name, reason, shown=f"sample {name!r}")
        found += [(arm, scores, item) for item, scores in values.items()]
    return found


def _is_task(task: object) -> bool:
    return isinstance(task, package().Task)


def read_log(log: Any, field: str) -> Any:
    """A log that is given as itself or as a path."""
    logs = package(".log")
    if isinstance(log, logs.EvalLog):
        return log
    if not isinstance(log, str | os.PathLike):
        raise InvalidInput(
            field, log, "must be an inspect_ai.Task, or a log: a path that ends in .eval or .json", shown=quoted(log)
        )
    try:
        return logs.read_eval_log(os.fspath(log))
    except Exception as error:  # a wrong file raises whatever the reader of its format raises
        reason = f"must be an inspect_ai.Task or a log; cannot be read as a log: {type(error).__name__}: {error}"
        raise InvalidInput(field, os.fspath(log), reason) from None


def samples_of(tasks: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the samples, which are the same in all tasks and logs."""
    if not tasks:
        raise InvalidInput("tasks", UNSTATED, "must have a task for each arm")
    found: dict[str, tuple[str, ...]] = {}
    for arm, task in tasks.items():
        if isinstance(task, package(".log").EvalLog):
            found[arm] = _logged_names(arm, task)
            continue
        if not _is_task(task):
            raise InvalidInput(f"tasks[{arm!r}]", task, "must be an inspect_ai.Task", shown=quoted(task))
        if task.epochs not in (None, 1):
            raise InvalidInput(f"tasks[{arm!r}].epochs", task.epochs, "must be 1: each sample is measured once")
        if getattr(task, "sample_source", None) is not None:
            raise InvalidInput(f"tasks[{arm!r}].dataset", UNSTATED, "must be a list of samples, not a source of them")
        found[arm] = tuple(sample_names(task))
    first = next(iter(found))
    for arm, names in found.items():
        if set(names) != set(found[first]):
            odd = sorted(set(names) ^ set(found[first]))[0]
            raise InvalidInput(
                f"tasks[{arm!r}].dataset",
                UNSTATED,
                f"must have the same samples as {first!r}, by id; {odd!r} is in one of them only",
            )
    return found[first]


def _logged_names(arm: str, log: Any) -> tuple[str, ...]:
    """The samples of the dataset that a log was made with, whether they were run or not."""
    if (log.eval.config.epochs or 1) != 1:
        raise InvalidInput(f"tasks[{arm!r}].epochs", log.eval.config.epochs, "must be 1: each sample is measured once")
    listed = log.eval.dataset.sample_ids or [sample.id for sample in log.samples or []]
    return tuple(map(str, listed))


def sample_names(task: inspect_ai.Task) -> list[str]:
    """By id; samples without one are numbered from 1, as inspect_ai does it."""
    return [str(number if sample.id is None else sample.id) for number, sample in enumerate(task.dataset, start=1)]


def check_scores(arm: str, task: Any, metrics: Iterable[str]) -> None:
    """Raise `InvalidInput` for a metric that no scorer of the task gives. A task without scorers may have a solver that
    gives scores, of which nothing is known before it runs."""
    gives = _given_scores(task)
    if not gives:
        return
    for metric in metrics:
        if not any(fnmatch.fnmatchcase(metric, name) for name in gives):
            raise InvalidInput(
                f"tasks[{arm!r}].scorer",
                UNSTATED,
                f"gives no score {metric!r}; its scorers give {', '.join(map(repr, gives))}",
                gives,
            )


def _given_scores(task: Any) -> list[str]:
    """The names of a task's scores. Values of a scorer that gives several may be known by a pattern only."""
    about = package(".util").registry_info
    names: list[str] = []
    found: list[str] = []
    for scorer in task.scorer or []:
        info = about(scorer)
        name = base = info.name.rpartition("/")[2]
        # Two scorers of one name: inspect_ai numbers the second.
        for count in range(1, len(names) + 1):
            if name not in names:
                break
            name = f"{base}{count}"
        names.append(name)
        metrics = task.metrics or info.metadata.get("metrics") or []
        groups = [metrics] if isinstance(metrics, Mapping) else [one for one in metrics if isinstance(one, Mapping)]
        keys = [f"{name}/{key}" for group in groups for key in group]
        # A list may have metrics of the whole value beside those of its parts, so both names are possible.
        found += keys if isinstance(metrics, Mapping) else [name, *keys]
    return found


def check_models(tasks: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` if the model for tasks without one is several, or cannot be had here."""
    given = options.get("model", os.environ.get("INSPECT_EVAL_MODEL"))
    models = package(".model")
    if given is None or isinstance(given, models.Model) or all(task.model is not None for task in tasks.values()):
        return
    names = [part.strip() for part in given.split(",")] if isinstance(given, str) else given
    if not isinstance(names, list | tuple) or len(names) != 1:
        reason = 'must be one model; models to compare are arms: {"a": Task(…, model="…"), "b": …}'
        raise InvalidInput("model", given, reason, shown=quoted(given))
    try:
        models.get_model(names[0], base_url=options.get("model_base_url"), **(options.get("model_args") or {}))
    except Exception as error:  # what is missing, a package or a key, is the provider's to say
        raise InvalidInput("model", names[0], f"cannot be used: {error}", shown=quoted(names[0])) from error


def parts_of(scores: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a sample's scorers, and of a scorer that gives several each as "scorer/key"."""
    parts = {
        f"{scorer}/{key}": part
        for scorer, value in scores.items()
        if isinstance(value, Mapping)
        for key, part in value.items()
    }
    return parts | dict(scores)


def score_among(scores: Mapping[str, Any], metric: str) -> float:
    """The value of a metric among the values of a sample's scorers."""
    values = parts_of(scores)
    if metric not in values:
        given = [repr(name) for name, value in values.items() if not isinstance(value, Mapping)] or ["none"]
        raise MeasurementRefused(f"there is no score {metric!r}; the scorers gave {', '.join(given)}")
    found = values[metric]
    number = LETTERS.get(found) if isinstance(found, str) else found
    if not isinstance(number, bool | int | float):
        raise MeasurementRefused(f"the score {metric!r} is {quoted(found)}, which is not a number")
    return float(number)
