"""What one test yields: a metric, several at once, or one value for several limits."""

from __future__ import annotations

import pytest

import bestarm as ba


def test_one_metric_may_have_several_limits() -> None:
    """The objective's metric and a constraint's may be the same; then the constraint is called by what it says."""
    problem = ba.Problem(
        arms=[ba.Arm("a", {"latency": 10.0, "latency at most 200": 0.004, "size": 3.0})],
        objective=ba.minimize("latency", noise=ba.Gaussian(2.0)),
        constraints=[
            ba.at_most("latency", 200, noise=ba.Quantile(0.99)),
            ba.at_most("latency", 12, noise=ba.Gaussian(2.0)),
            ba.at_most("size", 5, noise=ba.Exact()),
        ],
    )
    assert problem.metrics == ("latency", "latency at most 200", "latency at most 12", "size")
    assert problem.measured == ("latency", "size")
    assert problem.bundles == ((0, 1, 2), (3,))
    assert problem.leads == (0, 0, 0, 3)
    assert problem.yields == {0: ("latency",), 3: ("size",)}
    assert problem.true_means().tolist() == [[10.0, 0.004, 10.0, 3.0]]
    assert problem.right_answers() == (0,)
    with pytest.raises(ba.InvalidInput, match="is the mean of 'latency'; state it there"):
        problem.with_means({"a": {"latency at most 12": 11.0}})


def test_measurements_put_metrics_together() -> None:
    problem = ba.Problem(
        arms=["a"],
        objective=ba.minimize("time", noise=ba.Symmetric()),
        constraints=[
            ba.at_most("size", 5, noise=ba.Exact(), cost=3.0),
            ba.at_most("memory", 500, noise=ba.Symmetric()),
            ba.at_most("time", 200, noise=ba.Quantile(0.9)),
        ],
        measurements=[ba.measurement("memory", "time", cost=2.0)],
    )
    assert problem.bundles == ((0, 2, 3), (1,))
    assert problem.in_order((0, 2, 3)) == [0, 3, 2]
    assert problem.yields == {0: ("time", "memory"), 1: ("size",)}
    assert problem.test_names == {0: "time + memory", 1: "size"}
    assert problem.costs == (2.0, 3.0, 2.0, 2.0)
    plan = ba.Plan.of(problem)
    assert ba.Plan.from_toml(plan.to_toml()) == plan
