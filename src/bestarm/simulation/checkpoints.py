"""What runs recommend on the way, after fixed numbers of tests: how often it is wrong, and how much is lost."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bestarm.kernel.state import NONE, Floats, Ints
from bestarm.problem import Plan, Problem
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, is_boolean

MOST_CHECKPOINTS = 1_000


@dataclasses.dataclass(frozen=True)
class Curves:
    """By checkpoint, over all runs; a run that has stopped before recommends its answer. `error_se` and `regret_se` are
    standard errors.

    The regret is how much less the recommended arm performs than the best feasible one. If that
    arm is not feasible, or if the answer is "no arm is feasible" and wrong, the regret is the difference between the
    best and the worst of all arms.
    """

    tests: tuple[int, ...]
    error: Floats
    """The share of runs that recommend a wrong answer."""
    infeasible: Floats
    """The share of runs that recommend an arm which is not feasible."""
    regret: Floats
    error_se: Floats
    regret_se: Floats

    def rows(self) -> Iterator[dict[str, Any]]:
        """A row for each checkpoint."""
        columns = (self.tests, self.error.tolist(), self.infeasible.tolist(), self.regret.tolist())
        for row in zip(*columns, strict=True):
            yield dict(zip(("tests", "error_rate", "infeasible", "regret"), row, strict=True))


def curves_of(problem: Problem, checkpoints: tuple[int, ...], leaders: Ints) -> Curves:
    """The curves of runs whose recommendations are `leaders` [run, checkpoint]."""
    is_right, is_infeasible, losses = _judged(problem)
    wrong, lost = ~is_right[leaders], losses[leaders]
    scale = np.sqrt(len(leaders))
    return Curves(
        tests=checkpoints,
        error=wrong.mean(axis=0),
        infeasible=is_infeasible[leaders].mean(axis=0),
        regret=lost.mean(axis=0),
        error_se=wrong.std(axis=0) / scale,
        regret_se=lost.std(axis=0) / scale,
    )


def _judged(problem: Problem) -> tuple[Any, Any, Floats]:
    """Whether each answer is right, whether it is an infeasible arm, and its regret. "No arm is feasible" comes last,
    where the index `NONE` finds it."""
    scores = problem.true_means()[:, 0] * problem.signs[0]
    truly, nearly = problem.feasible_arms()
    is_right = np.zeros(len(scores) + 1, np.bool_)
    is_right[[NONE if answer is None else answer for answer in problem.right_answers()]] = True
    is_infeasible = np.ones(len(scores) + 1, np.bool_)
    is_infeasible[[*nearly, NONE]] = False
    losses = np.full(len(scores) + 1, scores.max() - scores.min())
    if truly:
        losses[[*nearly]] = np.maximum(scores[[*truly]].max() - scores[[*nearly]], 0.0)
    losses[NONE if not truly else []] = 0.0
    return is_right, is_infeasible, losses


def checked_checkpoints(plan: Plan, checkpoints: Iterable[int] | None, max_tests: int) -> tuple[int, ...]:
    """The checkpoints, or none. Raises `InvalidInput` unless they are rising numbers of tests that a run can have."""
    if checkpoints is None:
        return ()
    given = checkpoints if isinstance(checkpoints, str) or not isinstance(checkpoints, Iterable) else [*checkpoints]
    reason = None
    if not isinstance(given, list) or not given:
        reason = "must be a list of numbers of tests, such as [200, 400, 800]"
    elif not all(isinstance(number, int | np.integer) and not is_boolean(number) for number in given):
        reason = "must be whole numbers"
    elif len(given) > MOST_CHECKPOINTS:
        reason = f"must be at most {MOST_CHECKPOINTS:,}, not {len(given):,}"
    elif given != sorted({*given}) or given[0] < 1:
        reason = "must be positive and rise"
    elif given[-1] > min(max_tests, plan.max_tests):
        reason = f"a run ends after {min(max_tests, plan.max_tests):,} tests"
    elif plan.asks != "best":
        reason = f"the goal must be the best arm, not {plan.asks!r}"
    if reason is not None:
        raise InvalidInput("checkpoints", given, reason, shown=quoted(given))
    return tuple(map(int, given))
