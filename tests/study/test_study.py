"""Studies: what is asked, what is told, what counts, and that live decisions are those of the simulator."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.lengths import first
from tests.study.problems import two_arms

import bestarm as ba
from bestarm.kernel.state import UNFINISHED
from bestarm.policies import all_policies, find_policy
from bestarm.policies.setting import to_user
from bestarm.simulation.engine import Job
from bestarm.study.files.exchange import import_results, write_csv
from bestarm.study.record import decider


def follow(study: ba.Study, job: Job, run: int, at_once: int) -> int:
    """Feed a study from a simulated run, insisting that it asks for exactly its tests; returns how many there were."""
    _, trace = job.trace(run)
    told = 0
    while told < len(trace.values) and not study.done:
        tests = study.ask(at_once)
        assert tests
        for test in tests:
            if told == len(trace.values):
                break
            arm, metric = study.arm_number(test.arm), study.metric_number(test.metric)
            assert (arm, metric) == tuple(trace.streams[told].tolist()), f"test {test.id}"
            study.tell(test, to_user(study.plan, job.setting, metric, trace.values[told]))
            told += 1
    return told


@pytest.mark.parametrize(
    ("tests", "compiled_from"),
    [(80, 50), *(pytest.param(300, least, marks=pytest.mark.torture) for least in (100, 10**9))],
)
@pytest.mark.parametrize("policy", first(3, sorted(all_policies())))
def test_live_and_simulated_decisions_agree(
    policy: str, compiled_from: int, tests: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Interpreted at first, and compiled in the middle; in `make torture` also interpreted to the end."""
    monkeypatch.setattr(decider, "COMPILE_RESULTS", compiled_from)
    for name in ("exp1-b", "drug-bernoulli"):
        plan = dataclasses.replace(ba.instance(name), policy=policy)
        job = Job.of(plan, find_policy(policy), seed=3, max_tests=tests)
        study = ba.Study.create(plan, storage=":memory:", seed=3)
        assert follow(study, job, 0, 1) == job.simulate(0, 1).outcomes.tests[0]


@pytest.mark.parametrize("policy", ["certify", "racing"])
def test_a_whole_study_ends_with_the_simulated_answer(policy: str) -> None:
    """Also when a round is asked for at once: the first of its tests ends no round."""
    means = {"a": {"gain": 2.0, "harm": 0.2}, "b": {"gain": 0.0, "harm": 0.2}}
    plan = ba.Plan.of(two_arms(policy=policy).with_means(means))
    job = Job.of(plan, find_policy(policy), seed=5, max_tests=100_000)
    study = ba.Study.create(plan, storage=":memory:", seed=5)
    outcomes = job.simulate(0, 1).outcomes
    assert outcomes.answers[0] != UNFINISHED
    assert follow(study, job, 0, 4 if policy == "racing" else 1) == outcomes.tests[0]
    answer = study.answer
    assert answer is not None
    assert answer.state == "certified"
    assert answer.arm == plan.arm_names[outcomes.answers[0]]
    assert answer.tests == outcomes.tests[0]
    assert study.ask(5) == []


def test_results_count_in_the_order_of_issue(tmp_path: Path) -> None:
    study = ba.Study.create(two_arms(), storage=tmp_path / "s.db")
    first, second, *others = study.ask(4)
    assert (first.id, second.id) == (1, 2)
    study.tell(second, 1.0)
    status = study.status()
    assert (status.tests, status.waiting, status.pending) == (1, 1, 3)
    assert sum(metric.tests for arm in status.arms for metric in arm.metrics) == 0
    study.tell(first, 0.0)
    status = study.status()
    assert (status.tests, status.waiting, status.pending) == (2, 0, 2)
    assert sum(metric.tests for arm in status.arms for metric in arm.metrics) == 2
    assert status.cost == pytest.approx(4.0)
    # A test that is given up is waited for no longer.
    study.abandon(others[0], "the vial broke")
    study.tell(others[1], 0.0)
    assert study.status().waiting == 0
    with pytest.raises(ba.AlreadyTold, match="was abandoned: the vial broke"):
        study.tell(others[0], 1.0)
    # The stream of the abandoned test is still without a result, and so it is asked for again.
    assert [(test.arm, test.metric) for test in study.ask(1)] == [(others[0].arm, others[0].metric)]


