"""What follows from what a problem states: its metrics, its tests, its normal form, and the right answers."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field, StrictBool

from bestarm.noises import Noise
from bestarm.problem.arm import Arm, ArmList, ArmWord
from bestarm.problem.blocks import Blocks
from bestarm.problem.goals import Asked, GoalField, Top, ignores_performance
from bestarm.problem.items import ItemList, count_of
from bestarm.problem.judges import costs_of_judges, judges_of, tests_of_judges
from bestarm.problem.measurements import Measurement, groups_of, name_of
from bestarm.problem.normal_form import NormalForm
from bestarm.problem.parts import Constraint, Objective
from bestarm.problem.slice_means import cell_means, is_rate, reconciled
from bestarm.problem.slices import Attributes, Cells, Means, Membership, membership
from bestarm.problem.units import in_unit
from bestarm.texts import ARM, Noun
from bestarm.validation import UNSTATED, InvalidInput, Name, NonNegative, not_text, value

_UNSTATED: Any = None


@value
class Question:
    """What a problem states, and what follows from it. `Problem` checks it."""

    arms: ArmList
    objective: Annotated[Objective, not_text("must say what is wanted: maximize({}, noise=…)")] = _UNSTATED
    constraints: tuple[Annotated[Constraint, not_text("must say what the limit is: at_most({}, LIMIT, …)")], ...] = ()
    measurements: tuple[Measurement, ...] = Field(default=(), kw_only=True)
    items: ItemList | None = Field(default=None, kw_only=True)
    attributes: Attributes | None = Field(default=None, kw_only=True)
    repeats: StrictBool = Field(default=False, kw_only=True)
    item_spreads: Mapping[str, NonNegative] | None = Field(default=None, kw_only=True)
    blocks: Blocks | None = Field(default=None, kw_only=True)
    block_spreads: Mapping[str, NonNegative] | None = Field(default=None, kw_only=True)
    goal: GoalField = Field(default="best", kw_only=True)
    top: Top = Field(default=1, kw_only=True)
    baseline: Name | None = Field(default=None, kw_only=True)
    arm_word: ArmWord = Field(default=ARM, kw_only=True)
    """What people call an arm of this study, such as "dose"; with its plural, if that is irregular: "mouse/mice"."""

    @functools.cached_property
    def noun(self) -> Noun:
        """`arm_word`, one and several."""
        return Noun.of(self.arm_word)

    @property
    def asks(self) -> Asked:
        """What the study is to find: the best arm, a short list that holds it, the `top` best, any feasible one, or
        every feasible one."""
        return "short list" if self.goal == "best" and self.top > 1 else self.goal

    # Kept once made: a study looks them up for every test, and to make them takes time in proportion to the arms.
    @functools.cached_property
    def parts(self) -> tuple[Objective | Constraint, ...]:
        """The objective and the constraints, in the order of the metrics."""
        return (self.objective, *self.constraints)

    @functools.cached_property
    def units(self) -> dict[str, str]:
        """By metric: its unit, if one is stated."""
        return {part.metric: part.unit for part in self.parts if part.unit is not None}

    def unit_of(self, part: Objective | Constraint) -> str | None:
        """The unit of a part's figures. That of a ratio is not known."""
        return self.units.get(part.metric) if len(part.measures) == 1 else None

    @functools.cached_property
    def headings(self) -> dict[str, str]:
        """By metric: its name with its unit."""
        return {metric: in_unit(metric, self.units.get(metric)) for metric in self.measured}

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
        """What is measured: the names of the metrics, each once, and of judges."""
        return tuple(dict.fromkeys([*(metric for part in self.parts for metric in part.measures), *self.judged]))

    @functools.cached_property
    def judged(self) -> dict[str, list[int]]:
        """By judge: the numbers of the parts that name it."""
        return judges_of(self.parts)

    @functools.cached_property
    def judges(self) -> dict[int, tuple[str, ...]]:
        """The tests of judges, numbered after the parts: the judges whose scores each tells."""
        return tests_of_judges(self.parts, self.measurements)

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
    def inside(self) -> Membership | None:
        """[part, item]: the items that count for a part; None if all do for every part."""
        wheres = [None, *(part.where for part in self.constraints)]
        return membership(wheres, self.attributes, count_of(self.items or 0))

    @functools.cached_property
    def cells(self) -> Cells | None:
        """The items by the slices that they are in; None without slices."""
        return None if self.inside is None else Cells(self.inside)

    def of_slice(self, part: int) -> bool:
        """Whether a part is about some of the items only."""
        return part > 0 and self.constraints[part - 1].where is not None

    @functools.cached_property
    def item_counts(self) -> tuple[int, ...]:
        """By part: how many items count for it."""
        if self.inside is None:
            return (count_of(self.items or 0),) * len(self.parts)
        return tuple(self.inside.sum(axis=1).tolist())

    @functools.cached_property
    def queues(self) -> tuple[int, ...]:
        """By part: the first part of its bundle that is about the same items. The next test for both is the same."""
        first: dict[object, int] = {}
        wheres = [None, *(part.where for part in self.constraints)]
        keys = [(lead, where and frozenset(where.items())) for lead, where in zip(self.leads, wheres, strict=True)]
        return tuple(first.setdefault(key, part) for part, key in enumerate(keys))

    @functools.cached_property
    def yields(self) -> dict[int, tuple[str, ...]]:
        """By the first part of each bundle: the metrics whose values a test tells, in the order of the record. Then
        the tests of judges."""
        return {
            bundle[0]: tuple(dict.fromkeys(metric for part in bundle for metric in self.parts[part].measures))
            for bundle in self.bundles
        } | self.judges

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
        """The cost of a test that measures it, by metric. Then those of tests of judges. Arms may cost a multiple."""
        together = {metric: one.cost for one in self.measurements for metric in one.metrics}
        own = [together.get(part.metric, part.cost) for part in self.parts]
        return (*own, *costs_of_judges(self.judges, self.measurements))

    @functools.cached_property
    def arm_costs(self) -> npt.NDArray[np.float64]:
        """[arm, test]: what a test of an arm costs, by the numbers of `costs`."""
        leads = (*self.leads, *self.judges)
        return np.array([[self.times_of(arm, self.yields[lead]) for lead in leads] for arm in self.arms]) * self.costs

    def times_of(self, arm: Arm, metrics: Iterable[str]) -> float:
        """How many times as much as stated a test of these metrics costs."""
        if not isinstance(arm.cost, Mapping):
            return arm.cost
        return next((arm.cost[metric] for metric in metrics if metric in arm.cost), 1.0)

    def cost_of(self, tests: Iterable[tuple[int, int]]) -> float:
        """What these tests (arm, number) cost together."""
        return float(sum(self.arm_costs[test] for test in tests))

    @functools.cached_property
    def signs(self) -> npt.NDArray[np.float64]:
        """By part: 1, or -1 where policies see values with the other sign."""
        is_kept = [self.objective.goal == "maximize", *(constraint.is_upper for constraint in self.constraints)]
        return np.where(is_kept, 1.0, -1.0)

    def normal_form(self) -> NormalForm:
        rows = zip(self.constraints, self.signs[1:].tolist(), strict=True)
        thresholds = [0.0, *(constraint.noise.limit(sign * constraint.limit) for constraint, sign in rows)]
        scales = [noise.unit for noise in self.noises]
        slacks = [0.0, *(constraint.slack for constraint in self.constraints)]
        costs = self.arm_costs[:, : len(self.parts)]
        return NormalForm(*(np.array(column) for column in (self.signs, thresholds, scales, costs, slacks)))

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
        return {label: mean for label, part, mean in rows if label == part.metric or part.has_own_mean}

    def together(self, means: Means, stated: Sequence[Collection[str]]) -> Means:
        """[arm, part]: the closest means that there can be together, over all items and over slices. By arm, `stated`
        are the names of those that it states."""
        assert self.cells is not None
        for _ in range(20):
            before, means = (
                means,
                reconciled(self.cells, cell_means(self.cells, self.parts, stated, self.metrics, means)),
            )
            stated = [self.metrics] * len(means)
            if np.allclose(before, means, atol=1e-12):
                break
        return means

    def true_means(self) -> npt.NDArray[np.float64]:
        """The arms' means [arm, metric] as the user gave them, all of which must be there."""
        if self.cells is not None:
            return reconciled(self.cells, self.true_cells())
        means = self._stated_means()
        if self.items is not None and not self.repeats:
            # A rate over a set of items is a whole number of them.
            rates = [is_rate(part) for part in self.parts]
            means[:, rates] = np.round(means[:, rates] * count_of(self.items)) / count_of(self.items)
        return means

    def true_cells(self) -> npt.NDArray[np.float64]:
        """[arm, part, cell]: the same over the items of each cell, where there are slices."""
        assert self.cells is not None
        stated = [{*(arm.means or {})} for arm in self.arms]
        return cell_means(self.cells, self.parts, stated, self.metrics, self._stated_means())

    def _stated_means(self) -> npt.NDArray[np.float64]:
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
        return np.array(rows)

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
            needed = [part for part in self.parts if part.noise.needs_spread]
            if missing := [part.title for part in needed if not {part.title, part.metric} & {*(arm.spreads or {})}]:
                needed_for = "simulation and theory need their true standard deviation"
                why = f"nothing is stated of how its results scatter, so {needed_for}"
                raise self._lacks(index, "spreads", missing, why)
        rows = zip(self.metrics, self.parts, strict=True)
        return [
            [
                (arm.spreads or {}).get(label if label in (arm.spreads or {}) or not self.of_slice(k) else part.metric)
                for arm in self.arms
            ]
            for k, (label, part) in enumerate(rows)
        ]

    @functools.cached_property
    def is_retired(self) -> npt.NDArray[np.bool_]:
        """By arm."""
        return np.array([arm.retired for arm in self.arms])

    @functools.cached_property
    def set_aside(self) -> int | None:
        """The number of the baseline if any or every feasible arm is asked for: then it only says what the limits of
        the others are, and is not an answer."""
        is_aside = ignores_performance(self.asks)
        return self.arm_names.index(self.baseline) if is_aside and self.baseline in self.arm_names else None

    @functools.cached_property
    def duels(self) -> tuple[int, ...]:
        """The numbers of the parts that are about comparisons with the baseline, whose own mean is one half."""
        return tuple(k for k, part in enumerate(self.parts) if part.noise.words)

    @functools.cached_property
    def arms_asked_about(self) -> int:
        """How many arms there are that are not retired or set aside."""
        return sum(not arm.retired for arm in self.arms) - (self.set_aside is not None)

    def right_answers(self) -> tuple[int | None, ...]:
        """By the true means: every answer that is right, None standing for "no arm is feasible".

        An arm is right if it misses no threshold by `slack` or more and is not worse by more than `tolerance` than the
        best arm that misses none at all. "No arm is feasible" is right if every arm misses one. For goals "any
        feasible" and "every feasible", performance does not matter.
        """
        scores = self.true_means()[:, 0] * self.signs[0]
        truly, nearly = self.feasible_arms()
        best = max((scores[arm] for arm in truly), default=None)
        if best is None:
            return None, *nearly
        any_will_do = ignores_performance(self.asks)
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
