"""Tests that yield several metrics: told, corrected and added all at once or not at all, and whole studies of them."""

from __future__ import annotations

import functools
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tests.lengths import cases, first
from tests.study.problems import RUN, TIMES, bench, exported, one_run

import bestarm as ba
from bestarm.study.files.exchange import import_results, write_json
from bestarm.study.intake.values import RefusedValue

GOOD = {"time": 4.0, "memory": 50.0, "crash": 0}


@pytest.fixture
def study() -> ba.Study:
    return ba.Study.create(bench(), storage=":memory:")


def told(study: ba.Study) -> list[tuple[str, str, float | None, tuple[float, ...]]]:
    events = [event for event in study.log() if event.kind in ("told", "given", "corrected", "dropped")]
    names = study.plan
    return [
        (event.kind, names.arm_names[event.arm or 0], event.value, event.more)
        for event in events
        if event.arm is not None
    ]


def test_a_test_names_all_that_it_yields(study: ba.Study) -> None:
    first, second = study.ask(2)
    assert first == ba.Test(1, "a", RUN, ("time", "memory", "crash"))
    assert second == ba.Test(2, "a", "size")
    assert second.metrics == ("size",)
    assert (first.item, study.metric_number(RUN)) == (None, 0)
    assert [test for test, _ in study.pending()] == [first, second]


def test_all_values_are_told_at_once(study: ba.Study) -> None:
    run, size = study.ask(2)
    study.tell(run, dict(reversed(GOOD.items())))
    study.tell(size, {"size": 3})
    study.tell(run.id, GOOD)
    assert told(study) == [("told", "a", 4.0, (50.0, 0.0)), ("told", "a", 3.0, ())]
    status = study.status()
    assert (status.tests, status.cost) == (2, 5.0)
    assert [metric.tests for metric in status.arms[0].metrics] == [1, 1, 1, 1, 1]
    assert [metric.mean for metric in status.arms[0].metrics] == [4.0, 4.0, 3.0, 50.0, 0.0]
    with pytest.raises(
        ba.AlreadyTold,
        match=rf"test = 1 \('{RUN.replace('+', '.')}' of 'a'\): has the result time 4, memory 50, crash 0 already; a",
    ):
        study.tell(run, GOOD | {"crash": 1})


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (4.0, f"result of a test of '{RUN}' = 4.0: must be 'time', 'memory' and 'crash', by name, as in "),
        (None, f"result of a test of '{RUN}' = None: must be 'time', 'memory' and 'crash', by name"),
        ({}, "value = {}: lacks 'time', 'memory' and 'crash'; a test of time + memory + crash is told all its values"),
        ({"time": 1.0, "crash": 0}, "value = {'crash': 0, 'time': 1.0}: lacks 'memory'; a test of"),
        (GOOD | {"size": 3.0}, "this test yields 'time', 'memory' and 'crash', and no 'size'"),
        (GOOD | {"memory": 1001.0}, "value of 'memory' = 1001.0: must lie between 0 and 1000"),
        (GOOD | {"crash": 0.5}, "value of 'crash' = 0.5: must be 0 or 1"),
        (GOOD | {"time": float("nan")}, "value of 'time' = nan: must be a finite number"),
        (GOOD | {"time": "fast"}, "value of 'time' = 'fast': must be a number"),
    ],
)
def test_results_that_cannot_be_are_refused_whole(study: ba.Study, result: Any, words: str) -> None:
    run, size = study.ask(2)
    for act in (
        lambda: study.tell(run, result),
        lambda: study.tell_many([(size, 3.0), (run, result)]),
        lambda: study.add([("a", "size", 3.0), ("a", RUN, result)]),
    ):
        with pytest.raises(RefusedValue) as caught:
            act()
        assert words in str(caught.value)
    assert told(study) == []


def test_a_value_counts_for_every_part_of_its_metric() -> None:
    plan = ba.Problem(
        arms=["a"],
        objective=ba.maximize("score", noise=ba.Bounded(0, 10)),
        constraints=[ba.at_least("score", 2.0, noise=ba.Bounded(1, 12))],
    )
    study = ba.Study.create(plan, storage=":memory:")
    [test] = study.ask(1)
    assert test == ba.Test(1, "a", "score")
    for value in (0.5, 11.0):
        with pytest.raises(RefusedValue, match=r"value of 'score' = .*: must lie between"):
            study.tell(test, value)
    study.tell(test, 5.0)
    assert [metric.mean for metric in study.state[0].metrics] == [5.0, 5.0]


