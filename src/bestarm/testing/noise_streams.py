"""Streams of a noise, drawn in the simulated world, for the checks of noises."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bestarm.kernel.compile import compiled
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import Floats, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import most_kept, record, take_note
from bestarm.noises.streams import Stream, stream_of
from bestarm.policies.setting import new_setting
from bestarm.problem import Arm, Objective, Problem
from bestarm.simulation.item_worlds import fill_draws
from bestarm.simulation.nature import new_nature


def problem_with(noise: NoiseModel, mean: float | None = None, goal: Any = "maximize") -> Problem:
    """One arm with one metric."""
    arm = Arm("a", None if mean is None else {"m": mean}, spreads={"m": noise.unit} if noise.needs_spread else None)
    return Problem(arms=(arm,), objective=Objective("m", goal, noise))


def drawn(noise: NoiseModel, mean: float, count: int, seed: int = 0) -> Floats:
    """Measurements in the user's terms, from the simulated world."""
    values, generator = np.zeros(count), np.zeros(4, np.uint64)
    nature = new_nature(problem_with(noise, mean))  # from here on, kernels know the noise
    compiled(seed_generator)(generator, seed, 0, NOISE)
    compiled(fill_draws)(nature, generator, values.reshape(-1, 1, 1))
    return values


def stream_of_values(noise: NoiseModel, values: Floats, sign: float = 1.0, noted: int = 0) -> Stream:
    """A stream with these results, each times `sign`. So many of the first ones are known and are no evidence."""
    goal = "maximize" if sign > 0 else "minimize"
    setting = new_setting(problem_with(noise, None, goal), 0.05, "paper")
    streams = new_streams(1, 1, most_kept(setting))
    for place, value in enumerate(values.tolist()):
        (take_note if place < noted else record)(setting, streams, 0, 0, sign * value)
    return stream_of(setting, streams, 0, 0)


def points_around(s: Stream, count: int = 41) -> Floats:
    """Values of c on both sides of a stream's mean, within its range."""
    mean, reach = s.total / s.n, 6.0 * s.width / math.sqrt(s.n)
    low, high = max(mean - reach, s.low), min(mean + reach, s.high)
    return np.linspace(low, high, count + 2)[1:-1]


def spread_of(noise: NoiseModel, mean: float) -> float:
    """About how far results scatter: the noise's scale or, if it states none, as far as its draws do."""
    if noise.scale is not None or noise.needs_spread:
        return noise.unit
    return float(drawn(noise, mean, 2_000).std())
