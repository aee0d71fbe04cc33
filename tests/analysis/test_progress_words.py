"""The lines that every place shows of a study: what is known, what is open, how far it is, what remains."""

from __future__ import annotations

import dataclasses
import math
import random
from typing import Any

import pytest

import bestarm as ba
from bestarm.analysis.standing.knowledge import OpenQuestion, progress_of
from bestarm.analysis.status.outlook import Outlook, answers_words, to_go_words
from bestarm.analysis.status.status import Status, bar, compact_line, progress_lines

MEANS = {"a": 1.0, "b": 1.6, "c": 2.5}
CRASHES = {"a": 0.1, "b": 0.2, "c": 0.9}


def plan(budget: int | None = None, names: dict[str, str] | None = None) -> ba.Plan:
    return ba.Plan(
        name="bench",
        arms=[(names or {}).get(arm, arm) for arm in MEANS],
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most("crash", 0.5, noise=ba.Bernoulli())],
        budget=None if budget is None else ba.Budget(tests=budget),
    )


def status_of(asked: ba.Plan, tests: int, crashes: dict[str, float] | None = None) -> Status:
    """Where the study stands after some tests, or at its end."""
    study, rng = ba.Study.create(asked, storage=":memory:"), random.Random(3)
    measured = dict(zip(asked.arm_names, MEANS, strict=True))
    for _ in range(tests):
        for test in study.ask(1):
            arm = measured[test.arm]
            rate = (crashes or CRASHES)[arm]
            study.tell(test, rng.gauss(MEANS[arm], 1.0) if test.metric == "gain" else float(rng.random() < rate))
    return study.status()


def outlook(answers: dict[str, float], median: float = 718.0, most: float = 1270.0) -> Outlook:
    return Outlook(100, median, most, median, most, answers)


def test_a_running_study() -> None:
    status = status_of(plan(), 120)
    lines = dict(progress_lines(status))
    assert list(lines) == ["known", "open", "evidence", "estimate"]
    assert lines["known"].startswith("With 95% confidence")
    assert "a against b: about" in lines["open"]
    assert lines["evidence"].endswith(f"{math.floor(100 * status.progress)}% of the evidence needed")
    foreseen = dict(progress_lines(status, outlook({"b": 0.98, "a": 0.02})))
    assert foreseen["forecast"] == "about 720 tests to go (9 in 10: at most 1,300)"
    assert foreseen["likely"] == "98 of 100 simulated continuations end with b, 2 with a"
    line = compact_line(status)
    assert line.startswith(f"{status.tests} tests, ")
    assert "; left: a and b; open: a against b: about" in line
    assert "to go" in line
    assert "9 in 10" in compact_line(status, outlook({"b": 1.0}))


def test_before_results_and_after_the_end() -> None:
    fresh = status_of(plan(), 0)
    assert progress_lines(fresh) == []
    assert compact_line(fresh) == "no results yet"
    assert str(fresh).splitlines() == [
        "bench: running: no results yet",
        "tests  0 recorded, cost 0; 0 pending",
        "seeds  seed 0",
    ]
    done = status_of(plan(), 1000)
    assert progress_lines(done) == []
    assert str(done).splitlines()[0] == "bench: b is feasible and best"
    none = status_of(plan(), 1000, dict.fromkeys(MEANS, 0.95))
    assert str(none).splitlines()[0] == "bench: no arm is feasible"
    spent = status_of(plan(budget=120), 1000)
    assert [name for name, _ in progress_lines(spent)] == ["open", "evidence", "lacking"]
    lacking = dict(progress_lines(spent, outlook({"b": 1.0})))["lacking"]
    assert lacking == "with a larger budget: about 720 tests to go (9 in 10: at most 1,300)"
    assert str(spent).startswith("bench: the budget is spent and no answer is certified; b leads; with 95% confidence")
    assert "confidence" not in str(spent).replace("with 95% confidence", "")


def test_names_are_no_markup_and_steer_no_terminal() -> None:
    hostile = plan(names={"a": "<script>alert(1)</script>", "b": "[bold]b[/bold]", "c": "日本 & co"})
    status = status_of(hostile, 40)
    page = status._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    assert "[bold]b[/bold]" in page
    odd = dataclasses.replace(status, study="x\x1b[31m\n\u202e")
    assert not set(str(odd)) & {"\x1b", "\u202e"}


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        ({"a": 1.0}, "100 of 100 simulated continuations end with a"),
        ({"none": 0.9}, "90 of 100 simulated continuations end with none feasible, 10 without an answer"),
        ({}, "100 of 100 simulated continuations end without an answer"),
        (
            {"a": 0.3, "b": 0.4, "c": 0.1, "d": 0.1},
            "40 of 100 simulated continuations end with b, 30 with a, 20 with others, 10 without an answer",
        ),
        ({"a": 0.01}, "1 of 100 simulated continuations ends with a, 99 without an answer"),
    ],
)
def test_what_simulated_continuations_end_with(answers: dict[str, float], words: str) -> None:
    assert answers_words(outlook(answers)) == words
    assert words in str(outlook(answers))
    assert words in outlook(answers)._repr_html_()