def test_rounds_and_waiting() -> None:
    """A policy that works in rounds says wait; `certify` plans ahead, and by what it knows."""
    racing = ba.Study.create(two_arms(policy="racing"), storage=":memory:")
    assert len(racing.ask(3)) == 3
    assert len(racing.ask(3)) == 1
    assert racing.ask(3) == []
    assert not racing.done
    ahead = ba.Study.create(two_arms(), storage=":memory:")
    tests = ahead.ask(4)
    assert len(ahead.ask(10)) == 10
    arms = {"a": 5.0, "b": 0.0}
    for test in tests:
        ahead.tell(test, arms[test.arm] if test.metric == "gain" else 0.0)
    more = ahead.ask(200)
    assert len(more) == 200
    assert len({test.id for test in more} | {test.id for test in tests}) == 204
    # An answer needs no more than the results of the tests up to it: what is still out may stay out.
    for pending, _ in ahead.pending():
        if ahead.done:
            break
        ahead.tell(pending, arms[pending.arm] if pending.metric == "gain" else 0.0)
    assert ahead.done
    assert ahead.status().pending > 0


def test_planning_ahead_does_not_change_what_the_record_says(tmp_path: Path) -> None:
    """Told out of order and many at a time, the answer is that of the record read afresh."""
    rng = np.random.default_rng(4)
    study = ba.Study.create(two_arms(delta=0.01), storage=tmp_path / "s.db")
    means = {"a": {"gain": 1.0, "harm": 0.3}, "b": {"gain": 0.0, "harm": 0.3}}
    out: list[ba.Test] = []
    while not study.done:
        out += study.ask(int(rng.integers(1, 12)))
        for _ in range(int(rng.integers(1, 12))):
            if out:
                test = out.pop(int(rng.integers(len(out))))
                mean = means[test.arm][test.metric]
                value = rng.normal(mean) if test.metric == "gain" else float(rng.random() < mean)
                study.tell(test, value)
    again = ba.Study.open("study", storage=tmp_path / "s.db")
    assert again.answer == study.answer
    assert again.status() == study.status()
    assert again.answer is not None
    # Wrong with probability at most 0.01, and seeded.
    assert again.answer.arm == "a"


def test_telling_twice(tmp_path: Path) -> None:
    study = ba.Study.create(two_arms(), storage=tmp_path / "s.db")
    test = study.ask(1)[0]
    study.tell(test, 1.5)
    study.tell(test.id, 1.5)
    with pytest.raises(ba.AlreadyTold, match=r"test = 1 \('gain' of 'a'\): has the result 1.5 already; a correction"):
        study.tell(test, 1.6)
    assert study.status().tests == 1
    study.correct(test, 1.6, "read the scale wrong")
    assert study.state[0].metrics[0].mean == pytest.approx(1.6)
    told = [event for event in study.log() if event.test == test.id]
    assert [(event.kind, event.value) for event in told] == [("asked", None), ("told", 1.5), ("corrected", 1.6)]
    # Another reader, which had the old value, starts afresh.
    assert study.status().tests == 1


def test_a_correction_reaches_readers_that_had_the_old_value(tmp_path: Path) -> None:
    study = ba.Study.create(two_arms(), storage=tmp_path / "s.db")
    reader = ba.Study.open("study", storage=tmp_path / "s.db")
    for test in study.ask(4):
        study.tell(test, 1.0)
    assert reader.state[0].metrics[0].mean == 1.0
    study.correct(1, 3.0, "misread")
    assert reader.state[0].metrics[0].mean == 3.0


def test_results_measured_without_asking() -> None:
    study = ba.Study.create(two_arms(), storage=":memory:")
    study.ask(1)
    ids = study.add([("a", "gain", 1.0), ("a", "gain", 2.0), ("b", "harm", 1)], source="past.csv 123")
    assert ids == [2, 3, 4]
    # They wait for the test that is out, and not for those that have not been handed out.
    assert study.status().waiting == 3
    study.tell(1, 0.0)
    status = study.status()
    assert (status.tests, status.waiting) == (4, 0)
    with pytest.raises(ba.InvalidInput, match=r"past.csv 123: has been recorded in this study already"):
        study.add([("a", "gain", 1.0)], source="past.csv 123")
    # What has no result yet comes next.
    asked = {(test.arm, test.metric) for test in study.ask(2)}
    assert asked == {("a", "harm"), ("b", "gain")}
    with pytest.raises(ba.InvalidInput, match=r"value of 'harm' = 0.5: must be 0 or 1"):
        study.add([("a", "gain", 1.0), ("a", "harm", 0.5)])
    assert study.status().tests == 4


