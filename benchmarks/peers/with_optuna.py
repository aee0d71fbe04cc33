"""Optuna on the same problems: the arm is a categorical parameter, and a trial measures every metric of one arm."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.peers.problems import NO_ARM, normal_form
from benchmarks.peers.world import World, shape

from bestarm.problem import Plan

MOST_TRIALS = 900
"""Optuna's sampler takes longer for each trial the more there are: a thousand take some ten seconds."""

TRIALS_PER_ARM = 4
"""Of averages: enough for the sampler to choose, few enough for an average to mean something."""


def _study(plan: Plan, trials: int, repeats: int, seed: int) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    world = World(plan, seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))
    # Otherwise it may try some arm never: its first ten trials are random, and later ones go where it was lucky.
    for arm in range(len(plan.arms)):
        study.enqueue_trial({"arm": arm})

    def objective(trial: Any) -> float:
        arm = trial.suggest_categorical("arm", list(range(len(plan.arms))))
        value, missed = normal_form(plan, world.measure(arm, repeats))
        for k, excess in enumerate(missed):
            trial.set_constraint(str(k), float(excess))
        return float(value)

    study.optimize(objective, n_trials=trials)
    return study


def best_trial(trials: Sequence[Any]) -> int:
    """The arm of what Optuna's `best_trial` is: the best value among those that found every constraint to hold."""
    feasible = [trial for trial in trials if all(missed <= 0.0 for missed in trial.constraints.values())]
    best = max(feasible, key=lambda trial: trial.value, default=None)
    return NO_ARM if best is None else int(best.params["arm"])


def best_pooled(trials: Sequence[Any]) -> int:
    """What a careful user would take: the best mean over an arm's trials, where the constraints' means hold."""
    by_arm: dict[int, list[Any]] = {}
    for trial in trials:
        by_arm.setdefault(int(trial.params["arm"]), []).append(trial)
    means = {
        arm: float(np.mean([trial.value for trial in same]))
        for arm, same in by_arm.items()
        if (np.mean([list(trial.constraints.values()) for trial in same], axis=0) <= 0.0).all()
    }
    return max(means, key=means.__getitem__, default=NO_ARM)


def single(plan: Plan, budgets: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """One measurement of each metric a trial: `best_trial` and the best pooled arm, after each budget.

    One study serves all budgets; those that would take more than `MOST_TRIALS` are left out.
    """
    sizes = [max(1, tests // len(plan.metrics)) for tests in budgets]
    within = [size for size in sizes if size <= MOST_TRIALS]
    trials = _study(plan, max(within, default=1), 1, seed).get_trials(deepcopy=False)
    return [(best_trial(trials[:size]), best_pooled(trials[:size])) for size in within]


def averaged(plan: Plan, budgets: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """Some trials for each arm, of as many measurements as the budget allows: `best_trial` and the best pooled arm."""
    studies = [_study(plan, *shape(plan, tests, TRIALS_PER_ARM * len(plan.arms)), seed) for tests in budgets]
    finished = [study.get_trials(deepcopy=False) for study in studies]
    return [(best_trial(trials), best_pooled(trials)) for trials in finished]
