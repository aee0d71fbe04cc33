"""The tuners by name, and one run of one of them for a pool of processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from benchmarks.peers import with_ax, with_optuna
from benchmarks.peers.problems import problems

from bestarm.problem import Plan

SINGLE = "Optuna, single measurements, the best trial"
SINGLE_POOLED = "Optuna, single measurements, pooled by arm"
AVERAGED = "Optuna, averages, the best trial"
AVERAGED_POOLED = "Optuna, averages, pooled by arm"
AX_MODEL = "Ax, equal samples, its best arm"
AX_OBSERVED = "Ax, equal samples, its best arm without a model"
AX_PREDICTED = "Ax, equal samples, its best prediction"
AX_BANDIT = "Ax, bandit"
AX_SHRINKING = "Ax, bandit with empirical Bayes"


@dataclasses.dataclass(frozen=True)
class Tuner:
    """Something to do with a tuner: its answers by budget, one for each of the names."""

    names: tuple[str, ...]
    package: str
    run: Callable[[Plan, Sequence[int], int], Sequence[tuple[int, ...]]]


TUNERS = {
    "single": Tuner((SINGLE, SINGLE_POOLED), "optuna", with_optuna.single),
    "averaged": Tuner((AVERAGED, AVERAGED_POOLED), "optuna", with_optuna.averaged),
    "ax": Tuner((AX_MODEL, AX_OBSERVED, AX_PREDICTED), "ax", with_ax.equally),
    "bandit": Tuner((AX_BANDIT, AX_SHRINKING), "ax", with_ax.bandit),
}


def tune(work: tuple[str, str, tuple[int, ...], int]) -> list[tuple[int, ...]]:
    """One run: which tuner, the problem's name, budgets and seed; its answers by budget."""
    tuner, problem, budgets, seed = work
    return list(TUNERS[tuner].run(problems()[problem], budgets, seed))
