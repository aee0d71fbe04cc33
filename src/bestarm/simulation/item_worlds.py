"""The simulated world of a study with items: what every arm would give on every item, drawn again for each run.

A value is the arm's mean, plus what the item adds for all arms, plus what is particular to both. The means over
a set of items are exactly those that the problem states: the values of an arm are shifted until they are, and exactly
that share of a rate's items succeeds. Otherwise each place of the order is an item drawn from a population.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import Any

import numpy as np

from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, ZIGGURAT, Generator, Ziggurat, normal, seed_generator
from bestarm.kernel.state import ABSENT, Floats, Ints, Slices
from bestarm.noises.dispatch import draw
from bestarm.noises.registry import known_for
from bestarm.noises.streams import Nature
from bestarm.problem import Objective, Problem
from bestarm.problem.items import count_of
from bestarm.problem.slice_means import is_rate
from bestarm.simulation.nature import new_nature

FIRST_ROOM = 512
Groups = Sequence[Ints | slice]
_SALT = 0x2545F4914F6CDD1D
"""Separates the seeds of the items' effects from the others."""


@kernel
def fill_draws(nature: Nature, generator: Generator, values: Floats) -> None:
    """Draw values [place, arm, metric] of every stream, place by place."""
    for place in range(values.shape[0]):
        for arm in range(values.shape[1]):
            for metric in range(values.shape[2]):
                values[place, arm, metric] = draw(nature, generator, arm, metric)


@kernel
def fill_normals(generator: Generator, ziggurat: Ziggurat, values: Floats) -> None:
    for place in range(values.shape[0]):
        for metric in range(values.shape[1]):
            values[place, metric] = normal(generator, ziggurat)


