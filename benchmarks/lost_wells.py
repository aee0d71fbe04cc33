"""What lost wells cost: plates of 24 tests of 8 formulations, with one well lost on every plate.

    python benchmarks/lost_wells.py [--studies 100]

A lost test is given up, or freed and made again on the next plate. Mean numbers over studies, with standard errors.
"""

from __future__ import annotations

import argparse
from typing import Literal

import numpy as np

import bestarm as ba

MEANS = {f"F{k + 1}": 1.0 - 0.1 * k - 0.1 * (k > 0) for k in range(8)}
SIGMA = 0.3
WELLS = 24


def plates_and_tests(seed: int, lost_is: Literal["not there", "given up", "freed"]) -> tuple[int, int]:
    """How many plates a study takes, and how many tests were made on them."""
    rng = np.random.default_rng(seed)
    problem = ba.Problem(arms=list(MEANS), objective=ba.maximize("gain", noise=ba.Gaussian(SIGMA)))
    study = ba.Study.create(problem, storage=":memory:", seed=seed)
    plates = made = 0
    while tests := study.ask(WELLS, days=3):
        plates, made = plates + 1, made + len(tests)
        # A plate that only repeats a lost test is made with care.
        loses = lost_is != "not there" and len(tests) == WELLS
        lost = tests[rng.integers(WELLS)] if loses else None
        study.tell_many([(test, rng.normal(MEANS[test.arm], SIGMA)) for test in tests if test is not lost])
        if lost is not None and not study.done:
            study.abandon(lost, "lost") if lost_is == "given up" else study.release(lost)
    return plates, made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--studies", type=int, default=100)
    studies = parser.parse_args().studies
    for lost_is in ("not there", "given up", "freed"):
        found = np.array([plates_and_tests(seed, lost_is) for seed in range(studies)], dtype=float)
        (plates, tests), errors = found.mean(axis=0), found.std(axis=0) / np.sqrt(studies)
        print(f"lost test is {lost_is}: {plates:.2f} ± {errors[0]:.2f} plates, {tests:.0f} ± {errors[1]:.0f} tests")


if __name__ == "__main__":
    main()
