"""Studies of ratios and of limits relative to a baseline: told, refused, shown, opened again, exported, simulated."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

import bestarm as ba
from bestarm.analysis.status.words import assumptions, question
from bestarm.study.files.exchange import import_results, write_csv
from bestarm.study.intake.values import RefusedValue
from bestarm.study.reports.report import study_report

LIMIT = ba.at_most("errors", 0.02, per="requests", noise=ba.Bounded(-20, 20))
RATIO = "errors + requests"


def ratio_plan(name: str = "ratio") -> ba.Plan:
    return ba.Plan(
        name=name, arms=["v1", "v2"], objective=ba.minimize("time", noise=ba.Bounded(0, 60)), constraints=[LIMIT]
    )


def relative_plan(noise: ba.Noise, side: str = "at_most") -> ba.Plan:
    limit = getattr(ba, side)("latency", noise=noise, relative_to_baseline=1.5)
    return ba.Plan(
        arms=["old", "new"], objective=ba.maximize("speed", noise=ba.Exact()), constraints=[limit], baseline="old"
    )


def test_a_test_is_told_both_values_and_the_ratio_of_their_means_is_shown(tmp_path: Path) -> None:
    database = str(tmp_path / "ratio.db")
    study = ba.Study.create(ratio_plan(), storage=database)
    time, errors = study.ask(2)
    assert (errors.arm, errors.metric, errors.metrics) == ("v1", RATIO, ("errors", "requests"))
    study.tell(time, 12.0)
    study.tell(errors, {"errors": 1, "requests": 100})
    study.add([("v1", {"errors": 9, "requests": 300})])
    for one in (study, ba.Study.open("ratio", storage=database)):
        row = one.state[0].metrics[1]
        assert (row.metric, row.tests, row.threshold) == ("errors per requests", 2, 0.02)
        # 10 errors among 400 requests; −1 and 3 are what counts of the two tests.
        assert row.mean == pytest.approx(10 / 400)
        assert row.low < 0.02 < row.high
        assert (one.state[1].metrics[1].tests, one.state[1].metrics[1].threshold) == (0, 0.02)
    assert "errors − 0.02 × requests: each measurement lies between -20 and 20." in assumptions(study.plan)
    assert "errors per requests at most 0.02" in question(study.plan)


REFUSED = [
    ({"errors": 1, "requests": 0}, "value of 'requests' = 0: must be positive: another metric is divided by it"),
    ({"errors": 500, "requests": 10}, "errors − 0.02 × requests = 499.8: must lie between -20 and 20"),
    ({"errors": 1}, "lacks 'requests'"),
]


@pytest.mark.parametrize(("values", "words"), REFUSED, ids=repr)
def test_impossible_values_are_refused(values: dict[str, float], words: str) -> None:
    study = ba.Study.create(ratio_plan(), storage=":memory:")
    test = next(test for test in study.ask(4) if test.metric == RATIO)
    for refused in (lambda: study.tell(test, values), lambda: study.add([("v2", values)])):
        with pytest.raises(RefusedValue) as error:
            refused()
        assert words in str(error.value)
    lines = ",".join(values) + "\n" + ",".join(map(str, values.values()))
    with pytest.raises(ba.InvalidInput) as told:
        import_results(study, f"arm,{lines.replace(chr(10), chr(10) + 'v1,')}\n".encode(), "results.csv")
    assert "requests" in str(told.value)
    assert study.status().tests == 0


def test_what_is_exported_can_be_imported() -> None:
    study = ba.Study.create(ratio_plan(), storage=":memory:")
    study.add([("v1", {"errors": 1, "requests": 100}), ("v2", {"errors": 9, "requests": 300}), ("v1", "time", 12.0)])
    text = io.StringIO()
    write_csv(study, text)
    copy = ba.Study.create(ratio_plan("copy"), storage=":memory:")
    import_results(copy, text.getvalue().encode(), "export.csv")
    assert repr(copy.state) == repr(study.state)


def test_a_ratio_is_simulated_by_every_policy() -> None:
    truth = {
        "v1": {"time": 20.0, "errors": 0.5, "requests": 100.0},
        "v2": {"time": 10.0, "errors": 12.0, "requests": 100.0},
    }
    plan = ratio_plan().with_means(truth)
    assert plan.right_answers() == (0,)
    result = ba.simulate(plan, runs=3, seed=1)
    assert result.answer_counts == {"v1": 3}


def test_the_limit_that_the_baseline_sets_is_shown() -> None:
    study = ba.Study.create(relative_plan(ba.Gaussian(1.0)), storage=":memory:")
    study.add([("new", "latency", 14.0)])
    # Before anything is known of the baseline there is no limit.
    assert study.state[1].metrics[1].threshold is None
    study.add([("old", "latency", value) for value in (9.0, 11.0, 10.0)])
    study.add([("new", "latency", value) for value in (14.5, 13.5)])
    old, new = (row.metrics[1] for row in study.state)
    assert (old.threshold, old.verdict) == (15.0, "holds")
    assert (new.threshold, new.mean, new.verdict) == (15.0, 14.0, "open")
    assert new.low < 14.0 < 15.0 < new.high
    study.add([("old", "speed", 1.0), ("new", "speed", 2.0)])
    # The interval lies below the limit from when on it is certain to hold.
    for _ in range(40):
        if study.done:
            break
        study.add([("new", "latency", 14.0), ("old", "latency", 10.0)])
        new = study.state[1].metrics[1]
        assert (new.high < 15.0) == (new.verdict == "holds")
    assert study.answer is not None
    assert study.answer.arm == "new"
    assert "latency ≤ 1.5 × the baseline" in study_report(study)
    assert question(study.plan).endswith("latency at most 1.5 × the baseline, where the baseline is old?")


def test_the_reason_names_the_baseline() -> None:
    study = ba.Study.create(relative_plan(ba.Exact()), storage=":memory:")
    study.add([(arm, "speed", speed) for arm, speed in (("old", 1.0), ("new", 2.0))])
    study.add([("old", "latency", 10.0), ("new", "latency", 15.5)])
    assert study.answer is not None
    assert study.answer.arm == "old"
    assert study.answer.reasons["new"] == "infeasible: latency 15.5 > 15 = 1.5 × old, certain after one test"


def test_at_least_so_many_times_the_baseline() -> None:
    study = ba.Study.create(relative_plan(ba.Bounded(0, 40), "at_least"), storage=":memory:")
    study.add([("old", "speed", 1.0), ("new", "speed", 2.0)])
    for _ in range(60):
        study.add([("new", "latency", 30.0), ("old", "latency", 10.0)])
        if study.done:
            break
    new = study.state[1].metrics[1]
    assert (new.verdict, new.threshold) == ("holds", 15.0)
    assert new.low > 15.0
    assert study.answer is not None
    assert study.answer.arm == "new"
