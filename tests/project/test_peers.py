"""The comparison with peers judges rightly, and is fair to every method."""

from __future__ import annotations

import importlib.metadata
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from benchmarks.peers import by_hand, with_ax, with_optuna
from benchmarks.peers.__main__ import METHODS, SHARES, SHOWN, STYLES, chart, compare, table
from benchmarks.peers.problems import NO_ARM, UNDECIDED, best_looking, is_infeasible, is_wrong, measure, problems
from benchmarks.peers.tuners import AX_BANDIT, SINGLE, TUNERS, tune
from benchmarks.peers.world import World

import bestarm as ba
from bestarm.problem import Arm, Plan

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
    scale = np.array([noise.unit for noise in plan.noises]) / np.sqrt(100 * 2000)
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


# ------------------------------------------------------------------------------------------------------------ tuners

EXACT = 10**8
"""So many tests that every difference that matters is more than 20 standard errors of what a trial tells."""

# What Ax's own dependencies say of each other is not ours to mend.
quietly = pytest.mark.filterwarnings("ignore")


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.parts(TUNERS[name].package)) for name in TUNERS])
def tuner(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if TUNERS[name].package == "optuna" and int(importlib.metadata.version("optuna").split(".")[0]) < 5:
        pytest.skip("the comparison uses trial.set_constraint, which Optuna has from 5 on")
    return name


@quietly
@pytest.mark.parametrize("name", PLANS)
def test_a_tuner_that_is_told_the_truth_names_the_right_arm(tuner: str, name: str) -> None:
    """A wrong sign, direction or name of a metric would show here; single measurements are never the truth."""
    plan = PLANS[name]
    [answers] = tune((tuner, name, (EXACT if tuner != "single" else 30,), 1))
    found = dict(zip(TUNERS[tuner].names, answers, strict=True))
    assert all(-1 <= answer < len(plan.arms) for answer in answers)
    if tuner != "single":
        assert {method for method, answer in found.items() if is_wrong(plan, np.array(answer))} == set()


@pytest.mark.parts("optuna")
def test_the_best_trial_is_optunas() -> None:
    plan = PLANS["cache"]
    study = with_optuna._study(plan, 40, 1, seed=1)
    trials = study.get_trials(deepcopy=False)
    assert with_optuna.best_trial(trials) == study.best_trial.params["arm"]
    assert {trial.params["arm"] for trial in trials[: len(plan.arms)]} == set(range(len(plan.arms)))
    infeasible = [trial for trial in trials if any(missed > 0.0 for missed in trial.constraints.values())]
    assert with_optuna.best_trial(infeasible) == NO_ARM


def test_pooling_takes_means_of_values_and_of_constraints() -> None:
    def trial(arm: int, value: float, *missed: float) -> Any:
        return SimpleNamespace(params={"arm": arm}, value=value, constraints=dict(enumerate(missed)))

    lucky = [trial(0, 9.0, -1.0, -1.0), trial(0, 1.0, -1.0, -1.0)]
    steady = [trial(1, 6.0, 0.5, -1.0), trial(1, 6.0, -0.6, -1.0)]
    unsafe = [trial(2, 8.0, -1.0, -0.1), trial(2, 8.0, -1.0, 0.2)]
    assert with_optuna.best_trial([*lucky, *steady, *unsafe]) == 0
    assert with_optuna.best_pooled([*lucky, *steady, *unsafe]) == 1
    assert with_optuna.best_pooled(unsafe) == NO_ARM


@pytest.fixture
def ax() -> None:
    """The mark of who uses it."""


def noisy(plan: Plan, n: int, seed: int) -> Any:
    world = World(plan, seed)
    return np.array([world.measure(arm, n) for arm in range(len(plan.arms))])


@quietly
def test_without_standard_errors_ax_takes_what_looks_best(ax: None) -> None:
    for name, n in (("exp1-a", 20), ("cache", 5)):
        plan = PLANS[name]
        counts = np.full(len(plan.arms), n)
        for seed in range(4):
            means = noisy(plan, n, seed)
            with with_ax.quiet(seed):
                client = with_ax.client_told(plan, means, counts, errors=False)
                assert with_ax.observed_best(client) == best_looking(plan, means[None])[0]


@quietly
@pytest.mark.parametrize(("missed", "answer"), [(1.90, "quick"), (2.02, "safe")])
def test_with_standard_errors_ax_gives_an_arm_the_benefit_of_the_doubt(ax: None, missed: float, answer: str) -> None:
    """An arm that misses a constraint by less than 1.96 standard errors counts as feasible for Ax."""
    plan = Plan(
        name="doubt",
        arms=tuple(Arm(name, {"speed": 0.0, "crashes": 0.0}) for name in ("quick", "safe")),
        objective=ba.maximize("speed", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("crashes", 0.0, noise=ba.Gaussian(1.0)),),
    )
    n = 100
    means = np.array([[1.0, missed / np.sqrt(n)], [0.0, -1.0]])
    with with_ax.quiet(1):
        found = with_ax.observed_best(with_ax.client_told(plan, means, np.full(2, n)))
    assert plan.arm_names[found] == answer


@quietly
@pytest.mark.parts("optuna", "ax")
def test_the_table_and_the_picture_show_everybody() -> None:
    runs = {"cheap": 40, "single": 1, "averaged": 2, "ax": 1, "bandit": 1}
    with ThreadPoolExecutor(1) as pool:
        found = compare(PLANS["exp1-a"], runs, pool)
    assert {method for method, _ in found.by_budget} == set(METHODS)
    assert {share for method, share in found.by_budget if method == SINGLE} == set(SHARES)
    assert {share for method, share in found.by_budget if method == AX_BANDIT} == set(SHOWN)
    lines = list(table([found]))
    assert [line.split(" | ")[0].strip("| ") for line in lines if line.split(" | ")[0].strip("| ") in METHODS] == [
        *METHODS,
        *METHODS,
    ]
    [panel] = chart([found]).panels
    assert [series.label for series in panel.series][: len(STYLES)] == list(STYLES)
