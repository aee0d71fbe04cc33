"""Results are entered in a grid: on one screen, by keyboard; kept until they are saved, and hollow until they count."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.tools.patience import wait_until
from tests.web.browser import DESK, PHONE, Server, Visit, caches, doses, new_study, no_sideways_scrolling, plates_of

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page, ViewportSize

TOGETHER = plates_of(
    24,
    constraints=[ba.at_most("toxicity", 0.5, noise=ba.Bernoulli())],
    measurements=[ba.measurement("yield", "toxicity")],
)


def paste(box: Locator, text: str) -> None:
    box.evaluate(
        """(input, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text", text);
            input.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def typed(page: Page) -> list[str]:
    values: list[str] = page.locator(".flight input.value").evaluate_all("(boxes) => boxes.map((box) => box.value)")
    return values


@pytest.mark.parametrize("kind", ["plate of 96", "plate of two metrics", "no blocks", "items"])
def test_all_tests_are_on_one_screen(visit: Visit, server: Server, kind: str) -> None:
    problem = {"plate of 96": plates_of(96), "plate of two metrics": TOGETHER, "items": caches()}.get(kind, doses())
    study, path = new_study(server, f"one screen, {kind}", problem)
    tests = study.ask_block(days=3) if problem.blocks else study.ask(8 if kind == "items" else 24, days=3)
    visitor = visit(viewport={"width": 1280, "height": 800})
    page = visitor.go(path)
    cells = page.locator(".flight .cell")
    cells.nth(len(tests) - 1).wait_for()
    page.locator(".block").first.evaluate("(e) => scrollTo({ top: e.offsetTop - 110, behavior: 'instant' })")
    nav, bar = page.locator(".jump").bounding_box(), page.locator(".save-bar").bounding_box()
    assert nav is not None
    assert bar is not None
    assert bar["y"] + bar["height"] <= 800
    boxes = cells.evaluate_all("(all) => all.map((one) => one.getBoundingClientRect()).map((r) => [r.top, r.bottom])")
    assert min(top for top, _ in boxes) >= nav["y"] + nav["height"]
    assert max(bottom for _, bottom in boxes) <= bar["y"] + 1
    if problem.blocks:
        # By well: row by row, as the places are numbered.
        across = 12 if kind == "plate of 96" else 6
        assert len({round(top) for top, _ in boxes}) == len(tests) // across
    visitor.check()


def test_keys_and_paste_on_a_plate(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "keys", plates_of(12))
    tests = study.ask_block(days=3)
    names = [f"{row}{column}" for row in "ABC" for column in (1, 2, 3, 4)]
    assert [test.item for test in tests] == [f"plate 1 {name}" for name in names]
    visitor = visit()
    page = visitor.go(path)
    box = {name: page.locator(f"#result-{test.id}") for name, test in zip(names, tests, strict=True)}

    def focused() -> str:
        number = page.evaluate("document.activeElement.id").removeprefix("result-")
        return names[[test.id for test in tests].index(int(number))]

    box["A1"].focus()
    for key, expected in (
        *(("Enter", "B1"), ("Enter", "C1"), ("Enter", "A2"), ("ArrowRight", "A3"), ("ArrowDown", "B3"), ("Tab", "B4")),
        *(("ArrowUp", "A4"), ("ArrowUp", "A4"), ("ArrowLeft", "A3"), ("Shift+Tab", "A2"), ("Shift+Enter", "A2")),
    ):
        page.keyboard.press(key)
        assert focused() == expected, key
    # Within a text that is being typed, arrows move the caret.
    page.keyboard.type("1.5")
    page.keyboard.press("ArrowLeft")
    assert focused() == "A2"
    page.keyboard.press("End")
    page.keyboard.press("ArrowRight")
    assert focused() == "A3"

    paste(box["B2"], "1,5\t2,5\n3,5\t4,5\n")
    page.get_by_text("4 values filled in, as they lie on the plate").first.wait_for()
    assert [box[name].input_value() for name in ("B2", "B3", "C2", "C3")] == ["1,5", "2,5", "3,5", "4,5"]
    paste(box["C3"], "1\t2\t3")
    page.get_by_text("Nothing was filled in: 1 of the 3 pasted values have no box.").wait_for()
    paste(box["A1"], "\n".join(str(k) for k in range(12)))
    page.get_by_text("12 values filled in, in the order of the list: row by row").first.wait_for()
    assert typed(page) == [str(k) for k in range(12)]
    paste(box["A1"], "7\n8\n9")
    page.get_by_text("3 values filled in, as they lie on the plate").first.wait_for()
    assert [box[name].input_value() for name in ("A1", "B1", "C1", "A2")] == ["7", "8", "9", "1"]
    # All are filled in, so Enter in the last one saves.
    box["C4"].focus()
    page.keyboard.press("Enter")
    page.get_by_text("12 results saved").first.wait_for()
    assert study.status().waiting == 0
    visitor.check()


def test_values_are_kept_until_they_are_saved(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "kept", doses(0.5))
    study.ask(3, days=3)
    _, other = new_study(server, "kept elsewhere", doses(0.5))
    ba.Study.open("kept elsewhere", storage=server.database).ask(3, days=3)
    visitor = visit()
    page = visitor.go(path)
    for k, text in ((1, "0,5"), (2, "0.25"), (3, "1")):
        page.locator(f"#result-{k}").fill(text)
    page.get_by_text("3 values not saved yet").wait_for()
    visitor.go(other)
    page.locator("#result-1").wait_for()
    assert typed(page) == ["", "", ""], "another study's"
    page.close()
    visitor.page = page = visitor.context.new_page()
    visitor.go(path)
    page.get_by_text("3 values not saved yet").wait_for()
    assert typed(page) == ["0,5", "0.25", "1"]
    # What has an answer by now is dropped, and that is said.
    study.tell(2, 0.75)
    page.get_by_text("2 values not saved yet").wait_for()
    page.get_by_text("dropped, because the test has a result by now or was given up: 0.25 (test 2).").wait_for()
    with page.expect_request("**/tell") as sent:
        page.get_by_role("button", name="Save results").click()
    assert [row["test"] for row in json.loads(sent.value.post_data or "")["results"]] == [1, 3]
    page.get_by_text("No test is out.").wait_for()
    assert page.evaluate("Object.keys(localStorage).filter((key) => key.includes('draft'))") == []


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_saved_results_are_hollow_until_the_plate_is_complete(
    visit: Visit, server: Server, viewport: ViewportSize
) -> None:
    study, path = new_study(server, f"hollow {viewport['width']}", plates_of(12))
    tests = study.ask_block(days=3)
    visitor = visit(viewport=viewport)
    page = visitor.go(path)
    for test in tests[:3]:
        page.locator(f"#result-{test.id}").fill(str(10 * test.id))
    page.get_by_role("button", name="Save results").click()
    page.locator(".cell.saved").nth(2).wait_for()
    assert page.locator(".kept-value").all_inner_texts() == ["10", "20", "30"]
    page.locator(".block-head", has_text="3 of 12 saved, which count when the rest is there").wait_for()
    page.locator(".answer", has_text="No results count yet").wait_for()
    wait_until(lambda: page.locator(".chart .marker.waiting").count() == 3)
    page.locator(".legend", has_text="Results that are not counted yet").wait_for()
    page.locator("table.arms", has_text="not counted yet").wait_for()
    page.get_by_text("3 results saved and not counted yet.").first.wait_for()
    no_sideways_scrolling(page)
    # A saved well keeps its value: what is pasted over it must say the same.
    first = page.locator(f"#result-{tests[3].id}")
    paste(first, "40\n50\n60")
    page.get_by_text("3 values filled in").first.wait_for()
    study.tell_many([(test, 1.0) for test in tests[3:6]])
    page.locator(".cell.saved").nth(5).wait_for()
    paste(page.locator(f"#result-{tests[6].id}"), "\n".join(["70"] * 6))
    page.get_by_role("button", name="Save results").click()
    page.get_by_text("No test is out.").wait_for()
    page.locator(".marker.waiting").first.wait_for(state="detached")
    page.get_by_text("Ask for the next plate, make its tests").wait_for()
    visitor.check("422")


def test_blocks_that_are_no_plates_are_lists(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "days", plates_of(8))
    study.ask_block(days=3)
    visitor = visit()
    page = visitor.go(path)
    page.locator(".flight .cell", has_text="place 8").wait_for()
    paste(page.locator("#result-2"), "1,5\n2,5\n3,5")
    page.get_by_text("3 values filled in").first.wait_for()
    assert typed(page) == ["", "1,5", "2,5", "3,5", "", "", "", ""]
    page.get_by_role("button", name="Save results").click()
    page.get_by_text("5 tests without a result.").wait_for()
    page.locator(".cell.saved").nth(2).wait_for()
    visitor.check()


def test_several_are_given_up_or_made_again_for_one_reason(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "several out", plates_of(12))
    tests = study.ask_block(days=3)
    visitor = visit()
    page = visitor.go(path)
    page.get_by_label("Your name").fill("ann")
    page.get_by_label("Your name").blur()
    choose = page.get_by_role("button", name="Give up or make again")
    choose.click()
    page.get_by_text("Choose the tests that have no result to enter").wait_for()
    assert page.get_by_role("button", name="Give up", exact=True).is_disabled()
    page.keyboard.press("Space")
    page.get_by_text("1 test chosen").wait_for()
    page.get_by_label(f"Choose test {tests[2].id}:").check()
    page.get_by_role("button", name="Give up", exact=True).click()
    dialog = page.get_by_role("dialog", name="Give up: tests 1 and 3")
    dialog.get_by_role("button", name="Confirm").click()
    dialog.get_by_text("Say why").wait_for()
    dialog.get_by_label("Reason").fill("spilled")
    dialog.get_by_role("button", name="Confirm").click()
    page.get_by_text("10 tests without a result.").wait_for()
    choose.click()
    page.get_by_role("button", name="Choose all").click()
    page.get_by_role("button", name="Make again", exact=True).click()
    page.get_by_role("dialog").get_by_label("Reason").fill("power cut")
    page.get_by_role("dialog").get_by_role("button", name="Confirm").click()
    page.get_by_text("Tests 2, 4, 5, 6 and 6 more will be handed out again").first.wait_for()
    page.get_by_label("Choose test 2:").wait_for(state="hidden")
    page.locator(".block-head", has_text="free: last held by").wait_for()
    noted = [(event.kind, event.test, event.holder, event.detail) for event in study.log()]
    assert [row for row in noted if row[0] == "dropped"] == [("dropped", test, "ann", "spilled") for test in (1, 3)]
    assert [row[1:] for row in noted if row[0] == "failed"] == [
        (test, "ann", "power cut") for test in (2, *range(4, 13))
    ]
    visitor.check()


def test_the_reserve_is_changed_before_the_first_test(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "reserve", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    page.get_by_role("button", name="Let them come and go").click()
    page.get_by_text("Arms may come later or be taken out: 10% of the accepted chance").wait_for()
    assert ba.Study.open("reserve", storage=server.database).plan.reserve == 0.1
    page.get_by_role("button", name="Keep them as they are").click()
    page.get_by_text("The arms stay as they are").first.wait_for()
    study.ask(1, days=3)
    page.get_by_role("button", name="Let them come and go").wait_for(state="hidden")
    visitor.check()
