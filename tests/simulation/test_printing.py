"""Simulations and forecasts are readable when printed and in notebooks."""

from __future__ import annotations

import dataclasses

import numpy as np

import bestarm as ba
from bestarm.simulation.forecast import Forecast
from bestarm.simulation.simulate import Simulation


def simulation(answers: list[int], names: tuple[str, ...] = ("a", "b")) -> Simulation:
    plan = ba.Plan(
        name="bench",
        arms=[ba.Arm(name, {"gain": float(k)}) for k, name in enumerate(names)],
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    )
    runs = len(answers)
    tests = np.arange(10, 10 + runs)
    return Simulation(plan, "certify", 7, 1000, np.array(answers), tests, 2.0 * tests.astype(np.float64), None, 0.5)


def forecast(finished: list[bool]) -> Forecast:
    told = simulation([1] * len(finished))
    return Forecast(
        plan=told.plan,
        policy="certify",
        seed=1,
        max_tests=1000,
        worlds=3,
        tests=told.tests,
        cost=told.cost,
        finished=np.array(finished),
        answers={"b": 0.75, "none": 0.25},
        error_rate=0.25,
        per_stream=np.array([[4.0], [7.5]]),
        lower_bound=float("nan"),
        fixed_sample_tests=float("inf"),
    )


def test_a_simulation() -> None:
    text = str(simulation([1, 1, 1, 0, -1, -2]))
    assert text.splitlines() == [
        "bench: certify",
        "runs           6 (seed 7)",
        "delta, bound   0.05, paper",
        "mean tests     12.5 ± 0.8 (sd 2)",
        "mean cost      25.0",
        "wrong answers  2 (33.3%)",
        "unfinished     1 (stopped at 1,000 tests; means include them)",
        "answers        b: 3",
        "               no feasible arm: 1",
        "               a: 1",
        "speed          0.0 million tests per second",
    ]
    assert "mean tests     10.0\n" in str(simulation([1]))


def test_a_simulation_of_many_arms_with_odd_names() -> None:
    names = tuple(f"<b>{k}" for k in range(80))
    result = simulation(list(range(80)), names)
    assert "and 30 more: 30" in str(result)
    page = result._repr_html_()
    assert "<b>" not in page
    assert "&lt;b&gt;7: 1" in page
    assert "\x1b" not in str(dataclasses.replace(result, policy="\x1b[31m"))


def test_a_forecast() -> None:
    result = forecast([True, True, True, False])
    lines = str(result).splitlines()
    assert lines[0] == "bench: what it will take"
    assert "tests: half of the studies, 9 in 10  12, more than 13" in lines
    assert "tests any method needs (Theorem 1)   not computed" in lines
    assert "tests, if their number is fixed      infinite" in lines
    assert "unfinished                           1 (stopped after 1,000 tests)" in lines
    assert lines[-1].startswith("Half of such studies end within 12 tests, 9 in 10 within more than 13. 1 of 4 had no")
    page = result._repr_html_()
    assert "<th>gain</th><th>all</th>" in page
    assert "<tr><td>a</td><td>4</td><td>4</td></tr>" in page
