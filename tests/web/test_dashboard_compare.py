"""The page that puts studies side by side, and the list in which they are chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.web.browser import Scheme, Server, Visit, doses, measure, new_study, no_sideways_scrolling
from tests.web.test_dashboard_looks import AXE, hostile_study, in_every_look

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize


def test_studies_are_chosen_in_the_list_and_shared_by_address(visit: Visit, server: Server) -> None:
    first, first_path = new_study(server, "week 1")
    measure(first)
    second, second_path = new_study(server, "week 2", doses(0.5))
    measure(second, 8)
    third, _ = new_study(server, "week 3")
    numbers = [path.rpartition("/")[2] for path in (first_path, second_path)]
    visitor = visit()
    page = visitor.go("/")
    card = page.locator(".study-card", has_text="week 1")
    # The list says who leads, and what state it is in.
    card.locator("dt", has_text="Answer").wait_for()
    assert card.locator(".facts dd bdi").inner_text() == first.status().answer
    assert card.locator(".badge").inner_text() == "certified"
    assert page.get_by_role("link", name="Compare 2 studies").count() == 0
    page.get_by_label("Compare week 1").check()
    page.get_by_label("Compare week 2").check()
    page.get_by_role("link", name="Compare 2 studies").click()
    page.get_by_role("heading", name="Compare studies").wait_for()
    assert page.url.endswith(f"/compare?studies={','.join(numbers)}")

    def names() -> list[str]:
        return page.locator(".side-by-side thead a").all_inner_texts()

    page.locator(".side-by-side").wait_for()
    assert names() == ["week 1", "week 2"]
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in page.locator(".side-by-side tbody tr").all()
    }
    assert rows["State"] == ["certified", "running"]
    assert rows["Answer or leader"] == [first.status().answer, second.status().leader]
    assert rows["Tests"] == [str(first.status().tests), "8"]
    # Intervals of all arms of both, on one scale.
    shown = page.locator(".intervals tbody tr")
    assert shown.count() == len(first.plan.arms) + len(second.plan.arms)
    assert page.locator(".intervals").count() == 1
    assert page.locator(".interval-line").count() == sum(
        arm.metrics[0].tests > 0 for study in (first, second) for arm in study.status().arms
    )
    # Others open the same address and see the same.
    other = visit()
    assert other is not visitor
    found = other.go(f"/compare?studies={','.join(numbers)}").locator(".side-by-side thead a")
    found.first.wait_for()
    assert found.all_inner_texts() == ["week 1", "week 2"]
    # More and fewer; the address follows.
    page.get_by_label("Another study").select_option(label="week 3")
    page.get_by_role("button", name="Add", exact=True).click()
    page.locator(".side-by-side thead a", has_text="week 3").wait_for()
    page.get_by_role("button", name="Remove week 1").click()
    page.locator(".side-by-side thead a", has_text="week 1").wait_for(state="detached")
    assert names() == ["week 2", "week 3"]
    assert page.url.endswith(f"/compare?studies={numbers[1]},{server.key('week 3')}")
    # What is told elsewhere is seen here.
    measure(third, 6)
    page.locator(".side-by-side tbody tr", has_text="Tests").locator("td", has_text="6").wait_for()
    for each in (visitor, other):
        each.check()


def test_nothing_chosen_and_nothing_there(visit: Visit, server: Server) -> None:
    new_study(server, "offered")
    visitor = visit()
    page = visitor.go("/compare")
    page.get_by_text("Choose the studies to put side by side.").wait_for()
    assert "offered" in page.get_by_label("Another study").locator("option").all_inner_texts()
    assert page.locator(".side-by-side").count() == 0
    visitor.check()


@in_every_look
def test_accessible_and_harmless(visit: Visit, server: Server, scheme: Scheme, viewport: ViewportSize) -> None:
    hostile = hostile_study(server, f"compared {scheme} {viewport['width']}").rpartition("/")[2]
    study, path = new_study(server, f"compared {scheme} {viewport['width']}")
    measure(study)
    visitor = visit(viewport=viewport, scheme=scheme)
    page = visitor.go(f"/compare?studies={hostile},{path.rpartition('/')[2]}")
    page.locator(".intervals").first.wait_for()
    assert page.locator(".intervals").count() == 2  # their objectives differ
    no_sideways_scrolling(page)
    assert page.evaluate("typeof window.hacked") == "undefined"
    assert page.locator("main img, main script, main b, main i").count() == 0
    page.evaluate(AXE.read_text(encoding="utf-8"))
    violations = page.evaluate("axe.run(document, { resultTypes: ['violations'] }).then((found) => found.violations)")
    assert [
        (one["id"], one["nodes"][0]["target"]) for one in violations if one["impact"] in ("serious", "critical")
    ] == []
    visitor.check()
