"""The problems: three of the paper's, and two after the pattern of what people tune. The judge knows the true means."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

import bestarm as ba
from bestarm.noises.bernoulli import Bernoulli
from bestarm.problem import Arm, Plan

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

NO_ARM = -1
"""The answer that no arm is feasible."""
UNDECIDED = -2


def _cache() -> Plan:
    """Which cache configuration answers quickest, without crashing or taking too much memory?"""
    metrics = ("latency", "crash rate", "memory")
    means = {
        "default": (12.0, 0.01, 2.0),
        "64 MB": (10.0, 0.02, 2.3),
        "256 MB": (8.5, 0.03, 2.9),
        "512 MB": (7.5, 0.04, 3.4),
        "512 MB, no fsync": (6.0, 0.25, 3.4),
        "1 GB": (7.0, 0.05, 4.5),
        "1 GB, compressed": (8.4, 0.05, 3.3),
        "2 GB": (6.5, 0.20, 6.0),
    }
    return Plan(
        name="cache",
        arms=tuple(Arm(name, dict(zip(metrics, row, strict=True))) for name, row in means.items()),
        objective=ba.minimize("latency", noise=ba.Gaussian(2.0), tolerance=0.25),
        constraints=(
            ba.at_most("crash rate", 0.12, noise=ba.Bernoulli()),
            ba.at_most("memory", 4.0, noise=ba.Gaussian(0.5)),
        ),
    )


def _models() -> Plan:
    """Which classifier is right most often, fast enough and without missing too many positives?"""
    metrics = ("accuracy", "response time", "missed positives")
    means = {
        "logistic": (0.78, 4.0, 0.22),
        "tree": (0.74, 2.0, 0.26),
        "forest": (0.86, 30.0, 0.10),
        "boosting": (0.92, 35.0, 0.08),
        "large boosting": (0.94, 58.0, 0.06),
        "network": (0.93, 40.0, 0.27),
    }
    return Plan(
        name="models",
        arms=tuple(Arm(name, dict(zip(metrics, row, strict=True))) for name, row in means.items()),
        objective=ba.maximize("accuracy", noise=ba.Bernoulli(), tolerance=0.01),
        constraints=(
            ba.at_most("response time", 50.0, noise=ba.Gaussian(15.0)),
            ba.at_most("missed positives", 0.16, noise=ba.Bernoulli()),
        ),
    )


def problems() -> dict[str, Plan]:
    plans = [ba.instance("exp1-a"), ba.instance("exp1-c"), ba.instance("drug-bernoulli"), _cache(), _models()]
    return {plan.name: plan for plan in plans}


def measure(plan: Plan, n: int, runs: int, rng: np.random.Generator) -> Floats:
    """The means of `n` measurements of every stream, [run, arm, metric], in the user's terms."""
    truth = plan.true_means()
    found = np.empty((runs, *truth.shape))
    for metric, noise in enumerate(plan.noises):
        shape, mean = (runs, len(plan.arms)), truth[:, metric]
        if isinstance(noise, Bernoulli):
            found[:, :, metric] = rng.binomial(n, mean, shape) / n
        else:
            found[:, :, metric] = rng.normal(mean, noise.unit / math.sqrt(n), shape)
    return found


def normal_form(plan: Plan, means: Floats) -> tuple[Floats, Floats]:
    """The objective [.., arm], larger is better, and by how much each constraint is missed [.., arm, constraint]."""
    form = plan.normal_form()
    values = means * form.sign
    return values[..., 0], values[..., 1:] - form.threshold[1:]


def best_looking(plan: Plan, means: Floats) -> Ints:
    """By run, the arm with the best mean among those whose means satisfy every constraint."""
    objective, missed = normal_form(plan, means)
    scores = np.where((missed <= 0.0).all(axis=-1), objective, -np.inf)
    best = scores.argmax(axis=-1)
    return np.where(np.isfinite(scores.max(axis=-1)), best, NO_ARM)


def is_wrong(plan: Plan, answers: Ints) -> npt.NDArray[np.bool_]:
    right = [NO_ARM if answer is None else answer for answer in plan.right_answers()]
    return ~np.isin(answers, [*right, UNDECIDED])


def is_infeasible(plan: Plan, answers: Ints) -> npt.NDArray[np.bool_]:
    """Whether the arm answered truly misses a threshold."""
    bad = np.any(normal_form(plan, plan.true_means())[1] > 0.0, axis=-1)
    found: npt.NDArray[np.bool_] = (answers >= 0) & bad[np.maximum(answers, 0)]
    return found
