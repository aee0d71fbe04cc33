"""Limits relative to a baseline, and limits of ratios: how they are stated, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

import bestarm as ba

SPEED = ba.maximize("speed", noise=ba.Gaussian(1.0))
LATENCY = ba.at_most("latency", relative_to_baseline=1.05, noise=ba.Gaussian(2.0))
ERRORS = ba.at_most("errors", 0.01, per="requests", noise=ba.Bounded(-10, 10))


def plan_of(*constraints: ba.Constraint, **fields: Any) -> ba.Plan:
    stated: dict[str, Any] = {"arms": ["old", "new"], "objective": SPEED, "constraints": constraints, **fields}
    return ba.Plan(**stated)


def test_a_factor_may_stand_in_either_place() -> None:
    assert ba.at_most("latency", 1.05, relative_to_baseline=True, noise=ba.Gaussian(2.0)) == LATENCY
    assert ba.Constraint("latency", ba.Gaussian(2.0), 1.05, relative_to_baseline=True) == LATENCY
    assert ba.at_most("latency", 1.05, noise=ba.Gaussian(2.0)).relative_to_baseline is None
    assert ba.at_least("score", relative_to_baseline=0.9, noise=ba.Bernoulli()).label == (
        "score at least 0.9 × the baseline"
    )


def test_files_hold_them_and_say_nothing_where_there_is_none() -> None:
    plan = plan_of(LATENCY, ERRORS, baseline="old")
    for copy in (ba.Plan.from_toml(plan.to_toml()), ba.Plan.from_json(plan.to_json())):
        assert copy == plan
    data = plan.to_data()
    assert data["baseline"] == "old"
    assert data["constraints"][0]["relative_to_baseline"] is True
    assert data["constraints"][1]["per"] == "requests"
    silent = plan_of(ba.at_most("latency", 3.0, noise=ba.Gaussian(2.0))).to_data()
    assert "baseline" not in silent
    assert not {"per", "relative_to_baseline"} & silent["constraints"][0].keys()


def test_margins_are_in_units_of_the_metric() -> None:
    noise = ba.Gaussian(2.0)
    limits = [
        ba.at_most("latency", relative_to_baseline=True, margin=5, noise=noise),
        ba.at_least("yield", relative_to_baseline=True, margin=2, noise=noise),
        ba.at_least("score", relative_to_baseline=0.9, margin=-1, noise=noise),
    ]
    assert [limit.label for limit in limits] == [
        "latency at most the baseline + 5",
        "yield at least the baseline − 2",
        "score at least 0.9 × the baseline + 1",
    ]
    assert [limit.limit for limit in limits] == [5.0, -2.0, 1.0]
    assert ba.at_least("yield", relative_to_baseline=True, noise=noise).threshold == 1.0
    means = {"old": (10.0, 50.0, 100.0), "new": (14.0, 48.5, 91.5), "bad": (14.0, 48.5, 90.5)}
    arms = [ba.Arm(name, dict(zip(("latency", "yield", "score"), row, strict=True))) for name, row in means.items()]
    plan = ba.Plan(arms=arms, constraints=limits, baseline="old", goal="every feasible")
    assert plan.feasible_arms() == ([1], [1])
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert "margin" not in plan_of(LATENCY, baseline="old").to_data()["constraints"][0]


def test_an_objective_is_the_first_limit_on_a_mean_where_none_is_needed() -> None:
    tail = ba.at_most("latency", 200, noise=ba.Quantile(0.99))
    plan = ba.Plan(
        arms=["a", "b"],
        constraints=[tail, ba.at_least("yield", 3, noise=ba.Gaussian(1.0), cost=2.0)],
        goal="any feasible",
    )
    assert plan.objective == ba.maximize("yield", noise=ba.Gaussian(1.0), cost=2.0)
    assert plan.bundles == ((0, 2), (1,))
    for fields, complaint in (
        ({"constraints": [tail], "goal": "every feasible"}, "objective is missing; it can only be left out where"),
        ({"constraints": [], "goal": "every feasible"}, "goal = 'every feasible': needs a constraint"),
        ({"constraints": [tail]}, "objective is missing; only the goals 'any feasible' and 'every feasible' do"),
    ):
        with pytest.raises(ba.InvalidInput, match=complaint):
            ba.Plan(arms=["a", "b"], **fields)


def test_both_metrics_of_a_ratio_come_from_one_test() -> None:
    plan = plan_of(ERRORS, ba.at_most("timeouts", 0.1, per="requests", noise=ba.Symmetric()))
    assert plan.metrics == ("speed", "errors per requests", "timeouts per requests")
    assert plan.measured == ("speed", "errors", "requests", "timeouts")
    assert plan.bundles == ((0,), (1, 2))
    assert plan.test_names == {0: "speed", 1: "errors + requests + timeouts"}
    stated = plan_of(ERRORS, measurements=[ba.measurement("speed", "errors", "requests", cost=2.0)])
    assert stated.yields == {0: ("speed", "errors", "requests")}
    assert stated.costs == (2.0, 2.0)


def test_true_means_are_stated_of_both_metrics() -> None:
    plan = plan_of(ERRORS).with_means(
        {
            "old": {"speed": 1.0, "errors": 1.0, "requests": 200.0},
            "new": {"speed": 2.0, "errors per requests": 0.5},
        }
    )
    assert plan.true_means().tolist() == [[1.0, -1.0], [2.0, 0.5]]
    assert plan.right_answers() == (0,)
    assert ERRORS.mean_of({"errors": (1.0, 2.0), "requests": (100.0, 300.0)}) == (-2.0, 1.0)
    with pytest.raises(ba.InvalidInput, match=r"arms\[1\].means of 'b' lacks 'requests'"):
        plan_of(ERRORS, arms=[ba.Arm(n, {"speed": 1.0, "errors": 1.0}) for n in "ab"], objective=SPEED).means_of(1, "")


REFUSED: list[tuple[Any, str]] = [
    (lambda: ba.at_most("m", noise=ba.Gaussian(1.0)), "at_most: of 'm' must be stated: a number, the threshold, or"),
    (
        lambda: ba.at_most("m", 2.0, relative_to_baseline=1.05, noise=ba.Gaussian(1.0)),
        "cannot be stated beside a threshold",
    ),
    (lambda: ba.at_most("m", relative_to_baseline=-1.0, noise=ba.Gaussian(1.0)), "must be a positive number"),
    (
        lambda: ba.at_most("m", relative_to_baseline=1.1, noise=ba.Quantile(0.9)),
        "about means, and not about a quantile",
    ),
    (lambda: ba.at_most("m", relative_to_baseline=1.2, noise=ba.Bounded(100, 110)), "leaves nothing to decide"),
    (
        lambda: ba.at_most("m", relative_to_baseline=1.0, noise=ba.Bounded(0, 10), slack=10.0),
        "slack = 10.0 of constraint 'm' must be less than 10",
    ),
    (lambda: plan_of(LATENCY), "constraints[0].relative_to_baseline = True: needs a baseline"),
    (
        lambda: ba.at_least("m", 2.0, margin=1.0, noise=ba.Gaussian(1.0)),
        "margin = 1.0 of constraint 'm' needs relative_to_baseline",
    ),
    (
        lambda: ba.at_least("m", relative_to_baseline=True, margin=20.0, noise=ba.Bounded(0, 10)),
        "margin = 20.0 of constraint 'm' leaves nothing to decide",
    ),
    (lambda: plan_of(LATENCY, baseline="olt"), "baseline = 'olt': no such arm; the arms are 'old', 'new'"),
    (
        lambda: ba.at_most("m", 1.0, per="d", relative_to_baseline=True, noise=ba.Gaussian(1.0)),
        "a ratio needs a threshold of its own",
    ),
    (lambda: ba.at_most("m", 1.0, per="m", noise=ba.Gaussian(1.0)), "must be another metric than the one"),
    (lambda: ba.at_most("m", 0.5, per="d", noise=ba.Bernoulli()), "must allow m − 0.5 × d on both sides of 0"),
    (
        lambda: plan_of(ERRORS, measurements=[ba.measurement("speed", "errors")]),
        "measurements[0].metrics = ['speed', 'errors']: must have 'requests' beside 'errors'",
    ),
    (
        lambda: plan_of(ERRORS, arms=[ba.Arm("a", {"requests": 0.0})]),
        "arms[0].means['requests'] = 0.0: must be positive: another metric is divided by it",
    ),
    (
        lambda: ba.Plan.from_data(
            {"arms": ["a"], "objective": {"metric": "x", "goal": "maximize", "noise": "symmetric"}}
            | {"constraints": [{"metric": "m", "at_most": 2, "noise": "symmetric", "relative_to_baseline": 1.05}]}
        ),
        "constraints[0].relative_to_baseline = 1.05: must be true or false",
    ),
]


@pytest.mark.parametrize(("make", "words"), REFUSED, ids=[words for _, words in REFUSED])
def test_what_makes_no_sense_is_refused_in_the_users_words(make: Any, words: str) -> None:
    with pytest.raises(ba.InvalidInput) as refused:
        make()
    assert words in str(refused.value)