class ItemWorlds:
    """The worlds of one problem, by run. Values are in normal form, relative to `reference`. In blocks, as many places
    as a block has tests belong to each, and share what it adds."""

    def __init__(self, problem: Problem, reference: Floats) -> None:
        assert problem.items is not None
        self._problem = problem
        self._reference = reference
        self._is_set = not problem.repeats
        self._count = count_of(problem.items)
        self._size = 1 if problem.blocks is None else problem.blocks.size
        self.room = FIRST_ROOM if self._size == 1 else 64 * self._size
        """How many places a world has, unless it is a set; more once a run has needed more."""

    @functools.cached_property
    def _spreads(self) -> Floats:
        """How much items differ, by part."""
        given = self._problem.item_spreads or self._problem.block_spreads or {}
        rows = zip(self._problem.metrics, self._problem.parts, strict=True)
        return np.array([given.get(label, given.get(part.title, 0.0)) for label, part in rows])

    @functools.cached_property
    def _rates(self) -> list[bool]:
        return [is_rate(part) for part in self._problem.parts]

    @functools.cached_property
    def _truth(self) -> Floats:
        """[arm, metric]: the true means in normal form."""
        return self._to_normal(self._problem.true_means()[:, :, np.newaxis])[:, :, 0]

    @functools.cached_property
    def _truth_by_cell(self) -> Floats:
        """[arm, metric, cell]: the true means over the items of each cell; without slices, over all items."""
        has_slices = self._problem.cells is not None
        return self._to_normal(self._problem.true_cells()) if has_slices else self._truth[:, :, np.newaxis]

    def _to_normal(self, means: Floats) -> Floats:
        shares = np.array([part.noise.is_share for part in self._problem.parts])
        signs = np.where(shares, 1.0, self._problem.signs)
        normal: Floats = signs[:, np.newaxis] * means - self._reference[:, np.newaxis]
        return normal

    @functools.cached_property
    def _nature(self) -> Nature:
        """The scatter of an arm on an item: that of the noise, less the items' share of it."""
        rest: dict[str, dict[str, Any]] = {arm.name: {} for arm in self._problem.arms}
        for label, part, spread in zip(self._problem.metrics, self._problem.parts, self._spreads.tolist(), strict=True):
            stated = part.noise.stated_scatter
            # What is compared within blocks scatters as stated there.
            is_within = self._problem.blocks is not None and (isinstance(part, Objective) or part.relative_to_baseline)
            if spread > 0.0 and stated is not None and not is_within:
                for arm in self._problem.arms:
                    if label not in (arm.spreads or {}):
                        rest[arm.name][label] = math.sqrt(max(stated**2 - spread**2, 0.0))
        return new_nature(self._problem.with_spreads(rest), self._reference)

    def of(self, seed: int, run: int, room: int, slices: Slices = ABSENT) -> Floats:
        """The values of run number `run`, [arm, metric, place], at this many places, or at all places of a set."""
        groups = groups_of(slices)
        places, (arms, metrics) = self._count if self._is_set else room, self._truth.shape
        generator = np.zeros(4, np.uint64)
        compiled(seed_generator)(generator, seed, run, NOISE)
        values = np.zeros((places, arms, metrics))
        compiled(fill_draws, known=known_for(self._nature))(self._nature, generator, values)
        common = np.repeat(_normals(seed, run, 0, (-(-places // self._size), metrics)), self._size, axis=0)[:places]
        luck = _normals(seed, run, 1, (places, arms * metrics)) if any(self._rates) else None
        table = np.ascontiguousarray(values.transpose(1, 2, 0))
        for metric in range(metrics):
            effect = self._problem.signs[metric] * self._spreads[metric] * common[:, metric]
            for arm in range(arms):
                if luck is not None and self._rates[metric]:
                    table[arm, metric] = self._successes(arm, metric, luck[:, arm * metrics + metric] + effect, groups)
                else:
                    table[arm, metric] = self._row(arm, metric, table[arm, metric], effect, groups)
        same_values(self._nature, table)
        return table

    def _row(self, arm: int, metric: int, drawn: Floats, effect: Floats, groups: Groups) -> Floats:
        """The values of one stream, place by place."""
        noise, mean = self._problem.parts[metric].noise, float(self._truth[arm, metric])
        if noise.is_exact:
            return np.full(len(drawn), mean)
        law = noise.law(float(self._problem.signs[metric]), float(self._reference[metric]))
        values = np.clip(drawn + effect, law.low, law.high)
        for group, inside in zip(groups, self._truth_by_cell[arm, metric].tolist(), strict=True):
            if self._is_set:
                values[group] = shifted(values[group], inside, law.low, law.high)
        return values

    def _successes(self, arm: int, metric: int, score: Floats, groups: Groups) -> Floats:
        """Rates: an item succeeds if its score, its ease plus the arm's luck with it, exceeds a bound."""
        low, high = sorted(self._ends(metric))
        rate = (float(self._truth[arm, metric]) - low) / (high - low)
        if self._is_set:
            succeeds = np.zeros(len(score), bool)
            for group, inside in zip(groups, self._truth_by_cell[arm, metric].tolist(), strict=True):
                of_group = np.arange(len(score))[group]
                count = round((inside - low) / (high - low) * len(of_group))
                succeeds[of_group[np.argsort(-score[of_group], kind="stable")[:count]]] = True
        else:
            spread = math.sqrt(1.0 + float(self._spreads[metric]) ** 2)
            bound = -math.inf if rate >= 1.0 else math.inf if rate <= 0.0 else -NormalDist().inv_cdf(rate) * spread
            succeeds = score > bound
        return np.where(succeeds, high, low)

    def _ends(self, metric: int) -> tuple[float, float]:
        """The two values that a rate's results can have, in normal form."""
        part = self._problem.parts[metric]
        sign = 1.0 if part.noise.is_share else float(self._problem.signs[metric])
        return tuple(sign * end - float(self._reference[metric]) for end in (0.0, 1.0))  # type: ignore[return-value]


def same_values(nature: Nature, world: Floats) -> None:
    """Give parts with the same metric, [arm, metric, place], the value of the first of them."""
    source = nature.source
    for metric in np.flatnonzero(source != np.arange(len(source))).tolist():
        world[:, metric] = nature.offset[:, [metric]] + nature.turn[metric] * world[:, source[metric]]


def groups_of(slices: Slices) -> Groups:
    """The places of each cell: of items that are in the same slices. Without slices, all places."""
    if slices == ABSENT:
        return [slice(None)]
    patterns, of_place = np.unique(slices.ranks >= 0, axis=1, return_inverse=True)
    return [np.flatnonzero(of_place.ravel() == cell) for cell in range(patterns.shape[1])]


def _normals(seed: int, run: int, purpose: int, shape: tuple[int, int]) -> Floats:
    """Normal numbers [place, k], drawn place by place, so that more places start in the same way."""
    generator, values = np.zeros(4, np.uint64), np.zeros(shape)
    compiled(seed_generator)(generator, seed ^ _SALT, run, purpose)
    compiled(fill_normals)(generator, ZIGGURAT, values)
    return values


def shifted(values: Floats, mean: float, low: float, high: float) -> Floats:
    """The values shifted, and cut off at the ends of their range, so that their mean is `mean`."""
    if not math.isfinite(high - low):
        moved: Floats = values + (mean - values.mean())
        return moved
    least, most = low - values.max(), high - values.min()
    for _ in range(100):
        middle = 0.5 * (least + most)
        if np.clip(values + middle, low, high).mean() < mean:
            least = middle
        else:
            most = middle
    within: Floats = np.clip(values + most, low, high)
    return within