def test_some_values_can_be_corrected(study: ba.Study) -> None:
    run, size = study.ask(2)
    with pytest.raises(ba.InvalidInput, match="test = 1: has no result yet; there is nothing to correct"):
        study.correct(run, {"memory": 60.0}, "misread")
    study.tell(run, GOOD)
    study.correct(run, {"memory": 60.0}, "read the wrong line")
    study.correct(run, {"crash": 1, "time": 5.0}, "misread")
    study.tell(size, 3.0)
    study.correct(size, {"size": 4.0}, "misread")
    assert told(study)[1:] == [
        ("corrected", "a", 4.0, (60.0, 0.0)),
        ("corrected", "a", 5.0, (60.0, 1.0)),
        ("told", "a", 3.0, ()),
        ("corrected", "a", 4.0, ()),
    ]
    assert [metric.mean for metric in study.state[0].metrics] == [5.0, 5.0, 4.0, 60.0, 1.0]
    wrong: list[tuple[Any, str]] = [
        ({}, "has no values"),
        ({"size": 1.0}, "no 'size'"),
        (5.0, "by name"),
        ({"crash": 2}, "0 or 1"),
    ]
    for value, words in wrong:
        with pytest.raises(RefusedValue, match=words):
            study.correct(run, value, "misread")
    assert len(told(study)) == 5


def test_a_test_that_was_given_up_can_be_corrected_with_all_its_values(study: ba.Study) -> None:
    [run] = study.ask(1)
    study.abandon(run, "spilled")
    with pytest.raises(ba.AlreadyTold, match="was abandoned: spilled"):
        study.tell(run, GOOD)
    with pytest.raises(RefusedValue, match="lacks 'time' and 'crash'"):
        study.correct(run, {"memory": 3.0}, "misread")
    study.correct(run, GOOD, "misread")
    assert study.status().tests == 1


def test_results_measured_without_asking(study: ba.Study) -> None:
    ids = study.add(
        [("b", GOOD), ("b", "size", 3.0), ("a", {"size": 2.0}), ("a", RUN, GOOD), ("a", "size", {"size": 3.0})]
    )
    assert ids == [1, 2, 3, 4, 5]
    assert [(value, more) for _, _, value, more in told(study)] == [
        (4.0, (50.0, 0.0)),
        (3.0, ()),
        (2.0, ()),
        (4.0, (50.0, 0.0)),
        (3.0, ()),
    ]
    wrong: list[tuple[Any, str]] = [
        (("a", "memory", 3.0), "metric = 'memory': is measured together with 'time' and 'crash'; give the values of"),
        (("a", {"memory": 3.0}), "lacks 'time' and 'crash'"),
        (("a", {"memory": 3.0, "size": 1.0}), "metric = 'size': is not measured together with 'memory'"),
        (("a", {"speed": 3.0}), "metric = 'speed': no such metric; there are 'time', 'memory', 'crash', 'size'"),
        (("a", "time at most 9", 3.0), "metric = 'time at most 9': no such metric"),
        (("a", {}), "values = {}: has no values"),
        (("z", GOOD), "arm = 'z': no such arm"),
        (("a", GOOD, "q1"), "item = 'q1': this study has no items"),
        (("a",), r"results = \('a',\): must be \(arm, metric, value\), or"),
        (("a", "size"), r"must be \(arm, metric, value\), or"),
        ("abc", "must be .arm, metric, value"),
    ]
    for result, words in wrong:
        with pytest.raises(ba.InvalidInput, match=words):
            study.add([("a", "size", 3.0), result])
    assert len(told(study)) == 5
    # The same under a key is recorded once.
    assert study.add([("b", GOOD)], key="k") == study.add([("b", dict(reversed(GOOD.items())))], key="k") == [6]


@pytest.mark.parametrize("order", ["issue", "arrival"])
@pytest.mark.parametrize("policy", first(1, ["certify", "racing", "tf-lucb"]))
def test_a_whole_study_its_record_and_its_export(tmp_path: Path, policy: str, order: str) -> None:
    """With late results, tests given up and handed out again, and corrections of some values. Exact, not by chance."""
    plan = bench(policy=policy, order=order)
    study = ba.Study.create(plan, storage=tmp_path / "s.db")
    rng = random.Random(3)
    held: list[ba.Test] = []
    done: list[ba.Test] = []
    while not study.done:
        held += study.ask(4)
        rng.shuffle(held)
        for test in [held.pop() for _ in range(rng.randint(1, len(held)))]:
            if rng.random() < 0.05:
                study.abandon(test, "spilled")
                continue
            if rng.random() < 0.05:
                study.fail(test, "try again")
                continue
            result = one_run(test.arm, test.metric)
            if isinstance(result, dict):
                result["time"] += rng.gauss(0.0, 1.0)
                done.append(test)
            study.tell(test, result)
        if done and rng.random() < 0.1:
            study.correct(rng.choice(done), {"memory": rng.uniform(40.0, 60.0)}, "typo")
    answer = study.answer
    assert answer is not None
    # Wrong with probability at most 0.05, and seeded.
    assert answer.arm == "a"
    again = ba.Study.open("study", storage=tmp_path / "s.db")
    assert (again.answer, again.state) == (answer, study.state)
    copy = ba.Study.create(plan, name="copy", storage=tmp_path / "s.db")
    recorded = import_results(copy, exported(study).encode(), "e.csv")
    assert recorded.results + recorded.skipped == study.storage.issued(study.record.key)
    assert copy.answer == answer
    assert copy.state == study.state
    data = json.loads(exported(study, write_json))
    by_name = {
        test["metric"]: test for test in data["tests"] if test["outcomes"] and "value" not in test["outcomes"][-1]
    }
    assert by_name[RUN]["metrics"] == ["time", "memory", "crash"]
    assert set(by_name) <= {RUN}


