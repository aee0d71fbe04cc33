"""Is what a study says at every moment true? Whole studies are simulated, and after every round all that is claimed is
compared with the truth: who can be the answer, who is feasible, how far an arm is below the best, how far arms are
apart. The instances are chosen to be hard: ties, better arms that are barely infeasible, means on thresholds."""

from __future__ import annotations

import dataclasses
import math
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.exact import Exact
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.symmetric import Symmetric
from bestarm.policies import policy_for
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.setting import shares, to_normal
from bestarm.problem import Arm, Constraint, Objective, Plan, at_least, at_most, maximize, minimize
from bestarm.problem.items import count_of
from bestarm.problem.measurements import measurement

_ROUNDING = 1e-9
_UNIT = Gaussian(1.0)
_NORMAL = NormalDist()


def _plan(name: str, rows: list[list[float]], noise: NoiseModel = _UNIT, threshold: float = 0.0, **more: Any) -> Plan:
    """Each row is an arm: its performance, then the mean of its constraint, if there is one."""
    tolerance, slack = more.pop("tolerance", 0.0), more.pop("slack", 0.0)
    means = [dict(zip(("p", "c"), row, strict=False)) for row in rows]
    constraints = (at_most("c", threshold, noise=noise, slack=slack),) if len(rows[0]) > 1 else ()
    return Plan(
        name=name,
        arms=tuple(Arm(f"arm {k}", row) for k, row in enumerate(means)),
        objective=maximize("p", noise=noise, tolerance=tolerance),
        constraints=constraints,
        bound="mixture",
        **more,
    )


def _mirrored() -> Plan:
    """Eight arms, smaller is better, a lower limit, unequal weights, one of them better and on the limit."""
    arms = [Arm(f"arm {k}", {"p": 0.0, "c": 1.0}, weight=1.0 + k) for k in range(7)]
    return Plan(
        name="eight alike, mirrored",
        arms=(*arms, Arm("arm 7", {"p": -0.5, "c": 0.0})),
        objective=minimize("p", noise=_UNIT),
        constraints=(at_least("c", 0.0, noise=_UNIT),),
        bound="mixture",
    )


def _exact() -> Plan:
    return Plan(
        name="sizes",
        arms=tuple(Arm(f"arm {k}", {"p": float(size), "c": c}) for k, (size, c) in enumerate([(3, 0.02), (2, -0.3)])),
        objective=maximize("p", noise=Exact()),
        constraints=(at_most("c", 0.0, noise=_UNIT),),
        bound="mixture",
    )


def open_problems() -> list[Plan]:
    """Problems on which much is claimed long before there is an answer, and little of it may be."""
    rival = [[0.5, 0.05], [0.0, -0.6], [0.1, -0.6]]
    on_items = [[0.4, 0.02], [0.0, -0.6], [0.0, -0.6]]
    return [
        _plan("tie", [[0.0], [0.0]]),
        _plan("better, barely infeasible", rival),
        _plan("better, on the threshold", [[0.5, 0.0], [0.0, -0.6], [0.1, -0.6], [0.1, -0.6]]),
        _plan("slack and tolerance", [[0.3, 0.25], [0.0, -0.6], [0.1, -0.6]], tolerance=0.2, slack=0.25),
        _plan("rates", [[0.6, 0.31], [0.5, 0.05], [0.5, 0.05]], Bernoulli(), 0.3),
        _plan("in a range", [[6.0, 4.05], [5.5, 2.0], [5.5, 2.0]], Bounded(0.0, 10.0), 4.0),
        _plan("symmetric", rival, Symmetric()),
        _plan("measured together", rival, measurements=(measurement("p", "c"),)),
        _mirrored(),
        _exact(),
        _plan("set of items", on_items, items=40),
        _plan("rates on a set", [[0.6, 0.31], [0.5, 0.05], [0.5, 0.05]], Bernoulli(), 0.3, items=40),
        _plan("items again and again", [[0.4, 0.02], [0.0, -2.0], [0.0, -2.0]], Symmetric(), items=40, repeats=True),
    ]


def _value(part: Objective | Constraint, mean: float, z: float) -> float:
    """A result of this mean, from a standard normal number. Of a quantile, the mean is the share beyond the limit."""
    noise = part.noise
    low, high = noise.range
    if isinstance(part, Constraint) and noise.is_share:
        return part.threshold + z + _NORMAL.inv_cdf(mean)
    if noise.is_exact:
        return mean
    if noise.is_whole:
        return float(_NORMAL.cdf(z) < mean)
    if math.isfinite(high - low):
        return mean + math.copysign(min(mean - low, high - mean, 0.2 * (high - low)), z)
    if noise.needs_spread:
        # Laplace: heavier tails than normal.
        return mean - math.copysign(math.log(2.0 * _NORMAL.cdf(-abs(z))), z)
    return mean + noise.unit * z


