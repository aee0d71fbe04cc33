"""Worlds that a study may be in, as far as its results tell: draws of every stream's mean and of unknown scatter.

A draw is one from a posterior. Before there are results, a constraint's mean is looked for around its threshold, an
objective's around the mean of all arms. This counts as much as one or two results, so that a single result against a
limit hardly says that the limit is violated.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import scatter
from bestarm.noises.shapes import largest_within
from bestarm.noises.streams import Law
from bestarm.policies.base import Policy
from bestarm.policies.setting import laws, to_user
from bestarm.problem import Plan, Problem
from bestarm.simulation.item_worlds import Groups, shifted
from bestarm.validation import MOST

PRIOR_TESTS = 1.0
PRIOR_TRIALS = 2.0
"""How many results the prior counts as much as; of rates, and of other values in a range whose scatter follows from the
mean, it takes more: a single result of these is as far from the threshold as can be."""

SPREAD = 0.7
"""How far worlds scatter, in standard deviations of the posterior.

With 1, forecasts say too little: answers that were given 88% came in 98 of 100 simulated studies, since independent
draws of many streams make near ties more frequent than they are. With 0.5, answers that were given 2% came in 16 of
100. With 0.7, `benchmarks/forecast.py` says how they turn out."""


def estimated_scatters(setting: Setting, streams: Streams, metric: int) -> Floats:
    """The standard deviation of single results, by arm, if known."""
    means, counts = streams.means[:, metric].tolist(), streams.counts[:, metric].tolist()
    known = [scatter(setting, streams, arm, metric, means[arm]) if n else 1.0 for arm, n in enumerate(counts)]
    return np.array(known)


def drawn_world(plan: Plan, policy: Policy, scatters: list[Floats], random: np.random.Generator) -> Plan:
    """The plan with means and spreads that are plausible by what `policy` has been told; `scatters` are by metric."""
    streams, setting = policy.streams, policy.setting
    centers, known = _centers(plan, policy), laws(plan, setting.reference)
    means: Floats = np.zeros(streams.counts.shape)
    spreads = []
    for metric, noise in enumerate(plan.noises):
        # An arm that is retired may have no result, and is not simulated.
        counts, measured = np.maximum(streams.counts[:, metric], 1), streams.means[:, metric]
        around = scatters[metric]
        if noise.learns_scatter:
            # The scatter of all arms counts for each of them, too.
            freedom = counts + 2.0
            around = around * np.sqrt(freedom / random.chisquare(freedom))
        spreads.append(around)
        center = centers[:, metric]
        distance = np.where(streams.counts[:, metric] > 0, measured - center, 0.0)
        weight = _prior_weight(noise, known[metric], counts, distance, around, is_objective=metric == 0)
        total = counts + weight
        pooled = (counts * measured + weight * center) / total
        drawn = noise.drawn_means(known[metric], total, pooled, around, SPREAD, random)
        # Rounding must not carry a mean out of its range, nor an old record's out of what is accepted.
        low, high = noise.range
        user = np.nan_to_num(to_user(plan, setting, metric, drawn))
        means[:, metric] = np.clip(user, max(low, -MOST), min(high, MOST))
    if plan.cells is not None:
        means = plan.together(means, [plan.metrics] * len(means))
    rows = [plan.by_part(row) for row in means.tolist()]
    learned = _learned_spreads(plan, spreads, rows)
    # In one step: a spread that the plan guesses may not fit a mean that is drawn.
    arms: Any = tuple(
        dataclasses.replace(arm, means=row, spreads={**(arm.spreads or {}), **spread})
        for arm, row, spread in zip(plan.arms, rows, learned, strict=True)
    )
    return dataclasses.replace(plan, arms=arms)


def _centers(plan: Plan, policy: Policy) -> Floats:
    """[arm, metric], in normal form: where a mean is expected before there are results."""
    streams, setting = policy.streams, policy.setting
    centers: Floats = np.zeros(streams.counts.shape)
    centers[:, 1:] = setting.threshold[1:]
    for metric in plan.relative:
        baseline = plan.arm_names.index(plan.baseline or plan.arm_names[0])
        limit = plan.constraints[metric - 1]
        centers[:, metric] = limit.threshold * streams.means[baseline, metric] + (limit.margin or 0.0)
    tested = streams.means[streams.counts[:, 0] > 0, 0]
    low, width = setting.low[0], setting.high[0] - setting.low[0]
    # With one more result at either end of a range, a rate is not taken for certain if all arms have 0 of 3.
    ends = [low, low + width] if math.isfinite(width) else []
    centers[:, 0] = np.mean([*tested.tolist(), *ends])
    return centers


def _prior_weight(
    noise: NoiseModel, law: Law, counts: Any, distance: Floats, scatters: Floats, *, is_objective: bool
) -> Floats:
    """How many results the prior counts as, by arm."""
    if noise.is_exact:
        return np.zeros(len(counts))
    if math.isfinite(law.high - law.low) and not noise.learns_scatter:
        return np.full(len(counts), PRIOR_TRIALS)
    weight = np.full(len(counts), PRIOR_TESTS)
    if is_objective:
        # Arms that differ by more than their results scatter are not pulled together.
        between = float(np.mean(distance**2 - scatters**2 / counts))
        weight *= scatters**2 / np.maximum(scatters**2, between)
    return weight


def _learned_spreads(plan: Plan, scatters: list[Floats], means: list[dict[str, float]]) -> list[dict[str, float]]:
    """By arm: how results scatter, by metric, where that is not stated but learned."""
    spreads: list[dict[str, float]] = [{} for _ in plan.arms]
    for metric, part in enumerate(plan.parts):
        is_known = part.noise.learns_scatter or part.title in (plan.item_spreads or plan.block_spreads or {})
        if is_known and plan.metrics[metric] == part.title:
            low, high = part.noise.range
            for row, spread, mean in zip(spreads, scatters[metric].tolist(), means, strict=True):
                row[part.title] = largest_within(min(spread, MOST), mean[part.title], low, high)
    return spreads


def continued_world(problem: Problem, drawn: Floats, values: Floats, groups: Groups) -> Floats:
    """The world that was `drawn`, with all measured `values` [arm, metric, place] as they are. An item that other arms
    have been measured on is as hard for an arm as it was for them. `groups` are the places whose means were drawn."""
    room = drawn.shape[2]
    for metric in range(values.shape[1]):
        noise = problem.parts[metric].noise
        # Values that can be anything. Rates are drawn as they are, and what never varies needs no drawing.
        is_free = not (noise.is_whole or noise.is_share or noise.is_exact)
        known = values[:, metric, :room]
        effects = common_effects(known)
        for arm in range(values.shape[0]):
            row, measured = drawn[arm, metric], known[arm]
            is_known = np.zeros(room, bool)
            is_known[: len(measured)] = ~np.isnan(measured)
            if is_free:
                others = ~is_known[: len(effects)] & ~np.isnan(effects)
                row[: len(effects)][others] += effects[others]
            targets = [row[group].mean() for group in groups]
            row[is_known] = measured[is_known[: len(measured)]]
            for group, target in zip(groups, targets, strict=True):
                of_group = np.arange(room)[group]
                known_here, rest = of_group[is_known[of_group]], of_group[~is_known[of_group]]
                if is_free and len(rest) and not problem.repeats:
                    # So that the mean over the set is still the one that was drawn.
                    left = (target * len(of_group) - row[known_here].sum()) / len(rest)
                    row[rest] = shifted(row[rest], left, -np.inf, np.inf)
    return drawn


def follow_judge(world: Floats, values: Floats, scores: Floats, random: np.random.Generator) -> None:
    """Put what was drawn for items without a label in an order that goes along with a judge's scores as much as the
    labels do. All are [arm, place]; `values` are the labels, NaN where there is none."""
    labels = np.full(world.shape, np.nan)
    labels[:, : values.shape[1]] = values[:, : world.shape[1]]
    is_known = ~np.isnan(labels)
    likeness = _likeness([(labels[arm, known], scores[arm, known]) for arm, known in enumerate(is_known)])
    for arm, known in enumerate(is_known):
        open_scores = scores[arm, ~known]
        spread = float(open_scores.std()) if len(open_scores) else 0.0
        if spread > 0.0:
            own = math.sqrt(1.0 - likeness**2) * random.standard_normal(len(open_scores))
            rank = (likeness * (open_scores - open_scores.mean()) / spread + own).argsort().argsort()
            world[arm, ~known] = np.sort(world[arm, ~known])[rank]


def _likeness(pairs: Sequence[tuple[Floats, Floats]]) -> float:
    """The correlation of labels and scores within arms; 0 if one of them does not vary."""
    known = [pair for pair in pairs if len(pair[0]) > 1]
    if not known:
        return 0.0
    away = [np.concatenate([column - column.mean() for column in side]) for side in zip(*known, strict=True)]
    squares = float(np.square(away[0]).sum() * np.square(away[1]).sum())
    return min(max(float(away[0] @ away[1]) / math.sqrt(squares), 0.0), 1.0) if squares > 0.0 else 0.0


def scatter_of_items(known: Floats) -> tuple[float, float] | None:
    """From values [arm, place]: how much items differ for all arms alike, and how much the rest scatters. None if too
    few arms have been measured on the same items to tell."""
    several = (~np.isnan(known)).sum(axis=0) > 1
    if several.sum() < 3:
        return None
    above = (known - np.nanmean(known, axis=1, keepdims=True))[:, several]
    arms = (~np.isnan(above)).sum(axis=0)
    effects = np.nanmean(above, axis=0)
    rest = float(np.nansum((above - effects) ** 2) / (arms - 1).sum())
    items = float(np.mean(effects**2)) - rest * float(np.mean(1.0 / arms))
    return float(np.sqrt(max(items, 0.0))), float(np.sqrt(rest))


def with_item_spreads(plan: Plan, policy: Any, scatters: list[Floats]) -> tuple[Plan, list[Floats]]:
    """The plan with what is seen of how much items differ, and how much results scatter apart from that."""
    spreads, apart = {}, [*scatters]
    # In blocks, the results that entered are means.
    averaged = 1.0 if plan.blocks is None else math.sqrt(policy.tests.sum() / max(policy.streams.counts.sum(), 1))
    for metric, part in enumerate(plan.parts):
        found = scatter_of_items(policy.streams.items.values[:, metric])
        if found is not None and plan.metrics[metric] == part.title and part.noise.takes_spread:
            spreads[part.title] = found[0]
            # The scatter of streams with few results is hardly known.
            apart[metric] = np.minimum(scatters[metric], found[1]) if found[0] > 0.0 else scatters[metric]
        apart[metric] = averaged * apart[metric]
    if plan.blocks is not None:
        return dataclasses.replace(plan, block_spreads=spreads), apart
    return dataclasses.replace(plan, item_spreads=spreads), apart


def common_effects(known: Floats) -> Floats:
    """By place: by how much more than usual the arms that were measured there have given, NaN where none was."""
    counts = (~np.isnan(known)).sum(axis=1, keepdims=True)
    means = np.where(np.isnan(known), 0.0, known).sum(axis=1, keepdims=True) / np.maximum(counts, 1)
    above = known - means
    measured = (~np.isnan(above)).sum(axis=0)
    total = np.where(np.isnan(above), 0.0, above).sum(axis=0)
    # With one arm alone, half of it is attributed to the item.
    return np.where(measured > 0, total / (measured + 1.0), np.nan)