def test_identify_with_a_function_that_returns_a_mapping(tmp_path: Path) -> None:
    calls: Counter[tuple[str, str]] = Counter()

    def measure(arm: str, metric: str) -> float | dict[str, float]:
        calls[arm, metric] += 1
        return one_run(arm, metric)

    answer = ba.identify(bench(), measure, storage=tmp_path / "s.db")
    assert answer.arm == "a"
    assert calls.total() == answer.tests
    assert set(calls) == {(arm, metric) for arm in TIMES for metric in (RUN, "size")}
    # Called again, it only looks it up.
    assert ba.identify(bench(), measure, storage=tmp_path / "s.db") == answer
    assert calls.total() == answer.tests


@cases(1)
@pytest.mark.parametrize("executor", ["threads", "processes"])
def test_identify_on_executors(executor: str) -> None:
    assert ba.identify(bench(), one_run, executor=executor, workers=2).arm == "a"


def failing(arm: str, metric: str, *, error: type[Exception] = ValueError) -> Any:
    if metric == RUN and arm == "b":
        raise error("no license")
    return one_run(arm, metric)


def test_failures_are_declared_for_every_metric_or_not_at_all(tmp_path: Path) -> None:
    go_on = functools.partial(ba.identify, bench(), storage=tmp_path / "s.db")
    with pytest.raises(ba.MeasurementFailed) as caught:
        go_on(failing, failed_as={"crash": 1, "memory": 900})
    assert str(caught.value) == (
        f"test 3 ('{RUN}' of 'b') failed: ValueError: no license. It is set aside, and no later result counts before "
        "it. Declare what it counts for each of 'time', 'memory' (from 0 to 1000), 'crash' (from 0 to 1): "
        "failed_as=VALUE, or values by metric, to record them; or retries=N, if failures have nothing to do with "
        "results, to try again; or, once a mistake of what measures is mended, free the test with "
        "bestarm.Study.open('study', storage=…).release(3). Then call again with the same storage and name to go on."
    )
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    [awaited] = study.unresolved()
    assert awaited.count_command is not None
    assert awaited.count_command.startswith("bestarm tell study 3 time=VALUE memory=VALUE crash=VALUE --db ")
    with pytest.raises(ba.InvalidInput, match="failed_as: no metric 'time at most 9'; there are 'time', 'size'"):
        go_on(failing, failed_as={"time at most 9": 1})
    # What is declared now counts for the failure from before, too.
    declared = {"crash": 1, "memory": 900, "time": 60}
    answer = go_on(failing, failed_as=declared)
    assert answer.arm == "a"
    assert answer.reasons["b"].startswith(("infeasible", "worse"))
    late = functools.partial(failing, error=TimeoutError)
    assert ba.identify(bench(), late, timeout_as=declared).arm == "a"


def test_results_that_cannot_be_stop_the_work(tmp_path: Path) -> None:
    wrong: list[tuple[Any, str]] = [
        (lambda arm, metric: {"time": 1.0}, "was not made: {'time': 1.0}: lacks 'memory'"),
        (lambda arm, metric: 1.0, '1.0 is no result; the function must return {"time": VALUE, "memory": VALUE,'),
        (lambda arm, metric: GOOD | {"x": 1}, "and no 'x'"),
    ]
    for function, words in wrong:
        with pytest.raises(ba.MeasurementFailed) as caught:
            ba.identify(bench(), function, failed_as={"time": 9, "memory": 9, "crash": 1, "size": 1}, retries=9)
        assert words in str(caught.value)


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    def interrupt(study: ba.Study, running: int) -> None:
        if study.status().tests >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        ba.identify(bench(), one_run, storage=tmp_path / "s.db", watch=interrupt)
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert study.status().tests == 4
    assert all(row.expires == 0.0 for _, row in study.pending())
    assert ba.identify(bench(), one_run, storage=tmp_path / "s.db") == ba.identify(bench(), one_run)


def test_the_budget_counts_tests_not_values() -> None:
    study = ba.Study.create(bench(budget=ba.Budget(tests=7)), storage=":memory:")
    tests = study.ask(100)
    assert len(tests) == 7
    for test in tests:
        study.tell(test, one_run(test.arm, test.metric))
    answer = study.answer
    assert answer is not None
    assert answer.tests == 7
    assert answer.cost == sum(2.0 if test.metric == RUN else 3.0 for test in tests)
