"""The first page of a report: short, in the user's words, and honest about means."""

from __future__ import annotations

import html
import random
import re

import pytest

import bestarm as ba
from bestarm.study.reports.report import study_report


@pytest.fixture(scope="module")
def page() -> str:
    plan = ba.Plan(
        name="Support prompts",
        arms=[f"prompt {k}" for k in range(4)],
        objective=ba.maximize("correct", noise=ba.Bernoulli()),
        constraints=[ba.at_most("latency", 2.0, noise=ba.Quantile(0.9), unit="s")],
        measurements=[ba.Measurement(("correct", "latency"))],
        items=[f"question {k}" for k in range(80)],
        arm_word="prompt",
    )
    study = ba.Study.create(plan, storage=":memory:", seed=1, items_seed=2)
    while not study.done:
        for test in study.ask(8):
            drawn, arm = random.Random(f"{test.arm} {test.item}"), int(test.arm[-1])
            is_right = random.Random(test.item).random() < (0.2, 0.3, 0.85, 0.9)[arm]
            latency = drawn.lognormvariate(0.0, (0.2, 0.2, 0.2, 1.2)[arm])
            study.tell(test, {"correct": float(is_right), "latency": latency})
    assert study.answer is not None
    assert study.answer.arm == "prompt 2"
    return study_report(study)


def test_the_first_page_has_all_that_matters_and_no_more(page: str) -> None:
    first = html.unescape(re.sub("<[^>]+>", " ", page.split("class=first-page>")[1].split("</div>")[0]))
    assert "prompt 2: feasible and best, with 95% confidence" in first
    assert re.search(r"Tests: \d+ of the 320 tests that measuring every prompt on every item would take", first)
    assert "90% quantile of latency (s)" in first
    assert not re.search(r"\barms?\b", first)
    assert "question 7" not in first
    for verdict in ("the answer", "worse", "not feasible"):
        assert verdict in first


def test_means_that_are_biased_are_marked_as_not_to_be_quoted(page: str) -> None:
    found = re.findall("<tr><td>(prompt .)</td>(.*?)</tr>", page)
    rows = dict(found)
    assert "*" not in rows["prompt 2"]
    assert rows["prompt 0"].count("*") == rows["prompt 3"].count("*") == 2
    assert html.unescape(page).count("* Not to be quoted: this prompt was given up early") == 2


def test_many_items_are_folded(page: str) -> None:
    before, folded = page.split("<details>")
    assert "&quot;question 7&quot;" not in before
    assert "The plan, with all 80 items" in folded
    plan = html.unescape(folded.split("<pre>")[1].split("</pre>")[0])
    assert len(ba.Plan.from_toml(plan).to_data()["items"]) == 80


def test_repr_names_ten_of_many() -> None:
    plan = ba.Plan(
        arms=[f"arm {k}" for k in range(300)],
        objective=ba.maximize("gain", noise=ba.Bernoulli()),
        items=[f"item {k}" for k in range(500)],
    )
    shown = repr(plan)
    assert "Arm(name='arm 9'), … 290 more]" in shown
    assert "'item 9', … 490 more]" in shown
    assert len(shown) < 1000
    assert repr(ba.Problem(["a", "b"], plan.objective)) == (
        "Problem(arms=[Arm(name='a'), Arm(name='b')], "
        "objective=Objective(metric='gain', goal='maximize', noise=Bernoulli()))"
    )
