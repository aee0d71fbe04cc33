"""A study whose plan changes on the way: a larger budget, arms that come later, arms that are retired."""

from __future__ import annotations

import dataclasses
import io
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bestarm as ba
from bestarm.analysis.status.words import question
from bestarm.storage.errors import StudyArchived
from bestarm.study.files.exchange import import_results, write_csv, write_json
from bestarm.study.forecast.drawn_worlds import drawn_world, estimated_scatters
from bestarm.study.study import Test

MEANS = {"a": (0.0, -1.0), "b": (1.0, -1.0), "c": (1.4, 1.5), "d": (2.0, -1.0), "e": (3.0, 2.0)}


def plan(arms: str = "abc", reserve: float = 0.2, budget: float | None = None, **more: Any) -> ba.Plan:
    made = ba.Plan(
        arms=list(arms),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0))],
        reserve=reserve,
        **more,
    )
    return ba.Plan.of(made, budget=budget)


def measured(test: Test, rng: random.Random) -> float:
    return rng.gauss(MEANS[test.arm][test.metric == "risk"], 1.0)


def work(study: ba.Study, rng: random.Random, rounds: int = 10**6) -> None:
    """Make the tests one by one, until the study is done."""
    for _ in range(rounds):
        if study.done:
            return
        for test in study.ask(1):
            study.tell(test, measured(test, rng))


def answer_of(study: ba.Study) -> ba.Answer:
    answer = study.answer
    assert answer is not None
    return answer


def amendments(study: ba.Study) -> list[str]:
    return [event.detail for event in study.log() if event.kind == "amended"]


# --------------------------------------------------------------------------------------------------------- budgets


def test_a_budget_can_be_given_wherever_a_study_is_made() -> None:
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    assert problem.with_budget(5).budget == ba.Budget(tests=5)
    assert problem.with_budget(cost=2.5).max_cost == 2.5
    assert ba.Plan.of(problem, name="x").with_budget(5).name == "x"
    assert ba.Study.create(problem, storage=":memory:", budget=7).plan.max_tests == 7
    answer = ba.identify(problem, lambda arm, metric: 0.0, budget=10)
    assert (answer.state, answer.tests) == ("budget_spent", 10)
    answer = ba.identify(problem, lambda arm, metric: 0.0, budget=ba.Budget(cost=4.0))
    assert (answer.state, answer.tests) == ("budget_spent", 4)
    for wrong, words in ((0, "positive"), (1.5, "whole number"), ("many", "must be a number")):
        with pytest.raises(ba.InvalidInput, match=f"^budget = .*{words}"):
            ba.identify(problem, lambda arm, metric: 0.0, budget=wrong)  # type: ignore[arg-type]
    with pytest.raises(ba.InvalidInput, match="a budget needs tests, cost, blocks or hours"):
        problem.with_budget()


def test_a_spent_budget_is_extended_and_the_study_goes_on() -> None:
    rng = random.Random(1)
    study = ba.Study.create(plan(reserve=0.0, budget=40), storage=":memory:")
    work(study, rng)
    assert answer_of(study).state == "budget_spent"
    lacking = study.forecast(runs=5)
    assert lacking is not None
    assert math.isfinite(lacking.median_tests)
    assert lacking.answers.keys() <= {*"abc", "none"}
    assert study.extend(tests=5) == ba.Budget(tests=45)
    assert not study.done
    work(study, rng)
    assert study.status().tests == 45
    study.extend(1000)
    work(study, rng)
    assert answer_of(study).arm == "b"
    assert study.forecast() is None
    assert amendments(study) == ["budget: 45 tests instead of 40", "budget: 1,045 tests instead of 45"]


