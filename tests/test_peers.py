"""The comparison with peers judges rightly, and what people do by hand is done as it should be."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.peers import by_hand
from benchmarks.peers.problems import NO_ARM, UNDECIDED, best_looking, is_infeasible, is_wrong, measure, problems

PLANS = problems()


@pytest.mark.parametrize("name", PLANS)
def test_with_the_true_means_everybody_is_right(name: str) -> None:
    plan = PLANS[name]
    truth = plan.true_means()[None]
    for answers in (best_looking(plan, truth), by_hand.conclude(plan, truth, 10**8)):
        assert not is_wrong(plan, answers).any()
        assert not is_infeasible(plan, answers).any()
        assert UNDECIDED not in answers


def test_judging() -> None:
    plan = PLANS["cache"]
    answers = np.array([plan.arm_names.index(arm) for arm in ("512 MB", "256 MB", "512 MB, no fsync")])
    answers = np.append(answers, [NO_ARM, UNDECIDED])
    assert is_wrong(plan, answers).tolist() == [False, True, True, True, False]
    assert is_infeasible(plan, answers).tolist() == [False, False, True, False, False]


@pytest.mark.parametrize("name", PLANS)
def test_measurements_have_their_means(name: str) -> None:
    plan = PLANS[name]
    found = measure(plan, 100, 2000, np.random.default_rng(1)).mean(axis=0)
    scale = np.array([noise.scale for noise in plan.noises]) / np.sqrt(100 * 2000)
    # 5 standard errors on at most 24 streams: fails by chance with probability 24 × 5.7e-7 at most.
    assert (np.abs(found - plan.true_means()) <= 5 * scale).all()


def test_a_fixed_size_keeps_its_level_and_peeking_does_not_wait() -> None:
    plan = PLANS["exp1-a"]
    tests, wrong = by_hand.planned(plan, runs=1000, seed=1)
    # Bonferroni's level is 0.1 in all: 0.13 or more of 1,000 runs by chance has probability below 0.002.
    assert wrong <= 0.13
    peeking_tests, answers = by_hand.peeking(plan, runs=200, seed=1)
    assert peeking_tests < tests
    assert UNDECIDED not in answers