@pytest.mark.parametrize("policy", sorted(all_policies()))
def test_streams_may_be_tested_in_any_order(policy: str) -> None:
    """Many results of some streams before the first of others; then the study goes on as usual."""
    rng = np.random.default_rng(8)
    means = {"a": {"gain": 3.0, "harm": 0.0}, "b": {"gain": 0.0, "harm": 0.0}, "c": {"gain": 6.0, "harm": 1.0}}
    plan = dataclasses.replace(two_arms(policy=policy, delta=1e-4), arms=tuple(ba.Arm(name) for name in means))
    study = ba.Study.create(plan, storage=":memory:")

    def value(arm: str, metric: str) -> float:
        mean = means[arm][metric]
        return float(rng.normal(mean)) if metric == "gain" else mean

    study.add([("c", "harm", value("c", "harm")) for _ in range(60)])
    study.add([("a", "harm", value("a", "harm")) for _ in range(60)])
    study.add([("b", "gain", value("b", "gain")) for _ in range(3)])
    assert {(test.arm, test.metric) for test in study.ask(10)} >= {("a", "gain"), ("b", "harm"), ("c", "gain")}
    for test, _ in study.pending():
        study.tell(test, value(test.arm, test.metric))
    for _ in range(4000):
        if study.done:
            break
        for test in study.ask(6):
            study.tell(test, value(test.arm, test.metric))
    answer = study.answer
    assert answer is not None
    # Wrong with probability at most 1e-4, and seeded.
    assert answer.arm == "a"


def test_results_that_wait_are_not_counted_and_said_to_wait(tmp_path: Path) -> None:
    """One forgotten test must not stop a study in silence."""
    ba.Study.create(two_arms(), storage=tmp_path / "s.db").ask(4, days=math.inf)
    study = ba.Study.open("study", storage=tmp_path / "s.db", holder="bob")
    for test in study.ask(20):
        study.tell(test, 1.0)
    status = study.status()
    assert (status.waiting, status.tests) == (20, 20)
    assert status.headline.endswith("(not counting 20 results that wait)")
    assert status.awaited is not None
    assert status.awaited.state == "held"
    assert status.to_dict()["awaited"]["command"] == status.awaited.command
    study.release([1, 2, 3, 4])
    for test in study.ask(4):
        study.tell(test, 1.0)
    assert study.status().waiting == 0


def test_results_by_arrival(tmp_path: Path) -> None:
    """Where durations have nothing to do with results, slow tests hold up nothing."""
    plan = two_arms(order="arrival", delta=0.01)
    study = ba.Study.create(plan, storage=tmp_path / "s.db")
    assert '"order": "arrival"' in plan.to_json()
    forgotten = study.ask(2, days=math.inf)
    rng = np.random.default_rng(4)
    means = {"a": {"gain": 2.0, "harm": 0.1}, "b": {"gain": 0.0, "harm": 0.1}}
    out: list[ba.Test] = []
    while not study.done:
        out += study.ask(int(rng.integers(1, 9)))
        for _ in range(int(rng.integers(1, 9))):
            if out:
                test = out.pop(int(rng.integers(len(out))))
                mean = means[test.arm][test.metric]
                study.tell(test, rng.normal(mean) if test.metric == "gain" else float(rng.random() < mean))
        assert study.status().waiting == 0
    again = ba.Study.open("study", storage=tmp_path / "s.db")
    assert again.answer == study.answer
    assert again.status() == study.status()
    assert again.answer is not None
    # Wrong with probability at most 0.01, and seeded.
    assert again.answer.arm == "a"
    # Exported and read into another study of the same plan, it comes to the same answer.
    with (tmp_path / "export.csv").open("w", newline="") as export:
        write_csv(study, export)
    copy = ba.Study.create(plan, name="copy", storage=tmp_path / "s.db")
    import_results(copy, (tmp_path / "export.csv").read_bytes(), "export.csv")
    assert copy.answer == study.answer
    # What arrives after the end changes nothing.
    study.tell(forgotten[0], -100.0)
    assert ba.Study.open("study", storage=tmp_path / "s.db").answer == again.answer


def test_policies_that_work_in_rounds_take_them_in_together(tmp_path: Path) -> None:
    study = ba.Study.create(two_arms(policy="racing", order="arrival"), storage=tmp_path / "s.db")
    tests = study.ask(4)
    for test in tests[1:]:
        study.tell(test, 1.0)
    assert study.ask(4) == []
    assert study.status().waiting == 3


def test_budget() -> None:
    tests = ba.Study.create(two_arms(budget=ba.Budget(tests=6)), storage=":memory:")
    assert len(tests.ask(100)) == 6
    assert tests.ask(1) == []
    for test, _ in tests.pending():
        tests.tell(test, 0.0)
    assert tests.done
    assert tests.status().state == "budget_spent"
    assert tests.status().answer is None
    answer = tests.answer
    assert answer is not None
    assert answer.tests == 6
    cost = ba.Study.create(two_arms(budget=ba.Budget(cost=9.5)), storage=":memory:")
    spent = [{"gain": 1.0, "harm": 3.0}[test.metric] for test in cost.ask(100)]
    # As in a simulation, the test that reaches the limit is the last.
    assert sum(spent) >= 9.5 > sum(spent[:-1])


