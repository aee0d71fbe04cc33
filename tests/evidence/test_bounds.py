"""Confidence bounds: against independent values, and how often they fail."""

from __future__ import annotations

import math

import mpmath
import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import cases

from bestarm.evidence.bounds import Floats, bound, bound_names, find_bound
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import Ints
from bestarm.kernel.tables import DENSE, LARGEST, slot, table_arguments, tabulate
from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.dispatch import draw
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.streams import Nature
from bestarm.problem import Arm, Problem, maximize
from bestarm.simulation.nature import new_nature
from bestarm.validation import InvalidInput

COUNTS = np.array([1.0, 2.0, 7.0, 100.0, 12_345.0, 1e7])


@pytest.mark.parametrize("alpha", [0.2, 0.005, 1e-9])
def test_paper_bound(alpha: float) -> None:
    expected = [float(mpmath.sqrt(2 / mpmath.mpf(n) * mpmath.log(4 * mpmath.mpf(n) ** 4 / alpha))) for n in COUNTS]
    assert find_bound("paper")(COUNTS, alpha) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("alpha", [0.2, 0.005, 1e-9])
def test_mixture_bound_is_where_the_evidence_reaches_two_over_alpha(alpha: float) -> None:
    """The evidence is integrated numerically: the mean of exp(lambda S - n lambda² / 2) over a half-normal lambda."""
    rho = 20.0
    for n, radius in zip(COUNTS, find_bound("mixture")(COUNTS, alpha), strict=True):
        total = mpmath.mpf(n * radius)
        # exp(lambda S - lambda² (n + rho) / 2), integrated around its peak.
        peak, width = total / (n + rho), 1 / mpmath.sqrt(n + rho)
        density = 2 * mpmath.sqrt(rho / (2 * mpmath.pi))
        integral = mpmath.quad(
            lambda effect: mpmath.exp(effect * total - effect**2 * (n + rho) / 2),  # noqa: B023
            [max(mpmath.mpf(0), peak - 12 * width), peak, peak + 12 * width],
        )
        assert float(mpmath.log(density * integral)) == pytest.approx(math.log(2 / alpha), rel=1e-9)


@pytest.mark.parametrize("alpha", [0.2, 0.005, 1e-9])
def test_lil_bound_fails_with_alpha_by_its_lemma(alpha: float) -> None:
    """Invert the half-width into the lemma's level, and the level into the probability that both sides fail."""
    epsilon = mpmath.mpf("0.01")
    for n, radius in zip(COUNTS, find_bound("lil")(COUNTS, alpha), strict=True):
        exponent = n * mpmath.mpf(radius) ** 2 / (2 * (1 + epsilon) * (1 + mpmath.sqrt(epsilon)) ** 2)
        level = mpmath.log((1 + epsilon) * n) / mpmath.exp(exponent)
        one_side = (2 + epsilon) / epsilon * (level / mpmath.log(1 + epsilon)) ** (1 + epsilon)
        assert float(2 * one_side) == pytest.approx(alpha, rel=1e-8)


@kernel
def crossings(nature: Nature, generator: Generator, radius: Floats, seed: int, samples: int, crossed: Ints) -> None:
    """For each path of samples of stream (0, 0), whether its mean ever was as far off as the radius."""
    for path in range(crossed.shape[0]):
        seed_generator(generator, seed, path, NOISE)
        total = 0.0
        for n in range(1, samples + 1):
            total += draw(nature, generator, 0, 0)
            if abs(total) >= n * radius[slot(n)]:
                crossed[path] = 1
                break


NOISES: list[tuple[Noise, float]] = [
    (Gaussian(2.0), 0.7),
    (Bernoulli(), 0.5),
    (Bernoulli(), 0.03),
    (Bounded(-2.0, 6.0), 2.0),
    (Bounded(-2.0, 6.0), -1.9),
]


@cases(6)
@pytest.mark.parametrize(("noise", "mean"), NOISES, ids=repr)
@pytest.mark.parametrize("name", bound_names())
def test_a_bound_is_ever_crossed_with_probability_at_most_alpha(name: str, noise: Noise, mean: float) -> None:
    """1,000 paths of 10^4 samples at alpha = 0.2. A bound that just held would fail here with probability 1e-6."""
    alpha, paths = 0.2, 1_000
    problem = Problem(arms=(Arm("a", {"m": mean}),), objective=maximize("m", noise=noise))
    nature = new_nature(problem)
    # Center the draws, so that the sum itself is the deviation.
    center = mean if isinstance(noise, Gaussian) else 0.0
    nature = nature._replace(mean=nature.mean - center, shift=nature.shift - (mean - center))
    crossed = np.zeros(paths, np.int64)
    radius = noise.unit * tabulate(lambda n: find_bound(name)(n, alpha))
    compiled(crossings)(nature, np.zeros(4, np.uint64), radius, 1, 10_000, crossed)
    assert crossed.sum() <= binom.isf(1e-6, paths, alpha)
    if name == "mixture" and isinstance(noise, Gaussian):
        # And it is no wider than it need be: some 70% of alpha is spent within 10^4 samples.
        assert crossed.sum() >= 0.25 * alpha * paths


def test_tables_round_the_count_down_and_keep_13_bits() -> None:
    arguments = table_arguments()
    rng = np.random.default_rng(2)
    for n in [1, 2, DENSE - 1, DENSE, DENSE + 1, 2 * DENSE - 1, 2 * DENSE, LARGEST - 1]:
        assert arguments[slot(n)] <= n
    for n in (2 ** rng.uniform(0, 40, 2_000)).astype(np.int64):
        assert n * (1 - 1 / 4096) < arguments[slot(int(n))] <= n
    assert (arguments[:DENSE][1:] == np.arange(1, DENSE)).all()
    assert (np.diff(arguments[1:]) > 0).all()


@pytest.mark.parametrize("name", bound_names())
def test_radii_fall_with_the_count_so_that_rounding_down_is_safe(name: str) -> None:
    for alpha in (0.2, 1e-3, 1e-9):
        beyond = tabulate(lambda n: find_bound(name)(n, alpha))[DENSE - 1 :]  # noqa: B023
        assert (np.diff(beyond) <= 0).all()


def test_a_bound_of_ones_own_is_chosen_by_name() -> None:
    @bound("hopeful")
    def hopeful(n: Floats, alpha: float) -> Floats:
        return np.sqrt(2.0 * math.log(2.0 / alpha) / n)

    assert "hopeful" in bound_names()
    assert find_bound("hopeful") is hopeful
    bound_names_without = find_bound.__globals__["_BOUNDS"]
    del bound_names_without["hopeful"]
    with pytest.raises(InvalidInput, match="hopeful"):
        find_bound("hopeful")
