"""How often evidence about a finite set ever reaches 1 / alpha although its hypothesis is true, at any place in it.

Sets of bounded values may be any: each is fixed, and only the order is random. The other evidence rests on values that
are normal, so each path has a set of its own. `benchmarks/sets.py` counts what happens if they are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats
from tests.lengths import cases, lengths
from tests.noises.test_crossing import ALPHAS, NOTHING, ever_reaches, one_metric

import bestarm as ba
from bestarm.kernel.compile import compiled
from bestarm.kernel.state import Floats, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import most_kept
from bestarm.noises.registry import known_for
from bestarm.noises.streams import ABOVE, BELOW

SHAPES: dict[str, Callable[[np.random.Generator, int], Floats]] = {
    "normal": lambda random, items: random.normal(0.5, 0.1, items).clip(0.0, 1.0),
    "uniform": lambda random, items: random.uniform(size=items),
    "half": lambda random, items: (np.arange(items) % 2 == 0).astype(float),
    "rare": lambda random, items: (np.arange(items) % 20 == 0).astype(float),
    "skewed": lambda random, items: random.beta(0.3, 2.0, items),
    "lognormal": lambda random, items: np.minimum(random.lognormal(-3.0, 0.7, items), 1.0),
    "equal": lambda random, items: np.full(items, 0.3),
    "all but one": lambda random, items: np.where(np.arange(items) == 0, 1.0, 0.1),
}


def largest(noise: NoiseModel, values: Floats, c: float, is_compiled: bool = True) -> Floats:
    """[path, side]: the largest evidence at any place, where a mean equal to c is on the other side."""
    found = []
    for column, side in enumerate((ABOVE, BELOW)):
        setting = one_metric(noise.of_set(values.shape[1], ties=-side))
        ever = np.full((len(values), 2), NOTHING)
        run = compiled(ever_reaches, known=known_for(setting)) if is_compiled else ever_reaches
        run(setting, new_streams(2, 1, most_kept(setting)), values, c, ever)
        found.append(ever[:, column])
    return np.stack(found, axis=1)


def check(ever: Floats, chance: float) -> None:
    """A crossing rate of alpha fails with probability `chance` at most, in all six comparisons together."""
    for alpha in ALPHAS:
        most = stats.binom.isf(chance / 6.0, len(ever), alpha)
        for crossed in (ever >= math.log(1.0 / alpha)).sum(axis=0).tolist():
            assert crossed <= most, f"{crossed} of {len(ever)} paths reach 1 / {alpha}"


@cases(8)
@pytest.mark.parametrize(("items", "paths"), [(20, 2_000), (100, 400), *lengths((500, 60), (500, 4_000))])
@pytest.mark.parametrize("shape", SHAPES)
def test_bounded_sets(shape: str, items: int, paths: int) -> None:
    """Fails by chance with probability 1e-6 at most."""
    random = np.random.default_rng((31, items))
    one = SHAPES[shape](random, items)
    values = np.ascontiguousarray(random.permuted(np.tile(one, (paths, 1)), axis=1))
    check(largest(ba.Bounded(0.0, 1.0), values, math.fsum(one) / items), 1e-6)


@pytest.mark.parametrize(("items", "paths"), [(20, 2_000), (100, 1_000), *lengths((500, 200), (500, 4_000))])
@pytest.mark.parametrize("noise", [ba.Gaussian(1.0), ba.Gaussian(1.5), ba.Symmetric()], ids=str)
@pytest.mark.parametrize("center", [0.0, 1e6])
def test_normal_sets(noise: NoiseModel, center: float, items: int, paths: int) -> None:
    """Fails by chance with probability 1e-6 at most."""
    values = np.random.default_rng((37, items)).normal(size=(paths, items))
    values += center - values.mean(axis=1, keepdims=True)
    check(largest(noise, values, center), 1e-6)


@pytest.mark.parametrize("noise", [ba.Gaussian(1.0), ba.Symmetric(), ba.Bounded(-4.0, 4.0)], ids=str)
def test_interpreted_as_compiled(noise: NoiseModel) -> None:
    values = np.random.default_rng(41).normal(size=(3, 60)).clip(-4.0, 4.0)
    for c in (0.0, -0.3):
        assert (largest(noise, values, c, is_compiled=False) == largest(noise, values, c)).all()
