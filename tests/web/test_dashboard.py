"""The dashboard in a real browser: what people do with it, by mouse, by keyboard and on a phone.

Chromium is driven by Playwright. Where one of them is missing the tests skip, unless BESTARM_REQUIRE lists "chromium".
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.tools.patience import wait_until
from tests.web.browser import (
    DESK,
    MEANS,
    PHONE,
    Server,
    Visit,
    doses,
    fill_in,
    measure,
    new_study,
    no_sideways_scrolling,
)

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Route, ViewportSize


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_create_a_study_enter_results_and_watch_it_become_certified(
    visit: Visit, server: Server, viewport: ViewportSize
) -> None:
    name = f"dose on {viewport['width']}"
    visitor = visit(viewport=viewport)
    page = visitor.go("/")
    page.get_by_role("link", name="New study").first.click()
    fill_in(page, name)
    no_sideways_scrolling(page)
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.get_by_role("heading", level=1, name=name).wait_for()
    assert "largest efficacy with adverse event at most 0.5?" in page.locator(".question").inner_text()
    assert page.locator(".answer").inner_text() == "No results yet"

    page.get_by_label("How many").fill("2")
    page.get_by_role("button", name="Ask for tests").click()
    boxes = page.locator(".flight input.value")
    boxes.nth(1).wait_for()
    for k, label in enumerate(page.locator(".flight label").all_inner_texts()):
        asked = re.search(r"(\d+ mg) (efficacy|adverse event)$", label)
        assert asked, label
        boxes.nth(k).fill(str(MEANS[asked[1]][asked[2] == "adverse event"]))
    page.get_by_role("button", name="Save results").click()
    page.get_by_text("No test is out.").wait_for()
    page.get_by_label("Option", exact=True).select_option("150 mg")
    page.get_by_label("Metric", exact=True).select_option("adverse event")
    page.get_by_label("Result", exact=True).fill("0.3")
    page.get_by_role("button", name="Add result").click()
    page.get_by_text("Result saved as test 3").first.wait_for()
    assert server.get(f"/api/studies/{server.key(name)}")["tests"] == 3

    page.evaluate("window.loadedOnce = true")
    # Not through the service: as from another process, of which `test_events.py` starts one.
    measure(ba.Study.open(name, storage=server.database, holder="at the bench"))
    page.get_by_text("150 mg is feasible and best, 95% confidence").first.wait_for()
    assert page.evaluate("window.loadedOnce") is True, "the page was loaded again"
    page.locator("#log td", has_text="at the bench").first.wait_for()
    assert page.locator("tr.answered th").inner_text().startswith("150 mg")
    reasons = page.locator("table.arms tbody tr", has_text="300 mg").inner_text()
    assert "infeasible" in reasons
    assert "adverse event 0.8 > 0.5" in reasons
    assert page.locator(".badge").first.inner_text() == "certified"
    assert page.locator("#polite").inner_text().replace("\u2068", "").startswith("150 mg")
    no_sideways_scrolling(page)
    visitor.check()


def test_keyboard_only(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/")
    page.get_by_role("heading", name="Studies", level=1).wait_for()
    keys = page.keyboard

    def focused() -> Any:
        return page.evaluate(
            """() => {
                const e = document.activeElement, style = getComputedStyle(e), card = e.closest(".study-card");
                const shown = style.outlineStyle !== "none" || (card && getComputedStyle(card).outlineStyle !== "none");
                return { tag: e.tagName, text: (e.labels?.[0] ?? e).textContent.trim(), seen: shown };
            }"""
        )

    def tab_to(text: str, most: int = 60) -> None:
        for _ in range(most):
            keys.press("Tab")
            now = focused()
            assert now["seen"], f"nothing shows that {now} has the focus"
            if now["text"].startswith(text):
                return
        raise AssertionError(f"{text!r} is not reached by {most} presses of Tab")

    keys.press("Tab")
    assert focused()["text"] == "Skip to the content"
    keys.press("Enter")
    tab_to("New study")
    keys.press("Enter")
    page.wait_for_url("**/new")
    page.get_by_role("heading", name="New study").wait_for()
    tab_to("Name of the study")
    keys.type("by keyboard")
    tab_to("Options, one on a line")
    keys.type("25 mg\n150 mg")
    tab_to("Metric")
    keys.type("efficacy")
    tab_to("One result is")
    keys.press("ArrowDown")
    tab_to("Least value")
    keys.type("0")
    tab_to("Largest value")
    keys.type("1")
    tab_to("Create the study")
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.get_by_role("heading", level=1, name="by keyboard").wait_for()

    # What to do leads to the button that does it.
    tab_to("Ask for tests")
    keys.press("Enter")
    page.locator("button#ask:focus").wait_for()
    keys.press("Enter")
    page.locator(".flight input.value:focus").wait_for()
    keys.type("0.2")
    keys.press("Enter")
    page.get_by_text("1 result saved").first.wait_for()
    page.get_by_text("No test is out.").wait_for()
    page.locator("button:focus", has_text="Ask for tests").wait_for()
    page.get_by_role("button", name="Correct test 1").wait_for()
    tab_to("Correct")
    keys.press("Enter")
    page.get_by_role("dialog").wait_for()
    keys.type("0.3")
    keys.press("Escape")
    page.get_by_role("dialog").wait_for(state="detached")
    assert focused()["text"].startswith("Correct"), "the focus did not return"

    stops = []
    page.evaluate("document.activeElement.blur()")
    for _ in range(150):
        keys.press("Tab")
        stops.append(focused()["tag"])
        if stops[-1] == "BODY":
            break
    assert "BODY" in stops, "Tab does not lead out of the page"
    visitor.check()


def test_the_awaited_test_is_named_and_can_be_freed(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "forgotten", doses(0.5))
    study.ask(2, days=1e-9)
    for test in study.ask(4):
        study.tell(test, 0.5)
    visitor = visit()
    page = visitor.go(path)
    counted = page.get_by_text("4 results recorded but not counted in what this page shows: waiting for test 1")
    counted.wait_for()
    note = page.locator(".standing .now")
    said = note.inner_text()
    assert "Wait for test 1 (" in said
    assert "which bench has held for" in said
    assert "and wanted to tell it" in said
    assert "bestarm release forgotten 1" in said
    visitor.check()
    note.get_by_role("button", name="Free test 1").click()
    page.locator(".flight .cell", has_text="free: last held by").wait_for()
    # A failed attempt, before it is known what it counts as.
    page.get_by_label("Your name").fill("bench")
    study.set_aside(2, "exit status 3")
    page.locator(".flight .cell", has_text="failed").first.wait_for()
    assert "exit status 3" in page.locator(".flight").inner_text()
    for number in (1, 2):
        page.locator(f"#result-{number}").fill("0.25")
    page.get_by_role("button", name="Save results").click()
    counted.wait_for(state="hidden")
    assert study.status().waiting == 0
    visitor.check()


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_what_is_loaded_late_moves_nothing_that_can_be_pressed(
    visit: Visit, server: Server, viewport: ViewportSize
) -> None:
    study, path = new_study(server, f"slow line {viewport['width']}", doses(0.5))
    measure(study, 100)
    study.ask(3)
    visitor = visit(viewport=viewport)
    held: list[Route] = []
    late = re.compile(r"/(log|history|forecast)(\?|$)")
    visitor.page.route(late, lambda route: held.append(route))
    page = visitor.go(path)
    buttons = [page.get_by_role("button", name=name) for name in ("Ask for tests", "Save results", "Upload")]
    for button in buttons:
        button.wait_for()
    # The browser's events are handled while something is asked of it.
    wait_until(lambda: page.title() and len(held) == 3)
    page.get_by_text("Being simulated").wait_for()
    before = [button.bounding_box() for button in buttons]
    shown = {
        "forecast": page.get_by_text("Likely answer"),
        "log": page.locator("#log td", has_text="asked"),
    }
    next(route for route in held if "/history" in route.request.url).continue_()
    for part, words in shown.items():
        next(route for route in held if f"/{part}" in route.request.url).continue_()
        words.first.wait_for()
        assert [button.bounding_box() for button in buttons] == before, part
    page.unroute(late)


def test_asking_for_days(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "field work", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    page.get_by_label("Your name").fill("ann")
    page.get_by_label("Back in (days)").fill("soon")
    page.get_by_role("button", name="Ask for tests").click()
    page.get_by_role("alert").get_by_text("days").wait_for()
    page.get_by_label("Back in (days)").fill("2.5")
    page.get_by_role("button", name="Ask for tests").click()
    page.locator(".flight .cell").first.wait_for()
    [(_, row)] = study.pending()
    assert row.due is not None
    assert row.due - row.since == pytest.approx(2.5 * 86400)
    assert row.holder == "ann"


def test_give_up_fail_correct_upload_download_and_archive(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = new_study(server, "desk work", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    study.ask(3)
    page.locator(".flight .cell").nth(2).wait_for()
    page.locator(".block-head", has_text=re.compile(r"bench for \d+ seconds?, at work")).wait_for()

    page.get_by_role("button", name="Give up or make again").click()
    page.get_by_label("Choose test 1:").check()
    page.get_by_role("button", name="Make again", exact=True).click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the vial broke")
    page.get_by_role("button", name="Confirm").click()
    page.locator("#log td", has_text="the vial broke").wait_for()
    page.get_by_role("button", name="Give up or make again").click()
    page.get_by_label("Choose test 2:").check()
    page.get_by_role("button", name="Give up", exact=True).click()
    page.get_by_role("button", name="Confirm").click()
    page.get_by_role("dialog").get_by_text("Say why").wait_for()
    page.get_by_role("dialog").get_by_label("Reason").fill("it ran dry")
    page.get_by_role("button", name="Confirm").click()
    page.locator(".flight .cell").nth(2).wait_for(state="detached")

    page.locator("#result-1").fill("a lot")
    page.get_by_role("button", name="Save results").click()
    page.locator("#result-1-wrong", has_text="must be a number").wait_for()
    assert page.locator("#result-1").get_attribute("aria-invalid") == "true"
    page.locator("#result-1").fill("0.5")
    page.locator("#result-3").fill("0.7")
    page.get_by_role("button", name="Save results").click()
    page.get_by_role("button", name="Correct test 3").click()
    page.get_by_role("dialog").get_by_label("Right value").fill("0.25")
    page.get_by_role("dialog").get_by_label("Reason").fill("misread")
    page.get_by_role("dialog").get_by_role("button", name="Correct").click()
    page.locator("#log tr", has_text="corrected").locator("td", has_text="0.25").wait_for()
    page.get_by_label("Find in the log").fill("ran dry")
    page.locator("#log").get_by_text("1 entry of the").wait_for()
    assert page.locator("#log tbody tr").count() == 1
    page.get_by_label("Find in the log").fill("")

    bad = tmp_path / "bad.csv"
    bad.write_text("arm,metric,value\n25 mg,efficacy,0.2\n26 mg,efficacy,0.2\n25 mg,efficacy,much\n")
    page.get_by_label("CSV file").set_input_files(bad)
    page.get_by_role("button", name="Upload").click()
    complaint = page.locator("pre.error")
    complaint.wait_for()
    assert "26 mg" in complaint.inner_text()
    assert "much" in complaint.inner_text()
    bad.write_text("test,value\n3,0.5\n")
    page.get_by_label("CSV file").set_input_files(bad)
    page.get_by_role("button", name="Upload").click()
    complaint.filter(has_text="if that is wrong, “Correct” in the log below replaces it").wait_for()
    good = tmp_path / "good.csv"
    good.write_text("arm,metric,value,a & b,lot\n" + "25 mg,efficacy,0.2,,7\n" * 5)
    page.get_by_label("CSV file").set_input_files(good)
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("button", name="Read it without the columns a & b, lot").click()
    page.get_by_text("5 results read from the file").first.wait_for()
    assert study.status().tests == 7

    for button, ending, sign in (("CSV", "csv", "25 mg"), ("JSON", "json", '"desk work"'), ("Report", "html", "<html")):
        with page.expect_download() as started:
            page.get_by_role("button", name=button, exact=True).click()
        saved = started.value.path()
        assert started.value.suggested_filename.endswith(f".{ending}")
        assert sign in saved.read_text(encoding="utf-8")

    page.get_by_role("button", name="Archive").click()
    page.get_by_text("This study is archived").first.wait_for()
    assert page.get_by_role("button", name="Ask for tests").is_disabled()
    page.get_by_role("button", name="Bring back").click()
    page.get_by_role("button", name="Archive").wait_for()
    assert not page.get_by_role("button", name="Delete").is_visible()
    visitor.check("422")


def test_an_archived_study_is_deleted_once_its_name_is_typed(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "old doses", doses(0.5))
    study.archive()
    visitor = visit()
    page = visitor.go(path)
    for typed, said in (("old", "This is not its name; nothing was deleted."), ("old doses", None)):
        page.get_by_role("button", name="Delete", exact=True).click()
        page.get_by_role("dialog").get_by_label("Name of the study").fill(typed)
        page.get_by_role("button", name="Delete for good").click()
        if said is not None:
            page.get_by_role("dialog").get_by_text(said).wait_for()
            page.get_by_role("button", name="Cancel").click()
            assert study.storage.find_study("old doses") is not None
    page.wait_for_url(f"{server.url}/")
    assert study.storage.find_study("old doses") is None
    visitor.check()