def test_what_stops_at_the_budget_is_said_to() -> None:
    some = dataclasses.replace(outlook({"a": 0.73}, 96.0, math.inf), at_budget=0.27)
    assert to_go_words(some) == "about 96 tests to go (9 in 10: more than the budget leaves)"
    stop = "27 stop at the budget without an answer"
    assert answers_words(some) == f"73 of 100 simulated continuations end with a, {stop}"
    most = dataclasses.replace(outlook({}, math.inf, math.inf), at_budget=1.0)
    assert to_go_words(most) == "probably more tests to go than the budget leaves"
    assert answers_words(most) == "100 of 100 simulated continuations stop at the budget without an answer"
    one = dataclasses.replace(most, runs=1)
    assert answers_words(one) == "1 of 1 simulated continuations stops at the budget without an answer"
    both = dataclasses.replace(outlook({"a": 0.3}), at_budget=0.2)
    assert answers_words(both).endswith("end with a, 50 without an answer, 20 stop at the budget without an answer")


def test_tests_to_go() -> None:
    assert to_go_words(outlook({}, 718.0, math.inf)) == "about 720 tests to go (1 in 10: far more)"
    assert to_go_words(outlook({}, math.inf, math.inf)).startswith("no end in sight: ")


def test_a_bar_is_full_only_at_the_end() -> None:
    assert [bar(share, 4) for share in (-1.0, 0.0, 0.49, 0.999, 1.0, 2.0)] == [
        *("░░░░", "░░░░", "█░░░", "███░", "████", "████")
    ]


def test_the_share_of_all_evidence() -> None:
    def rivals(count: int, share: float) -> list[OpenQuestion]:
        return [OpenQuestion("rival", str(k), None, "b", share, 1.0) for k in range(count)]

    def progress(questions: list[OpenQuestion], arms: int, candidates: int) -> float:
        crash = ba.at_most("crash", 0.5, noise=ba.Bernoulli())
        names = [str(k) for k in range(arms)]
        problem = ba.Problem(names, ba.maximize("gain", noise=ba.Gaussian(1.0)), [crash])
        return progress_of(problem, questions, candidates)

    assert progress([], 4, 4) == 0.0
    assert progress(rivals(2, 0.5), 4, 3) == pytest.approx(0.75)  # two of four certificates are closed
    infeasible = [OpenQuestion("infeasible", "a", "crash", None, 0.2, 1.0)]
    assert progress(infeasible, 4, 1) == pytest.approx(0.8)
    # Not all that is open is listed.
    assert progress(rivals(200, 0.5), 10_000, 10_000) == pytest.approx(0.5, abs=1e-3)


def long_run(difference: float, tests: int, **stated: Any) -> Status:
    """Two arms that differ by so many standard deviations, after so many tests."""
    tolerance, budget = stated.pop("tolerance", 0.0), stated.pop("budget", None)
    goal = ba.maximize("gain", noise=ba.Gaussian(1.0), tolerance=tolerance)
    problem = ba.Problem(arms=["old", "new"], objective=goal, **stated)
    study, rng = ba.Study.create(problem, storage=":memory:", seed=1, budget=budget), random.Random(2)
    while study.status().tests < tests and (asked := study.ask(20)):
        study.tell_many([(test, rng.gauss(difference * (test.arm == "new"), 1.0)) for test in asked])
    return study.status()


def test_a_study_that_may_never_end_says_so() -> None:
    """Seeded. Equal arms would seem to differ enough to be told apart soon in about 1 in 10 of such runs."""
    tied = long_run(0.0, 1000)
    said = "it may never end: if {} are equal, no number of tests settles it; a tolerance or a budget would"
    assert tied.endless in (said.format("old and new"), said.format("new and old"))
    assert dict(progress_lines(tied))["end"] == tied.endless
    assert compact_line(tied).endswith(tied.endless)
    assert tied.to_dict()["endless"] == tied.endless
    assert tied.endless in str(tied)
    # Not yet, not needed, or not true.
    for other in (
        long_run(0.0, 200),
        long_run(0.0, 1000, budget=10_000),
        long_run(0.0, 1000, tolerance=0.5),
        long_run(0.0, 1000, items=600),
        long_run(0.5, 1000),
    ):
        assert other.endless == ""
        assert "endless" not in other.to_dict()


def test_a_mean_at_its_limit_may_never_be_settled() -> None:
    for slack, is_said in ((0.0, True), (0.3, False)):
        limit = ba.at_most("harm", 0.5, noise=ba.Gaussian(1.0), slack=slack)
        problem = ba.Problem(arms=["only"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), constraints=[limit])
        study, rng = ba.Study.create(problem, storage=":memory:", seed=1), random.Random(5)
        while study.status().tests < 600 and (asked := study.ask(20)):
            study.tell_many([(test, rng.gauss(0.5, 1.0)) for test in asked])
        words = "it may never end: if harm of only is exactly at its limit, no number of tests settles it; a slack or"
        assert study.status().endless.startswith(words) is is_said
