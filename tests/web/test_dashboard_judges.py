"""A study with a judge, made by the form: scores from a file, a box and another process, and then labels."""

from __future__ import annotations

import random

import pytest
from tests.web.browser import Server, Visit, begin_form, create, no_sideways_scrolling

import bestarm as ba
from bestarm.client import Client

ITEMS = 40
RATES = {"old": 0.3, "new": 0.9}


def label(arm: str, item: int) -> float:
    return float(random.Random(f"{arm} {item}").random() < RATES[arm])


def score(arm: str, item: int) -> float:
    return 0.9 * label(arm, item)


def test_a_judge_from_the_form_until_certified(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/new")
    objective = begin_form(page, "judged", RATES, "human score", "bernoulli")
    objective.get_by_label("Cost of one test").fill("2")
    objective.get_by_label("Judge (optional)").fill("human score")
    objective.get_by_label("Cost of one score").fill("-1")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_text("must be another metric than the one it judges").first.wait_for()
    objective.get_by_label("Judge (optional)").fill("model score")
    page.get_by_role("button", name="Create the study").click()
    objective.locator(".error", has_text="must be a positive number").wait_for()
    objective.get_by_label("Cost of one score").fill("0.01")
    page.get_by_role("button", name="Create the study").click()
    objective.locator(".error", has_text="needs items that are measured once each").wait_for()
    page.get_by_label("Each measurement is made on").select_option("number")
    page.get_by_label("How many items").fill(str(ITEMS))
    no_sideways_scrolling(page)
    create(page)
    study = ba.Study.open("judged", storage=server.database)
    assert study.plan.objective.judge == "model score"
    assert study.plan.costs == (2.0, 0.01)
    page.get_by_text("model score: 0 of 80 scores are told; labels are asked for after the last.").wait_for()

    # A label is too early, and a score has its place.
    add = page.locator("form.inline", has=page.get_by_role("button", name="Add result"))
    add.get_by_label("Metric").select_option("human score")
    add.get_by_label("Item").fill("7")
    add.get_by_label("Result").fill("1")
    add.get_by_role("button", name="Add result").click()
    page.get_by_text("cannot be recorded before every score").first.wait_for()
    add.get_by_label("Metric").select_option("model score")
    add.get_by_label("Item").fill("7")
    add.get_by_label("Result").fill(str(score("old", 7)))
    add.get_by_role("button", name="Add result").click()
    page.get_by_text("1 of 80 scores are told").wait_for()
    rows = [
        f"{arm},{item},{score(arm, item)}" for arm in RATES for item in range(1, ITEMS + 1) if (arm, item) != ("old", 7)
    ]
    text = "arm,item,model score\n" + "\n".join(rows)
    page.get_by_label("Excel or CSV file").set_input_files(
        {"name": "scores.csv", "mimeType": "text/csv", "buffer": text.encode()}
    )
    page.get_by_role("button", name="Upload").click()
    page.get_by_text("all 80 scores are told; too few labels to say").wait_for()
    while not study.done:
        study.tell_many([(test, label(test.arm, int(test.item or 0))) for test in study.ask(4)])
    page.locator(".hero", has_text="feasible and best").wait_for()
    [judge] = study.status().judges
    page.locator(".standing", has_text=f"model score {judge.words}").wait_for()
    page.locator(".standing", has_text=f"Its mean score, less that of human score: {judge.bias_words}").wait_for()
    no_sideways_scrolling(page)
    assert study.answer is not None
    assert (study.answer.arm, study.answer.tests) == ("new", study.status().tests)
    assert study.answer.cost == pytest.approx(0.8 + 2.0 * study.answer.tests)
    with Client(server.url) as client:
        assert client.open("judged").status().judges == study.status().judges
    visitor.check("422")
