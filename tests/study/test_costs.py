"""What a test costs may depend on the arm: in plans, budgets, status, simulations and what is shown."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import cases, lengths
from tests.program import bestarm

import bestarm as ba
from bestarm.analysis.status.tests_made import about_tests
from bestarm.policies import all_policies
from bestarm.simulation.engine import Job
from bestarm.study.reports.report import study_report
from bestarm.testing.policies import assert_engines_agree

ACCURACY, HARM = ba.maximize("accuracy", noise=ba.Bernoulli()), ba.at_most("harm", 0.3, noise=ba.Bernoulli(), cost=3.0)
MODELS = [ba.Arm("small"), ba.Arm("middle", cost={"accuracy": 10}), ba.Arm("large", cost=50)]


def plan(**options: Any) -> ba.Plan:
    stated: dict[str, Any] = {"name": "models", "arms": MODELS, "objective": ACCURACY, "constraints": [HARM]}
    return ba.Plan(**stated | options)


def test_the_costs_of_every_arm_and_test() -> None:
    assert plan().arm_costs.tolist() == [[1.0, 3.0], [10.0, 3.0], [50.0, 150.0]]
    together = plan(
        constraints=[dataclasses.replace(HARM, cost=1.0)], measurements=[ba.measurement("accuracy", "harm", cost=2.0)]
    )
    assert together.arm_costs.tolist() == [[2.0, 2.0], [20.0, 20.0], [100.0, 100.0]]
    assert about_tests(plan()) == [
        "What a test costs depends on the arm: middle 10 times what is stated for accuracy and large 50 times what is "
        "stated."
    ]
    assert about_tests(plan(arms=["a", "b"])) == []


@pytest.mark.parametrize("form", ["toml", "json"])
def test_files_say_it_where_it_is_not_1(form: str) -> None:
    text = getattr(plan(), f"to_{form}")()
    assert getattr(ba.Plan, f"from_{form}")(text) == plan()
    assert [arm.get("cost") for arm in plan().to_data()["arms"]] == [None, {"accuracy": 10.0}, 50.0]
    assert "cost" not in str(
        plan(arms=["a", "b"], constraints=[ba.at_most("harm", 0.3, noise=ba.Bernoulli())]).to_data()["arms"]
    )


@pytest.mark.parametrize(
    ("cost", "complaint"),
    [
        (0, "arms[0].cost = 0: must be a positive number"),
        (True, "arms[0].cost = True: must be a number"),
        ("50", "arms[0].cost = '50': must be a number"),
        ({"accuracy": -1}, "['accuracy'] = -1: must be a positive number"),
        ({"speed": 2}, "arms[0].cost['speed'] = 2.0: no such metric; the metrics are 'accuracy', 'harm'"),
        ({"": 2}, "must not be empty"),
    ],
)
def test_what_is_refused(cost: Any, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        ba.Plan.from_data(plan().to_data() | {"arms": [{"name": "a", "cost": cost}, {"name": "b"}]})
    assert complaint in str(caught.value)


def test_metrics_of_one_test_cannot_differ() -> None:
    harm = dataclasses.replace(HARM, cost=1.0)
    with pytest.raises(ba.InvalidInput, match="must be the same for all of accuracy \\+ harm, which is one test"):
        plan(
            arms=["a", ba.Arm("b", cost={"accuracy": 2, "harm": 3})],
            constraints=[harm],
            measurements=[ba.measurement("accuracy", "harm")],
        )


@pytest.mark.parametrize("items", [None, 400])
def test_a_live_study_counts_them_in_its_budget_and_shows_them(tmp_path: Path, items: int | None) -> None:
    made = plan(budget=ba.Budget(cost=1000), items=items)
    path, spent, rng = tmp_path / "s.db", 0.0, np.random.default_rng(1)
    ba.Study.create(made, storage=path, seed=3)
    while True:
        # Another process each time.
        study = ba.Study.open("models", storage=path)
        if not (tests := study.ask(5)):
            break
        assert spent < 1000
        for test in tests:
            spent += made.arm_costs[made.arm_names.index(test.arm), made.metrics.index(test.metric)]
            study.tell(test, float(rng.random() < (0.5 if test.metric == "accuracy" else 0.29)))
        assert study.status().cost == pytest.approx(spent)
    assert study.status().state == "budget_spent"
    assert 1000 <= spent < 1000 + 150
    assert study.progress().cost[-1] == pytest.approx(spent)
    page = study_report(study, forecast=False)
    assert "<td>1 to 50</td>" in page
    assert f"<th>{spent:,.6g}</th>" in page
    printed = json.loads(bestarm("status", "models", "--db", str(path), "--json").out)
    assert printed["cost"] == printed["conclusion"]["cost"] == pytest.approx(spent)


def test_a_forecast_counts_what_the_arms_cost() -> None:
    arms = [ba.Arm("small", {"accuracy": 0.2}), ba.Arm("large", {"accuracy": 0.8}, cost=50)]
    problem = ba.Problem(arms, ACCURACY)
    forecast = ba.forecast(problem, runs=20, seed=1)
    # Two arms whose accuracies lie far apart take between half and twice as many tests each.
    assert 17 * forecast.tests.mean() <= forecast.mean_cost <= 34 * forecast.tests.mean()


@cases(9)
@pytest.mark.parametrize("most", lengths(150, 400))
@pytest.mark.parametrize("policy", ["certify", "feasible-lucb"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"constraints": ()},
        {"goal": "top", "top": 2},
        {"goal": "every feasible"},
        {"goal": "any feasible"},
        {"top": 2},
        {"items": 60},
        {"constraints": (), "objective": ba.maximize("accuracy", noise=ba.Gaussian(0.5))},
    ],
    ids=str,
)
def test_engines_agree(policy: str, options: dict[str, Any], most: int) -> None:
    found = all_policies()[policy]
    means = [{"accuracy": 0.4, "harm": 0.2}, {"accuracy": 0.5, "harm": 0.1}, {"accuracy": 0.6, "harm": 0.6}]
    if options.get("constraints") == ():
        means = [{"accuracy": mean["accuracy"]} for mean in means]
    cost = 2.0 if options.get("constraints") == () else {"accuracy": 10.0}
    arms = [ba.Arm("a", means[0]), ba.Arm("b", means[1], cost=cost), ba.Arm("c", means[2], cost=50)]
    problem = plan(arms=arms, **options)
    if policy != "certify" and (problem.asks != "best" or problem.items is not None):
        pytest.skip("only certify does that")
    assert_engines_agree(Job(problem, found, 0.1, "mixture", seed=3, max_tests=most, max_cost=3000.0), run=0)


def test_tests_go_where_they_are_cheap() -> None:
    """The leader of five models of known scatter costs a fiftieth of its rivals, or fifty times as much. Mean costs are
    compared with those of studies that do not know it: 0.84 and 0.78 (`python benchmarks/oracle.py --arms`), with a
    standard error of 0.03."""
    means = (1.0, 0.7, 0.65, 0.5, 0.0)
    noise = ba.Gaussian(1.0)

    def study(costs: list[float]) -> Any:
        arms = [
            ba.Arm(f"m{k}", {"score": mean}, cost=cost) for k, (mean, cost) in enumerate(zip(means, costs, strict=True))
        ]
        return ba.simulate(ba.Plan(arms, ba.maximize("score", noise=noise), delta=0.1), runs=300, seed=1)

    blind = study([1.0] * 5).tests_per_stream.mean(axis=0)[:, 0]
    for costs in ([1.0, 50.0, 50.0, 50.0, 50.0], [50.0, 1.0, 1.0, 1.0, 1.0]):
        aware = study(costs)
        assert aware.mean_cost < 0.95 * (blind @ costs)
        # Errors are at most delta: 300 runs have more than 52 with probability 0.0001 then.
        assert aware.wrong <= 52
