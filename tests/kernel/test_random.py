"""Random numbers: the generator against an independent one, and the draws against their distributions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import CHOICE, NOISE, ZIGGURAT, Generator, Ziggurat, next_word, normal, seed_generator
from bestarm.kernel.state import Floats
from bestarm.noises.bounded import power_draw

MASK = (1 << 64) - 1


@kernel
def fill_words(generator: Generator, words: Generator) -> None:
    for k in range(words.shape[0]):
        words[k] = next_word(generator)


@kernel
def fill_normals(generator: Generator, ziggurat: Ziggurat, values: Floats) -> None:
    for k in range(values.shape[0]):
        values[k] = normal(generator, ziggurat)


@kernel
def fill_powers(generator: Generator, mean: float, values: Floats) -> None:
    for k in range(values.shape[0]):
        values[k] = power_draw(generator, mean)


def seeded(seed: int, run: int, purpose: int = NOISE) -> Generator:
    generator = np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, seed, run, purpose)
    return generator


def test_xoshiro_agrees_with_its_definition_in_whole_numbers() -> None:
    def rotate(x: int, k: int) -> int:
        return ((x << k) | (x >> (64 - k))) & MASK

    generator = seeded(12345, 678)
    state = [int(word) for word in generator]
    words = np.zeros(1000, np.uint64)
    compiled(fill_words)(generator, words)
    for word in words:
        assert int(word) == (rotate((state[0] + state[3]) & MASK, 23) + state[0]) & MASK
        shifted = (state[1] << 17) & MASK
        state[2] ^= state[0]
        state[3] ^= state[1]
        state[1] ^= state[2]
        state[0] ^= state[3]
        state[2] ^= shifted
        state[3] = rotate(state[3], 45)


def test_xoshiro_gives_the_published_first_words() -> None:
    """From state (1, 2, 3, 4), as in the reference implementation's test vectors."""
    generator = np.array([1, 2, 3, 4], np.uint64)
    words = np.zeros(4, np.uint64)
    compiled(fill_words)(generator, words)
    assert list(map(int, words)) == [41943041, 58720359, 3588806011781223, 3591011842654386]


def test_plain_and_compiled_seeding_agree() -> None:
    plain = np.zeros(4, np.uint64)
    with np.errstate(over="ignore"):
        seed_generator(plain, 2**62 + 17, 2**40 + 3, CHOICE)
    assert (plain == seeded(2**62 + 17, 2**40 + 3, CHOICE)).all()


def test_generators_of_neighboring_runs_seeds_and_purposes_differ() -> None:
    states = {tuple(map(int, seeded(s, r, p))) for s in range(20) for r in range(200) for p in (NOISE, CHOICE)}
    assert len(states) == 20 * 200 * 2


def test_normals_of_neighboring_runs_are_uncorrelated() -> None:
    """Mean product of 100,000 pairs; its standard deviation is 0.0032, so a false failure has probability 1e-6."""
    values = np.zeros((2, 100_000))
    for run in (0, 1):
        compiled(fill_normals)(seeded(0, run), ZIGGURAT, values[run])
    assert abs(float((values[0] * values[1]).mean())) < 5 * 100_000**-0.5


def test_the_ziggurats_layers_have_equal_area() -> None:
    edge, _, height = ZIGGURAT
    areas = edge[1:-1] * (height[2:] - height[1:-1])
    assert areas == pytest.approx(np.full(255, edge[0] * height[1]), rel=1e-10)


def test_normals_are_normal() -> None:
    """Three million: moments within 5 standard errors, tails by binomial limits; false failures under 1e-5 together."""
    values = np.zeros(3_000_000)
    compiled(fill_normals)(seeded(99, 1), ZIGGURAT, values)
    n = len(values)
    assert abs(values.mean()) < 5 * n**-0.5
    assert abs(values.var() - 1) < 5 * (2 / n) ** 0.5
    assert abs((values**3).mean()) < 5 * (15 / n) ** 0.5
    assert abs((values**4).mean() - 3) < 5 * (96 / n) ** 0.5
    assert stats.kstest(values[:1_000_000], "norm").pvalue > 1e-6
    for limit in (0.5, 1.5, 2.5, 3.5, 3.654, 3.8, 4.2, 4.8):
        for count in ((values > limit).sum(), (values < -limit).sum()):
            low, high = stats.binom.interval(1 - 1e-7, n, stats.norm.sf(limit))
            assert low <= count <= high


@pytest.mark.parametrize("mean", [0.0, 0.01, 0.3, 0.5, 0.7, 0.995, 1.0])
def test_bounded_draws_have_the_asked_mean_and_stay_inside(mean: float) -> None:
    """Within 5 standard errors: a false failure has probability 6e-7."""
    values = np.zeros(1_000_000)
    compiled(fill_powers)(seeded(5, 5), mean, values)
    assert values.min() >= 0
    assert values.max() <= 1
    assert abs(values.mean() - mean) <= 5 * values.std() * len(values) ** -0.5 + 1e-12
    if 0 < mean < 1:
        b = (1 - mean) / mean
        beta = stats.beta(1, b) if mean <= 0.5 else stats.beta(1 / b, 1)
        assert stats.kstest(values[:100_000], beta.cdf).pvalue > 1e-6
