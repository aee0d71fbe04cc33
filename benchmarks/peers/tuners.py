"""Tuners on the same problems: the arm is a categorical parameter, and a trial measures every metric of one arm."""

from __future__ import annotations

import logging
import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from benchmarks.peers.problems import NO_ARM, Floats, measure, normal_form, problems

from bestarm.noise import Bernoulli
from bestarm.plan import Plan

MOST_TRIALS = 900
"""Optuna's sampler takes longer for each trial the more there are: a thousand take some ten seconds."""

MOST_AX_ARMS = 6
"""Ax fits a model for each trial after the fifth: with eight arms a run takes 20 seconds instead of half a one."""

SINGLE, AVERAGED, AX = "Optuna, one measurement a trial", "Optuna, averages", "Ax, averages"


class World:
    """Gives the means of some fresh measurements of an arm."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.lots = plan, np.random.default_rng(seed)

    def measure(self, arm: int, repeats: int) -> Floats:
        found: Floats = measure(self.plan, repeats, 1, self.lots)[0, arm]
        return found


def _optuna_study(plan: Plan, trials: int, repeats: int, seed: int) -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    world = World(plan, seed)
    study = optuna.create_study(direction="maximize", sampler=optuna.samplers.TPESampler(seed=seed))

    def objective(trial: Any) -> float:
        arm = trial.suggest_categorical("arm", list(range(len(plan.arms))))
        value, missed = normal_form(plan, world.measure(arm, repeats))
        for k, excess in enumerate(missed):
            trial.set_constraint(str(k), float(excess))
        return float(value)

    study.optimize(objective, n_trials=trials)
    return study


def optuna_single(plan: Plan, budgets: Sequence[int], seed: int) -> list[int]:
    """One measurement of each metric a trial; what `best_trial` is after each budget, as far as `MOST_TRIALS` go."""
    sizes = [max(1, tests // len(plan.metrics)) for tests in budgets]
    within = [size for size in sizes if size <= MOST_TRIALS]
    trials = _optuna_study(plan, max(within), 1, seed).get_trials(deepcopy=False)
    answers = []
    for size in within:
        # As `best_trial` chooses: the best value among the trials that found every constraint to hold.
        feasible = [trial for trial in trials[:size] if all(entry <= 0.0 for entry in trial.constraints.values())]
        best = max(feasible, key=lambda trial: trial.value, default=None)
        answers.append(NO_ARM if best is None else int(best.params["arm"]))
    return answers


def _shape(plan: Plan, tests: int, trials: int) -> tuple[int, int]:
    """How many trials, and measurements of each metric in a trial, make so many tests."""
    trials = max(1, min(trials, tests // len(plan.metrics)))
    return trials, max(1, tests // (trials * len(plan.metrics)))


def optuna_averaged(plan: Plan, tests: int, seed: int) -> int:
    """Four trials for each arm, of as many measurements as the budget allows; the answer is `best_trial`."""
    study = _optuna_study(plan, *_shape(plan, tests, 4 * len(plan.arms)), seed)
    try:
        return int(study.best_trial.params["arm"])
    except ValueError:  # no trial was feasible
        return NO_ARM


def ax_averaged(plan: Plan, tests: int, seed: int) -> int:
    """Ax with as many measurements in a trial as the budget allows, and their standard errors; its model's best arm.

    Ax proposes each arm once and then says that the search space is exhausted: so there is a trial for each arm.
    """
    import torch

    torch.set_num_threads(1)  # the processes of the pool have the cores already
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig
    from ax.exceptions.core import AxError, OptimizationComplete

    world = World(plan, seed)
    trials, repeats = _shape(plan, tests, len(plan.arms))
    client = Client(random_seed=seed)
    names = [str(k) for k in range(len(plan.arms))]
    parameter = ChoiceParameterConfig(name="arm", values=names, parameter_type="str", is_ordered=False)
    client.configure_experiment(parameters=[parameter])
    missed = [f"missed_{k}" for k in range(len(plan.constraints))]
    client.configure_optimization(objective="value", outcome_constraints=[f"{name} <= 0" for name in missed])
    try:
        for _ in range(trials):
            for index, params in client.get_next_trials(max_trials=1).items():
                means = world.measure(int(str(params["arm"])), repeats)
                value, excess = normal_form(plan, means)
                errors = [_error(plan, k, float(mean), repeats) for k, mean in enumerate(means)]
                data = [float(value), *map(float, excess)]
                named = dict(zip(["value", *missed], zip(data, errors, strict=True), strict=True))
                client.complete_trial(index, raw_data=named)
    except OptimizationComplete:
        pass
    try:
        return int(str(client.get_best_parameterization()[0]["arm"]))
    except (AssertionError, ValueError, AxError):  # it has no best arm where none looks feasible
        return NO_ARM


def _error(plan: Plan, metric: int, mean: float, n: int) -> float:
    noise = plan.noises[metric]
    rate = (mean * n + 1.0) / (n + 2.0)
    return math.sqrt(rate * (1.0 - rate) / n) if isinstance(noise, Bernoulli) else noise.scale / math.sqrt(n)


def tune(work: tuple[str, str, tuple[int, ...], int]) -> list[int]:
    """One run of a tuner, for a pool of processes: method, problem, budgets, seed; its answers by budget."""
    method, name, budgets, seed = work
    plan = problems()[name]
    if method == SINGLE:
        return optuna_single(plan, budgets, seed)
    return [(optuna_averaged if method == AVERAGED else ax_averaged)(plan, tests, seed) for tests in budgets]
