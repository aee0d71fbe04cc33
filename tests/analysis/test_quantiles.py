"""Quantile constraints are shown in the user's units, with intervals that hold at all times."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.lengths import lengths
from tests.program import bestarm

import bestarm as ba
from bestarm.analysis.standing.arms import standings
from bestarm.analysis.standing.quantiles import RawValues, _by_width, quantile_of, rejecting_counts
from bestarm.analysis.status.words import about_intervals, question
from bestarm.evidence.claims import constraint_evidence, suffices
from bestarm.evidence.items import record_at, with_room
from bestarm.noises.bernoulli import numbers_of_rates, rate_evidence
from bestarm.noises.streams import ABOVE, BELOW
from bestarm.policies import all_policies, find_policy, setting_for
from bestarm.policies.base import Policy
from bestarm.policies.setting import references, to_normal
from bestarm.study.reports.report import study_report


def told(
    constraint: ba.Constraint, values: Any, policy: str = "certify", delta: float = 0.1, items: int | None = None
) -> tuple[Policy, Any]:
    """A policy that has been told these results of a single arm's constraint, and its standings. With items, these are
    the results at the first places, and the last one was recorded first."""
    plan = ba.Plan(
        arms=["a"],
        objective=ba.maximize("x", noise=ba.Symmetric()),
        constraints=[constraint],
        delta=delta,
        items=items,
    )
    kind = find_policy(policy)
    made = kind(setting_for(plan, kind, delta, plan.bound, references(plan)), 1, 2)
    made.streams = made.streams if items is None else with_room(made.streams, items)
    for place, value in enumerate(values):
        normal = float(to_normal(plan, made.setting, 1, value))
        if items is None:
            made.tell(0, 1, normal)
        else:
            record_at(made.setting, made.streams, 0, 1, place, normal)
    raw = RawValues(plan)
    raw.extend(*raw_columns(values))
    return made, standings(plan, made, None, raw)[0].metrics[1]


def raw_columns(values: Any) -> tuple[Any, ...]:
    """Arms, metrics, values and places, the last place first."""
    places = np.arange(len(values))[::-1]
    return np.zeros(len(values), int), np.ones(len(values), int), np.array(values, float)[places], places


P90 = ba.at_most("latency", 200, noise=ba.Quantile(0.9))
MEDIAN = ba.at_least("rate", 5, noise=ba.Quantile(0.5))


@pytest.mark.parametrize("policy", all_policies())
@pytest.mark.parametrize("constraint", [P90, MEDIAN], ids=["at most", "at least"])
def test_what_is_left_out_is_what_the_policy_rejects(constraint: ba.Constraint, policy: str) -> None:
    """The interval of the quantile ends where the policy's interval of the share leaves its limit out."""
    rng = np.random.default_rng(3)
    values = rng.exponential(10.0, 300).round(2)
    _, row = told(constraint, values.tolist(), policy)
    for v in filter(math.isfinite, (row.low, row.high)):
        for threshold in (v - 1e-6, v + 1e-6):
            side = "at_most" if constraint.at_least is None else "at_least"
            moved, other = told(dataclasses.replace(constraint, **{side: threshold}), values.tolist(), policy)
            share, limit = other.share, constraint.limit
            if policy == "certify":
                low, high = moved.lower(0, 1), moved.upper(0, 1)
            else:
                found_low, found_high = moved.bounds()
                low, high = found_low[0, 1], found_high[0, 1]
            is_left_out = low > limit or high < limit
            assert is_left_out == (not row.low <= threshold <= row.high), (threshold, low, high, share)


@pytest.mark.parametrize("step", lengths(12, 1))
@pytest.mark.parametrize("constraint", [P90, MEDIAN], ids=["at most", "at least"])
def test_what_is_left_out_on_a_set_is_what_the_evidence_there_rejects(constraint: ba.Constraint, step: int) -> None:
    """On either side of every value, or of some of them and of the interval's ends."""
    values, seen = np.random.default_rng(4).exponential(10.0, 150).round(1).tolist(), set()
    for n in (1, 60, 149, 150):
        _, row = told(constraint, values[:n], items=150)
        for v in {*sorted({*values[:n]})[::step], *filter(math.isfinite, (row.low, row.high))}:
            for threshold in (v - 1e-6, v + 1e-6):
                side = "at_most" if constraint.at_least is None else "at_least"
                moved = dataclasses.replace(constraint, **{side: threshold})
                made, _ = told(moved, values[:n], items=150)
                levels = zip((ABOVE, BELOW), made.interval_levels(0, 1) or (), strict=True)
                is_left_out = any(
                    suffices(constraint_evidence(made.setting, made.streams, 0, 1, side), level)
                    for side, level in levels
                )
                assert is_left_out == (not row.low <= threshold <= row.high), (n, threshold)
                seen.add(is_left_out)
    assert seen == {True, False}
    assert row.low == row.mean == row.high


