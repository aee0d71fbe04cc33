"""What is asked: arms, an objective, constraints. Frozen, checked when made, and the same in TOML and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from bestarm.noise import Noise
from bestarm.validation import InvalidInput, Name, Number, Positive, value


@value
class Objective:
    """The metric to make as large or as small as possible."""

    metric: Name
    goal: Literal["maximize", "minimize"]
    noise: Noise
    cost: Positive = 1.0


@value
class Constraint:
    """A metric whose mean must stay below `at_most` or above `at_least`."""

    metric: Name
    noise: Noise
    at_most: Number | None = None
    at_least: Number | None = None
    cost: Positive = 1.0

    def __post_init__(self) -> None:
        if (self.at_most is None) == (self.at_least is None):
            raise ValueError(
                f"constraint {self.metric!r} needs exactly one of at_most and at_least, "
                f"not at_most = {self.at_most}, at_least = {self.at_least}"
            )
        low, high = self.noise.range
        if not low < self.threshold < high:
            side = "at_most" if self.at_least is None else "at_least"
            raise ValueError(
                f"{side} = {self.threshold!r} of constraint {self.metric!r} must lie strictly between "
                f"{low:g} and {high:g}, the range of its values"
            )

    @property
    def threshold(self) -> float:
        return self.at_most if self.at_most is not None else self.at_least  # type: ignore[return-value]

    def allows(self, mean: float) -> bool:
        """Whether a stream with this mean is on the right side of the threshold."""
        return mean < self.threshold if self.at_least is None else mean > self.threshold


def maximize(metric: str, *, noise: Noise, cost: float = 1.0) -> Objective:
    """The objective to make `metric` as large as possible."""
    return Objective(metric, "maximize", noise, cost)


def minimize(metric: str, *, noise: Noise, cost: float = 1.0) -> Objective:
    """The objective to make `metric` as small as possible."""
    return Objective(metric, "minimize", noise, cost)


def at_most(metric: str, threshold: float, *, noise: Noise, cost: float = 1.0) -> Constraint:
    """The constraint that the mean of `metric` stays below `threshold`."""
    return Constraint(metric, noise, at_most=threshold, cost=cost)


def at_least(metric: str, threshold: float, *, noise: Noise, cost: float = 1.0) -> Constraint:
    """The constraint that the mean of `metric` stays above `threshold`."""
    return Constraint(metric, noise, at_least=threshold, cost=cost)


@value
class Arm:
    """One candidate; its `means` by metric are the truth in a simulation and absent in a live study."""

    name: Name
    means: dict[str, Number] | None = None


def _read_arm(data: object) -> object:
    return {"name": data} if isinstance(data, str) else data


class NormalForm(NamedTuple):
    """A problem as policies see it: larger objectives are better, constraints hold below their thresholds.

    Entries are by metric, the objective first. A user's value times `sign` is the policy's value.
    """

    sign: npt.NDArray[np.float64]
    threshold: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]


@value
class Problem:
    """Which of these arms is best on the objective among those that satisfy every constraint?

    >>> from bestarm import Bernoulli, Gaussian, Problem, at_most, minimize
    >>> problem = Problem(
    ...     arms=["small cache", "large cache"],
    ...     objective=minimize("latency", noise=Gaussian(2.0)),
    ...     constraints=[at_most("crash rate", 0.01, noise=Bernoulli(), cost=5.0)],
    ... )
    >>> problem.metrics
    ('latency', 'crash rate')
    """

    arms: tuple[Annotated[Arm, BeforeValidator(_read_arm)], ...]
    objective: Objective
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        if not self.arms:
            raise ValueError("arms = []: a problem needs at least one arm")
        seen: set[str] = set()
        for index, arm in enumerate(self.arms):
            if arm.name == "none":
                raise ValueError(
                    f"arms[{index}].name = 'none': this name is kept for the answer that no arm is feasible"
                )
            if arm.name in seen:
                raise ValueError(f"arms[{index}].name = {arm.name!r}: another arm has this name already")
            seen.add(arm.name)
        seen = {self.objective.metric}
        for index, constraint in enumerate(self.constraints):
            if constraint.metric in seen:
                raise ValueError(
                    f"constraints[{index}].metric = {constraint.metric!r}: this metric is used already; "
                    "a metric is the objective or has one constraint"
                )
            seen.add(constraint.metric)
        self._check_means()

    def _check_means(self) -> None:
        ranges = {part.metric: part.noise.range for part in self.parts}
        for index, arm in enumerate(self.arms):
            for metric, mean in (arm.means or {}).items():
                where = f"arms[{index}].means[{metric!r}] = {mean!r}"
                if metric not in ranges:
                    raise ValueError(f"{where}: no such metric; the metrics are {', '.join(map(repr, ranges))}")
                low, high = ranges[metric]
                if not low <= mean <= high:
                    raise ValueError(f"{where}: must lie between {low:g} and {high:g}, the range of its values")

    @property
    def parts(self) -> list[Objective | Constraint]:
        """The objective and the constraints, in the order of the metrics."""
        return [self.objective, *self.constraints]

    @property
    def arm_names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics, the objective first."""
        return tuple(part.metric for part in self.parts)

    @property
    def noises(self) -> tuple[Noise, ...]:
        return tuple(part.noise for part in self.parts)

    @property
    def costs(self) -> tuple[float, ...]:
        """The cost of one test, by metric."""
        return tuple(part.cost for part in self.parts)

    def normal_form(self) -> NormalForm:
        signs = [1.0 if self.objective.goal == "maximize" else -1.0]
        thresholds = [0.0]
        for constraint in self.constraints:
            signs.append(1.0 if constraint.at_least is None else -1.0)
            thresholds.append(signs[-1] * constraint.threshold)
        scales = [noise.scale for noise in self.noises]
        return NormalForm(*(np.array(column) for column in (signs, thresholds, scales, self.costs)))

    def true_means(self) -> npt.NDArray[np.float64]:
        """The arms' means [arm, metric] as the user gave them, all of which must be there."""
        rows = []
        for index, arm in enumerate(self.arms):
            missing = [metric for metric in self.metrics if metric not in (arm.means or {})]
            if missing:
                raise InvalidInput(
                    f"arms[{index}].means of {arm.name!r} lacks {', '.join(map(repr, missing))}: "
                    "simulation and theory need the true mean of every metric"
                )
            rows.append([(arm.means or {})[metric] for metric in self.metrics])
        return np.array(rows)

    def with_means(self, means: Mapping[str, Mapping[str, float]]) -> Problem:
        """The same problem with true means (arm → metric → mean), for simulation."""
        if unknown := [name for name in means if name not in self.arm_names]:
            raise InvalidInput(
                f"means of {unknown[0]!r}: no such arm; the arms are {', '.join(map(repr, self.arm_names))}"
            )
        arms: Any = tuple(Arm(arm.name, {**(arm.means or {}), **means.get(arm.name, {})}) for arm in self.arms)
        return dataclasses.replace(self, arms=arms)

    def right_answers(self) -> tuple[int, ...]:
        """By the true means: the best feasible arms (several when tied), or nothing when no arm is feasible."""
        means = self.true_means()
        feasible = [
            arm
            for arm in range(len(self.arms))
            if all(c.allows(means[arm, k]) for k, c in enumerate(self.constraints, start=1))
        ]
        if not feasible:
            return ()
        scores = means[:, 0] * self.normal_form().sign[0]
        best = max(scores[arm] for arm in feasible)
        return tuple(arm for arm in feasible if scores[arm] == best)
