"""Numbers at the ends of the floating range in plans and results: refused by name, or computed with."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import math
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot
import numpy as np
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from tests.lengths import cases, examples

import bestarm as ba
from bestarm.analysis.charts.intervals import interval_chart
from bestarm.policies import all_policies, find_policy
from bestarm.policies.setting import to_user
from bestarm.simulation.engine import Job

GOOD: dict[str, Any] = {"sigma": 1.0, "cost": 1.0, "weight": 1.0, "delta": 0.05, "tolerance": 0.0, "slack": 0.0}


def gaussian_plan(**changes: Any) -> ba.Plan:
    f = GOOD | changes
    noise = ba.Gaussian(f["sigma"])
    return ba.Plan(
        arms=(ba.Arm("a", weight=f["weight"]), ba.Arm("b")),
        objective=ba.maximize("p", noise=noise, tolerance=f["tolerance"]),
        constraints=(ba.at_most("c", f.get("at_most", 0.0), noise=noise, cost=f["cost"], slack=f["slack"]),),
        delta=f["delta"],
        budget=f.get("budget"),
    )


def bounded_plan(low: float, high: float, *, at_most: float, slack: float = 0.0, tolerance: float = 0.0) -> ba.Plan:
    noise = ba.Bounded(low, high)
    return ba.Plan(
        arms=("a", "b"),
        objective=ba.maximize("p", noise=noise, tolerance=tolerance),
        constraints=(ba.at_most("c", at_most, noise=noise, slack=slack),),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: gaussian_plan(sigma=1e-309), r"sigma = 1e-309: must lie between 1e-50 and 1e\+50"),
        (lambda: gaussian_plan(sigma=1e308), r"sigma = 1e\+308: must lie between 1e-50 and 1e\+50"),
        (lambda: gaussian_plan(cost=1e308), r"cost = 1e\+308: must lie between 1e-50 and 1e\+50"),
        (lambda: gaussian_plan(weight=1e308), r"weight = 1e\+308: must lie between 1e-50 and 1e\+50"),
        (lambda: gaussian_plan(delta=1e-323), "delta = 1e-323: must be at least 1e-100"),
        (lambda: gaussian_plan(tolerance=1e300), r"tolerance = 1e\+300: must lie between -1e\+50 and 1e\+50"),
        (lambda: gaussian_plan(slack=math.inf), "slack = inf: must be a finite number"),
        (lambda: gaussian_plan(at_most=-1e308), r"at_most = -1e\+308: must lie between -1e\+50 and 1e\+50"),
        (
            lambda: gaussian_plan(budget=ba.Budget(tests=1e13)),
            r"tests = 1e\+13|tests = 10000000000000.0: must be at most",
        ),
        (lambda: gaussian_plan(budget=ba.Budget(cost=1e99)), r"cost = 1e\+99: must lie between 1e-50 and 1e\+50"),
        (lambda: ba.Arm("a", {"p": 1e99}), r"means.p = 1e\+99: must lie between -1e\+50 and 1e\+50"),
        (lambda: ba.Arm("a", {"p": (0.0, 1e99)}), r"means.p = .*: must lie between -1e\+50 and 1e\+50"),
        (lambda: ba.Bounded(-1e308, 1e308), r"low = -1e\+308: must lie between -1e\+50 and 1e\+50"),
        (
            lambda: ba.Bounded(0.0, 1e-300),
            "bounded noise needs a range of width 1e-50 or more, not low = 0.0, high = 1e-3",
        ),
        (
            lambda: bounded_plan(0.0, 1.0, at_most=0.9, slack=0.1),
            r"slack = 0.1 of constraint 'c' must be less than 0.09999999999999998, the distance from at_most = 0.9 to "
            "the end of the range of its values: with that much, every arm would be feasible",
        ),
        (lambda: bounded_plan(-5.0, 5.0, at_most=1.0, slack=7.0), "slack = 7.0 of constraint 'c' must be less than 4"),
        (
            lambda: ba.at_least("c", 0.25, noise=ba.Bernoulli(), slack=0.25),
            "slack = 0.25 of constraint 'c' must be less than 0.25, the distance from at_least = 0.25 to the end",
        ),
        (
            lambda: bounded_plan(-1e40, 1.0, at_most=0.5),
            "at_most = 0.5 of constraint 'c' is too close to an end of .* to be told from it",
        ),
        (
            lambda: bounded_plan(0.0, 10.0, at_most=3.0, tolerance=10.0),
            "tolerance = 10.0 of objective 'p' must be less than 10, the width of the range of its values: "
            "with that much, any feasible arm would do",
        ),
        (
            lambda: bounded_plan(1e9, 1e9 + 1, at_most=3.0),
            "must lie strictly between 1e[+]09 and 1000000001.0, the range",
        ),
    ],
)
def test_what_cannot_be_computed_with_is_refused_by_name(make: Callable[[], object], message: str) -> None:
    with pytest.raises(ba.InvalidInput, match=message):
        make()


def test_a_value_that_cannot_be_computed_with_is_refused() -> None:
    study = ba.Study.create(gaussian_plan(), storage=":memory:")
    [test] = study.ask(1)
    with pytest.raises(ba.InvalidInput, match=r"value of 'p' = 1e\+60: must lie between -1e\+50 and 1e\+50"):
        study.tell(test, 1e60)


def test_the_largest_and_smallest_that_are_accepted() -> None:
    """Every product of them is finite: the studies end, with the right answer."""
    for sigma, scale in ((1e-50, 1e50), (1e-50, 1e-49), (1e50, 1e50), (1.0, 1e50)):
        noise = ba.Gaussian(sigma)
        plan = ba.Plan(
            arms=(
                ba.Arm("a", {"p": 0.0, "c": -scale}, weight=1e50),
                ba.Arm("b", {"p": scale / 2, "c": -scale}, weight=1e-50),
                ba.Arm("c", {"p": scale, "c": scale}),
            ),
            objective=ba.maximize("p", noise=noise, cost=1e50),
            constraints=(ba.at_most("c", 0.0, noise=noise, cost=1e-50),),
            delta=1e-100,
        )
        for policy in all_policies():
            result = ba.simulate(plan, policy=policy, runs=3, max_tests=200_000)
            assert result.answer_counts == {"b": 3}, (sigma, scale, policy)
            assert np.isfinite(result.cost).all()


@cases(1)
@pytest.mark.filterwarnings("ignore:Using `httpx`")
@pytest.mark.parametrize(
    ("values", "policy"),
    [
        pytest.param(values, policy, id=f"{values}-{policy}", marks=[] if policy == own else pytest.mark.torture)
        for own, values in (
            ("certify", (1e308,) * 4),
            ("racing", (1.7e308, 1.7e308, -1e308, 1e300)),
            ("feasible-lucb", (math.inf,) * 4),
            ("certify", (1e200, 1e-300, -1e200, 0.0)),
        )
        for policy in ("certify", "racing", "feasible-lucb")
    ],
)
def test_a_record_with_values_that_are_refused_by_now_can_be_shown(
    policy: str, values: tuple[float, ...], tmp_path: Path
) -> None:
    """Made before they were. Warnings are errors here, so nothing is written beside what is shown either."""
    from starlette.testclient import TestClient

    from bestarm.web.app import create_app

    url = str(tmp_path / "old.db")
    study = ba.Study.create(dataclasses.replace(gaussian_plan(), policy=policy, name="old"), storage=url)
    for test in study.ask(4):
        study.tell(test, 0.0)
    with contextlib.closing(sqlite3.connect(url)) as connection:
        for number, value in enumerate(values, 1):
            connection.execute("UPDATE bestarm_outcomes SET value = ? WHERE test = ?", (value, number))
        connection.commit()
    study = ba.Study.open("old", storage=url)
    assert json.loads(json.dumps(study.status().to_dict(), allow_nan=False))["tests"] == 4
    assert "</svg>" in study._repr_html_()
    assert "nan" not in interval_chart(study.status().arms)
    study.ask(3)
    study.forecast(runs=5)
    for plot in (ba.plot.intervals, ba.plot.progress, ba.plot.costs):
        plot(study)
    matplotlib.pyplot.close("all")
    with TestClient(create_app(url), base_url="http://localhost") as client:
        for page in ("", "/history", "/forecast", "/log", "/pending", "/report"):
            answer = client.get(f"/api/studies/{study.record.key}{page}")
            assert answer.status_code == 200, (page, answer.text)
            if answer.headers["content-type"] == "application/json":
                json.loads(answer.text, parse_constant=pytest.fail)


WILD = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, -1.0, 5e-324, 1e-309, 1e-51, 1e51, 1e154, 1.7e308, math.inf]),
)
FIELDS = r"(sigma|low|high|at_most|at_least|cost|slack|weight|tolerance|means|delta|tests|gaussian|bounded|range)"


@st.composite
def descriptions(draw: Any) -> dict[str, Any]:
    """A plan as a file describes it. Its numbers are of all sizes that are accepted, and now and then of any."""

    def number(lowest: float = -50.0, highest: float = 50.0) -> float:
        if draw(st.integers(0, 19)) == 0:
            return float(draw(WILD))
        powers = st.one_of(st.floats(lowest, highest), st.floats(max(lowest, -1.0), min(highest, 1.0)))
        return math.pow(10.0, draw(powers))

    def signed() -> float:
        sign, offset = draw(st.sampled_from([-1.0, 0.0, 1.0])), draw(st.sampled_from([0.0, 0.0, 1e9, -1e9 - 0.5]))
        return float(sign * number() + offset)

    def noise() -> Any:
        kind = draw(st.sampled_from(["gaussian", "bounded", "bernoulli"]))
        if kind == "bounded":
            low = signed()
            return {"bounded": [low, low + draw(st.sampled_from([1.0, 1e-9, abs(low), number()]))]}
        return {"gaussian": number()} if kind == "gaussian" else "bernoulli"

    def ends(noise: Any) -> tuple[float, float]:
        low, high = (0.0, 1.0) if noise == "bernoulli" else noise["bounded"]
        return low, high

    def value(noise: Any, near: float | None = None) -> float:
        if "gaussian" in noise:
            apart = draw(st.sampled_from([0.0, 0.1, 3.0, -3.0, 1e9, -1e20])) * noise["gaussian"]
            return signed() if near is None else float(near + apart)
        low, high = ends(noise)
        share = draw(st.one_of(st.floats(0.01, 0.99), st.sampled_from([0.5, 1e-20, 1.0 - 1e-16, 0.0, 1.0])))
        return float(min(max(low + share * (high - low), low), high))

    def room(noise: Any) -> float:
        """For a slack or a tolerance: often as much as the range allows."""
        if "gaussian" in noise:
            return number()
        low, high = ends(noise)
        return float((high - low) * draw(st.floats(0.0, 1.1)))

    def some(field: str, make: Callable[[], Any]) -> dict[str, Any]:
        return {field: make()} if draw(st.integers(0, 3)) == 0 else {}

    objective = noise()
    near = [value(objective)]
    parts, constraints = [("p", objective)], []
    for k in range(draw(st.integers(0, 2))):
        own = noise()
        side = draw(st.sampled_from(["at_most", "at_least"]))
        near.append(value(own))
        extra = some("cost", number) | some("slack", functools.partial(room, own)) | some("weight", number)
        constraints.append({"metric": f"c{k}", "noise": own, side: near[-1]} | extra)
        parts.append((f"c{k}", own))
    arms = [
        {"name": f"arm {k}", "means": {name: value(own, x) for (name, own), x in zip(parts, near, strict=True)}}
        | some("weight", number)
        for k in range(draw(st.integers(1, 3)))
    ]
    goal = draw(st.sampled_from(["maximize", "minimize"]))
    more = some("cost", number) | some("tolerance", lambda: room(objective))
    budget = some("cost", number) | some("tests", lambda: draw(st.sampled_from([1, 7, 30, 10**12, 10**13, 1e300])))
    return {
        "arms": arms,
        "objective": {"metric": "p", "goal": goal, "noise": objective} | more,
        "constraints": constraints,
        "delta": number(-100.0, -0.31),
    } | ({"budget": budget} if budget else {})


SEVERE = {
    "arms": [
        {"name": "a", "means": {"p": 1e50}, "weight": 1e50},
        {"name": "b", "means": {"p": -1e50}, "weight": 1e-50},
    ],
    "objective": {"metric": "p", "goal": "minimize", "noise": {"gaussian": 1e-50}, "tolerance": 1e50},
    "constraints": [],
    "delta": 1e-100,
}


@example(data=SEVERE, policy="certify", seed=0)
@examples(25, 300, suppress_health_check=list(HealthCheck))
@given(data=descriptions(), policy=st.sampled_from(sorted(all_policies())), seed=st.integers(0, 1000))
def test_any_plan_is_refused_by_name_or_can_be_run(data: dict[str, Any], policy: str, seed: int) -> None:
    """A wrong certificate has probability delta at most: looked for where that is 1e-6 or less (300 examples)."""
    try:
        plan = ba.Plan.from_data(data | {"policy": policy})
    except ba.InvalidInput as error:
        refused: str | None = str(error)
    else:
        refused = None
    if refused is not None:
        assert re.search(FIELDS, refused), refused
        return
    job = Job.of(plan, find_policy(policy), seed=seed, max_tests=80)
    outcomes, trace = job.trace(0)
    assert np.isfinite(outcomes.outcomes.cost).all()
    assert np.isfinite(trace.values).all()
    right = plan.right_answers()
    if plan.delta <= 1e-6 and outcomes.outcomes.answers[0] >= -1:
        answer = int(outcomes.outcomes.answers[0])
        assert (None if answer < 0 else answer) in right
    study = ba.Study.create(plan, storage=":memory:", seed=seed)
    rng = np.random.default_rng(seed)
    told = 0
    while told < 40 and (tests := study.ask(5)):
        for test in tests:
            arm, metric = study.arm_number(test.arm), study.metric_number(test.metric)
            mean, sigma = job.nature.mean[arm, metric], plan.noises[metric].unit
            if isinstance(plan.noises[metric], ba.Gaussian):
                value = float(to_user(plan, job.setting, metric, mean + sigma * rng.standard_normal()))
                value = min(max(value, -1e50), 1e50)
            else:
                low, high = plan.noises[metric].range
                value = high if rng.random() < mean else low
            study.tell(test, value)
            told += 1
    status, answer_now = study.status(), study.answer
    assert 0.0 <= status.confidence <= 1.0
    assert math.isfinite(status.cost)
    assert status.headline
    assert study._repr_html_()
    for row in status.arms:
        for shown in row.metrics:
            assert not shown.tests or (math.isfinite(shown.mean) and shown.low <= shown.mean <= shown.high)
    if answer_now is not None:
        assert str(answer_now)
        if plan.delta <= 1e-6 and answer_now.state != "budget_spent":
            assert (None if answer_now.arm is None else plan.arm_names.index(answer_now.arm)) in right


@pytest.mark.parametrize("scale", [1e-100, 1e-155, 1e-162, 1e-200, 5e-324])
@pytest.mark.parametrize("more", [{}, {"baseline": "b"}, {"items": 20}, {"blocks": ba.Blocks("plate", size=6)}])
def test_values_whose_squares_underflow_hold_nothing_up(scale: float, more: dict[str, Any]) -> None:
    """Searches for the ends of intervals stop, and nothing is divided by zero."""
    noise = ba.Symmetric()
    limit = ba.at_most("y", scale, noise=noise)
    if "baseline" in more:
        limit = ba.at_most("y", relative_to_baseline=True, noise=noise)
    study = ba.Study.create(
        ba.Problem(["a", "b", "c"], ba.maximize("x", noise=noise), [limit], **more), storage=":memory:"
    )
    values = iter([1.0, 2.0, -3.0, 2.5, 1.5, -1.0, 0.0] * 20)
    while study.status().tests < 60 and (tests := study.ask(6)):
        study.tell_many([(test, scale * next(values)) for test in tests])
    shown = [metric for arm in study.status().arms for metric in arm.metrics if metric.tests]
    assert shown
    assert all(metric.low <= metric.mean <= metric.high for metric in shown)
