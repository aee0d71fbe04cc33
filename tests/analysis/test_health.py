"""What the health checks find, and what they say about it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.analysis.health_records import Balanced, Same, health_of, in_turn, kinds, problem_of
from tests.lengths import lengths

import bestarm as ba
from bestarm.analysis.health.notes import Health, HealthNote
from bestarm.analysis.health.watch import Watch
from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel


def only(health: Health) -> ba.HealthNote:
    (note,) = health.notes
    return note


def test_nothing_is_said_of_healthy_results_but_how_much_was_checked() -> None:
    arms, _ = in_turn(3, 100)
    health = health_of(problem_of(3), arms, np.random.default_rng(1).standard_normal(300))
    assert str(health) == "no sign of trouble: 7 checks"
    assert health.warnings == ()


def test_a_sigma_three_times_too_small() -> None:
    """It is found in every one of 50 short studies."""
    rng = np.random.default_rng(2)
    arms, _ = in_turn(3, 20)
    found = [health_of(problem_of(3), arms, 3.0 * rng.standard_normal(60)) for _ in range(50)]
    assert all("scatter" in kinds(health) for health in found)
    note = found[0].notes[0]
    assert (note.kind, note.severity, note.metric, note.arm) == ("scatter", "broken", "yield", None)
    assert "times the stated standard deviation of 1." in note.sentence
    assert found[0].warnings[0] == note.sentence


def test_the_arm_is_named_if_it_is_the_only_one() -> None:
    rng = np.random.default_rng(3)
    arms, _ = in_turn(3, 60)
    values = rng.standard_normal(180) * np.where(arms == 1, 4.0, 0.9)
    note = only(health_of(problem_of(3), arms, values))
    assert note.arm == "arm 1"
    assert note.sentence.startswith("yield of arm 1: results scatter by about ")


def test_one_typing_error_is_no_scatter() -> None:
    rng = np.random.default_rng(4)
    arms, _ = in_turn(2, 100)
    values = rng.standard_normal(200)
    values[121] = 25.0
    note = only(health_of(problem_of(2), arms, values))
    assert (note.kind, note.severity, note.arm) == ("outlier", "doubtful", "arm 1")
    assert "test 122 of arm 1 gave 25," in note.sentence


@pytest.mark.parametrize(("sign", "where"), [(1.0, "above"), (-1.0, "below")])
def test_skewness_where_symmetry_is_stated(sign: float, where: str) -> None:
    rng = np.random.default_rng(5)
    arms, _ = in_turn(3, 250)
    values = 1e6 + sign * rng.exponential(size=750)
    note = only(health_of(problem_of(3, Balanced(1.0)), arms, values))
    assert (note.kind, note.severity) == ("skewness", "broken")
    assert f"the far ones lie {where} the others" in note.sentence
    assert not health_of(problem_of(3, ba.Bounded(-1e8, 1e8)), arms, values).warnings


@pytest.mark.parametrize(("studies", "least"), lengths((8, 6), (40, 36)))
@pytest.mark.parametrize(("sign", "how"), [(1.0, "larger"), (-1.0, "smaller")])
def test_a_drift_of_one_standard_deviation(sign: float, how: str, studies: int, least: int) -> None:
    """Five arms of 250 results: found in 199 of 200. With 0.99, fewer than 36 of 40, or 6 of 8, have a probability of
    5e-5."""
    rng = np.random.default_rng(6)
    arms, time = in_turn(5, 250)
    found = [health_of(problem_of(5), arms, rng.standard_normal(1250) + sign * time) for _ in range(studies)]
    drifts = [note for health in found for note in health.notes if note.kind == "drift"]
    assert len(drifts) >= least
    assert all(f"later results are {how} than earlier ones" in note.sentence for note in drifts)


def test_results_that_resemble_the_one_before() -> None:
    rng = np.random.default_rng(7)
    arms, _ = in_turn(3, 200)
    values = rng.standard_normal(600)
    for k in range(3, 600):
        values[k] = 0.5 * values[k - 3] + math.sqrt(0.75) * values[k]
    note = only(health_of(problem_of(3), arms, values))
    assert (note.kind, note.severity) == ("dependence", "broken")
    assert "resemble each other" in note.sentence


@pytest.mark.parametrize("noise", [ba.Gaussian(1.5), ba.Symmetric()])
def test_results_of_one_plate_that_share_an_effect(noise: NoiseModel) -> None:
    """Thirty plates of 24 tests of eight arms, with an effect as large as the noise: found in 40 of 40."""
    rng = np.random.default_rng(15)
    arms, _ = in_turn(8, 90)
    values = rng.standard_normal(720) + np.repeat(rng.standard_normal(30), 24)
    [note] = [
        note for note in health_of(problem_of(8, noise), arms, values, plates=24).notes if note.kind == "together"
    ]
    assert (note.severity, note.arm) == ("broken", None)
    assert note.sentence.startswith("yield: results that were asked for or entered together resemble each other.")


def test_plates_of_values_in_a_range_are_only_doubtful() -> None:
    rng = np.random.default_rng(16)
    arms, _ = in_turn(4, 200)
    values = rng.standard_normal(800) + np.repeat(2.0 * rng.standard_normal(100), 8)
    health = health_of(problem_of(4, ba.Bounded(-1e3, 1e3)), arms, values, plates=8)
    assert {note.severity for note in health.notes if note.kind == "together"} == {"doubtful"}


def test_a_result_far_from_the_others_where_no_scatter_is_stated() -> None:
    rng = np.random.default_rng(17)
    arms, _ = in_turn(2, 30)
    values = 66.0 + 3.0 * rng.standard_normal(60)
    values[51] = 661.0
    note = only(health_of(problem_of(2, ba.Symmetric()), arms, values))
    assert (note.kind, note.severity, note.arm) == ("outlier", "doubtful", "arm 1")
    assert "test 52 gave 661 where the others lie between" in note.sentence


def test_drifts_of_rates() -> None:
    """Of yes and no, and of a share beyond a threshold, which is said as such."""
    rng = np.random.default_rng(18)
    arms, time = in_turn(3, 400)
    values = (rng.random(1200) < 0.2 + 0.6 * time).astype(float)
    note = only(health_of(problem_of(3, ba.Bernoulli()), arms, values))
    assert (note.kind, note.severity) == ("drift", "broken")
    assert "later results are larger than earlier ones" in note.sentence
    problem = ba.Problem(
        arms=["a", "b", "c"],
        objective=ba.maximize("gain", noise=ba.Bernoulli()),
        constraints=[ba.at_most("wait", 0.5, noise=ba.Quantile(0.9))],
    )
    note = only(health_of(problem, arms, values, metrics=np.ones(1200, np.int64)))
    assert (note.kind, note.severity) == ("drift", "broken")
    assert "later results lie beyond the threshold more often than earlier ones" in note.sentence


def test_one_who_measures_differently() -> None:
    """A restarted worker is the same worker. A shared drift is not attributed to one worker."""
    rng = np.random.default_rng(8)
    arms, time = in_turn(3, 300)
    is_bob = rng.random(900) < 0.4
    holders = [f"{'bob' if bob else 'ann'}@lab/{k}-1" for k, bob in enumerate(is_bob.tolist())]
    note = only(health_of(problem_of(3, ba.Gaussian(2.0)), arms, rng.standard_normal(900) + is_bob, holders=holders))
    assert (note.kind, note.severity) == ("worker", "doubtful")
    assert note.sentence.startswith("yield: results of ")
    assert "ann@lab are smaller" in note.sentence or "bob@lab are larger" in note.sentence
    drifting = health_of(problem_of(3, ba.Gaussian(2.0)), arms, rng.standard_normal(900) + 2 * time, holders=holders)
    assert "drift" in kinds(drifting)
    assert "worker" not in kinds(drifting)


def test_an_exact_metric_that_varies() -> None:
    arms = np.array([0, 1, 0, 1])
    assert not health_of(problem_of(2, Same(1.0)), arms, np.array([0.1, 0.2, 0.1, 0.2])).notes
    note = only(health_of(problem_of(2, Same(1.0)), arms, np.array([0.1, 0.2, 0.1, 0.3])))
    assert (note.kind, note.severity, note.arm) == ("not exact", "broken", "arm 1")
    assert "test 4 gave 0.3 where an earlier one gave 0.2" in note.sentence


def test_a_sigma_that_is_far_too_wide_is_a_hint() -> None:
    rng = np.random.default_rng(9)
    arms, _ = in_turn(3, 40)
    health = health_of(problem_of(3, ba.Gaussian(10.0)), arms, 1e9 + rng.standard_normal(120))
    note = only(health)
    assert (note.kind, note.severity) == ("too wide", "hint")
    assert "takes about" in note.sentence
    assert health.warnings == ()
    equal = only(health_of(problem_of(3, ba.Gaussian(10.0)), arms, 1e9 + arms.astype(float)))
    assert '"exact"' in equal.sentence


@pytest.mark.parametrize("items", [None, 200])
def test_a_range_that_is_far_too_wide_is_a_hint(items: int | None) -> None:
    """It says what is seen, and what must be true of a noise that takes fewer tests."""
    rng = np.random.default_rng(10)
    arms, _ = in_turn(3, 40)
    values = rng.uniform(0.93, 0.98, 120)

    def noted(noise: NoiseModel, values: Floats) -> tuple[HealthNote, ...]:
        baseline = "plain" if isinstance(noise, ba.Duel) else None
        objective = ba.maximize("right", noise=noise)
        return health_of(ba.Problem(problem_of(3).arms, objective, items=items, baseline=baseline), arms, values).notes

    [note] = noted(ba.Bounded(0.0, 1.0), values)
    assert (note.kind, note.severity) == ("too wide", "hint")
    assert "right: results have stayed within 0.93" in note.sentence
    assert "the stated range from 0 to 1 is about 21 times as wide" in note.sentence
    like = "as far up as down around their mean" if items is None else "like normal values"
    assert f'The noise "symmetric" is true if results scatter {like}, and a narrower range if' in note.sentence
    assert not noted(ba.Bounded(0.85, 1.0), values)
    [note] = noted(ba.Bounded(0.0, 1.0), np.full(120, 0.31))
    assert "all results so far are 0.31" in note.sentence
    assert 'If results never vary, the noise "exact" takes one test of each.' in note.sentence
    assert not noted(ba.Bernoulli(), np.zeros(120))
    assert not noted(ba.Duel(), np.ones(120))


def test_what_is_seen_does_not_depend_on_when_it_is_asked_for() -> None:
    """Results one by one, with some that have no value, and all at once."""
    rng = np.random.default_rng(11)
    arms, time = in_turn(3, 150)
    values = 1.4 * rng.standard_normal(450) + 2 * time
    values[::17] = math.nan
    holders = rng.choice(["ann", "bob"], 450).tolist()
    slowly = Watch(problem_of(3))
    seen = []
    for k in range(450):
        one = slice(k, k + 1)
        slowly.extend(np.array([k + 1]), arms[one], np.array([0]), values[one], holders[one])
        seen.append(kinds(slowly.health()))
    assert slowly.health() == health_of(problem_of(3), arms, values, holders=holders)
    assert {"scatter", "drift"} <= seen[-1]
    found = [("scatter" in now, "drift" in now) for now in seen]
    assert found == sorted(found)  # what was found once is found again


@pytest.mark.parametrize("noise", [ba.Gaussian(1e-50), ba.Gaussian(1e50), Balanced(1.0), ba.Bounded(-1e50, 1e50)])
@pytest.mark.parametrize("size", [1e-50, 1.0, 1e50])
def test_extreme_numbers_break_nothing(noise: NoiseModel, size: float) -> None:
    rng = np.random.default_rng(14)
    arms, _ = in_turn(2, 120)
    for factors in (rng.uniform(-1.0, 1.0, 240), np.ones(240), 1.0 + 1e-15 * (arms % 2)):
        for note in health_of(problem_of(2, noise), arms, np.array(size * factors)).notes:
            assert "nan" not in note.sentence


def test_the_gravest_comes_first() -> None:
    rng = np.random.default_rng(12)
    results = 300
    metrics = np.arange(results) % 2
    problem = ba.Problem(
        arms=["a", "b"],
        objective=ba.maximize("gain", noise=ba.Gaussian(10.0)),
        constraints=[ba.at_most("loss", 0.0, noise=ba.Gaussian(0.3))],
    )
    health = health_of(problem, np.arange(results) // 2 % 2, rng.standard_normal(results), metrics=metrics)
    assert [note.severity for note in health.notes] == ["broken", "hint"]
    assert str(health).startswith("broken: loss: results scatter by about 1")


@pytest.mark.parametrize("since", [0, 40])
def test_on_items_that_were_met_before_an_arm_came_it_may_do_better(since: int) -> None:
    """It may have been made to suit them. Otherwise, this would be a drift."""
    arms = [ba.Arm("old"), ba.Arm("new", added=1, since=since)]
    plan = ba.Plan(arms, ba.maximize("m", noise=ba.Symmetric()), items=200, reserve=0.1)
    watch, random = Watch(plan), np.random.default_rng(1)
    shift = np.where(np.arange(200) < 40, 8.0, 0.0)
    for arm in range(2):
        values = random.normal(size=200) + shift * arm
        tests = np.arange(200) + 200 * arm
        watch.extend(tests, np.full(200, arm), np.zeros(200, np.int64), values, items=np.arange(200))
    assert bool(kinds(watch.health())) == (since == 0)