def test_counts_that_reject() -> None:
    for n, limit, level in ((500, 0.01, 4.0), (37, 0.5, 3.0), (1, 0.9, 2.0), (2000, 0.1, 8.0)):
        numbers = numbers_of_rates(limit)
        least, most = rejecting_counts(n, limit, level, level, numbers)
        above = [k for k in range(n + 1) if rate_evidence(n, float(k), limit, numbers, 0) >= level]
        below = [k for k in range(n + 1) if rate_evidence(n, float(n - k), 1.0 - limit, numbers, 0) >= level]
        assert (least, most) == (min(above, default=n + 1), max(below, default=-1))
        width = math.sqrt(level / (2.0 * n))
        wide = [k for k in range(n + 1) if k / n - width > limit], [k for k in range(n + 1) if k / n + width < limit]
        assert _by_width(n, limit, width) == (min(wide[0], default=n + 1), max(wide[1], default=-1))


def test_the_quantile_of_the_results() -> None:
    values = [float(value) for value in range(1, 101)]
    _, row = told(P90, values)
    assert (row.mean, row.threshold, row.share.value, row.share.limit) == (90.0, 200.0, 0.0, 0.1)
    assert row.low < 90.0 < row.high < math.inf
    assert row.statistic == "90% quantile"
    _, mirrored = told(ba.at_least("latency", -200, noise=ba.Quantile(0.1)), [-value for value in values])
    assert (mirrored.mean, mirrored.low, mirrored.high) == (-row.mean, -row.high, -row.low)
    _, first = told(P90, [7.0])
    assert (first.mean, first.low, first.high) == (7.0, -math.inf, math.inf)


@pytest.mark.parametrize(("studies", "results", "most"), lengths((100, 120, 35), (300, 400, 86)))
def test_intervals_hold_at_all_times(studies: int, results: int, most: int) -> None:
    """An interval at the level of a single arm errs on either side in at most a share δ of all studies, ever. With
    δ = 0.1, more than 35 of 100 studies, or 86 of 300, err with probability below 2e-4."""
    wrong = 0
    for study in range(studies):
        values = np.random.default_rng(study).standard_cauchy(results)
        part = ba.at_most("y", 0.3, noise=ba.Quantile(0.75))
        made, _ = told(part, [0.0])
        raw = RawValues(ba.Problem(["a"], ba.maximize("x", noise=ba.Symmetric()), [part]))
        raw.extend(np.zeros(results, int), np.ones(results, int), values)
        for n in range(5, len(values), 5):
            made.streams.counts[0, 1] = n
            found = quantile_of(made, part, 0, 1, raw)
            if not found.low <= 1.0 <= found.high:
                wrong += 1
                break
    assert wrong <= most


@pytest.mark.parametrize(("studies", "most"), lengths((40, 18), (300, 86)))
def test_intervals_on_a_set_hold_at_all_times(studies: int, most: int) -> None:
    """As above, of the quantile of the set's own 120 values, in random order. More than 18 of 40 would err with
    probability 9e-5 if both sides used all of δ."""
    wrong, part = 0, ba.at_most("y", 0.3, noise=ba.Quantile(0.75))
    made, _ = told(part, [0.0], items=120)
    finite = 0
    for study in range(studies):
        random = np.random.default_rng(study)
        values = random.permutation(random.standard_cauchy(120).round(1))
        truth = float(np.quantile(values, 0.75, method="inverted_cdf"))
        raw = RawValues(ba.Problem(["a"], ba.maximize("x", noise=ba.Symmetric()), [part], items=120))
        raw.extend(*raw_columns(values))
        for n in range(10, 121, 10):
            made.streams.counts[0, 1] = n
            found = quantile_of(made, part, 0, 1, raw)
            finite += math.isfinite(found.low) and math.isfinite(found.high)
            if not found.low <= truth <= found.high:
                wrong += 1
                break
        assert found.low == found.high == truth or wrong
    assert wrong <= most
    assert finite > 4 * studies


