"""How often one of two equally good algorithms is called better, by how cross-validation is told.

    python benchmarks/folds.py              # the table of docs/how-to/cross-validate.md
    python benchmarks/folds.py --runs 50    # a tenth of it

Two algorithms tell two classes apart, each by ten features of its own, as the nearest of two means. The features are
alike, so neither algorithm is better: in each data set, chance favors one of them. delta = 0.05.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator

import numpy as np

import bestarm as ba
from bestarm.kernel.state import Floats, Ints

POINTS = 100
FEATURES = 10
APART = 0.2
"""How far, in each feature, the mean of a class lies from 0."""
FOLDS = 10
TESTS = 200
"""The most tests of an algorithm."""
HELD_OUT = 500
DATA_SETS = 40
DELTA = 0.05
ALGORITHMS = ("by the first features", "by the last features")


class DataSet:
    """Points with labels, and what an algorithm makes of them."""

    def __init__(self, random: np.random.Generator, points: int) -> None:
        self.labels = np.where(random.permutation(points) % 2 == 0, 1.0, -1.0)
        self._x = random.standard_normal((points, 2 * FEATURES)) + APART * self.labels[:, np.newaxis]

    def right(self, arm: str, train: Ints, test: Ints) -> Floats:
        """By point of `test`: 1 if the algorithm, trained on `train`, gives the right label."""
        first = ALGORITHMS.index(arm) * FEATURES
        x, labels = self._x[:, first : first + FEATURES], self.labels
        up, down = (x[train[labels[train] == side]].mean(axis=0) for side in (1.0, -1.0))
        score = (x[test] - 0.5 * (up + down)) @ (up - down)
        return np.where(np.sign(score) == labels[test], 1.0, 0.0)


def folds_of(random: np.random.Generator, points: int) -> Iterator[tuple[Ints, Ints]]:
    """Training and test points: ten folds, again and again, each time shuffled."""
    while True:
        order = random.permutation(points)
        for fold in np.array_split(order, FOLDS):
            yield np.setdiff1d(order, fold), fold


def splits_of(random: np.random.Generator, points: int) -> Iterator[tuple[Ints, Ints]]:
    """Training and test points: each time another tenth, drawn at random."""
    while True:
        order = random.permutation(points)
        yield order[points // FOLDS :], order[: points // FOLDS]


def one_data_set(
    splits: Callable[[np.random.Generator, int], Iterator[tuple[Ints, Ints]]], tests: int, run: int
) -> bool:
    """Each accuracy is told as a test of its own. Whether one algorithm is called better."""
    data = DataSet(np.random.default_rng((1, run)), POINTS)
    drawn = {arm: splits(np.random.default_rng((2, run, k)), POINTS) for k, arm in enumerate(ALGORITHMS)}
    problem = ba.Problem(ALGORITHMS, ba.maximize("accuracy", noise=ba.Symmetric()))

    def accuracy(arm: str, metric: str) -> float:
        return float(data.right(arm, *next(drawn[arm])).mean())

    return ba.identify(problem, accuracy, delta=DELTA, budget=2 * tests, seed=run).state == "certified"


def many_data_sets(run: int) -> bool:
    """Each data set is a block, in which both algorithms have one accuracy."""
    random = np.random.default_rng((3, run))
    problem = ba.Problem(
        ALGORITHMS, ba.maximize("accuracy", noise=ba.Symmetric()), blocks=ba.Blocks("data set", size=2)
    )
    plan = ba.Plan.of(problem, delta=DELTA, budget=ba.Budget(blocks=DATA_SETS))
    study = ba.Study.create(plan, storage=":memory:", seed=run, items_seed=run)
    while not study.done:
        data = DataSet(random, POINTS)
        train, test = next(splits_of(random, POINTS))
        for one in study.ask_block():
            study.tell(one, float(data.right(one.arm, train, test).mean()))
    return study.answer is not None and study.answer.state == "certified"


def held_out(run: int) -> bool:
    """Both are trained once, and tried on points that neither has seen. Whether the answer is wrong about these."""
    data = DataSet(np.random.default_rng((4, run)), POINTS + HELD_OUT)
    train, test = np.arange(POINTS), np.arange(POINTS, POINTS + HELD_OUT)
    right = {arm: data.right(arm, train, test) for arm in ALGORITHMS}
    problem = ba.Problem(ALGORITHMS, ba.maximize("right", noise=ba.Bernoulli()), items=HELD_OUT)
    study = ba.Study.create(ba.Plan.of(problem, delta=DELTA), storage=":memory:", seed=run, items_seed=run)
    while not study.done:
        tests = study.ask(100)
        study.tell_many([(one, right[one.arm][int(one.item or "") - 1]) for one in tests])
    assert study.answer is not None
    return bool(right[study.answer.arm or ""].mean() < max(row.mean() for row in right.values()))


FORMS: dict[str, Callable[[int], bool]] = {
    f"ten folds once, {FOLDS} tests of each": lambda run: one_data_set(folds_of, FOLDS, run),
    f"ten folds again and again, up to {TESTS} tests of each": lambda run: one_data_set(folds_of, TESTS, run),
    f"a fresh split for each of up to {TESTS} tests": lambda run: one_data_set(splits_of, TESTS, run),
    f"up to {DATA_SETS} data sets, each a block": many_data_sets,
    f"{HELD_OUT:,} held-out items; wrong about these items": held_out,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="How often one of two equal algorithms is called better.")
    parser.add_argument("--runs", type=int, default=500, help="studies in each row (default: 500)")
    runs = parser.parse_args().runs
    print("| what is told | wrong |")
    print("| --- | ---: |")
    for name, is_wrong in FORMS.items():
        print(f"| {name} | {sum(map(is_wrong, range(runs)))} of {runs} |", flush=True)


if __name__ == "__main__":
    main()
