"""Items in live studies: every arm meets them in one order, and nothing but that order decides what counts."""

from __future__ import annotations

import random

import numpy as np
import pytest
from tests.lengths import lengths
from tests.tools.on_items import with_every_noise

import bestarm as ba
from bestarm.problem.items import ItemOrder


def problem_of(items: int | list[str] = 12, *, repeats: bool = False) -> ba.Problem:
    plan = ba.Plan(
        arms=["a", "b"],
        objective=ba.maximize("score", noise=ba.Symmetric()),
        constraints=[ba.at_most("cost", 5.0, noise=ba.Symmetric())],
        items=items,
        repeats=repeats,
    )
    return with_every_noise(plan)


def value(arm: str, item: str, *, gap: float = 0.5) -> dict[str, float]:
    """The same item is the same for all arms, up to a little."""
    luck = random.Random(f"{arm} {item}")
    ease = random.Random(item).gauss(0.0, 3.0)
    score = ease + luck.gauss(0.0, 0.1) + (gap if arm == "a" else 0.0)
    further = {"rate": 0.0, "load": luck.gauss(0.0, 1.0), "time": luck.gauss(0.0, 1.0), "size": 2.0}
    return {"score": score, "cost": 2.0 + luck.gauss(0.0, 0.1), **further}


def test_the_order_is_a_permutation_that_depends_on_the_seed_alone() -> None:
    orders = [[ItemOrder(50, False, seed).item(place) for place in range(50)] for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == [*range(50)]
    named = ItemOrder(["x", "y", "z"], False, 5)
    assert sorted(named.name(place) for place in range(3)) == ["x", "y", "z"]
    assert [named.place(named.name(place)) for place in range(3)] == [0, 1, 2]
    # Written down, so that studies made today go on in the same order.
    assert orders[0][:8] == [45, 0, 7, 14, 46, 34, 26, 22]


def test_every_arm_meets_the_items_in_the_same_order() -> None:
    study = ba.Study.create(problem_of(12), storage=":memory:", items_seed=7, delta=1e-12)
    order = ItemOrder(12, False, 7)
    seen: dict[str, list[str]] = {"a": [], "b": []}
    while not study.done:
        for test in study.ask(3):
            assert test.item is not None
            seen[test.arm].append(test.item)
            study.tell(test, value(test.arm, test.item))
    assert seen["a"] == seen["b"] == [order.name(place) for place in range(12)]
    assert study.answer is not None
    assert study.answer.arm == "a"
    assert study.answer.tests == 24


def test_repeats_draw_items_again_and_again() -> None:
    study = ba.Study.create(problem_of(["x", "y", "z"], repeats=True), storage=":memory:", items_seed=7)
    seen: dict[str, list[str | None]] = {"a": [], "b": []}
    for _ in range(20):
        for test in study.ask(2):
            seen[test.arm].append(test.item)
            study.tell(test, value(test.arm, f"{test.item} {test.id}"))
    fewer = min(map(len, seen.values()))
    assert fewer > 5
    assert seen["a"][:fewer] == seen["b"][:fewer]
    assert set(seen["a"]) == {"x", "y", "z"}


@pytest.mark.parametrize("order", ["issue", "arrival"])
def test_an_abandoned_item_comes_back(order: str) -> None:
    plan = ba.Plan(
        arms=["a", "b"],
        objective=ba.maximize("score", noise=ba.Symmetric()),
        items=10,
        delta=1e-12,
        order=order,  # type: ignore[arg-type]
    )
    study = ba.Study.create(plan, storage=":memory:", items_seed=3)
    given_up: set[str] = set()
    told: dict[str, list[str]] = {"a": [], "b": []}
    while not study.done:
        for test in study.ask(2):
            assert test.item is not None
            if test.arm == "a" and test.item in {"4", "9"} and test.item not in given_up:
                given_up.add(test.item)
                study.abandon(test, "power cut")
            else:
                told[test.arm].append(test.item)
                study.tell(test, value(test.arm, test.item)["score"])
    assert given_up == {"4", "9"}
    assert sorted(told["a"]) == sorted(told["b"]) == sorted(map(str, range(1, 11)))
    assert study.answer is not None
    assert study.answer.arm == "a"


@pytest.mark.parametrize("items", lengths(80, 200))
def test_a_reopened_study_decides_the_same_compiled_or_not(items: int, tmp_path: object) -> None:
    database = f"{tmp_path}/s.db"
    study = ba.Study.create(problem_of(items), storage=database, items_seed=1, delta=0.01)
    while not study.done:
        for test in study.ask(4):
            assert test.item is not None
            study.tell(test, value(test.arm, test.item, gap=0.03))
    again = ba.Study.open(study.name, storage=database)
    again._decider._compile(wait=True)
    assert again.answer == study.answer
    assert np.allclose([row.metrics[0].low for row in again.state], [row.metrics[0].low for row in study.state])


def test_a_forecast_of_a_study_with_items() -> None:
    study = ba.Study.create(problem_of(100), storage=":memory:", items_seed=1, delta=0.01)
    assert study.forecast() is None
    for _ in range(6):
        for test in study.ask(2):
            assert test.item is not None
            study.tell(test, value(test.arm, test.item, gap=0.05))
    found = study.forecast(runs=5)
    assert found is not None
    # There are 200 results in all.
    assert found.p90_tests <= 188
