"""Reports, plots and what a notebook shows: all in the user's words, from what the study knows."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import bestarm as ba
from bestarm.analysis.standing.timeline import Timeline
from bestarm.analysis.status.words import assumptions, guarantee, question
from bestarm.study.reports.report import record_digest, study_report

HOSTILE = "<script>alert('x')</script> & \"quotes\" \u202e"


class Tags(HTMLParser):
    """Complains about elements that are not closed, and lists those there are."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.seen.append(tag)
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def problem(arms: tuple[str, ...] = ("slow", "fast", "harmful"), **options: Any) -> ba.Plan:
    return ba.Plan(
        arms=arms,
        objective=ba.minimize("latency", noise=ba.Gaussian(0.5)),
        constraints=(ba.at_most("crash", 0.5, noise=ba.Bernoulli(), cost=3.0), ba.at_least("score", 4, noise=SCORE)),
        **options,
    )


SCORE = ba.Bounded(0, 10)


def measured(arm: str, metric: str) -> float:
    return {"latency": 1.0 if arm == "fast" else 2.0, "crash": float(arm == "harmful"), "score": 9.0}[metric]


def finished(plan: ba.Plan, measure: Callable[[str, str], float] = measured) -> ba.Study:
    study = ba.Study.create(plan, storage=":memory:")
    while not study.done:
        study.tell_many([(test, measure(test.arm, test.metric)) for test in study.ask(20)])
    return study


