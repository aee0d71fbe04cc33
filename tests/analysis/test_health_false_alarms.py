"""The health checks stay silent when everything is as stated, however tests are chosen."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tests.analysis.health_records import Balanced, health_of, in_turn, problem_of
from tests.lengths import cases, lengths

import bestarm as ba
from bestarm.kernel.state import Floats, Ints
from bestarm.noises.base import NoiseModel

Choose = Callable[[np.random.Generator, Floats, Ints], int]
"""From the sums and counts of all arms, whose means are 0, to the arm that is tested next."""


def fairly(rng: np.random.Generator, sums: Floats, counts: Ints) -> int:
    return int(counts.argmin())


def who_is_lucky(rng: np.random.Generator, sums: Floats, counts: Ints) -> int:
    """The arm with the largest mean. Its next results are smaller than its first ones: this looks like a drift."""
    return int((sums / counts).argmax())


def who_is_off(rng: np.random.Generator, sums: Floats, counts: Ints) -> int:
    """The arm whose sum is furthest from where it should be."""
    return int(np.abs(sums / np.sqrt(counts)).argmax())


def record(rng: np.random.Generator, choose: Choose, arms: int, results: int) -> tuple[Ints, Floats]:
    values = rng.standard_normal(results)
    chosen = np.arange(results)
    sums, counts = values[:arms].copy(), np.ones(arms, np.int64)
    for k in range(arms, results):
        arm = chosen[k] = choose(rng, sums, counts)
        sums[arm] += values[k]
        counts[arm] += 1
    return chosen, values


@cases(1)
@pytest.mark.parametrize(("studies", "most"), lengths((40, 4), (120, 6)))
@pytest.mark.parametrize("choose", [fairly, who_is_lucky, who_is_off])
def test_however_tests_are_chosen(choose: Choose, studies: int, most: int) -> None:
    """With a promise of 0.2 instead of 0.001, so that a wrong one would be seen. The checks keep far below it. With a
    rate of 0.005, more than 6 of 120 have a probability of 3e-6, more than 4 of 40 one of 2e-6."""
    rng = np.random.default_rng(6)
    problem = problem_of(8)
    records = (record(rng, choose, 8, 160) for _ in range(studies))
    assert sum(bool(health_of(problem, *one, false_alarms=0.2).warnings) for one in records) <= most


NOISES: dict[str, tuple[NoiseModel, Callable[[np.random.Generator, int], Floats]]] = {
    "normal": (Balanced(1.0), lambda rng, n: rng.standard_normal(n)),
    "uniform": (Balanced(1.0), lambda rng, n: rng.uniform(-5.0, 5.0, n)),
    "Laplace": (Balanced(1.0), lambda rng, n: rng.laplace(size=n)),
    "Student t₃": (Balanced(1.0), lambda rng, n: 1e9 + rng.standard_t(3, n)),
    "yes or no": (ba.Bernoulli(), lambda rng, n: (rng.random(n) < 0.1).astype(float)),
    "exponential in a range": (ba.Bounded(0.0, 50.0), lambda rng, n: rng.exponential(size=n).clip(0.0, 50.0)),
}


@cases(3)
@pytest.mark.parametrize(("studies", "most"), lengths((20, 3), (60, 4)))
@pytest.mark.parametrize("name", NOISES)
def test_whatever_the_noise_is(name: str, studies: int, most: int) -> None:
    """As above, with two workers at random. With a rate of 0.005, more than 4 of 60 have a probability of 1.4e-5, more
    than 3 of 20 one of 3e-6."""
    rng = np.random.default_rng(7)
    noise, draw = NOISES[name]
    problem = problem_of(3, noise)
    arms, _ = in_turn(3, 80)
    alarms = 0
    for _ in range(studies):
        holders = rng.choice(["ann", "bob"], len(arms)).tolist()
        alarms += bool(health_of(problem, arms, draw(rng, len(arms)), holders=holders, false_alarms=0.2).warnings)
    assert alarms <= most


@pytest.mark.parametrize(("studies", "most"), lengths((50, 2), (150, 3)))
def test_at_the_stated_rate(studies: int, most: int) -> None:
    """One in a thousand studies, of three metrics. With that rate, more than 3 of 150, or 2 of 50, have a probability
    of 2e-5."""
    rng = np.random.default_rng(8)
    problem = problem_of(4, constraints=2)
    results = 240
    metrics = np.arange(results) % 3
    alarms = 0
    for _ in range(studies):
        arms = rng.integers(0, 4, results)
        alarms += bool(health_of(problem, arms, rng.standard_normal(results), metrics=metrics).notes)
    assert alarms <= most


def broken(problem: ba.Problem, table: Floats) -> bool:
    """Whether results [arm, time] of arms in turn, in groups of 24, are said to contradict an assumption."""
    arms, times = table.shape
    health = health_of(problem, np.tile(np.arange(arms), times), table.T.ravel(), plates=24)
    return any(note.severity == "broken" for note in health.notes)


def on_items(rng: np.random.Generator, arms: int, n: int) -> Floats:
    """What an item does to all arms alike is nearly all."""
    return np.array(0.99 * rng.standard_normal(n) + 0.14 * rng.standard_normal((arms, n)))


@pytest.mark.parametrize(("studies", "most"), lengths((6, 1), (20, 2)))
@pytest.mark.parametrize("noise", [ba.Gaussian(1.0), ba.Symmetric(), ba.Bounded(-20.0, 20.0)])
@pytest.mark.parametrize("repeats", [False, True])
def test_on_common_items(noise: NoiseModel, repeats: bool, studies: int, most: int) -> None:
    """Arms that meet the same items are not independent. With a rate of 0.001, more than 2 of 20 have a probability of
    1e-6, more than 1 of 6 one of 1.5e-5."""
    rng = np.random.default_rng(9)
    problem = ba.Problem(
        arms=[f"arm {k}" for k in range(10)],
        objective=ba.maximize("yield", noise=noise),
        items=500,
        repeats=repeats,
    )
    assert sum(broken(problem, on_items(rng, 10, 60)) for _ in range(studies)) <= most


CHANGING: dict[str, tuple[NoiseModel, Callable[[np.random.Generator], Floats]]] = {
    "σ": (ba.Gaussian(1.0), lambda rng: rng.standard_normal((10, 100)) * np.square(np.arange(1, 101) / 100)),
    "symmetry": (ba.Symmetric(), lambda rng: rng.standard_normal((10, 100)) * np.square(np.arange(1, 101) / 100)),
    "range": (
        ba.Bounded(0.0, 1.0),
        lambda rng: np.where(np.arange(100) < 50, rng.random((10, 100)) < 0.2, rng.uniform(0.1, 0.3, (10, 100))),
    ),
}


@pytest.mark.parametrize(("studies", "most"), lengths((6, 1), (20, 2)))
@pytest.mark.parametrize("stated", CHANGING)
def test_scatter_that_changes_breaks_nothing(stated: str, studies: int, most: int) -> None:
    """With a rate of 0.001, more than 2 of 20 have a probability of 1e-6, more than 1 of 6 one of 1.5e-5. Of values in
    a range, the shape changes and the mean does not. That is said, and breaks nothing."""
    rng = np.random.default_rng(10)
    noise, draw = CHANGING[stated]
    tables = [draw(rng).astype(float) for _ in range(studies)]
    assert sum(broken(problem_of(10, noise), table) for table in tables) <= most
    if stated == "range":
        early = np.arange(800) < 400
        values = np.where(early, rng.random((3, 800)) < 0.2, rng.uniform(0.1, 0.3, (3, 800))).astype(float)
        health = health_of(problem_of(3, noise), np.tile(np.arange(3), 800), values.T.ravel())
        [note] = [note for note in health.notes if note.kind == "drift"]
        assert note.severity == "doubtful"
        assert "Values change in character. If their mean stays the same, the guarantee holds" in note.sentence
