"""The paper's problem instances, by name."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.gaussian import Gaussian
from bestarm.problem import Arm, Plan, at_most, maximize
from bestarm.validation import InvalidInput

SIZES_N = (2, 4, 8, 16, 32, 64)
SIZES_K = (4, 8, 16, 32, 64)


def _linear(first: float, last: float, count: int) -> list[float]:
    return [first + (last - first) * k / (count - 1) for k in range(count)]


def _synthetic(name: str, performance: Sequence[float], constraints: Sequence[Sequence[float]]) -> Plan:
    """Gaussian metrics of variance 1 and thresholds one half, as in Experiments 1 and 2."""
    noise, metrics = Gaussian(1.0), [f"constraint {k}" for k in range(1, len(constraints[0]) + 1)]
    arms = tuple(
        Arm(f"arm {k}", {"performance": mean, **dict(zip(metrics, row, strict=True))})
        for k, (mean, row) in enumerate(zip(performance, constraints, strict=True), start=1)
    )
    return Plan(
        name=name,
        delta=0.1,
        arms=arms,
        objective=maximize("performance", noise=noise),
        constraints=tuple(at_most(metric, 0.5, noise=noise) for metric in metrics),
    )


def _some_feasible(name: str, performance: Sequence[float], n: int, first: int, last: int) -> Plan:
    """Arms `first` to `last` (counted from 1) feasible with means 1/4; the others violate their first constraint."""
    return _synthetic(
        name,
        performance,
        [[0.25 if first <= k <= last else 0.75, *[0.25] * (n - 1)] for k in range(1, len(performance) + 1)],
    )


def _experiment_2_arms(name: str, arms: int) -> Plan:
    return _some_feasible(name, _linear(10.0, 0.0, arms), 5, arms // 3, 2 * arms // 3)


def _drug(name: str, noise: Noise) -> Plan:
    """Doses of secukinumab; rates from Tables 2 and 3 of Genovese et al. (2013) as the paper gives them."""
    metrics = ("efficacy", "adverse event", "infection")
    rates = {
        "25 mg": (0.34, 0.519, 0.259),
        "75 mg": (0.469, 0.612, 0.184),
        "150 mg": (0.465, 0.465, 0.209),
        "300 mg": (0.537, 0.61, 0.293),
        "placebo": (0.36, 0.58, 0.16),
    }
    return Plan(
        name=name,
        delta=0.1,
        arms=tuple(Arm(arm, dict(zip(metrics, means, strict=True))) for arm, means in rates.items()),
        objective=maximize("efficacy", noise=noise),
        constraints=(at_most("adverse event", 0.5, noise=noise), at_most("infection", 0.25, noise=noise)),
    )


@functools.cache
def _instances() -> dict[str, Plan]:
    fifths = _linear(1.0, 0.0, 5)
    wide = [0.65, 0.4, 0.4]
    plans = [
        _synthetic("exp1-a", fifths, [[0.75, 0.25, 0.25]] * 4 + [[0.25] * 3]),
        _synthetic("exp1-b", fifths, [[0.4] * 3] * 5),
        _synthetic("exp1-c", [1.0, 0.9, 0.5, 0.25, 0.0], [wide, [0.3, 0.4, 0.4], wide, wide, [0.45] * 3]),
        *(_some_feasible(f"exp2-n{n}", _linear(2.0, 0.0, 10), n, 4, 7) for n in SIZES_N),
        *(_experiment_2_arms(f"exp2-k{k}", k) for k in SIZES_K),
        _experiment_2_arms("exp2-delta", 10),
        _drug("drug", Gaussian(1.0)),
        _drug("drug-bernoulli", Bernoulli()),
    ]
    return {plan.name: plan for plan in plans}


def instance_names() -> list[str]:
    """The names of the built-in instances."""
    return list(_instances())


def instance(name: str) -> Plan:
    """A problem of the paper, with its true means and the paper's delta of 0.1.

    >>> instance("drug").arm_names
    ('25 mg', '75 mg', '150 mg', '300 mg', 'placebo')
    """
    if name not in _instances():
        raise InvalidInput(
            "instance", name, f"no such instance; there are {', '.join(instance_names())}", instance_names()
        )
    return _instances()[name]