def latency(arm: str, rng: np.random.Generator) -> float:
    return float(rng.lognormal(math.log({"slow": 150.0, "fast": 60.0}[arm]), 0.5))


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> ba.Study:
    plan = ba.Plan(
        arms=["slow", "fast"],
        objective=ba.maximize("throughput", noise=ba.Symmetric()),
        constraints=[P90, ba.at_most("size", 3, noise=ba.Exact())],
        name="tail",
    )
    made = ba.Study.create(plan, storage=str(tmp_path_factory.mktemp("tail") / "x.db"))
    rng = np.random.default_rng(1)
    while not made.done:
        for test in made.ask(10):
            draws = {"throughput": rng.normal(10.0, 1.0), "latency": latency(test.arm, rng), "size": 3.0}
            made.tell(test, float(draws[test.metric]))
    return made


def test_in_a_study(study: ba.Study) -> None:
    assert question(study.plan) == (
        "Which of 2 arms has the largest mean throughput among those with 90% quantile of latency at most 200 and size "
        "at most 3?"
    )
    status = study.status()
    slow, fast = status.arms
    assert (slow.verdict, fast.verdict) == ("infeasible", "feasible")
    assert slow.reason.startswith("90% quantile of latency 2")
    assert "> 200 (share above 200: " in slow.reason
    assert " of at most 10%), evidence 1 : " in slow.reason
    assert study.answer is not None
    assert study.answer.reasons["slow"] == f"infeasible: {slow.reason}"
    row = fast.metrics[1]
    assert row.share is not None
    assert row.threshold == 200.0
    assert row.low < row.mean < row.high <= 200.0
    assert 0.0 <= row.share.low <= row.share.value < row.share.high < row.share.limit == 0.1
    size = fast.metrics[2]
    assert (size.mean, size.low, size.high, size.verdict) == (3.0, 3.0, 3.0, "holds")
    (shown,) = [m for m in status.to_dict()["arms"][1]["metrics"] if m["metric"] == "latency"]
    assert shown["statistic"] == "90% quantile"
    assert shown["share"] == dataclasses.asdict(row.share)


def test_on_the_command_line_and_in_the_report(study: ba.Study) -> None:
    ended = bestarm("status", "tail", "--db", study.storage.url, COLUMNS="200")
    assert "mean or quantile" in ended.out
    (line,) = [line for line in ended.out.splitlines() if line.startswith("fast") or "share above" in line][-1:]
    assert "90% quantile of latency" in line
    assert "at most 200 (share above 200: " in line
    assert "certain" in ended.out
    page = study_report(study)
    assert "<th>90% quantile of latency ≤ 200</th>" in page
    assert "<th>size ≤ 3</th>" in page
    assert "of at most 10%" in page
    assert ">90% quantile of latency</text>" in page
    assert "90% quantile of latency" in study._repr_html_()


def test_without_raw_results_the_share_is_shown() -> None:
    plan = ba.Plan(arms=["a"], objective=ba.maximize("x", noise=ba.Symmetric()), constraints=[P90])
    made, _ = told(P90, [100.0, 250.0, 120.0, 300.0])
    row = standings(plan, made)[0].metrics[1]
    assert (row.statistic, row.mean, row.threshold) == ("share above 200", 0.5, 0.1)
    assert row.subject == "share above 200 of latency"


def test_a_corrected_or_dropped_result(tmp_path: Path) -> None:
    plan = ba.Plan(arms=["a"], objective=ba.maximize("x", noise=ba.Symmetric()), constraints=[P90], name="s")
    study = ba.Study.create(plan, storage=str(tmp_path / "x.db"))
    ids = study.add([("a", "latency", value) for value in (100.0, 150.0, 120.0)])
    assert study.status().arms[0].metrics[1].mean == 150.0
    study.correct(ids[1], 110.0, "misread")
    assert study.status().arms[0].metrics[1].mean == 120.0
    again = ba.Study.open("s", storage=str(tmp_path / "x.db"))
    assert again.status().arms[0].metrics[1] == study.status().arms[0].metrics[1]


def test_plots_of_few_results(tmp_path: Path) -> None:
    """Intervals without an end, and a quantile that is not in the units of a share."""
    plan = ba.Plan(["a", "b"], ba.maximize("x", noise=ba.Symmetric()), [P90], name="s")
    study = ba.Study.create(plan, storage=str(tmp_path / "x.db"))
    study.add([("a", "latency", 100.0), ("a", "latency", 300.0), ("a", "x", 1.0)])
    panel = ba.plot.intervals(study).axes[1]
    assert panel.get_title() == "90% quantile of latency"
    low, high = panel.get_xlim()
    assert low < 200.0 < 300.0 < high
    assert high < 1e6
    assert "That of a quantile has every value" in about_intervals(plan)
    assert "<small>no interval<br>share above 200: 50% of at most 10%<br>2 tests" in study_report(study, forecast=False)
