"""Forecasts: what a study will take, from guessed means."""

from __future__ import annotations

import dataclasses
import json
import math
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import bestarm as ba
from bestarm.analysis.charts.forecast_chart import forecast_chart
from bestarm.cli.simulate import Computing, Simulating
from bestarm.cli.simulate import forecast as forecast_command
from bestarm.problem import Budget
from bestarm.simulation.forecast import MOST_WORLDS, Forecast, draw_worlds, forecast
from bestarm.theory import analyze
from bestarm.theory.fixed_sample import fixed_sample_tests

KEYS = [
    *("instance", "policy", "delta", "runs", "mean_tests", "median_tests", "p90_tests", "mean_cost", "lower_bound"),
    *("fixed_sample_tests", "unfinished", "answers", "per_metric", "per_arm"),
]


def caches(*, huge_crashes: Any = (0.3, 0.5), large_latency: Any = (6.0, 7.0), **fields: Any) -> ba.Plan:
    arms = (
        ba.Arm("small", {"latency": 9.0, "crashes": 0.02}),
        ba.Arm("large", {"latency": large_latency, "crashes": 0.05}),
        ba.Arm("huge", {"latency": 5.0, "crashes": huge_crashes}),
    )
    return ba.Plan(
        name="caches",
        arms=arms,
        objective=ba.minimize("latency", noise=ba.Gaussian(2.0)),
        constraints=(ba.at_most("crashes", 0.2, noise=ba.Bernoulli(), cost=5.0),),
        **{"policy": "feasible-lucb", **fields},
    )


def tied() -> ba.Plan:
    arms = (ba.Arm("a", {"yield": 1.0}), ba.Arm("b", {"yield": 1.0}))
    objective = ba.maximize("yield", noise=ba.Gaussian(1.0))
    return ba.Plan(name="tie", arms=arms, objective=objective, policy="feasible-lucb")


def same(a: Forecast, b: Forecast) -> bool:
    return a.summary() == b.summary() and np.array_equal(a.tests, b.tests) and np.array_equal(a.cost, b.cost)


def test_without_ranges_the_runs_are_those_of_simulate() -> None:
    plan = caches(huge_crashes=0.4, large_latency=6.5, policy="racing")
    result = forecast(plan, runs=60, seed=5, delta=0.2, bound="mixture")
    expected = ba.simulate(plan, runs=60, seed=5, delta=0.2, bound="mixture")
    assert (result.policy, result.delta, result.runs, result.worlds) == ("racing", 0.2, 60, 1)
    assert expected.tests_per_stream is not None
    assert np.array_equal(result.tests, expected.tests)
    assert np.array_equal(result.cost, expected.cost)
    assert result.mean_tests == expected.mean_tests
    assert result.median_tests == np.median(expected.tests)
    assert result.p90_tests == np.quantile(expected.tests, 0.9)
    assert (result.mean_cost, result.median_cost) == (expected.mean_cost, np.median(expected.cost))
    assert result.p90_cost == np.quantile(expected.cost, 0.9)
    assert result.answers == {name: count / 60 for name, count in expected.answer_counts.items()}
    assert (result.error_rate, result.unfinished) == (expected.error_rate, 0)
    assert np.array_equal(result.per_stream, expected.tests_per_stream.mean(axis=0))
    assert result.lower_bound == analyze(plan, 0.2).lower_bound
    assert result.fixed_sample_tests == fixed_sample_tests(plan, 0.2)


def test_a_range_of_no_width_is_a_number() -> None:
    plan = caches(huge_crashes=(0.4, 0.4), large_latency=6.5)
    assert same(forecast(plan, runs=20), forecast(caches(huge_crashes=0.4, large_latency=6.5), runs=20))


def test_worlds_lie_within_the_ranges_and_differ() -> None:
    plan = caches()
    worlds = draw_worlds(plan, 400, seed=3)
    means = np.array([world.plan.true_means() for world in worlds])
    fixed = np.ones((3, 2), dtype=bool)
    fixed[1, 0] = fixed[2, 1] = False
    assert (means[:, fixed] == means[0, fixed]).all()
    for column, low, high in ((means[:, 1, 0], 6.0, 7.0), (means[:, 2, 1], 0.3, 0.5)):
        assert low <= column.min()
        assert column.max() <= high
        assert len(set(column)) == 400
        # Uniform: for other seeds this fails with probability 1e-6.
        assert stats.kstest(column, stats.uniform(low, high - low).cdf).pvalue > 1e-6
    # Independent: for other seeds this fails with probability 1e-6.
    assert stats.pearsonr(means[:, 1, 0], means[:, 2, 1]).pvalue > 1e-6
    assert len({world.seed for world in worlds}) == 400
    assert all(dataclasses.replace(world.plan, arms=plan.arms) == plan for world in worlds)