def test_a_study_that_began_without_a_budget_gets_one(tmp_path: Path) -> None:
    """To stop early is always allowed. What is added counts from now on; what is stated counts from the start."""
    rng, storage = random.Random(1), tmp_path / "studies.db"
    study = ba.Study.create(plan(name="study"), storage=storage)
    work(study, rng, 3)
    made = study.status().tests
    assert study.extend(tests=5) == ba.Budget(tests=made + 5)
    work(study, rng)
    assert answer_of(study).state == "budget_spent"
    assert amendments(study) == [f"budget: {made + 5} tests instead of none"]
    assert ba.Study.create(plan(), storage=":memory:").extend(cost=2.5) == ba.Budget(cost=2.5)
    with pytest.raises(ba.InvalidInput, match="blocks"):
        ba.Study.create(plan(), storage=":memory:").extend(blocks=2)

    def measure(arm: str, metric: str) -> float:
        return rng.gauss(MEANS[arm][metric == "risk"], 1.0)

    other = ba.Study.create(plan(name="other"), storage=storage)
    work(other, rng, 3)
    answer = ba.identify(plan(name="other"), measure, storage=storage, budget=9)
    assert (answer.state, answer.tests) == ("budget_spent", 9)


def test_what_cannot_be_extended_is_said(tmp_path: Path) -> None:
    study = ba.Study.create(plan(budget=20), storage=tmp_path / "studies.db")
    refused: list[tuple[dict[str, Any], str]] = [
        ({}, "say by how much"),
        ({"cost": 5.0}, "the study's budget is one of tests"),
        ({"tests": 0}, "tests = 0: must be a positive number"),
        ({"tests": -3}, "can only be extended"),
        ({"tests": 2.5}, "must be a whole number"),
        ({"tests": math.nan}, "must be a finite number"),
        ({"tests": "all"}, "must be a number"),
        ({"tests": 10**13}, "must be at most"),
    ]
    for given, words in refused:
        with pytest.raises(ba.InvalidInput, match=words):
            study.extend(**given)
    study.archive()
    with pytest.raises(StudyArchived):
        study.extend(5)
    assert (study.plan, amendments(study)) == (plan(budget=20), [])


def test_an_extended_study_decides_as_one_that_had_the_budget_from_the_start() -> None:
    """The old budget ends between two rounds, so that it cuts none short. The same record and the same plan
    lead to the same decisions: the next test checks that."""
    records = []
    for pieces in ((6, 200), (206,)):
        rng = random.Random(3)
        study = ba.Study.create(plan(reserve=0.0, budget=pieces[0]), storage=":memory:", seed=5)
        work(study, rng)
        for more in pieces[1:]:
            study.extend(more)
            work(study, rng)
        tests = [(row.id, row.arm, row.metric, row.ends, row.outcomes[0].value) for row in history(study)]
        records.append((tests, study.answer))
    assert records[0] == records[1]


def history(study: ba.Study) -> list[Any]:
    return list(study.storage.history(study.record.key))


def standing(study: ba.Study) -> Any:
    """Everything that follows from the record and the plan."""
    status = study.status()
    policy: Any = study._decider.policy
    return (
        repr(dataclasses.replace(status, study="", pending=0, unasked="")),
        study._decider.next_round(),
        repr(policy.memory),
    )


@pytest.mark.parametrize("seed", range(3))
def test_an_amended_study_is_exported_and_imported(seed: int) -> None:
    rng = random.Random(seed)
    study = ba.Study.create(plan(budget=15), storage=":memory:")
    work(study, rng)
    study.extend(60)
    work(study, rng, 20)
    study.add_arms(["d"])
    work(study, rng, 20)
    study.retire("c", "discontinued")
    work(study, rng, 10)
    while not (study.done or history(study)[-1].ends):
        # An import ends where a round ends.
        work(study, rng, 1)
    text, data = io.StringIO(), io.StringIO()
    write_csv(study, text)
    write_json(study, data)
    assert '"retired": true' in data.getvalue()
    other = ba.Study.create(study.plan, storage=":memory:")
    import_results(other, text.getvalue().encode(), "export.csv")
    assert standing(other) == standing(study)


