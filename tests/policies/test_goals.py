"""`certify` for other goals than the best arm: it errs as seldom as it promises, and decides alike everywhere.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import lengths
from tests.tools.asked_twice import assert_same_when_asked_twice
from tests.tools.hard import hard_goals

import bestarm as ba
from bestarm.policies import policy_for
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.simulation.engine import Job

GOALS: list[dict[str, Any]] = [
    {"top": 2},
    {"goal": "top", "top": 2},
    {"goal": "any feasible"},
    {"goal": "every feasible"},
]
ROWS = {"a": (3.0, 1.0), "b": (2.0, 1.0), "c": (1.0, 1.5), "d": (5.0, 4.5)}
TOGETHER = [ba.Measurement(("gain", "price"))]


def plan(rows: dict[str, tuple[float, float]] = ROWS, **fields: Any) -> ba.Plan:
    return ba.Plan(
        arms=[ba.Arm(name, {"gain": gain, "price": price}) for name, (gain, price) in rows.items()],
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("price", 3, noise=ba.Gaussian(1.0))],
        **fields,
    )


def job_of(problem: ba.Plan, max_tests: int = 10_000) -> Job:
    return Job.of(problem, policy_for(problem, "certify"), seed=5, max_tests=max_tests, keep_counts=True)


@pytest.mark.parametrize("runs", lengths(1000, 20_000))
@pytest.mark.parametrize("problem", hard_goals(), ids=lambda problem: problem.name)
def test_errs_with_probability_delta_at_most(problem: ba.Plan, runs: int) -> None:
    """Each case fails by chance with probability below 1e-6 if the guarantee holds with equality."""
    result = ba.simulate(problem, delta=0.2, runs=runs, max_tests=400, seed=7, keep_streams=False)
    assert result.wrong <= binom.isf(1e-6, runs, 0.2)


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_interpreted_and_compiled_agree(goal: dict[str, Any]) -> None:
    for measurements in ([], TOGETHER):
        job = job_of(plan(**goal, measurements=measurements))
        (compiled, trace), (interpreted, plain) = job.trace(3), job.interpreted_trace(3)
        assert np.array_equal(trace.streams, plain.streams)
        assert np.array_equal(trace.values, plain.values)
        assert compiled.outcomes.answers.tolist() == interpreted.outcomes.answers.tolist()
        assert (compiled.sets is None) == (interpreted.sets is None) == (goal == {"goal": "any feasible"})
        if compiled.sets is not None and interpreted.sets is not None:
            assert compiled.sets.tolist() == interpreted.sets.tolist()


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_asked_twice_it_proposes_the_same(goal: dict[str, Any]) -> None:
    assert_same_when_asked_twice(_policy(plan(**goal)), plan().true_means(), 30)


def _policy(problem: ba.Plan) -> Policy:
    kind = policy_for(problem, "certify")
    return kind(kind.new_setting(problem, 0.05, "paper"), len(problem.arms), len(problem.metrics))


def _told(goal: dict[str, Any], rows: list[tuple[float, float]], times: int = 200) -> Policy:
    """A policy that has been told each mean so many times."""
    policy = _policy(plan({f"arm {k}": row for k, row in enumerate(rows)}, **goal))
    for arm, row in enumerate(rows):
        for metric, mean in enumerate(row):
            for _ in range(times):
                policy.tell(arm, metric, mean)
    return policy


def test_short_lists_stop_when_so_many_arms_are_left() -> None:
    # Two arms alike, one clearly worse, one infeasible.
    assert _told({"top": 2}, [(2.0, 1.0), (2.0, 1.0), (0.0, 1.0), (5.0, 5.0)]).propose() == Stop(0, (0, 1))
    # With one more arm as good as these there is no list of two.
    assert not isinstance(_told({"top": 2}, [(2.0, 1.0), (2.0, 1.0), (2.0, 1.0), (5.0, 5.0)]).propose(), Stop)
    assert _told({"top": 3}, [(2.0, 1.0), (2.0, 1.0), (2.0, 1.0), (5.0, 5.0)]).propose() == Stop(0, (0, 1, 2))
    # No arm is certified feasible, and two may be.
    assert _told({"top": 2}, [(2.0, 3.0), (1.0, 3.0), (0.0, 5.0), (5.0, 5.0)]).propose() == Stop(0, (0, 1))
    assert _told({"top": 2}, [(2.0, 5.0), (1.0, 5.0), (0.0, 5.0), (5.0, 5.0)]).propose() == Stop(None)


def test_the_best_so_many_need_every_comparison() -> None:
    top = {"goal": "top", "top": 2}
    assert _told(top, [(2.0, 1.0), (2.0, 1.0), (0.0, 1.0), (5.0, 5.0)]).propose() == Stop(0, (0, 1))
    # The second and the third are alike.
    assert not isinstance(_told(top, [(3.0, 1.0), (2.0, 1.0), (2.0, 1.0), (5.0, 5.0)]).propose(), Stop)
    # Whether the fourth is feasible is open, and it is not worse.
    assert not isinstance(_told(top, [(3.0, 1.0), (2.0, 1.0), (0.0, 1.0), (5.0, 3.0)]).propose(), Stop)
    # One is feasible, and no other.
    assert _told(top, [(3.0, 1.0), (2.0, 5.0), (0.0, 5.0), (5.0, 5.0)]).propose() == Stop(0, (0,))
    # One is feasible, and one may be, however bad it is.
    assert not isinstance(_told(top, [(3.0, 1.0), (-9.0, 3.0), (0.0, 5.0), (5.0, 5.0)]).propose(), Stop)
    assert _told(top, [(3.0, 5.0), (2.0, 5.0), (0.0, 5.0), (5.0, 5.0)]).propose() == Stop(None)


def test_any_feasible_arm_will_do() -> None:
    goal = {"goal": "any feasible"}
    assert _told(goal, [(0.0, 1.0), (9.0, 3.0), (9.0, 5.0)]).propose() == Stop(0)
    assert not isinstance(_told(goal, [(0.0, 3.0), (9.0, 5.0)]).propose(), Stop)
    assert _told(goal, [(0.0, 5.0), (9.0, 5.0)]).propose() == Stop(None)


def test_every_feasible_arm_needs_a_verdict_on_each() -> None:
    goal = {"goal": "every feasible"}
    assert _told(goal, [(0.0, 1.0), (9.0, 2.0), (9.0, 5.0)]).propose() == Stop(1, (0, 1))
    assert _told(goal, [(0.0, 1.0), (9.0, 1.0)]).propose() == Stop(1, (0, 1))
    assert _told(goal, [(0.0, 5.0), (9.0, 5.0)]).propose() == Stop(None)
    # Whether the second is feasible is open: it alone is tested, whatever its performance.
    open_one = _told(goal, [(0.0, 1.0), (-9.0, 3.0), (9.0, 5.0)])
    assert open_one.propose() == [(1, 1)]
    assert open_one.findings().feasible.tolist() == [True, False, False]
    assert open_one.findings().infeasible.tolist() == [False, False, True]


def test_what_is_decided_of_an_arm_stays_decided() -> None:
    """Also when new results of the baseline, or of the arm itself, would not decide it again."""
    limit = ba.at_most("price", relative_to_baseline=True, margin=1.0, noise=ba.Gaussian(1.0))
    compared = ba.Plan(arms=["old", "a", "b"], constraints=[limit], goal="every feasible", baseline="old")
    policy = _policy(compared)
    means = (5.0, 5.0, 6.0)
    for _ in range(100):
        for arm, mean in enumerate(means):
            policy.tell_together([(arm, 0, mean), (arm, 1, mean)])
    assert policy.propose() != Stop(1, (1,))
    assert policy.findings().feasible.tolist() == [False, True, False]
    for _ in range(100):
        # The baseline turns out much better than it looked.
        policy.tell_together([(0, 0, -20.0), (0, 1, -20.0)])
    assert policy.propose() == Stop(1, (1,))
    assert policy.findings().feasible.tolist() == [False, True, False]


def test_unfinished_runs_count_what_they_decided() -> None:
    result = ba.simulate(plan(goal="every feasible"), runs=20, seed=1, max_tests=30)
    assert result.sets is not None
    assert set(np.unique(result.sets)) <= {-1, 0, 1}
    assert (result.unfinished > 0, result.wrong) == (True, 0)
    assert dataclasses.replace(result, sets=-result.sets).wrong == 20
    whole = ba.simulate(plan(goal="every feasible"), runs=20, seed=1)
    assert whole.answer_counts == {"a, b, c": 20}


def test_pairs_pay_for_how_many_arms_are_asked_for() -> None:
    """Evidence between the two levels is enough for the best arm, and not for the best two."""
    policy = _policy(plan(goal="top", top=2))
    levels = policy.setting.level[0], policy.setting.level[0] + np.log(2.0)
    assert levels[0] == pytest.approx(np.log(4 / 0.05))
    for times in range(5, 200):
        rows = [(2.0, -50.0), (2.0, -50.0), (1.0, 1.0)]
        two, one = _told({"goal": "top", "top": 2}, rows, times), _told({}, rows[1:], times)
        if isinstance(one.propose(), Stop):
            # Three arms instead of two, and two comparisons of each: log 3 instead of log 2, and log 2 more.
            assert not isinstance(two.propose(), Stop)
            return
    raise AssertionError("no study ended")


@pytest.mark.parametrize("goal", GOALS, ids=str)
def test_confidence_grows_to_what_was_promised(goal: dict[str, Any]) -> None:
    rows = [(2.0, 1.0), (1.5, 1.0), (0.0, 1.5), (5.0, 5.0)]
    early, late = _told(goal, rows, 3), _told(goal, rows, 300)
    decision = late.propose()
    assert isinstance(decision, Stop)
    assert 0.0 <= early.present_answer().confidence < late.present_answer(decision).confidence == 0.95
    assert late.present_answer(decision).leader == decision.arm
    found = late.settled(late.findings(), decision)
    assert set(decision.arms or [decision.arm]) <= set(np.flatnonzero(found.candidates).tolist())


def test_forecasts_and_simulations_name_sets() -> None:
    result = ba.simulate(plan(goal="top", top=2), runs=20, seed=1)
    assert result.answer_counts == {"a, b": 20}
    assert result.summary()["answers"] == {"a, b": 20}
    assert result.sets is not None
    assert result.sets.sum(axis=1).tolist() == [2] * 20
    expected = ba.forecast(plan(goal="top", top=2), runs=10, seed=1)
    assert expected.answers == {"a, b": 1.0}
    assert expected.error_rate == 0.0
    assert np.isnan(expected.lower_bound)
    assert dataclasses.replace(result, sets=1 - result.sets).wrong == 20
