"""Checks of noises that count errors: how often evidence and intervals are wrong.

They are seeded. A noise that only just keeps its promise fails one of them with probability 1e-6 at most.
"""

from __future__ import annotations

import math

import numpy as np

from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import Floats, Ints, Setting, Streams, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import ceiling, draw, evidence, half_width, most_kept, record
from bestarm.noises.streams import ABOVE, BELOW, Nature, stream_of
from bestarm.policies import find_policy
from bestarm.policies.setting import new_setting
from bestarm.simulation.nature import new_nature
from bestarm.testing.noise_streams import problem_with
from bestarm.validation import InvalidInput

SIDES = (ABOVE, BELOW)
PATHS = 1_000
STEPS = 1_000


def most_errors(alpha: float) -> float:
    """Five standard deviations of a binomial more than expected: exceeded with probability 1e-6 if each path errs with
    probability alpha, and more rarely if with less."""
    return alpha * PATHS + 5.0 * math.sqrt(alpha * (1.0 - alpha) * PATHS)


@kernel
def _restart(generator: Generator, streams: Streams, path: int) -> None:
    seed_generator(generator, 5, path, NOISE)
    streams.counts[0, 0] = 0
    streams.sums[0, 0] = 0.0
    for k in range(streams.kept.shape[2]):
        streams.kept[0, 0, k] = 0.0


@kernel
def _reaches(
    setting: Setting,
    nature: Nature,
    generator: Generator,
    streams: Streams,
    c: float,
    levels: Floats,
    side: int,
    reached: Ints,
) -> None:
    """For each path, how many of the rising levels the evidence that the mean lies on this side of c ever reaches."""
    for path in range(reached.shape[0]):
        _restart(generator, streams, path)
        for _ in range(STEPS):
            record(setting, streams, 0, 0, draw(nature, generator, 0, 0))
            s = stream_of(setting, streams, 0, 0)
            if ceiling(s, side, c) >= levels[reached[path]]:
                found = evidence(s, side, c)
                while reached[path] < levels.shape[0] and found >= levels[reached[path]]:
                    reached[path] += 1
                if reached[path] == levels.shape[0]:
                    break


def check_crossing_rates(noise: NoiseModel, mean: float) -> None:
    """If the mean is c, evidence ever reaches 1 / alpha in at most a share alpha of all paths."""
    problem = problem_with(noise, mean)
    setting, generator = new_setting(problem, 0.05, "paper"), np.zeros(4, np.uint64)
    alphas = np.array([0.2, 0.05])
    for side in SIDES:
        reached, streams = np.zeros(PATHS, np.int64), new_streams(1, 1, most_kept(setting))
        compiled(_reaches)(setting, new_nature(problem), generator, streams, mean, -np.log(alphas), side, reached)
        for level, alpha in enumerate(alphas.tolist()):
            ever = int((reached > level).sum())
            assert ever <= most_errors(alpha), f"{ever} of {PATHS} paths reach 1 / {alpha} on side {side}"


@kernel
def _misses(
    setting: Setting, nature: Nature, generator: Generator, streams: Streams, mean: float, missed: Ints
) -> None:
    """For each path, after how many results the confidence interval first misses the mean; 0 if it never does."""
    for path in range(missed.shape[0]):
        _restart(generator, streams, path)
        for n in range(1, STEPS + 1):
            record(setting, streams, 0, 0, draw(nature, generator, 0, 0))
            if abs(streams.means[0, 0] - mean) > half_width(setting, streams, 0, 0):
                missed[path] = n
                break


def check_intervals_rarely_miss(noise: NoiseModel, mean: float) -> None:
    """At delta = 0.2, the confidence interval ever misses the mean in at most a share delta of all paths.

    A noise without intervals is refused, by name, by policies that decide by them.
    """
    problem, delta = problem_with(noise, mean), 0.2
    if not noise.has_intervals:
        refused = ""
        try:
            find_policy("feasible-lucb").new_setting(problem, delta, "mixture")
        except InvalidInput as error:
            refused = str(error)
        assert noise.name in refused, "a noise without intervals must be refused by name"
        return
    setting, generator = new_setting(problem, delta, "mixture"), np.zeros(4, np.uint64)
    missed, streams = np.zeros(PATHS, np.int64), new_streams(1, 1, most_kept(setting))
    compiled(_misses)(setting, new_nature(problem), generator, streams, mean, missed)
    ever = int((missed > 0).sum())
    assert ever <= most_errors(delta), (
        f"the intervals of {ever} of {PATHS} paths miss the mean, where {delta:.0%} may: a `scale` must be sub-Gaussian"
        " (let it be None if there is none), and a kernel `radius` must hold at all times at once"
    )