def test_the_same_study_is_found_again_by_its_plan(tmp_path: Path) -> None:
    rng, storage = random.Random(2), tmp_path / "studies.db"

    def measure(arm: str, metric: str) -> float:
        return rng.gauss(MEANS[arm][metric == "risk"], 1.0)

    def identify(problem: ba.Plan) -> ba.Answer:
        return ba.identify(problem, measure, storage=storage)

    assert identify(plan(budget=20)).tests == 20
    # A larger budget is taken over. A smaller one takes nothing away.
    assert identify(plan(budget=30)).tests == 30
    assert identify(plan(budget=20)).tests == identify(plan()).tests == 30
    study = ba.Study.open("study", storage=storage)
    assert amendments(study) == ["budget: 30 tests instead of 20"]
    study.add_arms(["d"])
    study.retire("a")
    study.extend(1000)
    assert identify(plan(budget=20)).arm == "d"
    for another in (plan("ab", budget=20), plan(budget=20, delta=0.1), plan(delta=0.1)):
        with pytest.raises(ba.InvalidInput, match="with another plan"):
            identify(another)
    with pytest.raises(ba.InvalidInput, match=r"\(delta is 0.05 there and 0.1 here; baseline is not given there"):
        identify(plan(delta=0.1, baseline="a"))


# ------------------------------------------------------------------------------------------------- arms come and go


def test_arms_come_and_go() -> None:
    rng = random.Random(4)
    study = ba.Study.create(plan(), storage=":memory:")
    work(study, rng)
    assert answer_of(study).arm == "b"
    study.add_arms(["d"])
    assert (study.done, study.answer) == (False, None)
    # First a result of each metric of the new arm.
    assert {(test.arm, test.metric) for test in study.ask(2)} == {("d", "gain"), ("d", "risk")}
    for test, _ in study.pending():
        study.tell(test, measured(test, rng))
    work(study, rng)
    assert answer_of(study).arm == "d"
    study.retire("d", "sold out")
    status = study.status()
    assert "d" not in status.candidates
    assert status.arms[3].verdict == "retired"
    assert question(study.plan).startswith("Which of 3 arms ")
    # Without it, the results before it came suffice again.
    assert answer_of(study).arm == "b"
    study.add_arms("e")
    study.retire("a")
    work(study, rng)
    answer = answer_of(study)
    assert answer.arm == "b"
    assert answer.reasons["d"].startswith("retired: ")
    assert "d" not in answer.feasible
    assert amendments(study) == ["arm added: d", "arm retired: d (sold out)", "arm added: e", "arm retired: a"]
    assert [(arm.name, arm.added, arm.retired) for arm in study.plan.arms] == [
        ("a", 0, True),
        ("b", 0, False),
        ("c", 0, False),
        ("d", 1, True),
        ("e", 2, False),
    ]


def test_tests_of_a_retired_arm_are_given_up() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    tests = study.ask(6)
    study.retire("b", "broken")
    assert {test.arm for test, _ in study.pending()} == {"a", "c"}
    dropped = [event for event in study.log() if event.kind == "dropped"]
    assert [event.detail for event in dropped] == 2 * ["its arm is retired (broken)"]
    with pytest.raises(ba.InvalidInput, match="its arm is retired"):
        study.tell(next(test for test in tests if test.arm == "b"), 1.0)
    rng = random.Random(5)
    for test, _ in study.pending():
        study.tell(test, measured(test, rng))
    # It never had a result, and none is expected.
    work(study, rng)
    assert answer_of(study).arm == "a"


def test_the_first_arm_can_be_retired_before_it_is_measured() -> None:
    study = ba.Study.create(plan(), storage=":memory:")
    study.retire("a")
    work(study, random.Random(6))
    assert answer_of(study).arm == "b"
    assert all(row.arm != 0 for row in history(study))


@pytest.mark.parametrize(
    "noise", [ba.Gaussian(1.0), ba.Symmetric(), ba.Bounded(-9.0, 9.0)], ids=lambda noise: type(noise).__name__
)
def test_worlds_are_drawn_for_an_arm_that_was_retired_before_it_was_measured(noise: Any) -> None:
    whole = ba.Plan(arms=["a", "b", "c"], objective=ba.maximize("gain", noise=noise), reserve=0.2)
    study = ba.Study.create(whole, storage=":memory:")
    study.retire("a")
    study.add([(arm, "gain", value) for arm in "bc" for value in (0.5, 1.5, 1.0, 0.25, 2.0)])
    study.status()
    policy = study._decider.policy
    scatters = [estimated_scatters(policy.setting, policy.streams, 0)]
    world = drawn_world(whole, policy, scatters, np.random.default_rng(1))
    assert np.isfinite(world.true_means()).all()


