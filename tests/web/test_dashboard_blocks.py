"""A study in plates, made by the form and measured on the page."""

from __future__ import annotations

import random
import re

from tests.web.browser import Server, Visit, begin_form, create, no_sideways_scrolling

import bestarm as ba

YIELDS = {"F1": 10.0, "F2": 40.0}


def test_plates_from_the_form_until_certified(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/new")
    begin_form(page, "plates", YIELDS, "yield", "symmetric")
    page.get_by_label("Each measurement is made on").select_option("blocks")
    aside = page.get_by_role("complementary")
    # Nothing is said of plates before they have a name and a size.
    assert "undefined" not in aside.inner_text()
    page.get_by_label("What it is called").fill("plate")
    assert "within each" not in aside.inner_text()
    page.get_by_label("How many tests each has").fill("6")
    aside.get_by_text("Tests are made in plates of 6, and options are compared within each plate").wait_for()
    no_sideways_scrolling(page)
    create(page)
    study = ba.Study.open("plates", storage=server.database)
    assert study.plan.blocks == ba.Blocks("plate", size=6)
    rng = random.Random(1)
    for number in (1, 2):
        page.get_by_role("button", name="Ask for the next plate").click()
        page.locator(".flight .cell", has_text=re.compile(rf"plate {number}\s+B3")).wait_for()
        plate = rng.uniform(0.0, 500.0)
        for row in page.locator(".flight .cell").all():
            found = re.search(r"(F\d)\s+yield\s+plate \d+\s+[AB][123]", row.inner_text())
            assert found, row.inner_text()
            row.locator("input.value").fill(f"{YIELDS[found[1]] + plate + rng.gauss(0.0, 1.0):.3f}")
        page.get_by_role("button", name="Save results").click()
        page.get_by_text("No test is out.").wait_for()
    # All of a plate is saved at one moment, which is one point of the chart, and its last one has them all.
    page.locator("#progress").scroll_into_view_if_needed()
    page.get_by_text("The same as a table").click()
    points = page.locator("#progress details tbody td:nth-child(2)")
    points.nth(1).wait_for()
    assert points.all_inner_texts() == ["6", "12"]
    while not study.done:
        plate = rng.uniform(0.0, 500.0)
        study.tell_many([(test, YIELDS[test.arm] + plate + rng.gauss(0.0, 1.0)) for test in study.ask_block()])
    page.locator(".hero", has_text="feasible and best").wait_for()
    page.get_by_text(
        "if what a plate adds is the same for all options, or differs only by chance, and tests"
    ).wait_for()
    page.locator("#arms").get_by_text("Means of yield include what their plates added: do not subtract them").wait_for()
    assert study.answer is not None
    assert study.answer.arm == "F2"
    visitor.check()
