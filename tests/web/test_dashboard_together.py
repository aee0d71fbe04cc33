"""The dashboard in a browser, with tests that yield several metrics and are made on items."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.tools.patience import wait_until
from tests.web.browser import (
    CACHES,
    DESK,
    PHONE,
    Server,
    Visit,
    add_constraint,
    caches,
    new_study,
    no_sideways_scrolling,
    unfold,
)

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize


def fill_in(page: Page, name: str) -> None:
    """The form for the caches, without crashes."""
    unfold(page)
    page.get_by_label("Name of the study").fill(name)
    page.get_by_label("Options, one on a line").fill("\n".join(CACHES))
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("Metric").fill("time")
    objective.get_by_label("Should be").select_option("minimize")
    objective.get_by_label("Cost of one test").fill("7")
    constraint = add_constraint(page)
    constraint.get_by_label("Metric").fill("memory")
    constraint.get_by_label("Mean must be").fill("5")
    for part in (objective, constraint):
        part.get_by_label("One result is").select_option("bounded")
        part.get_by_label("Least value").fill("0")
        part.get_by_label("Largest value").fill("10")


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_measurements_on_items_from_the_form_until_certified(
    visit: Visit, server: Server, viewport: ViewportSize
) -> None:
    name = f"caches on {viewport['width']}"
    visitor = visit(viewport=viewport, scheme="dark" if viewport == PHONE else "light")
    page = visitor.go("/new")
    fill_in(page, name)
    page.get_by_role("button", name="Measure metrics together").click()
    group = page.get_by_role("group", name="Measurement 1")
    group.get_by_label("time").check()
    group.get_by_label("memory").check()
    group.get_by_label("Cost of one test").fill("2")
    assert page.get_by_role("group", name="What to make best").get_by_label("Cost of one test").is_disabled()
    page.get_by_label("Each measurement is made on").select_option("number")
    page.get_by_label("How many items").fill("4")
    aside = page.get_by_role("complementary")
    aside.get_by_text("One test gives time and memory together, all or none.").wait_for()
    aside.get_by_text("the question is about the mean over these items").wait_for()
    page.get_by_label("An item can be measured again").check()
    aside.get_by_text("the mean over all items and over the scatter of each").wait_for()
    page.get_by_label("An item can be measured again").uncheck()
    no_sideways_scrolling(page)
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.get_by_role("heading", level=1, name=name).wait_for()
    study = ba.Study.open(name, storage=server.database)
    assert study.plan.measurements == (ba.measurement("time", "memory", cost=2.0),)
    assert (study.plan.items, study.plan.repeats) == (4, False)
    assert "All are measured on the same 4 items" in page.locator(".about-tests").inner_text()

    page.get_by_label("How many").fill("8")
    while page.locator(".badge").first.inner_text() == "running":
        page.get_by_role("button", name="Ask for tests").click()
        page.locator(".flight .several").first.wait_for()
        for row in page.locator(".flight .several").all():
            asked = re.search(r"(\w+)\s+time \+ memory\s+item ([1-4])\s", row.inner_text())
            assert asked, row.inner_text()
            for metric, value in CACHES[asked[1]].items():
                row.get_by_label(metric, exact=True).fill(str(value))
        no_sideways_scrolling(page)
        page.get_by_role("button", name="Save results").click()
        page.get_by_text("No test is out.").wait_for()
        made = server.get(f"/api/studies/{server.key(name)}")["tests"]
        page.locator(".facts.big div", has_text="Tests").get_by_text(str(made), exact=True).wait_for()
    page.get_by_text("large is feasible and best").first.wait_for()
    status = server.get(f"/api/studies/{server.key(name)}")
    assert status["tests"] <= 8
    assert status["cost"] == 2 * status["tests"]
    # One test of two metrics counts once.
    shown = [int(cell) for cell in page.locator("table.arms tbody tr td:nth-child(4)").all_inner_texts()]
    assert sum(shown) == status["tests"]
    told = page.locator("#log tr", has_text="result").first
    assert re.search(r"time\s+\d+\s*\n?memory\s+\d+", told.inner_text()), told.inner_text()
    no_sideways_scrolling(page)
    visitor.check()


def test_all_values_of_a_test_or_none(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = new_study(server, "all or none", caches())
    visitor = visit()
    page = visitor.go(path)
    [both] = study.ask(1)
    assert both.metrics == ("time", "memory")
    row = page.locator(".flight .cell").first
    row.wait_for()
    name = re.compile(f"Result of test 1 ?: {both.arm} time \\+ memory {both.item}")
    assert row.get_by_role("group", name=name).count() == 1

    # What is missing is said at its box, and nothing is sent.
    row.get_by_label("time", exact=True).fill("1.5")
    page.get_by_role("button", name="Save results").click()
    page.locator("#result-1-2-wrong", has_text="is missing").wait_for()
    assert page.locator("#result-1-2").get_attribute("aria-invalid") == "true"
    assert "result-1-2-wrong" in (page.locator("#result-1-2").get_attribute("aria-describedby") or "")
    page.get_by_text("A test is told all its values at once.").wait_for()
    assert page.evaluate("document.activeElement.id") == "result-1-2"
    # What the service refuses, too; and of a metric, at the box of that one.
    page.keyboard.type("much")
    page.keyboard.press("Enter")
    page.locator("#result-1-2-wrong", has_text="must be a number").wait_for()
    page.locator("#result-1-2").fill("11")
    page.keyboard.press("Enter")
    page.locator("#result-1-2-wrong", has_text="must lie between 0 and 10").wait_for()
    assert page.locator("#result-1-1").get_attribute("aria-invalid") is None
    # Enter leads through the boxes, and saves at the last.
    page.locator("#result-1-2").fill("")
    page.locator("#result-1-1").focus()
    page.keyboard.press("Enter")
    page.locator("#result-1-2:focus").wait_for()
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    page.get_by_text("1 result saved").first.wait_for()
    told = page.locator("#log tr", has=page.locator("td", has_text=re.compile("^result$")))
    told.first.wait_for()
    assert "question" in told.first.inner_text()

    # A correction of one value leaves the other.
    page.get_by_role("button", name="Correct test 1").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Correct").click()
    dialog.get_by_text("Type at least one value.").wait_for()
    dialog.get_by_label("Reason").fill("misread")
    dialog.get_by_label("memory").fill("99")
    dialog.get_by_role("button", name="Correct").click()
    dialog.get_by_text("must lie between 0 and 10").wait_for()
    dialog.get_by_label("memory").fill("4")
    dialog.get_by_role("button", name="Correct").click()
    corrected = page.locator("#log tr", has=page.locator("td", has_text=re.compile("^corrected$")))
    corrected.wait_for()
    assert server.get(f"/api{path}/log")[-1]["values"] == {"time": 1.5, "memory": 4.0}

    # Measured without asking, by hand and from a file.
    other = next(name for name in CACHES if name != both.arm)
    page.get_by_label("Arm", exact=True).select_option(other)
    page.get_by_label("Item").fill("question 9")
    entry = page.locator(".entry-values")
    entry.get_by_label("time", exact=True).fill("2")
    page.get_by_role("button", name="Add result").click()
    entry.get_by_text("is missing").wait_for()
    entry.get_by_label("memory", exact=True).fill("2")
    page.get_by_role("button", name="Add result").click()
    page.get_by_text("no such item").wait_for()
    assert page.get_by_label("Item").get_attribute("aria-invalid") == "true"
    # Results count in the order of the items.
    first, second, third, fourth = map(study.item_name, range(4))
    study.add([(other, {"time": 2.0, "memory": 2.0}, str(fourth))])
    held = page.get_by_text(
        f"1 result recorded but not counted yet, for time + memory of {other} on {first}, not asked"
    )
    held.wait_for()
    page.locator(".notes", has_text="1 result was neither asked for nor randomized by the study").wait_for()
    page.get_by_label("Item").fill(str(first))
    page.get_by_role("button", name="Add result").click()
    page.get_by_text("Result saved as test 3").first.wait_for()
    wide = tmp_path / "wide.csv"
    wide.write_text(f"arm,time,memory,item\n{other},2.5,2,{second}\n{other},2,2.5,{third}\n")
    page.get_by_label("CSV file").set_input_files(wide)
    page.get_by_role("button", name="Upload").click()
    page.get_by_text(re.compile("read from the file")).first.wait_for()
    tests = study.status().tests
    assert tests == 5
    held.wait_for(state="detached")
    counts = page.locator("table.arms tbody tr td:nth-child(4)")
    wait_until(lambda: sum(map(int, counts.all_inner_texts())) == tests)
    visitor.check("422")


def test_the_form_complains_of_measurements_and_items(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/new")
    fill_in(page, "complaints")
    for _ in range(2):
        page.get_by_role("button", name="Measure metrics together").click()
    page.get_by_role("button", name="Remove measurement 1").click()
    group = page.get_by_role("group", name="Measurement 1")
    group.get_by_label("Cost of one test").fill("-1")
    page.get_by_label("Each measurement is made on").select_option("names")
    page.get_by_label("Items, one on a line").fill("one\n\ntwo\none")
    page.get_by_role("button", name="Create the study").click()
    problems = page.locator(".summary-errors")
    problems.get_by_text("Line 4").wait_for()
    assert page.get_by_label("Items, one on a line").get_attribute("aria-invalid") == "true"
    assert group.get_by_label("Cost of one test").get_attribute("aria-invalid") == "true"
    page.get_by_label("Items, one on a line").fill("one\n\ntwo")
    group.get_by_label("Cost of one test").fill("3")
    page.get_by_role("button", name="Create the study").click()
    problems.get_by_text("at least one metric").wait_for()
    # A metric that is renamed stays ticked.
    group.get_by_label("memory").check()
    group.get_by_label("time").check()
    page.get_by_role("group", name="Constraint 1").get_by_label("Metric").fill("space")
    assert group.get_by_label("space").is_checked()
    with page.expect_request("**/api/studies") as sent:
        page.get_by_role("button", name="Create the study").click()
    plan = json.loads(sent.value.post_data or "")["plan"]
    assert plan["measurements"] == [{"metrics": ["time", "space"], "cost": 3}]
    assert plan["items"] == ["one", "two"]
    assert "repeats" not in plan
    assert "cost" not in plan["objective"]
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    visitor.check("422")