def test_whoever_follows_the_study_learns_of_it(tmp_path: Path) -> None:
    storage = tmp_path / "studies.db"
    study = ba.Study.create(plan(), storage=storage)
    others = [ba.Study.open("study", storage=storage) for _ in range(4)]
    study.add_arms(["d"])
    [test] = [test for test in study.ask(8) if (test.arm, test.metric) == ("d", "gain")]
    others[0].tell(test, 1.0)
    assert others[0].plan == study.plan
    assert [test.arm for test, _ in others[1].pending()].count("d") == 1
    others[2].add([("d", "gain", 1.0)])
    assert max(event.arm or 0 for event in others[3].log()) == 3
    assert others[3].plan == study.plan


def test_what_cannot_be_done_is_said() -> None:
    study = ba.Study.create(plan(reserve=0.0), storage=":memory:")
    changes: list[Callable[[], None]] = [lambda: study.add_arms(["d"]), lambda: study.retire("a")]
    for change in changes:
        with pytest.raises(ba.InvalidInput, match=r"keeps no share of delta .* `reserve = 0.2` in the study file"):
            change()
    study = ba.Study.create(plan(), storage=":memory:")
    study.retire("b")
    refused: dict[str, Callable[[], None]] = {
        "another arm has this name already": lambda: study.add_arms(["a"]),
        "name one arm at least": lambda: study.add_arms([]),
        "must not be empty": lambda: study.add_arms([""]),
        "must be text": lambda: study.add_arms([7]),  # type: ignore[list-item]
        "is retired already": lambda: study.retire("b"),
        "no such arm": lambda: study.retire("z"),
    }
    for words, act in refused.items():
        with pytest.raises(ba.InvalidInput, match=words):
            act()
    study.retire("a")
    with pytest.raises(ba.InvalidInput, match="is the last one left"):
        study.retire("c")
    with pytest.raises(ba.InvalidInput, match="choose certify, or leave out reserve"):
        ba.Study.create(plan(policy="racing"), storage=":memory:")
    in_law = ba.at_most("risk", 0.0, noise=ba.Gaussian(1.0), where={"topic": "law"})
    judged = ba.maximize("gain", noise=ba.Bernoulli(), judge="model")
    for fields, words in (
        ({"constraints": (in_law,), "attributes": {"topic": ["law", "art"]}}, "constraints on slices"),
        ({"objective": judged}, "a judge: the scores of an arm that comes later would be told after labels"),
    ):
        with pytest.raises(ba.InvalidInput, match=words):
            dataclasses.replace(plan(), items=2, **fields)
    for arm, words in (
        (ba.Arm("d", added=1, since=3), "must be at most 2, the number of items"),
        (ba.Arm("d", since=2), "is for arms that come later"),
    ):
        with pytest.raises(ba.InvalidInput, match=rf"arms\[3\]\.since = .*{words}"):
            dataclasses.replace(plan(), items=2, arms=(*plan().arms, arm))
    with pytest.raises(ba.InvalidInput, match="in a study with items"):
        dataclasses.replace(plan(), arms=(*plan().arms, ba.Arm("d", added=1, since=1)))
    relative = ba.at_most("risk", relative_to_baseline=1.05, noise=ba.Bernoulli())
    with pytest.raises(ba.InvalidInput, match="cannot be stated with constraints relative to the baseline"):
        dataclasses.replace(plan(), constraints=(relative,), baseline="a")


def test_a_plan_without_any_of_it_is_written_as_before() -> None:
    text = plan(reserve=0.0).to_toml()
    assert not any(word in text for word in ("reserve", "added", "retired"))
    changed = dataclasses.replace(plan(), arms=("a", ba.Arm("b", retired=True), ba.Arm("d", added=1)))  # type: ignore[arg-type]
    assert ba.Plan.from_toml(changed.to_toml()) == ba.Plan.from_json(changed.to_json()) == changed
    for arms in ([ba.Arm("a", added=1), "b"], ["a", ba.Arm("b", added=2)], [ba.Arm("a", retired=True)]):
        with pytest.raises(ba.InvalidInput, match="arms"):
            dataclasses.replace(plan(), arms=arms)  # type: ignore[arg-type]
