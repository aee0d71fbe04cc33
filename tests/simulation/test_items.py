"""Studies with items, simulated: worlds in which the truth is as stated, and policies that compare item by item."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.lengths import cases, first, lengths
from tests.tools.on_items import with_every_noise

import bestarm as ba
from bestarm.kernel.state import UNFINISHED
from bestarm.policies import all_policies, find_policy
from bestarm.problem import Plan
from bestarm.simulation.engine import Job
from bestarm.simulation.item_worlds import ItemWorlds
from bestarm.testing.policies import assert_engines_agree

NOISES: dict[str, tuple[ba.Noise, tuple[float, float, float], float | None]] = {
    "gaussian": (ba.Gaussian(2.0), (7.0, 6.0, 5.5), None),
    "symmetric": (ba.Symmetric(), (7.0, 6.0, 5.5), 1.0),
    "bounded": (ba.Bounded(0.0, 10.0), (7.0, 6.0, 5.5), 1.0),
    "bernoulli": (ba.Bernoulli(), (0.7, 0.5, 0.4), None),
    "exact": (ba.Exact(), (7.0, 6.0, 5.5), None),
}


def plan_of(noise: str, *, items: int = 40, repeats: bool = False, delta: float = 0.05) -> Plan:
    """Three arms; the middle one is the best that keeps its limit, unless there is none."""
    kind, means, spread = NOISES[noise]
    spreads = None if spread is None else {"score": spread}
    plan = Plan(
        name=noise,
        arms=[
            ba.Arm(f"arm {k}", {"score": mean, "violation": rate}, spreads=spreads)
            for k, (mean, rate) in enumerate(zip(means, (0.5, 0.1, 0.05), strict=True))
        ],
        objective=ba.maximize("score", noise=kind),
        constraints=[ba.at_most("violation", 0.3, noise=ba.Bernoulli())],
        items=items,
        repeats=repeats,
        item_spreads=None if noise == "exact" else {"score": 1.5},
        delta=delta,
    )
    return with_every_noise(plan)


def job_of(plan: Plan, max_tests: int = 3_000) -> Job:
    return Job.of(plan, find_policy("certify"), seed=3, max_tests=max_tests, keep_counts=True)


@pytest.mark.parametrize("noise", NOISES)
def test_in_a_set_the_means_are_those_that_are_stated(noise: str) -> None:
    plan = plan_of(noise, items=97)
    job = job_of(plan)
    table = ItemWorlds(plan, job.setting.reference).of(5, 2, 0)
    assert table.shape == (3, 6, 97)
    form = plan.normal_form()
    user = form.sign[:, np.newaxis] * (table + job.setting.reference[:, np.newaxis])
    assert np.allclose(user.mean(axis=2), plan.true_means(), atol=1e-9)
    low, high = plan.objective.noise.range
    assert (user[:, 0] >= low - 1e-9).all()
    assert (user[:, 0] <= high + 1e-9).all()
    if noise != "exact":
        # What items add, they add for all arms.
        assert np.corrcoef(user[0, 0], user[1, 0])[0, 1] > 0.3


def test_a_world_with_more_room_starts_in_the_same_way() -> None:
    plan = plan_of("symmetric", repeats=True)
    worlds = ItemWorlds(plan, job_of(plan).setting.reference)
    assert (worlds.of(5, 2, 100)[:, :, :30] == worlds.of(5, 2, 30)).all()
    assert (worlds.of(5, 3, 30) != worlds.of(5, 2, 30)).any()


@pytest.mark.parametrize("repeats", lengths(False, True), ids=["set", "repeats"])
def test_interpreted_and_compiled_agree(repeats: bool) -> None:
    # All noises in one test: they share a program that takes a minute to compile.
    for noise in NOISES:
        job = job_of(plan_of(noise, repeats=repeats), max_tests=600)
        assert_engines_agree(job, run=1)
        assert job.simulate(1, 1).outcomes.answers[0] in (1, UNFINISHED)


@pytest.mark.parametrize("items", [1, 2, 7, 30])
def test_a_set_is_measured_out_at_most_and_then_the_answer_is_exact(items: int) -> None:
    """delta is so small that nothing can be decided before the end: every answer must be right."""
    plan = Plan(
        arms=[ba.Arm(f"arm {k}", {"score": mean}, spreads={"score": 1.0}) for k, mean in enumerate((5.0, 5.0, 4.999))],
        objective=ba.maximize("score", noise=ba.Symmetric()),
        items=items,
        delta=1e-9,
    )
    result = ba.simulate(with_every_noise(plan), runs=30, seed=2)
    assert result.unfinished == 0
    assert result.wrong == 0
    assert result.tests_per_stream is not None
    assert (result.tests_per_stream <= items).all()


@pytest.mark.parametrize("rate", [0.2, 0.25])
def test_in_a_set_the_threshold_itself_is_allowed(rate: float) -> None:
    """4 or 5 of 20 items violate; at most 20% may. Nothing can be decided before the last."""
    plan = Plan(
        arms=[ba.Arm("a", {"score": 1.0, "violation": rate}), ba.Arm("b", {"score": 0.0, "violation": 0.0})],
        objective=ba.maximize("score", noise=ba.Exact()),
        constraints=[ba.at_most("violation", 0.2, noise=ba.Bernoulli())],
        items=20,
        delta=1e-30,
    )
    expected = 0 if rate == 0.2 else 1
    assert plan.right_answers() == (expected,)
    result = ba.simulate(with_every_noise(plan), runs=20, seed=1)
    assert result.answer_counts == {plan.arm_names[expected]: 20}


def test_no_arm_is_feasible() -> None:
    plan = plan_of("symmetric", items=60)
    none = plan.with_means({arm.name: {"violation": 0.6} for arm in plan.arms})
    assert ba.simulate(none, runs=20, seed=1).answer_counts == {"none": 20}


@cases(2)
@pytest.mark.parametrize("repeats", [False, True], ids=["set", "repeats"])
@pytest.mark.parametrize("noise", first(2, ["bounded", "symmetric", "gaussian", "bernoulli"]))
def test_errors_on_a_close_race(noise: str, repeats: bool) -> None:
    """Two arms that are nearly equal, with items that differ by much more: at most delta = 10% of studies may err. If
    that were just the rate, more than 59 of 400 would err with a probability of 1e-3; seeded, and fewer do."""
    kind, _, spread = NOISES[noise]
    means = (0.5, 0.504) if noise == "bernoulli" else (5.0, 5.02)
    plan = Plan(
        name="close race",
        arms=[
            ba.Arm(f"arm {k}", {"score": mean}, spreads=None if spread is None else {"score": 0.5})
            for k, mean in enumerate(means)
        ],
        objective=ba.maximize("score", noise=kind),
        items=250,
        repeats=repeats,
        item_spreads={"score": 1.5},
        delta=0.1,
    )
    result = ba.simulate(with_every_noise(plan), runs=400, seed=4, max_tests=450)
    assert result.wrong <= 59


def test_pairs_save_more_than_half_of_the_tests() -> None:
    """Items that differ by 1.5, and a rest of 0.8. Seeded; the ratio is 0.2 or less."""

    def judges(paired: bool) -> Plan:
        spread = 0.8 if paired else math.hypot(1.5, 0.8)
        return Plan(
            arms=[
                ba.Arm(f"p{k}", {"score": mean}, spreads={"score": spread}) for k, mean in enumerate((7, 6.7, 6.5, 6))
            ],
            objective=ba.maximize("score", noise=ba.Symmetric()),
            items=500 if paired else None,
            item_spreads={"score": 1.5} if paired else None,
        )

    paired, apart = (ba.simulate(judges(way), runs=40, seed=1) for way in (True, False))
    assert paired.mean_tests < 0.5 * apart.mean_tests
    assert paired.wrong <= 7


def test_other_policies_refuse_items_by_name() -> None:
    plan = plan_of("symmetric")
    for name in all_policies():
        if name != "certify":
            with pytest.raises(ba.InvalidInput, match="does not compare arms item by item; choose certify"):
                ba.simulate(plan, policy=name, runs=1)


def test_cards_and_theory_say_that_they_do_not_know_items() -> None:
    plan = plan_of("gaussian")
    with pytest.raises(ba.InvalidInput, match="studies with items cannot be simulated on a card"):
        ba.simulate(plan, runs=1, device="cuda")
    assert any("common items" in note for note in ba.analyze(plan, delta=0.1).not_computed)


def test_forecasts_know_items() -> None:
    plan = plan_of("symmetric")
    found = ba.forecast(plan.with_means({}), runs=20)
    assert found.answers == {"arm 1": 1.0}
    assert max(found.per_arm.values()) <= 40
