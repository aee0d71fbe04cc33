"""Ax on the same problems: the arm is a choice parameter, and Ax is told an arm's means and their standard errors."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from benchmarks.peers.problems import NO_ARM, Floats, Ints, normal_form
from benchmarks.peers.world import World, shape, standard_errors

from bestarm.problem import Plan

ROUNDS = 8
"""Of the bandit: all arms equally in the first, and then as Thompson sampling says."""

LEAST_WEIGHT = 0.01
"""Arms that are less likely than this to be the best are not measured in a round of the bandit."""


@contextmanager
def quiet(seed: int) -> Iterator[None]:
    """Ax draws from NumPy's global generator, and says a lot; one thread, for the pool's processes have the cores."""
    level = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch

            torch.set_num_threads(1)
            np.random.seed(seed)  # noqa: NPY002
            yield
    finally:
        logging.disable(level)


def _metrics(plan: Plan) -> list[str]:
    return ["value", *(f"missed_{k}" for k in range(len(plan.constraints)))]


def _told(plan: Plan, row: Floats, n: int) -> dict[str, tuple[float, float]]:
    """What Ax is told of an arm, from the means of its metrics: by metric the mean and its standard error."""
    value, missed = normal_form(plan, row)
    means = [float(value), *map(float, missed)]
    return dict(zip(_metrics(plan), zip(means, standard_errors(plan, row, n), strict=True), strict=True))


def client_told(plan: Plan, means: Floats, counts: Ints, *, errors: bool = True) -> Any:
    """A client that was told a trial of each arm: the means [arm, metric] of so many measurements.

    Left to propose, Ax gives each arm one trial and then says that the search space is exhausted: the same data, after
    a minute spent on searching for another arm.
    """
    from ax.api.client import Client
    from ax.api.configs import ChoiceParameterConfig

    client = Client(random_seed=0)
    names = [str(arm) for arm in range(len(plan.arms))]
    client.configure_experiment(
        parameters=[ChoiceParameterConfig(name="arm", values=names, parameter_type="str", is_ordered=False)]
    )
    objective, *missed = _metrics(plan)
    client.configure_optimization(objective=objective, outcome_constraints=[f"{name} <= 0" for name in missed])
    for arm, row, n in zip(names, means, counts, strict=True):
        told = _told(plan, row, int(n))
        index = client.attach_trial(parameters={"arm": arm})
        client.complete_trial(index, raw_data=told if errors else {name: mean for name, (mean, _) in told.items()})
    return client


def observed_best(client: Any) -> int:
    """What the client says is the best arm by what was observed, without a model."""
    try:
        return int(client.get_best_parameterization(use_model_predictions=False)[0]["arm"])
    except AssertionError:  # how it says that there is none
        return NO_ARM


def fitted(client: Any) -> Any:
    """Ax's model, fitted to everything that the client was told.

    A client's own model is as old as its last proposal, and without the trial that it led to.
    """
    from ax.adapter.registry import Generators

    experiment = client._experiment
    return Generators.BOTORCH_MODULAR(experiment=experiment, data=experiment.lookup_data())


def models_best(client: Any, model: Any) -> int:
    """What a client with this model says is the best arm: what was observed decides where the model fits badly."""
    from ax.service.utils.best_point import get_best_parameters_from_model_predictions_with_trial_index

    found = get_best_parameters_from_model_predictions_with_trial_index(client._experiment, model)
    return NO_ARM if found is None else int(found[1]["arm"])


def best_predicted(plan: Plan, model: Any) -> int:
    """What a careful user would take: the best mean that the model predicts, where the constraints' means hold."""
    from ax.core.observation import ObservationFeatures

    arms = [ObservationFeatures(parameters={"arm": str(arm)}) for arm in range(len(plan.arms))]
    predicted, _ = model.predict(arms)
    missed = np.array([predicted[f"missed_{k}"] for k in range(len(plan.constraints))])
    scores = np.where((missed <= 0.0).all(axis=0), predicted["value"], -np.inf)
    return int(scores.argmax()) if np.isfinite(scores.max()) else NO_ARM


def equally(plan: Plan, budgets: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """All arms measured equally often: the best arm with Ax's model, by what was observed, and by its predictions."""
    answers: list[tuple[int, ...]] = []
    for tests in budgets:
        world = World(plan, seed)
        arms, repeats = shape(plan, tests, len(plan.arms))
        means = np.array([world.measure(arm, repeats) for arm in range(arms)])
        with quiet(seed):
            client = client_told(plan, means, np.full(arms, repeats))
            model = fitted(client)
            answers.append((models_best(client, model), observed_best(client), best_predicted(plan, model)))
    return answers


def _thompson(plan: Plan, experiment: Any, means: Floats, counts: Ints, *, shrinks: bool) -> tuple[int, Floats]:
    """The arm that is most often the best in draws from the posterior, and how to share the next round."""
    from ax.adapter.registry import Generators
    from ax.core.data import Data
    from ax.exceptions.model import ModelError
    from pandas import DataFrame

    columns = ["trial_index", "arm_name", "metric_name", "metric_signature", "mean", "sem"]
    rows = [
        (index, trial.arm.name, metric, metric, *told)
        for index, trial in experiment.trials.items()
        for metric, told in _told(plan, means[index], int(counts[index])).items()
    ]
    data = Data(df=DataFrame(rows, columns=columns))
    shares = np.zeros(len(plan.arms))
    try:
        sampler = Generators.EMPIRICAL_BAYES_THOMPSON if shrinks else Generators.THOMPSON
        run = sampler(experiment=experiment, data=data, min_weight=LEAST_WEIGHT).gen(n=len(plan.arms))
    except ModelError:  # no arm was feasible in 99% of the draws
        return NO_ARM, shares + 1.0 / len(plan.arms)
    for arm, weight in run.arm_weights.items():
        shares[int(arm.parameters["arm"])] = weight
    return int(run.best_arm_predictions[0].parameters["arm"]), shares / shares.sum()


def _bandit(plan: Plan, tests: int, seed: int, *, shrinks: bool) -> int:
    world = World(plan, seed)
    arms = len(plan.arms)
    a_round = tests / len(plan.metrics) / ROUNDS
    total, counts, shares = np.zeros((arms, len(plan.metrics))), np.zeros(arms, dtype=np.int64), np.full(arms, 1 / arms)
    best, experiment = NO_ARM, None
    for _ in range(ROUNDS):
        for arm, share in enumerate(shares):
            # Every arm must have been measured before it can be drawn.
            n = max(round(float(share) * a_round), int(counts[arm] == 0))
            if n:
                total[arm] += world.measure(arm, n) * n
                counts[arm] += n
        means = total / counts[:, None]
        experiment = experiment or client_told(plan, means, counts)._experiment
        best, shares = _thompson(plan, experiment, means, counts, shrinks=shrinks)
    return best


def bandit(plan: Plan, budgets: Sequence[int], seed: int) -> list[tuple[int, ...]]:
    """Ax's way with a finite choice: rounds, shared out by Thompson sampling on the pooled means of each arm.

    Without and with empirical Bayes, which shrinks the means of all arms toward each other.
    """
    answers = []
    for shrinks in (False, True):
        with quiet(seed):
            answers.append([_bandit(plan, tests, seed, shrinks=shrinks) for tests in budgets])
    return list(zip(*answers, strict=True))