def test_a_world_depends_on_seed_and_number_alone() -> None:
    few, many = draw_worlds(caches(), 3, seed=8), draw_worlds(caches(), 9, seed=8)
    assert many[:3] == few
    assert draw_worlds(caches(), 3, seed=9)[0] != few[0]
    other = draw_worlds(caches(large_latency=6.5), 3, seed=8)
    crashes = [world.plan.true_means()[2, 1] for world in few]
    assert [world.plan.true_means()[2, 1] for world in other] == crashes


def test_a_forecast_with_ranges_is_reproducible() -> None:
    result = forecast(caches(), runs=120, seed=4)
    assert result.worlds == MOST_WORLDS
    assert result.plan == caches()
    assert same(result, forecast(caches(), runs=120, seed=4, workers=1))
    with ThreadPoolExecutor(3) as pool:
        assert same(result, forecast(caches(), runs=120, seed=4, executor=pool))
    assert not same(result, forecast(caches(), runs=120, seed=5))
    assert forecast(caches(), runs=7, seed=4).worlds == 7


def test_the_runs_of_each_world_are_those_of_simulate() -> None:
    result, worlds = forecast(caches(), runs=120, seed=4), draw_worlds(caches(), MOST_WORLDS, seed=4)
    # 120 runs in 50 worlds: three in each of the first 20, two in each other.
    parts = [
        ba.simulate(world.plan, runs=3 if number < 20 else 2, seed=world.seed) for number, world in enumerate(worlds)
    ]
    assert np.array_equal(result.tests, np.concatenate([part.tests for part in parts]))
    assert result.error_rate == sum(part.wrong for part in parts) / 120
    assert result.lower_bound == pytest.approx(np.mean([analyze(w.plan, 0.05).lower_bound for w in worlds]))
    assert result.fixed_sample_tests == np.mean([fixed_sample_tests(world.plan, 0.05) for world in worlds])


def test_parts_add_up() -> None:
    # Wide enough for the crash rate to be on either side of the threshold, so that answers differ.
    result = forecast(caches(huge_crashes=(0.05, 0.5)), runs=100, max_tests=10**5)
    assert len(result.answers) > 1
    assert sum(result.answers.values()) + result.unfinished / 100 == pytest.approx(1.0)
    for part in (result.per_metric, result.per_arm):
        assert sum(part.values()) == pytest.approx(result.mean_tests)
    per_metric = result.per_metric
    assert per_metric["latency"] + 5.0 * per_metric["crashes"] == pytest.approx(result.mean_cost)
    assert result.tests.shape == (100,)
    # At most delta = 0.05 of all studies err: 21 or more of 100 do with probability below 1e-7.
    assert result.error_rate <= 0.2


def test_endless_runs_are_cut_and_counted() -> None:
    result = forecast(tied(), runs=10, max_tests=5000)
    # Each run ends before that with probability delta = 0.05 at most.
    assert result.unfinished + round(10 * sum(result.answers.values())) == 10
    assert result.unfinished >= 5
    assert result.tests.max() == 5000
    assert result.error_rate == 0.0
    assert (result.lower_bound, result.fixed_sample_tests) == (math.inf, math.inf)
    summary = result.summary()
    assert list(summary) == KEYS
    assert (summary["lower_bound"], summary["fixed_sample_tests"]) == (None, None)
    json.dumps(summary, allow_nan=False)


def test_a_budget_ends_studies_too(capsys: pytest.CaptureFixture[str]) -> None:
    plan = dataclasses.replace(tied(), budget=Budget(cost=300.0, tests=400))
    result = forecast(plan, runs=10)
    assert result.unfinished >= 5
    assert (result.tests.max(), result.cost.max(), result.max_tests) == (300, 300.0, 400)
    command(plan, runs=10, json=False)
    assert "no answer after 400 tests or a cost of 300" in words(capsys)


def test_no_feasible_arm() -> None:
    plan = ba.Plan(
        arms=(ba.Arm("x", {"yield": 0.0, "heat": (3.0, 4.0)}),),
        objective=ba.maximize("yield", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("heat", 1.0, noise=ba.Gaussian(1.0)),),
        delta=0.001,
        policy="feasible-lucb",
    )
    # Wrong with probability at most 0.02 for other seeds.
    assert forecast(plan, runs=20).answers == {"none": 1.0}


def by_hand(gap_in_sigmas: float, delta: float, arms: int, metrics: int) -> float:
    """n · K (N + 1) for the least n whose half-width is at most half the gap, found by counting."""
    z = stats.norm.ppf(1 - delta / (arms * metrics) / 2)
    n = 1
    while z / math.sqrt(n) > gap_in_sigmas / 2:
        n += 1
    return n * arms * metrics


