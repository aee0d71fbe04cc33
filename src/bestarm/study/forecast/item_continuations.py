"""The rest of a study with items, simulated: what was measured stays, and the rest is drawn like it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.problem import Plan, Problem
from bestarm.simulation.item_worlds import shifted


def continued_world(problem: Problem, drawn: Floats, values: Floats) -> Floats:
    """The world that was `drawn`, with all measured `values` [arm, metric, place] as they are. An item that other arms
    have been measured on is as hard for an arm as it was for them."""
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
            target = row.mean()
            row[is_known] = measured[is_known[: len(measured)]]
            rest = int((~is_known).sum())
            if is_free and rest and not problem.repeats:
                # So that the mean over the set is still the one that was drawn.
                left = (target * room - row[is_known].sum()) / rest
                row[~is_known] = shifted(row[~is_known], left, -np.inf, np.inf)
    return drawn


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
    for metric, part in enumerate(plan.parts):
        found = scatter_of_items(policy.streams.items.values[:, metric])
        if found is not None and plan.metrics[metric] == part.title and part.noise.takes_spread:
            spreads[part.title] = found[0]
            # The scatter of streams with few results is hardly known.
            apart[metric] = np.minimum(scatters[metric], found[1]) if found[0] > 0.0 else scatters[metric]
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