def test_archived_studies_can_be_read_and_not_changed() -> None:
    study = ba.Study.create(two_arms(), storage=":memory:")
    test = study.ask(1)[0]
    study.archive()
    for act in (lambda: study.ask(1), lambda: study.tell(test, 1.0), lambda: study.add([("a", "gain", 1.0)])):
        with pytest.raises(ba.InvalidInput, match=r"study = 'study': is archived"):
            act()
    assert study.status().pending == 1
    study.archive(undo=True)
    study.tell(test, 1.0)
    assert study.status().tests == 1


@pytest.mark.parametrize(
    ("metric", "value", "words"),
    [
        ("gain", math.nan, "must be a finite number"),
        ("gain", math.inf, "must be a finite number"),
        ("gain", "1.0", "must be a number"),
        ("gain", None, "must be a number"),
        ("gain", True, "must be a number"),
        ("harm", 0.5, "must be 0 or 1"),
        ("harm", 2, "must be 0 or 1"),
        ("dose", 10.5, "must lie between 0 and 10"),
    ],
)
def test_values_that_cannot_be(metric: str, value: object, words: str) -> None:
    plan = two_arms()
    dose = ba.at_least("dose", 5.0, noise=ba.Bounded(0, 10))
    study = ba.Study.create(
        ba.Problem(arms=plan.arms, objective=plan.objective, constraints=(*plan.constraints, dose)), storage=":memory:"
    )
    test = next(test for test in study.ask(6) if test.metric == metric)
    with pytest.raises(ba.InvalidInput, match=f"value of '{metric}' = .*: {words}"):
        study.tell(test, value)  # type: ignore[arg-type]
    assert study.status().tests == 0
    study.tell(test, True if metric == "harm" else np.float32(1.0))  # type: ignore[arg-type]
    assert study.status().tests == 1


def test_what_is_not_there() -> None:
    study = ba.Study.create(two_arms(), storage=":memory:")
    with pytest.raises(ba.InvalidInput, match=r"name = 'study': a study of this name exists already"):
        ba.Study.create(two_arms(), storage=study.storage)
    with pytest.raises(ba.InvalidInput, match=r"study = 'other': no such study in ':memory:'; there are 'study'"):
        ba.Study.open("other", storage=study.storage)
    with pytest.raises(ba.InvalidInput, match=r"arm = 'c': no such arm; there are 'a', 'b'"):
        study.add([("c", "gain", 1.0)])
    with pytest.raises(ba.InvalidInput, match=r"metric = 'pain': no such metric; there are 'gain', 'harm'"):
        study.add([("a", "pain", 1.0)])
    acts: tuple[Callable[[int], None], ...] = (
        lambda test: study.fail(test, "broke"),
        lambda test: study.abandon(test, "broke"),
        lambda test: study.tell(test, 1.0),
        lambda test: study.correct(test, 1.0, "misread"),
    )
    for act in acts:
        with pytest.raises(ba.InvalidInput, match=r"test = 7: no such test in study 'study'"):
            act(7)
    with pytest.raises(ba.InvalidInput, match=r"test = -1: must be a test, or the number of one"):
        study.tell(-1, 1.0)
    study.ask(1)
    with pytest.raises(ba.InvalidInput, match=r"test = 1: has no result yet"):
        study.correct(1, 2.0, "misread")
    with pytest.raises(ba.InvalidInput, match=r"test = 1: is 'gain' of 'a' in study 'study', not 'harm' of 'b'"):
        study.tell(ba.Test(1, "b", "harm"), 1.0)
    for n in (0, -1, 1.5, True, 10**7):
        with pytest.raises(ba.InvalidInput, match=r"n = .*: must be a whole number"):
            study.ask(n)  # type: ignore[arg-type]
    with pytest.raises(ba.InvalidInput, match=r"policy = 'magic': no such policy"):
        ba.Study.create(two_arms(), policy="magic", storage=":memory:")
    with pytest.raises(ba.InvalidInput, match=r"seed = -1"):
        ba.Study.create(two_arms(), seed=-1, storage=":memory:")


def test_forecast_of_what_remains() -> None:
    study = ba.Study.create(two_arms(), storage=":memory:")
    assert study.forecast() is None
    rng = np.random.default_rng(0)
    for _ in range(10):
        for test in study.ask(4):
            study.tell(test, float(rng.normal(test.arm == "a")) if test.metric == "gain" else float(rng.random() < 0.3))
    before = study.status()
    outlook = study.forecast(runs=40)
    assert outlook is not None
    assert 0 < outlook.median_tests <= outlook.p90_tests
    assert outlook.median_cost > outlook.median_tests
    assert sum(outlook.answers.values()) <= 1.0 + 1e-9
    # Looking ahead changes nothing.
    assert study.status() == before
    assert study.forecast(runs=40) == outlook