def fixed(means: list[tuple[float, float]], delta: float = 0.1, tolerance: float = 0.0, slack: float = 0.0) -> float:
    problem = ba.Problem(
        arms=tuple(ba.Arm(f"arm {k}", {"m": m, "c": c}) for k, (m, c) in enumerate(means)),
        objective=ba.maximize("m", noise=ba.Gaussian(2.0), tolerance=tolerance),
        constraints=(ba.at_least("c", 1.0, noise=ba.Gaussian(0.5), slack=slack),),
    )
    return fixed_sample_tests(problem, delta)


def test_fixed_sample_tests_by_hand() -> None:
    # The hardest is the best arm's own constraint, 0.1 / 0.5 sigmas away.
    assert fixed([(5.0, 1.1), (1.0, 2.0)]) == by_hand(0.1 / 0.5, 0.1, 2, 2)
    # The hardest is the other arm's performance: half of 1 / 2 sigmas.
    assert fixed([(5.0, 2.0), (4.0, 2.0)]) == by_hand(0.5 / 2.0, 0.1, 2, 2)
    # The same arm is easier shown to be infeasible, 0.25 / 0.5 sigmas, or else worse.
    assert fixed([(5.0, 2.0), (4.0, 0.75)]) == by_hand(0.25 / 0.5, 0.1, 2, 2)
    assert fixed([(5.0, 2.0), (1.0, 0.99)], delta=0.01) == by_hand(2.0 / 2.0, 0.01, 2, 2)
    # A better arm can only be infeasible.
    assert fixed([(5.0, 2.0), (9.0, 0.9)]) == by_hand(0.1 / 0.5, 0.1, 2, 2)
    # With no feasible arm all of them must be found infeasible.
    assert fixed([(5.0, 0.8), (9.0, 0.9), (0.0, 0.7)]) == by_hand(0.1 / 0.5, 0.1, 3, 2)
    assert fixed_sample_tests(ba.instance("drug-bernoulli"), 0.1) == by_hand(0.035 / 0.5, 0.1, 5, 3)


def test_fixed_sample_tests_with_tolerance_and_slack() -> None:
    assert fixed([(5.0, 2.0), (5.0, 2.0)], tolerance=1.0) == by_hand(0.5 / 2.0, 0.1, 2, 2)
    assert fixed([(5.0, 1.1), (1.0, 2.0)], slack=0.1) == by_hand(0.2 / 0.5, 0.1, 2, 2)


def test_fixed_sample_tests_at_the_edges() -> None:
    assert fixed([(5.0, 2.0), (5.0, 2.0)]) == math.inf
    # At its threshold: not feasible, and nothing shows it.
    assert fixed([(5.0, 2.0), (9.0, 1.0)]) == math.inf
    assert fixed([(5.0, 1.0)]) == math.inf
    assert fixed([(5.0, 1.0 + 1e-200), (1.0, 2.0)]) == math.inf
    assert fixed([(1e50, 1e50), (0.0, -1e50)]) == 4.0
    assert fixed([(5.0, 3.0), (1.0, 3.0)], delta=5e-324) < math.inf
    alone = ba.Problem(arms=(ba.Arm("a", {"m": 0.0}),), objective=ba.maximize("m", noise=ba.Gaussian(1.0)))
    assert fixed_sample_tests(alone, 0.1) == 0.0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 1.0}, "delta = 1.0: must lie strictly between 0 and 1"),
        ({"policy": "x"}, "policy = 'x': no such policy"),
        ({"bound": "x"}, "bound = 'x': no such confidence bound"),
        ({"runs": 0}, "runs = 0: must be a whole number from 1"),
        ({"seed": -1}, "seed = -1: must be a whole number from 0"),
        ({"max_tests": 0}, "max_tests = 0: must be a whole number from 1"),
        ({"workers": 0}, "workers = 0: must be a whole number from 1"),
        ({"executor": "x"}, "executor = 'x': must be threads"),
    ],
)
def test_mistakes_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ba.InvalidInput, match="^" + message):
        forecast(caches(), **options)


def test_missing_means_are_named() -> None:
    plan = dataclasses.replace(caches(), arms=(*caches().arms, ba.Arm("new", {"latency": (1.0, 2.0)})))
    with pytest.raises(ba.InvalidInput, match=r"^arms\[3\].means of 'new' lacks 'crashes': a forecast needs a guess"):
        forecast(plan)


def test_progress_is_told() -> None:
    calls: list[tuple[int, int]] = []
    result = forecast(caches(), runs=60, progress=lambda done, tests: calls.append((done, tests)))
    assert calls == sorted(calls)
    assert calls[-1] == (60, int(result.tests.sum()))


