"""What is asked: arms, an objective, constraints. Frozen, checked when made, and the same in TOML and JSON."""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator, Field, StrictBool

from bestarm.goals import Asked, Goal, GoalField, Top, asked_by, check_goal
from bestarm.items import ItemList, check_items, count_of
from bestarm.measurements import Measurement, check_measurements, check_ratios, groups_of, name_of
from bestarm.noises import Noise
from bestarm.noises.shapes import Spread, shape_of

# Here is where everybody looks for them.
from bestarm.parts import Constraint as Constraint
from bestarm.parts import Objective as Objective
from bestarm.parts import at_least as at_least
from bestarm.parts import at_most as at_most
from bestarm.parts import maximize as maximize
from bestarm.parts import minimize as minimize
from bestarm.validation import UNSTATED, Guess, InvalidInput, Name, NonNegative, Positive, WholeNumber, exact, value

if TYPE_CHECKING:
    from bestarm.plan import Plan


@value
class Arm:
    """One candidate; its `means` by metric are the truth in a simulation and absent in a live study.

    Of a metric with `Quantile` noise, the mean is the share of results beyond the threshold. Of a ratio constraint, the
    means of both metrics are stated; or, by its name such as "errors per requests", that of what counts of a test:
    the one metric minus the threshold times the other.
    For a forecast a mean may be a range (low, high). `weight`, relative to the other arms', says how much this one is
    expected to be the answer. `spreads` by metric say how its results truly scatter in a simulation: a standard
    deviation, or a shape with one, such as {"lognormal": 2.0}. Without it, results scatter as the metric's noise says.
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


def lacks_means(index: int, arm: Arm, missing: Iterable[str], needed: str) -> InvalidInput:
    """What to raise of an arm without all the means that are `needed`."""
    lacks = f"lacks {', '.join(map(repr, missing))}: {needed}"
    field = f"arms[{index}].means"
    return InvalidInput(field, UNSTATED, lacks, sentence=f"{field} of {arm.name!r} {lacks}")


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

    Each metric is measured on its own, unless `measurements` says that one test yields several. The same metric may
    have several limits, or be the objective and have limits: its one value then counts for all of them.

    With `items`, how many there are or their names, each measurement of an arm is made on an item, and all arms meet
    the items in the same random order. The question is then about the means over these items. With `repeats`, an item
    can be measured again and gives a fresh value; items are then drawn at random, again and again, and the question is
    about the mean over all items and over the scatter of each. `item_spreads` says by metric how much items differ
    (their standard deviation), for simulation.

    `goal` and `top` say what to find. "best" is the best feasible arm or, with `top` = m > 1, a short list of at most m
    arms that holds it; "top" are the m best feasible arms; "any feasible" is any arm that satisfies every constraint.

    `baseline` names the arm that constraints may be relative to. It meets such constraints by definition.
    """

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

    if TYPE_CHECKING:
        # What validation makes of it is narrower than what it takes.
        def __init__(
            self,
            arms: Iterable[Arm | str],
            objective: Objective,
            constraints: Iterable[Constraint] = (),
            *,
            measurements: Iterable[Measurement] = (),
            items: int | Iterable[str] | None = None,
            repeats: bool = False,
            item_spreads: Mapping[str, float] | None = None,
            goal: Goal = "best",
            top: int = 1,
            baseline: str | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not self.arms:
            raise InvalidInput("arms", [], "a problem needs at least one arm")
        seen: set[str] = set()
        for index, arm in enumerate(self.arms):
            if arm.name == "none":
                raise InvalidInput(
                    f"arms[{index}].name", "none", "this name is kept for the answer that no arm is feasible"
                )
            if arm.name in seen:
                raise InvalidInput(f"arms[{index}].name", arm.name, "another arm has this name already")
            seen.add(arm.name)
        for index, label in enumerate(self.metrics):
            if label in self.metrics[:index]:
                raise InvalidInput(
                    f"constraints[{index - 1}].metric",
                    self.parts[index].title,
                    f"another constraint says the same already: {label}",
                )
        costs: dict[str, float] = {}
        for part in self.parts:
            for metric in part.measures:
                if costs.setdefault(metric, part.cost) != part.cost:
                    reason = f"of {metric!r}: the same metric costs {exact(costs[metric])} elsewhere"
                    raise InvalidInput("cost", part.cost, reason)
        self._check_baseline()
        check_measurements(self.measurements, self.measured, costs)
        check_ratios(self.measurements, [(c.metric, c.per) for c in self.constraints if c.per is not None])
        check_items(self.items, self.repeats)
        self._check_items()
        check_goal(self.goal, self.top, len(self.arms), len(self.constraints))
        self._check_means()
        self._check_spreads()

    def _check_baseline(self) -> None:
        if self.baseline is not None:
            if self.baseline not in self.arm_names:
                listed = ", ".join(map(repr, self.arm_names))
                raise InvalidInput("baseline", self.baseline, f"no such arm; the arms are {listed}", self.arm_names)
        elif relative := [k for k, part in enumerate(self.constraints) if part.relative_to_baseline]:
            reason = "needs a baseline; name one of the arms as the problem's baseline"
            raise InvalidInput(f"constraints[{relative[0]}].relative_to_baseline", True, reason)
        for k, part in enumerate(self.constraints):
            if part.relative_to_baseline and not part.noise.compares_with_baseline:
                reason = f"{part.noise.name} noise cannot be compared with so many times another arm's"
                raise InvalidInput(f"constraints[{k}].noise", part.noise, reason)

    def _check_items(self) -> None:
        for metric, spread in (self.item_spreads or {}).items():
            field = f"item_spreads[{metric!r}]"
            if metric not in self.metrics:
                listed = ", ".join(map(repr, self.metrics))
                raise InvalidInput(field, spread, f"no such metric; the metrics are {listed}", self.metrics)
            if self.items is None:
                raise InvalidInput(field, spread, "can only be stated of items; state items, how many or their names")
        if self.items is None:
            return
        for part in self.parts:
            if reason := part.noise.refuses_items(repeats=self.repeats):
                raise InvalidInput("items", count_of(self.items), f"{part.title}: {reason}")

    def _check_spreads(self) -> None:
        parts = dict(zip(self.metrics, self.parts, strict=True))
        for index, arm in enumerate(self.arms):
            for metric, spread in (arm.spreads or {}).items():
                field = f"arms[{index}].spreads[{metric!r}]"
                if metric not in parts:
                    listed = ", ".join(map(repr, parts))
                    raise InvalidInput(field, spread, f"no such metric; the metrics are {listed}", parts)
                noise = parts[metric].noise
                if not noise.takes_spread:
                    raise InvalidInput(field, spread, f"cannot be stated: {metric} {noise.sentence()}")
                mean = (arm.means or {}).get(metric)
                for end in () if mean is None else mean if isinstance(mean, tuple) else (mean,):
                    try:
                        shape_of(spread, end, noise.range, 1.0, 0.0)
                    except ValueError as error:
                        raise InvalidInput(field, spread, str(error)) from None

    def _check_means(self) -> None:
        parts = dict(zip(self.metrics, self.parts, strict=True))
        for index, arm in enumerate(self.arms):
            for metric, mean in (arm.means or {}).items():
                field = f"arms[{index}].means[{metric!r}]"
                ends = mean if isinstance(mean, tuple) else (mean, mean)
                if metric not in parts:
                    self._check_ratio_mean(field, metric, mean, ends[0])
                    continue
                part = parts[metric]
                if metric != part.metric and not part.is_derived:
                    raise InvalidInput(field, mean, f"is the mean of {part.metric!r}; state it there")
                low, high = part.noise.range
                if not low <= ends[0] <= ends[1] <= high:
                    what = "the range of its values"
                    if isinstance(part, Constraint) and part.noise.is_share:
                        beyond = "above" if part.at_least is None else "below"
                        what = f"for it is the share of results {beyond} {exact(part.threshold)}, as of every quantile"
                    raise InvalidInput(field, mean, f"must lie between {exact(low)} and {exact(high)}, {what}")

    @property
    def asks(self) -> Asked:
        """What the study is to find: the best arm, a short list that holds it, the `top` best, or any feasible one."""
        return asked_by(self.goal, self.top)

    def _check_ratio_mean(self, field: str, metric: str, mean: object, least: float) -> None:
        """Of a metric that counts only as part of a ratio."""
        if metric not in self.measured:
            known = tuple(dict.fromkeys((*self.metrics, *self.measured)))
            listed = ", ".join(map(repr, known))
            raise InvalidInput(field, mean, f"no such metric; the metrics are {listed}", known)
        if metric in self.denominators and not least > 0.0:
            raise InvalidInput(field, mean, "must be positive: another metric is divided by it")

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
        """The means of an arm by part, as far as the user gave them; `lacks_means` if one is not there.

        A constraint on a metric that has another part too has the same mean, unless a share or a ratio counts.
        """
        arm = self.arms[index]
        given = arm.means or {}
        found = [given.get(label, part.mean_of(given)) for label, part in zip(self.metrics, self.parts, strict=True)]
        rows = zip(self.metrics, self.parts, found, strict=True)
        lacking = [part.measures if len(part.measures) > 1 else (label,) for label, part, mean in rows if mean is None]
        missing = dict.fromkeys(name for names in lacking for name in names if name not in given)
        if missing:
            raise lacks_means(index, arm, missing, needed)
        return [mean for mean in found if mean is not None]

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
            # Over so many items, a rate is a whole number of them.
            rates = [part.noise.is_whole or part.noise.is_share for part in self.parts]
            means[:, rates] = np.round(means[:, rates] * count_of(self.items)) / count_of(self.items)
        return means

    def compared_means(self) -> npt.NDArray[np.float64]:
        """The true means [arm, metric] as they are compared with the limits: of a constraint relative to the baseline,
        the differences to so many times its mean."""
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
                lacks = (
                    f"lacks {', '.join(map(repr, missing))}: nothing is stated of how its results scatter, so "
                    "simulation and theory need their true standard deviation"
                )
                field = f"arms[{index}].spreads"
                raise InvalidInput(field, UNSTATED, lacks, sentence=f"{field} of {arm.name!r} {lacks}")
        return [[(arm.spreads or {}).get(metric) for arm in self.arms] for metric in self.metrics]

    def with_spreads(self, spreads: Mapping[str, Mapping[str, float | Mapping[str, float]]]) -> Problem:
        """The same problem with true spreads (arm → metric → standard deviation, or shape with one), for simulation."""
        self._check_arms("spreads", spreads)
        given: Mapping[str, Any] = spreads
        arms: Any = tuple(
            dataclasses.replace(arm, spreads={**(arm.spreads or {}), **given.get(arm.name, {})}) for arm in self.arms
        )
        return dataclasses.replace(self, arms=arms)

    def with_means(self, means: Mapping[str, Mapping[str, float]]) -> Problem:
        """The same problem with true means (arm → metric → mean), for simulation."""
        self._check_arms("means", means)
        arms: Any = tuple(
            dataclasses.replace(arm, means={**(arm.means or {}), **means.get(arm.name, {})}) for arm in self.arms
        )
        return dataclasses.replace(self, arms=arms)

    def _check_arms(self, field: str, given: Iterable[str]) -> None:
        known = set(self.arm_names)
        if unknown := [name for name in given if name not in known]:
            reason = f"no such arm; the arms are {', '.join(map(repr, self.arm_names))}"
            sentence = f"{field} of {unknown[0]!r}: {reason}"
            raise InvalidInput(field, unknown[0], reason, self.arm_names, sentence=sentence)

    @functools.cached_property
    def is_retired(self) -> npt.NDArray[np.bool_]:
        """By arm."""
        return np.array([arm.retired for arm in self.arms])

    @functools.cached_property
    def arms_asked_about(self) -> int:
        """How many arms there are that are not retired."""
        return sum(not arm.retired for arm in self.arms)

    def with_budget(self, tests: float | None = None, cost: float | None = None) -> Plan:
        """The same problem as a plan that allows so many tests, or tests of so much total cost, or either.

        >>> from bestarm import Gaussian, Problem, maximize
        >>> problem = Problem(arms=["a", "b"], objective=maximize("yield", noise=Gaussian(1)))
        >>> problem.with_budget(5000).budget
        Budget(tests=5000.0, cost=None)
        """
        # A plan knows what a problem is, not the other way round.
        above = importlib.import_module("bestarm.plan")
        plan: Plan = above.Plan.of(self, budget=above.Budget(tests, cost))
        return plan

    def right_answers(self) -> tuple[int | None, ...]:
        """By the true means: every answer that is right, None standing for "no arm is feasible".

        An arm is right if it misses no threshold by `slack` or more and is not worse by more than `tolerance` than the
        best arm that misses none at all. "No arm is feasible" is right if every arm misses one. Where any feasible arm
        will do, none is too bad.
        """
        scores = self.true_means()[:, 0] * self.normal_form().sign[0]
        truly, nearly = self.feasible_arms()
        best = max((scores[arm] for arm in truly), default=None)
        good = tuple(arm for arm in nearly if best is None or self._near(scores[arm], best))
        return good if best is not None else (None, *good)

    def feasible_arms(self) -> tuple[list[int], list[int]]:
        """By the true means: the arms that miss no threshold, and those that miss none by its `slack` or more."""
        means = self.compared_means()
        # The mean over a set of items can be known exactly. Then the threshold itself is allowed.
        blur = 1e-12 if self.items is not None and not self.repeats else 0.0

        def feasible(arm: int, *, slack: bool) -> bool:
            sides = enumerate(self.constraints, start=1)
            return all(
                (c.relative_to_baseline and self.arm_names[arm] == self.baseline)
                or c.allows(means[arm, k], (c.slack if slack else 0.0) + blur * max(1.0, abs(c.limit)))
                for k, c in sides
            )

        arms = [arm for arm in range(len(self.arms)) if not self.arms[arm].retired]
        return [arm for arm in arms if feasible(arm, slack=False)], [arm for arm in arms if feasible(arm, slack=True)]

    def _near(self, score: float, best: float) -> bool:
        return self.goal == "any feasible" or score >= best - self.objective.tolerance