class World:
    """What every test would give. Metrics measured together depend on each other as much as they can, and so do arms
    on the same item, up to a part of their own."""

    def __init__(self, plan: Plan, seed: int) -> None:
        self.plan, self.rng = plan, np.random.default_rng(seed)
        self.is_set = plan.items is not None and not plan.repeats
        self.size = count_of(plan.items) if plan.items is not None and self.is_set else None
        self.items: list[float] = self.rng.normal(size=self.size or 0).tolist()
        self.results: dict[tuple[int, int, int], float] = {}
        self.means = plan.true_means()
        if self.size is not None:
            # The truth is what measuring every item would give.
            shape = (*self.means.shape, self.size)
            values = np.array([self.value(arm, metric, place) for arm, metric, place in np.ndindex(shape)])
            by_stream = values.reshape(shape)
            for k, part in shares(plan):
                by_stream[:, k] = part.noise.counted(by_stream[:, k], part.threshold, part.at_least is None)
            self.means = by_stream.mean(axis=2)
            names = [part.metric for part in plan.parts]
            rows = [dict(zip(names, row, strict=True)) for row in self.means.tolist()]
            arms = tuple(dataclasses.replace(arm, means=row) for arm, row in zip(plan.arms, rows, strict=True))
            self.plan = dataclasses.replace(plan, arms=arms)

    def value(self, arm: int, metric: int, place: int) -> float:
        key = arm, metric, place
        if key not in self.results:
            bundle = self.plan.leads[metric]
            z = float(self.rng.normal())
            if self.plan.items is not None:
                while len(self.items) <= place:
                    self.items.append(float(self.rng.normal()))
                z = math.sqrt(0.7) * self.items[place] + math.sqrt(0.3) * z
            for part in range(len(self.plan.leads)):
                if self.plan.leads[part] == bundle:
                    # Of what is measured together, every other metric goes the other way.
                    mean = float(self.plan.true_means()[arm, part])
                    turned = z if part % 2 == 0 else -z
                    self.results[arm, part, place] = _value(self.plan.parts[part], mean, turned)
        return self.results[key]


class Claims(NamedTuple):
    """Which statements of a study were ever false, and whether it said anything."""

    candidates: bool
    feasible: bool
    regret: bool
    differences: bool
    said: bool

    @property
    def any_of_the_first(self) -> bool:
        """The first three hold together with probability 1 - delta."""
        return self.candidates or self.feasible or self.regret

    @property
    def any_of_all(self) -> bool:
        """Together with the differences, they do with probability 1 - 2 delta: Proposition K.6 in
        `docs/certificates/known.md`, which has the cases where it is less."""
        return self.any_of_the_first or self.differences


def false_claims(plan: Plan, seed: int, max_tests: int) -> Claims:
    """What a simulated study said after any of its rounds and was not true."""
    world = World(plan, seed)
    kind = policy_for(plan, plan.policy)
    policy = kind(kind.new_setting(plan, plan.delta, plan.bound), *world.means.shape, seed=seed)
    found, truth = Claims(False, False, False, False, False), _Truth.of(world.plan)
    decision: list[tuple[int, int]] | Stop | None = policy.decide()
    while isinstance(decision, list) and policy.spent[0] < max_tests:
        rows, values = results_of(world, policy, decision)
        if not rows:
            break
        ends = np.zeros(len(rows), np.int8)
        ends[-1] = 1
        decision = policy.advance(np.array(rows), np.array(values), ends)
        found = Claims(*map(max, found, _claims(policy, truth)))
    return found


def results_of(world: World, policy: Policy, tests: list[tuple[int, int]]) -> tuple[list[tuple[int, ...]], list[float]]:
    """What the tests give: rows as `Policy.advance` takes them, and values in normal form."""
    rows: list[tuple[int, ...]] = []
    values: list[float] = []
    made = policy.streams.counts.copy()
    for test in tests:
        for arm, metric in policy.results_of(*test):
            place = int(made[arm, metric])
            made[arm, metric] += 1
            if world.size is None or place < world.size:
                rows.append((arm, metric) if world.plan.items is None else (arm, metric, place))
                value = world.value(arm, metric, place)
                values.append(float(to_normal(world.plan, policy.setting, metric, value)))
    return rows, values


class _Truth(NamedTuple):
    feasible: list[bool]
    """By arm: whether it misses no threshold by its slack or more."""
    right: list[int] | None
    """The right answers; None if no arm is feasible."""
    regrets: Floats
    """By arm: how far it is below the best feasible one."""
    scores: Floats

    @classmethod
    def of(cls, plan: Plan) -> _Truth:
        means = plan.true_means()
        scores = means[:, 0] * plan.normal_form().sign[0]
        blur = _ROUNDING if plan.items is not None and not plan.repeats else 0.0
        sides = [
            [
                c.allows(row[k], slack + blur)
                for k, c in enumerate(plan.constraints, start=1)
                for slack in (0.0, c.slack)
            ]
            for row in means.tolist()
        ]
        truly = np.array([all(row[::2]) for row in sides])
        right = plan.right_answers()
        best = scores[truly].max(initial=-math.inf)
        arms = None if None in right else [arm for arm in right if arm is not None]
        return cls([all(row[1::2]) for row in sides], arms, best - scores, scores)


def _claims(policy: Policy, truth: _Truth) -> Claims:
    found = policy.findings()
    feasible = np.flatnonzero(found.feasible).tolist()
    limits = {arm: policy.regret(arm, found) for arm in feasible}
    apart = False
    for arm in range(policy.arms):
        low, high = policy.differences(arm)
        lead = truth.scores[arm] - truth.scores
        apart |= bool(((low > lead + _ROUNDING) | (high < lead - _ROUNDING)).any())
    return Claims(
        truth.right is not None and not any(found.candidates[arm] for arm in truth.right),
        any(not truth.feasible[arm] for arm in feasible),
        any(limit < truth.regrets[arm] - _ROUNDING for arm, limit in limits.items()),
        apart,
        not found.candidates.all() or any(limit < math.inf for limit in limits.values()),
    )