def command(plan: ba.Plan, *, runs: int = 60, max_tests: int = 10**8, plot: Path | None = None, json: bool) -> None:
    with tempfile.NamedTemporaryFile("w", suffix=".toml", encoding="utf-8") as file:
        file.write(plan.to_toml())
        file.flush()
        simulating, computing = Simulating(runs=runs), Computing()
        forecast_command(
            file.name, simulating=simulating, max_tests=max_tests, computing=computing, plot=plot, as_json=json
        )


def test_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    command(caches(), json=True)
    data = json.loads(capsys.readouterr().out)
    assert list(data) == KEYS
    assert data == forecast(caches(), runs=60).summary()


def words(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())


def test_command_prints_plain_words(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    plan = caches()
    plan = dataclasses.replace(plan, arms=(*plan.arms[:2], dataclasses.replace(plan.arms[2], name="huge [x]")))
    command(plan, json=False)
    result, text = forecast(plan, runs=60), words(capsys)
    half, most = f"{result.median_tests:,.0f}", f"{result.p90_tests:,.0f}"
    assert f"Half of such studies end within {half} tests, 9 in 10 within {most}." in text
    assert "50 draws of means" in text
    assert f"{result.fixed_sample_tests:,.0f}" in text
    assert "huge [x]" in text
    assert "unfinished" not in text


def test_command_says_what_is_unfinished_or_infinite(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    command(tied(), runs=10, max_tests=1000, json=False)
    result, text = forecast(tied(), runs=10, max_tests=1000), words(capsys)
    assert f"{result.unfinished} of 10 had no answer after 1,000 tests and were given up" in text
    assert "within more than 1,000" in text
    assert text.count("infinite") == 2


def test_a_budget_cuts_off_cost_as_well_and_is_named_as_the_reason() -> None:
    text = str(forecast(tied().with_budget(tests=100), runs=10))
    assert text.count("more than 100, more than 100") == 2
    assert "10 of 10 had no answer after 100 tests. They count as ended there" in text
    assert "tie" not in text.split("had no answer")[1]


def test_command_writes_the_plot(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, needs: Callable[[str], None]
) -> None:
    needs("matplotlib")
    command(caches(), plot=tmp_path / "caches.v1.png", json=True)
    json.loads(capsys.readouterr().out)
    command(tied(), runs=5, max_tests=100, plot=tmp_path / "tie.v1", json=False)
    assert "tie.v1.csv" in capsys.readouterr().out.replace("\n", "")
    names = {f"{stem}.v1{ending}" for stem in ("caches", "tie") for ending in (".png", ".svg", ".pdf", ".csv")}
    assert {file.name for file in tmp_path.iterdir()} == names
    assert all(file.stat().st_size for file in tmp_path.iterdir())


def test_command_refuses_a_plot_that_cannot_be_written_before_it_simulates(tmp_path: Path) -> None:
    for plot, message in ((tmp_path, "must be a file"), (tmp_path / "no" / "a.png", "the folder .* does not exist")):
        with pytest.raises(ba.InvalidInput, match=f"^plot = .*{message}"):
            command(caches(), runs=10**9, plot=plot, json=True)


def test_chart_shows_the_distribution() -> None:
    result = forecast(caches(huge_crashes=0.4, large_latency=6.5), runs=80)
    done, per_metric = forecast_chart(result).panels
    assert not done.log_x
    [line] = done.series
    assert list(line.x) == sorted(set(line.x))
    assert line.x[-1] == result.tests.max()
    assert line.y[-1] == 100.0
    assert list(line.y) == pytest.approx([100.0 * np.mean(result.tests <= float(x)) for x in line.x])
    assert per_metric.series[0].x == ("latency", "crashes")
    assert per_metric.series[0].y == tuple(result.per_metric.values())


def test_chart_over_decades_has_round_numbers() -> None:
    plan = caches(huge_crashes=0.4, large_latency=6.5)
    tests = np.array([17, 90, 2_500, 30_000, 10**8])
    result = dataclasses.replace(forecast(plan, runs=5), tests=tests, finished=tests < 10**8)
    done = forecast_chart(result).panels[0]
    assert done.log_x
    assert done.series[0].x == (10.0, 30.0, 100.0, 300.0, 1_000.0, 3_000.0, 10_000.0, 30_000.0)
    assert done.series[0].y == (0.0, 20.0, 40.0, 40.0, 40.0, 60.0, 60.0, 80.0)


def test_chart_of_only_unfinished_runs() -> None:
    result = forecast(tied(), runs=3, max_tests=10)
    done, per_metric = forecast_chart(result).panels
    assert (done.series[0].x, done.series[0].y) == ((10.0,), (0.0,))
    assert per_metric.title == "Tests of yield"
