"""What follows from what a problem states: its metrics, its tests, its normal form, and the right answers."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, StrictBool

from bestarm.noises import Noise
from bestarm.noises.shapes import Spread
from bestarm.problem.goals import Asked, GoalField, Top
from bestarm.problem.items import ItemList, count_of
from bestarm.problem.measurements import Measurement, groups_of, name_of
from bestarm.problem.parts import Constraint, Objective
from bestarm.validation import UNSTATED, Guess, InvalidInput, Name, NonNegative, Positive, WholeNumber, value


class NormalForm(NamedTuple):
    """A problem as policies see it: larger objectives are better, constraints hold below their thresholds.

    Entries are by metric, the objective first. A user's value times `sign` is the policy's value.
    """

    sign: npt.NDArray[np.float64]
    threshold: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    slack: npt.NDArray[np.float64]


@value
class Arm:
    """One candidate; its `means` by metric are the truth in a simulation and absent in a live study.

    For a metric with `Quantile` noise, the mean is the share of results beyond the threshold. For a ratio constraint,
    the means of both metrics are stated; or, by its name such as "errors per requests", that of what counts of a test:
    the one metric minus the threshold times the other. For a forecast a mean may be a range (low, high). `weight`,
    relative to the other arms', says how much this one is expected to be the answer. `spreads` by metric say how its
    results truly scatter in a simulation: a standard deviation, or a shape with one, such as {"lognormal": 2.0}.
    Without it, results scatter as the metric's noise says.
    """

    name: Name
    means: Mapping[str, Guess] | None = None
    weight: Positive = 1.0
    spreads: Mapping[str, Spread] | None = None
    added: WholeNumber = 0
    """0 for an arm that was there from the start; of those that came later, 1 for the first, 2 for the second …"""
    retired: StrictBool = False
    """Whether it has been taken out: it is no longer measured, and cannot be the answer."""


def _read_arm(data: object) -> object:
    return {"name": data} if isinstance(data, str) else data


@value
class Question:
    """What a problem states, and what follows from it. `Problem` checks it."""

    arms: tuple[Annotated[Arm, BeforeValidator(_read_arm)], ...]
    objective: Objective
    constraints: tuple[Constraint, ...] = ()
    measurements: tuple[Measurement, ...] = Field(default=(), kw_only=True)
    items: ItemList | None = Field(default=None, kw_only=True)
    repeats: StrictBool = Field(default=False, kw_only=True)
    item_spreads: Mapping[str, NonNegative] | None = Field(default=None, kw_only=True)
    goal: GoalField = Field(default="best", kw_only=True)
    top: Top = Field(default=1, kw_only=True)
    baseline: Name | None = Field(default=None, kw_only=True)

    @property
    def asks(self) -> Asked:
        """What the study is to find: the best arm, a short list that holds it, the `top` best, or any feasible one."""
        return "short list" if self.goal == "best" and self.top > 1 else self.goal

    # Kept once made: a study looks them up for every test, and to make them takes time in proportion to the arms.
    @functools.cached_property
    def parts(self) -> tuple[Objective | Constraint, ...]:
        """The objective and the constraints, in the order of the metrics."""
        return (self.objective, *self.constraints)

    @functools.cached_property
    def arm_names(self) -> tuple[str, ...]:
        return tuple(arm.name for arm in self.arms)

    @functools.cached_property
    def metrics(self) -> tuple[str, ...]:
        """The names of the objective and the constraints, in this order: those of their metrics.

        A constraint whose metric has been named before is called by what it says, such as "latency at most 200".
        """
        seen: set[str] = set()
        labels = []
        for part in self.parts:
            labels.append(part.label if part.title in seen and isinstance(part, Constraint) else part.title)
            seen.add(part.title)
        return tuple(labels)

    @functools.cached_property
    def measured(self) -> tuple[str, ...]:
        """What is measured: the names of the metrics, each once."""
        return tuple(dict.fromkeys(metric for part in self.parts for metric in part.measures))

    @functools.cached_property
    def denominators(self) -> frozenset[str]:
        """The metrics that others are divided by. Their values are positive."""
        return frozenset(part.per for part in self.constraints if part.per is not None)

    @functools.cached_property
    def relative(self) -> tuple[int, ...]:
        """The numbers of the parts that are relative to the baseline."""
        return tuple(k for k, part in enumerate(self.constraints, start=1) if part.relative_to_baseline)

    @functools.cached_property
    def bundles(self) -> tuple[tuple[int, ...], ...]:
        """What tests there are of an arm: for each, the parts whose metrics it measures, by number.

        The first part of a bundle stands for all of it wherever a test is written as (arm, metric).
        """
        group = groups_of(self.measurements, [part.measures for part in self.parts])
        found: dict[object, list[int]] = {}
        for k, part in enumerate(self.parts):
            found.setdefault(group[part.metric], []).append(k)
        return tuple(map(tuple, found.values()))

    def in_order(self, bundle: tuple[int, ...]) -> list[int]:
        """The parts of a bundle in the order in which their results enter: those with the same metric side by side."""
        first = {self.parts[part].title: part for part in reversed(bundle)}
        return sorted(bundle, key=lambda part: (first[self.parts[part].title], part))

    @functools.cached_property
    def leads(self) -> tuple[int, ...]:
        """By part: the first part of its bundle."""
        leads = {part: bundle[0] for bundle in self.bundles for part in bundle}
        return tuple(leads[part] for part in range(len(self.parts)))

    @functools.cached_property
    def yields(self) -> dict[int, tuple[str, ...]]:
        """By the first part of each bundle: the metrics whose values a test tells, in the order of the record."""
        return {
            bundle[0]: tuple(dict.fromkeys(metric for part in bundle for metric in self.parts[part].measures))
            for bundle in self.bundles
        }

    @functools.cached_property
    def test_names(self) -> dict[int, str]:
        """By the first part of each bundle: what a test of it is called."""
        return {lead: name_of(metrics) for lead, metrics in self.yields.items()}

    @functools.cached_property
    def noises(self) -> tuple[Noise, ...]:
        return tuple(part.noise for part in self.parts)

    @functools.cached_property
    def slacks(self) -> dict[str, float]:
        """The slack of each constraint that has one, by metric."""
        return {constraint.title: constraint.slack for constraint in self.constraints if constraint.slack}

    @functools.cached_property
    def costs(self) -> tuple[float, ...]:
        """The cost of a test that measures it, by metric."""
        together = {metric: one.cost for one in self.measurements for metric in one.metrics}
        return tuple(together.get(part.metric, part.cost) for part in self.parts)

    def normal_form(self) -> NormalForm:
        signs = [1.0 if self.objective.goal == "maximize" else -1.0]
        thresholds = [0.0]
        for constraint in self.constraints:
            signs.append(1.0 if constraint.is_upper else -1.0)
            thresholds.append(constraint.noise.limit(signs[-1] * constraint.limit))
        scales = [noise.unit for noise in self.noises]
        slacks = [0.0, *(constraint.slack for constraint in self.constraints)]
        return NormalForm(*(np.array(column) for column in (signs, thresholds, scales, self.costs, slacks)))

    def means_of(self, index: int, needed: str) -> list[float | tuple[float, float]]:
        """The means of an arm by part, as far as the user gave them; `InvalidInput` if one is not there.

        A constraint on a metric that has another part too has the same mean, unless a share or a ratio counts.
        """
        given = self.arms[index].means or {}
        found = [given.get(label, part.mean_of(given)) for label, part in zip(self.metrics, self.parts, strict=True)]
        rows = zip(self.metrics, self.parts, found, strict=True)
        lacking = [part.measures if len(part.measures) > 1 else (label,) for label, part, mean in rows if mean is None]
        missing = dict.fromkeys(name for names in lacking for name in names if name not in given)
        if missing:
            raise self._lacks(index, "means", missing, needed)
        return [mean for mean in found if mean is not None]

    def _lacks(self, index: int, field: str, missing: Iterable[str], needed: str) -> InvalidInput:
        lacks, where = f"lacks {', '.join(map(repr, missing))}: {needed}", f"arms[{index}].{field}"
        return InvalidInput(where, UNSTATED, lacks, sentence=f"{where} of {self.arms[index].name!r} {lacks}")

    def by_part(self, means: Iterable[float]) -> dict[str, float]:
        """Means by part as an arm states them. A part that shares its metric with an earlier one shares the mean, too,
        unless a share or a ratio counts."""
        rows = zip(self.metrics, self.parts, means, strict=True)
        return {label: mean for label, part, mean in rows if label == part.metric or part.is_derived}

    def true_means(self) -> npt.NDArray[np.float64]:
        """The arms' means [arm, metric] as the user gave them, all of which must be there."""
        rows = []
        needed = "simulation and theory need the true mean of every metric"
        for index in range(len(self.arms)):
            row = self.means_of(index, needed)
            for metric, mean in zip(self.metrics, row, strict=True):
                if isinstance(mean, tuple):
                    raise InvalidInput(
                        f"arms[{index}].means[{metric!r}]",
                        list(mean),
                        "must be one number here; only a forecast takes a range",
                    )
            rows.append(row)
        means = np.array(rows)
        if self.items is not None and not self.repeats:
            # A rate over a set of items is a whole number of them.
            rates = [part.noise.is_whole or part.noise.is_share for part in self.parts]
            means[:, rates] = np.round(means[:, rates] * count_of(self.items)) / count_of(self.items)
        return means

    def compared_means(self) -> npt.NDArray[np.float64]:
        """The true means [arm, metric] as they are compared with the limits: for a constraint relative to the baseline,
        the differences to a multiple of its mean."""
        means = self.true_means()
        for k in self.relative:
            means[:, k] -= self.constraints[k - 1].threshold * means[self.arm_names.index(self.baseline or ""), k]
        return means

    def excesses(self) -> npt.NDArray[np.float64]:
        """[arm, constraint]: how far its true mean lies over the limit, in normal form; minus infinity where the
        baseline meets a constraint by definition."""
        form = self.normal_form()
        excess = (self.compared_means() * form.sign - form.threshold)[:, 1:]
        for k in self.relative:
            excess[self.arm_names.index(self.baseline or ""), k - 1] = -np.inf
        return excess

    def true_spreads(self) -> list[list[float | Mapping[str, float] | None]]:
        """By metric and then by arm: how results truly scatter; None where it is as the metric's noise says."""
        for index, arm in enumerate(self.arms):
            needed = [part.title for part in self.parts if part.noise.needs_spread]
            if missing := [metric for metric in needed if metric not in (arm.spreads or {})]:
                needed_for = "simulation and theory need their true standard deviation"
                why = f"nothing is stated of how its results scatter, so {needed_for}"
                raise self._lacks(index, "spreads", missing, why)
        return [[(arm.spreads or {}).get(metric) for arm in self.arms] for metric in self.metrics]

    @functools.cached_property
    def is_retired(self) -> npt.NDArray[np.bool_]:
        """By arm."""
        return np.array([arm.retired for arm in self.arms])

    @functools.cached_property
    def set_aside(self) -> int | None:
        """The number of the baseline if any feasible arm is asked for: then it only says what the limits of the others
        are, and is not an answer. Under the first rules it is one."""
        is_aside = self.goal == "any feasible" and getattr(self, "rules", None) != 1
        return self.arm_names.index(self.baseline) if is_aside and self.baseline is not None else None

    @functools.cached_property
    def arms_asked_about(self) -> int:
        """How many arms there are that are not retired or set aside."""
        return sum(not arm.retired for arm in self.arms) - (self.set_aside is not None)

    def right_answers(self) -> tuple[int | None, ...]:
        """By the true means: every answer that is right, None standing for "no arm is feasible".

        An arm is right if it misses no threshold by `slack` or more and is not worse by more than `tolerance` than the
        best arm that misses none at all. "No arm is feasible" is right if every arm misses one. For goal "any
        feasible", performance does not matter.
        """
        scores = self.true_means()[:, 0] * self.normal_form().sign[0]
        truly, nearly = self.feasible_arms()
        best = max((scores[arm] for arm in truly), default=None)
        if best is None:
            return None, *nearly
        any_will_do = self.goal == "any feasible"
        return tuple(arm for arm in nearly if any_will_do or scores[arm] >= best - self.objective.tolerance)

    def feasible_arms(self) -> tuple[list[int], list[int]]:
        """By the true means: the arms that miss no threshold, and those that miss none by its `slack` or more. An arm
        that is set aside is not among them."""
        means = self.compared_means()
        # The mean over a set of items can be known exactly. Then the threshold itself is allowed.
        rounding = 1e-12 if self.items is not None and not self.repeats else 0.0

        def feasible(arm: int, *, slack: bool) -> bool:
            sides = enumerate(self.constraints, start=1)
            return all(
                (c.relative_to_baseline and self.arm_names[arm] == self.baseline)
                or c.allows(means[arm, k], (c.slack if slack else 0.0) + rounding * max(1.0, abs(c.limit)))
                for k, c in sides
            )

        arms = [k for k, arm in enumerate(self.arms) if not arm.retired and k != self.set_aside]
        return [arm for arm in arms if feasible(arm, slack=False)], [arm for arm in arms if feasible(arm, slack=True)]
