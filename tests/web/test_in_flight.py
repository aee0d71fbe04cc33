"""The tests in flight on a study's page: all of them can be reached and printed; arms show their values on a phone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from tests.tools.patience import wait_until
from tests.web.browser import PHONE, Server, Visit, caches, doses, measure, new_study, no_sideways_scrolling

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Route


def test_every_test_in_flight_can_be_reached(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "many out", doses(0.5))
    study.ask(130)
    visitor = visit()
    page = visitor.go(path)
    rows = page.locator(".flight .cell")
    rows.nth(99).wait_for()
    page.get_by_text("130 tests without a result; the first 100 are shown.").wait_for()
    page.locator("#result-3").fill("0.75")
    page.get_by_role("button", name="Show more").click()
    rows.nth(129).wait_for()
    page.get_by_text("130 tests without a result.").wait_for()
    assert page.get_by_role("button", name="Show more").is_hidden()
    assert page.locator("#result-3").input_value() == "0.75", "what was typed is gone"
    # The service is asked again from where an answer ends, as often as it takes.
    found = page.evaluate(
        f"""async () => {{
            const {{ readPending }} = await import("/static/js/panels/pending.js");
            return (await readPending("/api{path}", Infinity)).map((test) => test.id);
        }}"""
    )
    assert found == list(range(1, 131))
    visitor.check()


def test_a_sheet_of_the_tests_in_flight(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "to the lab", caches())
    both = study.ask(3)
    [other] = ba.Study.open("to the lab", storage=server.database, holder="<b>ann</b>").ask(1, days=3)
    visitor = visit()
    page = visitor.go(path)
    page.locator(".flight .cell").nth(3).wait_for()
    page.evaluate("window.print = () => { window.printed = true; }")
    page.get_by_role("button", name="Print a sheet").click()
    wait_until(lambda: page.evaluate("window.printed === true"))
    page.emulate_media(media="print")
    try:
        sheet = page.locator(".sheet")
        sheet.wait_for()
        page.locator("main").wait_for(state="hidden")
        assert sheet.get_by_role("heading").all_inner_texts() == ["to the lab", "<b>ann</b>", "bench"]
        boxes = sum(len(test.metrics) for test in (*both, other))
        assert sheet.locator(".fill").count() == boxes
        text = sheet.inner_text()
        assert all(f"{test.id}\t{test.arm}\t{test.item}" in text for test in (*both, other))
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        # The page itself is printed without what can only be pressed.
        page.locator(".standing").wait_for()
        assert page.locator("main").is_visible()
        assert page.get_by_role("button", name="Ask for tests").is_hidden()
    finally:
        page.emulate_media(media="screen")
    visitor.check()


def test_the_same_sheet_twice_says_that_nothing_is_new(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = new_study(server, "twice", doses(0.5))
    tests = study.ask(4)
    sheet = tmp_path / "sheet.csv"
    sheet.write_text("test,value\n" + "".join(f"{test.id},0.5\n" for test in tests[:3]) + f"{tests[3].id},\n")
    visitor = visit()
    page = visitor.go(path)
    for said in (
        "3 results read from the file; 1 test without a value left out.",
        "Nothing new: these 3 results are recorded already; 1 test without a value left out.",
    ):
        page.get_by_label("CSV file").set_input_files(sheet)
        page.get_by_role("button", name="Upload").click()
        page.get_by_text(said, exact=True).wait_for()
    assert study.status().tests == 3
    visitor.check()


def test_a_phone_shows_the_values_of_every_arm(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "in the hand", doses())
    measure(study)
    visitor = visit(viewport=PHONE)
    page = visitor.go(path)
    row = page.locator("table.arms").get_by_role("row", name="150 mg").first
    row.wait_for()
    assert row.get_by_role("cell").count() == 5
    # All at once, because rows are drawn anew as things come in.
    cells = page.locator("table.arms tbody td[data-label]")
    boxes = cells.evaluate_all("(all) => all.map((cell) => cell.getBoundingClientRect().toJSON())")
    assert len(boxes) >= 3
    assert all(box["left"] >= 0 and box["right"] <= PHONE["width"] for box in boxes)
    assert "to" in row.locator("td[data-label='efficacy'] .range").inner_text()
    no_sideways_scrolling(page)
    visitor.check()


def test_a_rate_has_its_axis_within_0_and_1(visit: Visit, server: Server) -> None:
    problem = ba.Problem(
        arms=["a", "b"],
        objective=ba.maximize("hit", noise=ba.Bernoulli()),
        constraints=[ba.at_most("miss", 0.5, noise=ba.Bernoulli())],
    )
    study, path = new_study(server, "rates", problem)
    study.add([(arm, metric, k % 4 == 0) for k in range(12) for arm in "ab" for metric in ("hit", "miss")])
    visitor = visit()
    page = visitor.go(path)
    ticks = page.locator(".axis text.tick")
    ticks.first.wait_for()
    assert all(0.0 <= float(tick) <= 1.0 for tick in ticks.all_text_contents())
    domain = page.evaluate(
        """async () => (await import("/static/js/library/scale.js")).extent([0.0, 0.2, 0.98, null], 0, 1)"""
    )
    assert domain[0] == 0.0
    assert domain[1] == 1.0
    visitor.check()


def test_news_during_a_press_does_not_lose_it(visit: Visit, server: Server) -> None:
    """A result that comes between press and release would put another row under the pointer."""
    study, path = new_study(server, "pressed", doses(0.5))
    tests = study.ask(4)
    study.tell(tests[0], 0.5)
    visitor = visit()
    page = visitor.go(path)
    rows = page.locator("#log tbody tr")
    rows.nth(5).wait_for()
    # From here on, what the page loads is answered when this test says so, and nothing moves by itself.
    held: list[Route] = []
    page.route(re.compile(f"/api{path}(?!/events)"), lambda route: held.append(route))
    study.tell(tests[1], 0.5)
    wait_until(lambda: page.evaluate("0") == 0 and any("/log" in route.request.url for route in held))
    page.get_by_role("button", name=f"Correct test {tests[0].id}").hover()
    page.mouse.down()
    with page.expect_response(lambda answer: "/log" in answer.url) as answered:
        while held:
            held.pop().continue_()
    answered.value.finished()
    page.evaluate("new Promise((go) => setTimeout(go, 200))")
    assert rows.count() == 6
    page.mouse.up()
    page.get_by_role("dialog").get_by_text(f"Test {tests[0].id}").wait_for()
    page.unroute_all()
    rows.nth(6).wait_for()
    visitor.check()