def text_of(page: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", " ", page))


def test_a_certified_study() -> None:
    study = finished(problem(name="release"))
    page = study_report(study, note="Measured on the test bench.")
    tags = Tags(page)
    assert not {"script", "link", "img", "iframe"} & set(tags.seen)
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    text = text_of(page)
    assert (
        "Which of 3 arms has the smallest mean latency among those with crash at most 0.5 and score at least 4?" in text
    )
    assert str(study.answer) in text
    assert "fast meets every constraint, and no feasible arm is better" in text
    assert "errs in at most 5% of studies like this one" in text
    assert "Measured on the test bench." in text
    answer = study.answer
    assert answer is not None
    for arm, reason in answer.reasons.items():
        assert re.search(rf"{arm}\s+{re.escape(reason.removeprefix('worse: '))}", text)
    assert "crash: each measurement is 0 or 1" in text
    assert "score: each measurement lies between 0 and 10" in text
    assert "latency: scatters no further around its mean than normal values of standard deviation 0.5" in text
    assert f"{answer.cost:,.6g}" in text
    # What it says to reproduce it by is there.
    plan = html.unescape(page.split("<pre>")[2].split("</pre>")[0])
    assert ba.Plan.from_toml(plan) == study.plan
    assert record_digest(study) in text


def test_the_policy_says_what_its_intervals_are() -> None:
    fresh = ba.Study.create(problem(policy="certify"), storage=":memory:")
    text = text_of(study_report(fresh, forecast=False))
    assert "reaches the level that decides: 1 : 60, and 1 : 120 that a constraint is violated." in text
    # The evidence in the reason of an arm that is out is of both constraints, and is compared with another level.
    assert "all constraints together, their weighted mean: it had to reach 1 : 60." in text
    fresh = ba.Study.create(problem(policy="racing", bound="mixture"), storage=":memory:")
    text = text_of(study_report(fresh, forecast=False))
    assert "at once with probability 95% (confidence bound mixture); they are what decides." in text


def test_the_fingerprint_is_of_the_results() -> None:
    first, second = finished(problem()), finished(problem())
    assert record_digest(first) == record_digest(second)
    second.correct(1, 2.25, "misread")
    assert record_digest(first) != record_digest(second)


def test_studies_without_an_answer() -> None:
    fresh = ba.Study.create(problem(), storage=":memory:")
    text = text_of(study_report(fresh))
    assert "running: no results yet" in text
    assert "no answer is certified yet" in text
    assert "untested" in text
    rng = np.random.default_rng(1)
    for _ in range(6):
        for test in fresh.ask(9):
            noise = rng.normal(0.0, 0.5) if test.metric == "latency" else 0.0
            fresh.tell(test, measured(test.arm, test.metric) + noise)
        if fresh.status().tests == 36:
            assert "too early to say" in text_of(study_report(fresh))
    text = text_of(study_report(fresh))
    assert re.search(r"about [\d,]+ tests to go \(", text)
    assert re.search(r"\d+ of 100 simulated continuations ends? with", text)
    assert re.search(r"evidence\s+\S+% of the evidence needed", text)
    unforeseen = text_of(study_report(fresh, forecast=False))
    assert "What remains" in unforeseen
    assert unforeseen.count("simulated continuations") == text.count("simulated continuations")
    again = text_of(study_report(ba.Study(fresh.storage, fresh.record), forecast=False))
    assert "simulated continuations" not in again
    spent = finished(problem(budget=ba.Budget(tests=12)))
    text = text_of(study_report(spent))
    assert "the budget is spent after 12 tests" in text
    assert "That the arm in the lead is the best feasible one is not certain." in text
    none = finished(problem(("bad", "worse")), lambda arm, metric: {"latency": 1.0, "crash": 1.0, "score": 1.0}[metric])
    assert "with that reservation, every arm violates at least one constraint" in text_of(study_report(none))


def test_hostile_names_do_no_harm() -> None:
    study = finished(problem((HOSTILE, "fast", "x" * 200), name=HOSTILE))
    for page in (study_report(study), study._repr_html_()):
        assert "<script" not in page
        assert HOSTILE in html.unescape(page)
        Tags(page)


def test_many_arms() -> None:
    plan = problem(tuple(f"arm {k}" for k in range(300)))
    study = ba.Study.create(plan, storage=":memory:")
    study.tell_many([(test, measured(test.arm, test.metric)) for test in study.ask(900)])
    page = study_report(study, forecast=False)
    assert "The 60 arms with the best latency of 300; all are below." in page
    assert all(f"<td>arm {k}</td>" in page for k in range(300))
    assert "The first 60 of 300 arms." in study._repr_html_()


def test_words() -> None:
    plan = ba.Plan(arms=("a",), objective=ba.maximize("x", noise=ba.Gaussian(1), tolerance=0.1))
    assert question(plan) == "Which of 1 arm has the largest mean x?"
    answer = ba.Answer("certified", "a", delta=0.05, confidence=0.96, tests=1, cost=1.0)
    assert "no arm is better than a by more than 0.1" in guarantee(plan, answer)
    assert len(assumptions(plan)) == 5


@pytest.mark.parametrize(
    ("noise", "repeats", "said"),
    [
        (ba.Gaussian(0.5), False, "scatter like normal values"),
        (ba.Gaussian(0.5), True, "scatter as far up as down around their mean"),
        (ba.Symmetric(), True, "scatter as far up as down around their mean"),
        (ba.Bounded(0, 1), True, None),
        (ba.Bernoulli(), False, None),
    ],
)
def test_what_is_assumed_of_differences_is_said(noise: ba.NoiseModel, repeats: bool, said: str | None) -> None:
    plan = ba.Plan(arms=["a", "b"], objective=ba.maximize("right", noise=noise), items=400, repeats=repeats)
    found = [point for point in assumptions(plan) if "differences between two arms on the same item" in point]
    assert len(found) == (said is not None)
    assert all(
        said in point and "does not follow from how each arm's values scatter" in point for point in found if said
    )


def test_the_timeline_keeps_a_bounded_number_of_points() -> None:
    timeline = Timeline(np.array([[1.0, 3.0], [5.0, 7.0]]), most=100)
    rng = np.random.default_rng(0)
    arms, metrics = rng.integers(0, 2, (2, 10_000))
    values = np.where(rng.random(10_000) < 0.1, np.nan, 1.0)
    times = np.sort(rng.random(10_000)) + rng.normal(0, 0.01, 10_000)
    for start in range(0, 10_000, 137):
        part = slice(start, start + 137)
        timeline.extend(times[part], arms[part], metrics[part], values[part])
    counted = ~np.isnan(values)
    made = timeline.progress()
    assert 50 <= len(made.time) <= 101
    assert made.tests[-1] == counted.sum()
    assert made.cost[-1] == pytest.approx((1.0 + 2.0 * metrics + 4.0 * arms)[counted].sum())
    for column in made:
        assert (np.diff(column) >= 0).all()
    assert Timeline(np.ones((1, 1))).progress() == ([], [], [])
