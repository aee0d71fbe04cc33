"""Studies in every state, of every kind, at every scale and with every sort of names, to draw."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import bestarm as ba

GAUSSIAN = ba.Gaussian(1.0)
LONG = [f"{'a very long name of an arm, ' * 4}variant {k} of many, tuned" for k in (1, 2)]
HOSTILE = ["$5_a$", "$10_b$", "$", r"\frac{$x$}", "a_b^c{", r"C:\$x", "x" * 200, *LONG]


def three_metrics(arms: tuple[str, ...] = ("slow", "fast", "harmful"), scale: float = 1.0, **options: Any) -> ba.Plan:
    return ba.Plan(
        arms=arms,
        objective=ba.minimize("latency", noise=ba.Gaussian(0.5 * scale)),
        constraints=(
            ba.at_most("crash", 0.5, noise=ba.Bernoulli(), cost=3.0),
            ba.at_least("score", 4, noise=ba.Bounded(0, 10)),
        ),
        **options,
    )


def measured(arm: str, metric: str) -> float:
    return {"latency": 1.0 if arm == "fast" else 2.0, "crash": float(arm == "harmful"), "score": 9.0}[metric]


def all_bad(arm: str, metric: str) -> float:
    return {"latency": 1.0, "crash": 1.0, "score": 1.0}[metric]


def study_of(plan: ba.Plan, measure: Callable[[str, str], float] = measured, most: int = 10**6) -> ba.Study:
    """A study that has taken in at most so many results."""
    study = ba.Study.create(plan, storage=":memory:")
    told = 0
    while told < most and not study.done:
        tests = study.ask(min(20, most - told))
        study.tell_many([(test, measure(test.arm, test.metric)) for test in tests])
        told += len(tests)
    return study


def scattered(mean: float = 0.0, sigma: float = 1.0) -> Callable[[str, str], float]:
    rng = np.random.default_rng(1)
    return lambda arm, metric: float(rng.normal(mean, sigma))


def scaled(scale: float) -> Callable[[str, str], float]:
    return lambda arm, metric: measured(arm, metric) * (scale if metric == "latency" else 1.0)


def named() -> ba.Plan:
    constraints = [ba.at_most(name, 0.5, noise=GAUSSIAN) for name in ("cost_$x^2$", "$bad{", "m" * 200, *LONG)]
    return ba.Plan(
        arms=tuple(HOSTILE),
        objective=ba.maximize("gain_$ per $day$", noise=GAUSSIAN),
        constraints=tuple(constraints),
    )


def one_metric() -> ba.Plan:
    return ba.Plan(arms=("a", "b"), objective=ba.maximize("x", noise=GAUSSIAN))


def many_metrics() -> ba.Plan:
    constraints = tuple(ba.at_most(f"constraint {k}", 0.5, noise=GAUSSIAN) for k in range(17))
    return ba.Plan(arms=("a", "b"), objective=ba.maximize("x", noise=GAUSSIAN), constraints=constraints)


def offset() -> ba.Plan:
    return ba.Plan(arms=("a", "b"), objective=ba.maximize("x", noise=ba.Gaussian(1e-3)))


def on_items() -> ba.Plan:
    return ba.Plan(
        arms=("judge a", "judge b", "judge c"),
        objective=ba.maximize("agreement", noise=ba.Bernoulli()),
        constraints=(ba.at_most("cost", 5.0, noise=ba.Bounded(0, 10)),),
        measurements=[ba.measurement("agreement", "cost", cost=2.0)],
        items=[f"question {k}" for k in range(40)],
    )


def bundled() -> ba.Plan:
    return ba.Plan(
        arms=("old", "new", "slow"),
        objective=ba.minimize("time", noise=ba.Gaussian(1.0)),
        constraints=(
            ba.at_most("time", 9.0, noise=ba.Gaussian(1.0)),
            ba.at_most("size", 5.0, noise=ba.Exact(), cost=3.0),
            ba.at_most("memory", 400.0, noise=ba.Bounded(0, 1000)),
        ),
        measurements=[ba.measurement("time", "memory", cost=2.0)],
    )


def quantiles() -> ba.Plan:
    return ba.Plan(
        arms=("a", "b"),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("latency", 3.0, noise=ba.Quantile(0.9)),),
    )


def rates() -> ba.Plan:
    rate = ba.Bernoulli()
    return ba.Plan(
        arms=("25 mg", "150 mg", "300 mg"),
        objective=ba.maximize("efficacy", noise=rate),
        constraints=(ba.at_most("harm", 0.5, noise=rate), ba.at_least("adherence", 0.3, noise=rate)),
    )


def yes_or_no(seed: int) -> Callable[[str, str], float]:
    rng = np.random.default_rng(seed)
    chances = {"harm": 0.1, "adherence": 0.8}
    return lambda arm, metric: float(rng.random() < chances.get(metric, 0.9 if arm == "150 mg" else 0.3))


def together(study: ba.Study, most: int) -> ba.Study:
    """A study whose tests yield several metrics, after so many results."""
    rng = np.random.default_rng(3)
    centers = {"time": 4.0, "memory": 200.0, "size": 3.0, "agreement": 1.0, "cost": 2.0}
    for _ in range(most):
        for test in study.ask(1):
            far = 6.0 if test.arm == "slow" and "time" in test.metrics else 0.0
            values = {metric: centers[metric] + far for metric in test.metrics}
            values |= {"time": values["time"] + rng.normal()} if "time" in values else {}
            study.tell(test, values if len(values) > 1 else values[test.metrics[0]])
    return study


STUDIES: dict[str, Callable[[], ba.Study]] = {
    "new": lambda: study_of(three_metrics(), most=0),
    "one result": lambda: study_of(three_metrics(), most=1),
    "partly tested": lambda: study_of(three_metrics(), most=5),
    "running": lambda: study_of(three_metrics(), most=30),
    "certified": lambda: study_of(three_metrics()),
    "none feasible": lambda: study_of(three_metrics(), all_bad),
    "budget spent": lambda: study_of(three_metrics(budget=ba.Budget(tests=12))),
    "one metric, new": lambda: study_of(one_metric(), most=0),
    "one metric, running": lambda: study_of(one_metric(), scattered(), most=10),
    "one metric, certified": lambda: study_of(one_metric(), lambda arm, metric: float(arm == "a")),
    "many metrics": lambda: study_of(many_metrics(), scattered(), most=100),
    "many arms": lambda: study_of(three_metrics(tuple(f"arm {k}" for k in range(70))), most=120),
    "names": lambda: study_of(named(), scattered(), most=100),
    "1e-15": lambda: study_of(three_metrics(scale=1e-15), scaled(1e-15), most=60),
    "1e-9": lambda: study_of(three_metrics(scale=1e-9), scaled(1e-9), most=60),
    "1e9": lambda: study_of(three_metrics(scale=1e9), scaled(1e9), most=60),
    "1e15": lambda: study_of(three_metrics(scale=1e15), scaled(1e15), most=60),
    "far from 0": lambda: study_of(offset(), scattered(1e6, 1e-3), most=60),
    "items": lambda: together(ba.Study.create(on_items(), storage=":memory:"), 40),
    "together": lambda: together(ba.Study.create(bundled(), storage=":memory:"), 60),
    "quantile": lambda: study_of(quantiles(), scattered(), most=60),
    "rates": lambda: study_of(rates(), yes_or_no(1), most=200),
    "one arm": lambda: study_of(three_metrics(("only",)), most=9),
    "another policy": lambda: study_of(three_metrics(policy="feasible-lucb"), most=30),
}


@functools.cache
def example(name: str) -> ba.Study:
    return STUDIES[name]()
