"""How often evidence ever reaches 1 / alpha although its hypothesis is true: for many distributions, at the mean.

Sampling may be hostile: which stream is tested next, and when to look, may depend on every raw value so far.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from tests.lengths import lengths

import bestarm as ba
from bestarm.evidence.pairs import evidence_between, pair_evidence
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.state import Floats, Setting, Streams, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import ceiling, evidence, most_kept, record
from bestarm.noises.streams import ABOVE, BELOW, stream_of
from bestarm.policies.setting import new_setting

ALPHAS = (0.2, 0.05, 0.01)
NOTHING = 1.5
"""Evidence of less than log(1 / 0.2) reaches none of the levels."""

Draw = Callable[[np.random.Generator, tuple[int, ...]], Floats]

SYMMETRIC: dict[str, Draw] = {
    "normal": lambda random, size: random.standard_normal(size),
    "uniform": lambda random, size: random.uniform(-1.0, 1.0, size),
    "laplace": lambda random, size: random.laplace(size=size),
    "cauchy": lambda random, size: random.standard_cauchy(size),
    "t3": lambda random, size: random.standard_t(3, size),
    "two points": lambda random, size: random.choice([-1.0, 1.0], size),
    "three points": lambda random, size: random.choice([-1.0, 0.0, 1.0], size, p=[0.02, 0.96, 0.02]),
    "growing": lambda random, size: random.standard_normal(size) * np.geomspace(1.0, 1e3, size[-1]),
    "shrinking": lambda random, size: random.standard_normal(size) * np.geomspace(1e3, 1.0, size[-1]),
}
BOUNDED: dict[str, Draw] = {
    "Beta(10, 10)": lambda random, size: random.beta(10, 10, size),
    "Beta(0.1, 0.9)": lambda random, size: random.beta(0.1, 0.9, size),
    "uniform": lambda random, size: random.uniform(size=size),
    "rare": lambda random, size: (random.uniform(size=size) < 0.001).astype(float),
    "nearly constant": lambda random, size: random.normal(0.5, 1e-3, size).clip(0.0, 1.0),
    "lognormal": lambda random, size: np.minimum(random.lognormal(-3.0, 0.5, size), 1.0),
}
MEANS = {"Beta(0.1, 0.9)": 0.1, "rare": 0.001, "lognormal": math.exp(-3.0 + 0.125)}
CASES: list[tuple[str, NoiseModel, Draw, float]] = [
    *((f"symmetric {name}", ba.Symmetric(), draw, 0.0) for name, draw in SYMMETRIC.items()),
    *((f"bounded {name}", ba.Bounded(0.0, 1.0), draw, MEANS.get(name, 0.5)) for name, draw in BOUNDED.items()),
]


@kernel
def ever_reaches(setting: Setting, streams: Streams, values: Floats, c: float, ever: Floats) -> None:
    """[path, side]: the largest evidence that a path of results ever gives."""
    for path in range(values.shape[0]):
        streams.counts[0, 0] = 0
        streams.sums[0, 0] = 0.0
        streams.means[0, 0] = 0.0
        for k in range(streams.kept.shape[2]):
            streams.kept[0, 0, k] = 0.0
        for step in range(values.shape[1]):
            record(setting, streams, 0, 0, values[path, step])
            s = stream_of(setting, streams, 0, 0)
            for k in range(2):
                side = ABOVE if k == 0 else BELOW
                if ceiling(s, side, c) > ever[path, k]:
                    ever[path, k] = max(ever[path, k], evidence(s, side, c))


def one_metric(noise: NoiseModel) -> Setting:
    return new_setting(ba.Problem(arms=["a", "b"], objective=ba.maximize("m", noise=noise)), 0.05, "paper")


@pytest.mark.parametrize(("paths", "steps"), lengths((600, 300), (5_000, 700)))
@pytest.mark.parametrize(("noise", "draw", "c"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_crossing_rates(noise: NoiseModel, draw: Draw, c: float, paths: int, steps: int) -> None:
    """A crossing rate of alpha passes with probability 1 - 1e-6 or more, in each of the six comparisons."""
    random = np.random.default_rng((17, paths))
    setting = one_metric(noise)
    ever = np.full((paths, 2), NOTHING)
    values = draw(random, (paths, steps))
    compiled(ever_reaches)(setting, new_streams(2, 1, most_kept(setting)), values, c, ever)
    for alpha in ALPHAS:
        most = stats.binom.isf(1e-6 / 6.0, paths, alpha)
        for crossed in (ever >= math.log(1.0 / alpha)).sum(axis=0).tolist():
            assert crossed <= most, f"{crossed} of {paths} paths reach 1 / {alpha}"


@kernel
def hostile_pairs(setting: Setting, streams: Streams, values: Floats, ever: Floats) -> None:
    """The largest evidence that stream 0 is above stream 1, where both have the same mean.

    Which stream is tested next depends on raw values, so that lucky states are kept as long as possible.
    """
    for path in range(values.shape[0]):
        for arm in range(2):
            streams.counts[arm, 0] = 0
            streams.sums[arm, 0] = 0.0
            streams.means[arm, 0] = 0.0
            for k in range(streams.kept.shape[2]):
                streams.kept[arm, 0, k] = 0.0
        last = values[path, 0]
        arm = 0
        for step in range(values.shape[1]):
            value = values[path, step]
            record(setting, streams, arm, 0, value)
            if streams.counts[0, 0] > 0 and streams.counts[1, 0] > 0:
                high, low = stream_of(setting, streams, 0, 0), stream_of(setting, streams, 1, 0)
                # The product at one c is never below the smallest, and is found much sooner.
                if evidence_between(high, low, 0.0) > ever[path]:
                    ever[path] = max(ever[path], pair_evidence(high, low, 0.0))
            # Leave a stream alone after a result that helps; go on with it after one that harms.
            helps = value > last if arm == 0 else value < last
            last = value
            arm = 1 - arm if helps else arm


@pytest.mark.parametrize(("paths", "steps"), lengths((300, 200), (5_000, 250)))
@pytest.mark.parametrize(("noise", "draw", "c"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_hostile_sampling_of_pairs(noise: NoiseModel, draw: Draw, c: float, paths: int, steps: int) -> None:
    """A crossing rate of alpha passes with probability 1 - 1e-6 or more."""
    random = np.random.default_rng((23, paths))
    setting = one_metric(noise)
    ever = np.full(paths, NOTHING)
    compiled(hostile_pairs)(setting, new_streams(2, 1, most_kept(setting)), draw(random, (paths, steps)), ever)
    for alpha in ALPHAS:
        crossed = int((ever >= math.log(1.0 / alpha)).sum())
        assert crossed <= stats.binom.isf(1e-6 / 3.0, paths, alpha), f"{crossed} of {paths} paths reach 1 / {alpha}"
