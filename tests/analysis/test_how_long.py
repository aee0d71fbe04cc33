"""How long a study still takes is one number, which items limit; a budget does not make it smaller."""

from __future__ import annotations

import math
import random

import pytest

import bestarm as ba
from bestarm.analysis.status.status import compact_line, progress_lines
from bestarm.study.reports.report import study_report

ITEMS = 60


def prompts(budget: ba.Budget | None = None) -> ba.Plan:
    return ba.Plan(
        name="prompts",
        arms=[f"prompt {k}" for k in range(4)],
        objective=ba.maximize("right", noise=ba.Bernoulli()),
        # The share beyond is the limit almost exactly: without items, this would take forever.
        constraints=[
            ba.at_most("latency", 2.0, noise=ba.Quantile(0.75)),
            ba.at_most("price", 5, noise=ba.Bounded(0, 9)),
        ],
        measurements=[ba.Measurement(("right", "latency", "price"))],
        items=ITEMS,
        budget=budget,
    )


def go_on(study: ba.Study, tests: int) -> None:
    for test in [test for _ in range(tests) for test in study.ask(1)]:
        drawn, arm = random.Random(f"{test.arm} {test.item}"), int(test.arm[-1])
        right = float(drawn.random() < 0.4 + 0.02 * arm)
        slow = 3.0 if int(test.item or 0) % 4 == arm else 1.0
        study.tell(test, {"right": right, "latency": slow, "price": drawn.uniform(0.0, 4.0)})


@pytest.mark.parametrize("budget", [None, ba.Budget(tests=130), ba.Budget(cost=95.0)])
def test_nothing_takes_more_than_items_leave(budget: ba.Budget | None) -> None:
    study = ba.Study.create(prompts(budget), storage=":memory:", seed=1, items_seed=1)
    looks = 0
    while not study.done:
        go_on(study, 12)
        status = study.status()
        if status.state != "running" or not status.open:
            continue
        left = 4 * ITEMS - status.tests
        assert 1 <= status.tests_left <= left
        assert all(1 <= one.tests <= min(left, 2 * ITEMS) for one in status.open)
        assert study.status().to_dict()["tests_left"] == status.tests_left
        looks += 1
    assert looks > 3
    assert study.status().tests_left == 0.0 or study.status().state == "budget_spent"


@pytest.mark.parametrize(
    ("budget", "left"),
    [
        (ba.Budget(tests=45), "5 tests"),
        (ba.Budget(cost=40.3), "a cost of 0.3"),
        (ba.Budget(blocks=7), "2 blocks"),
        (ba.Budget(hours=1.0), ""),
        (ba.Budget(tests=60, cost=90.5), "20 tests or a cost of 50.5"),
    ],
)
def test_a_budget_is_shown_beside_what_an_answer_takes_and_does_not_cut_it(budget: ba.Budget, left: str) -> None:
    def after_40_tests(budget: ba.Budget) -> ba.Status:
        blocks = ba.Blocks("block", size=8) if budget.blocks else None
        objective = ba.maximize("gain", noise=ba.Symmetric())
        plan = ba.Plan(["a", "b"], objective, budget=budget, blocks=blocks)
        study = ba.Study.create(plan, storage=":memory:", seed=1)
        drawn = random.Random(2)
        for test in [test for _ in range(5) for test in (study.ask_block() if blocks else study.ask(8))]:
            study.tell(test, drawn.gauss(0.6 * (test.arm == "b"), 1.0))
        return study.status()

    status = after_40_tests(budget)
    ample = after_40_tests(ba.Budget(blocks=1000) if budget.blocks else ba.Budget(tests=100_000))
    assert (status.tests, status.budget_left) == (40, left)
    assert status.tests_left == ample.tests_left > 50
    assert [one.tests for one in status.open] == [one.tests for one in ample.open]
    lines = dict(progress_lines(status))
    assert lines.get("budget", "") == (f"leaves {left}" if left else "")
    assert "forecast" not in lines
    assert lines["estimate"].startswith("about ")
    assert status.to_dict().get("budget_left", "") == left
    assert (f"the budget leaves {left}" in compact_line(status)) == bool(left)


def test_every_place_shows_the_latest_forecast() -> None:
    study = ba.Study.create(prompts(), storage=":memory:", seed=1, items_seed=1)
    go_on(study, 60)
    before = study.status()
    assert "9 in 10" not in str(before)
    forecast = study.forecast(runs=5)
    assert forecast is not None
    status = study.status()
    assert forecast.p90_tests <= 4 * ITEMS - status.tests
    words = dict(progress_lines(before, forecast))["forecast"]
    assert dict(progress_lines(status))["forecast"] == words
    assert words in str(status)
    assert words in compact_line(status)
    assert words in study_report(study, forecast=False)
    assert status == before
    go_on(study, 1)
    assert "(forecast of 1 result ago)" in str(study.status())


def test_in_blocks_a_forecast_has_the_cost_of_what_is_to_come() -> None:
    plan = ba.Plan(
        arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Symmetric()), blocks=ba.Blocks("day", size=4)
    )
    study, drawn = ba.Study.create(plan, storage=":memory:", seed=1), random.Random(2)
    for _ in range(10):
        for test in study.ask_block():
            study.tell(test, drawn.gauss(0.0, 1.0) + 0.5 * (test.arm == "b"))
    forecast = study.forecast(runs=3)
    assert forecast is not None
    assert forecast.median_cost == forecast.median_tests > 0.0 or math.isinf(forecast.median_tests)


def test_what_is_open_takes_whole_blocks() -> None:
    plan = ba.Plan(
        arms=["a", "b", "c"],
        objective=ba.maximize("gain", noise=ba.Symmetric()),
        constraints=[ba.at_most("turbid", 0.5, noise=ba.Bernoulli())],
        measurements=[ba.Measurement(("gain", "turbid"))],
        blocks=ba.Blocks("plate", size=8),
        budget=ba.Budget(blocks=40),
    )
    study, drawn, said = ba.Study.create(plan, storage=":memory:", seed=1), random.Random(2), []
    while not study.done:
        for test in study.ask_block():
            study.tell(test, {"gain": drawn.gauss(9.0 * (test.arm == "b"), 1.0), "turbid": 0.0})
        status = study.status()
        assert status.blocks is not None
        if status.state == "running":
            a_block = status.tests / status.blocks.made
            in_blocks = [one.tests / a_block for one in status.open] + [status.tests_left / a_block]
            assert in_blocks == pytest.approx([round(blocks) for blocks in in_blocks])
            said.append(status.blocks.made + in_blocks[-1])
    # However large differences are, so many blocks are needed. It is known after the first.
    assert said[0] == pytest.approx(len(said) + 1, rel=0.2)
