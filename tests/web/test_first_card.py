"""The first card of a study's page: what is known, what is open, how long, whether the data is healthy, what to do."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import pytest
from tests.web.browser import (
    DESK,
    PHONE,
    Scheme,
    Server,
    Visit,
    caches,
    doses,
    measure,
    new_study,
    no_sideways_scrolling,
)
from tests.web.test_dashboard_looks import AXE

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Page, ViewportSize

QUESTIONS = ["know", "open", "long", "healthy", "now"]
LOOKS = [
    pytest.param("light", DESK, id="light-desk"),
    pytest.param("dark", PHONE, id="dark-phone"),
    # Colors are the same at all widths.
    pytest.param("dark", DESK, id="dark-desk", marks=pytest.mark.torture),
    pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.torture),
]


class Scene(NamedTuple):
    """How a study comes to where it is, and what its card says to each question then."""

    plan: ba.Problem
    prepare: Callable[[ba.Study], object]
    headline: str
    says: tuple[str, str, str, str, str]


def noisy(study: ba.Study, tests: int = 180) -> None:
    """Results whose scatter is as stated, so that means differ from their thresholds and from each other."""
    scatter = random.Random(1).gauss
    means = {"25 mg": (0.2, 0.1), "150 mg": (0.6, 0.3), "300 mg": (0.9, 0.8)}
    made = 0
    while made < tests and (asked := study.ask(min(10, tests - made))):
        study.tell_many([(t, means[t.arm][t.metric == "adverse event"] + scatter(0.0, 0.5)) for t in asked])
        made += len(asked)


def waiting(study: ba.Study) -> None:
    study.ask(2, days=1e-9)
    for test in study.ask(4):
        study.tell(test, 0.5)


def on_items(study: ba.Study) -> None:
    for test in study.ask(3):
        study.tell(test, dict.fromkeys(test.metrics, 1.0))
    study.ask(2)


def later(study: ba.Study) -> None:
    """Past results of all items but the first of the study's order."""
    [first, *_] = study.ask(1)
    study.release([first])
    items = [item for item in study.items_left(first.arm) if item != first.item]
    study.add([(first.arm, dict.fromkeys(first.metrics, 1.0), item) for item in items[:5]])


def and_more(study: ba.Study) -> None:
    """Three results that come after the decision."""
    measure(study)
    study.add([("150 mg", study.plan.measured[0], 0.6)] * 3)


HOPELESS = dataclasses.replace(doses(), constraints=(ba.at_most("adverse event", 0.01, noise=ba.Gaussian(0.05)),))
SHORT = dataclasses.replace(ba.Plan.of(doses(0.5), name="short"), budget=ba.Budget(tests=180))
TIGHT = dataclasses.replace(ba.Plan.of(doses(0.5), name="tight"), budget=ba.Budget(tests=185))
SCENES = {
    "no results": Scene(
        doses(),
        lambda study: None,
        "No results yet",
        ("there are no results", "every arm can be", "Not known yet", "none yet", "Ask for tests"),
    ),
    "running": Scene(
        doses(0.5),
        noisy,
        "150 mg leads",
        (
            "With 95% confidence",
            r"about [\d,]+ tests?",
            r"About [\d,]+ tests? to go .* Likely answer: \S?150 mg",
            "No sign of trouble: 14 checks",
            "Ask for tests",
        ),
    ),
    "waiting": Scene(
        doses(0.5),
        waiting,
        "",
        (
            "4 results recorded but not counted",
            "",
            "Not known yet",
            "No sign",
            "Wait for test 1 .*which bench has held .*Free test 1",
        ),
    ),
    "budget spent": Scene(
        SHORT,
        noisy,
        "The budget is spent; 150 mg leads",
        ("With 95% confidence", r"about [\d,]+ tests?", "lack about", "No sign", r"bestarm extend '?budget spent"),
    ),
    "little budget": Scene(
        TIGHT,
        noisy,
        "150 mg leads",
        (
            "With 95% confidence",
            r"about [\d,]+ tests?",
            r"^Probably more tests to go than the budget leaves\. .*of 100 simulations stop at the budget without an "
            r"answer\..* The budget leaves 5 tests\.$",
            "No sign",
            "Ask for tests",
        ),
    ),
    "late results": Scene(
        doses(),
        and_more,
        "150 mg is feasible and best",
        ("150 mg is", "^Nothing", r"It took \d+ tests, at a cost of \d+; \d+ more came after the decision", "", ""),
    ),
    "certified": Scene(
        doses(),
        measure,
        "150 mg is feasible and best",
        ("150 mg is feasible and best", "^Nothing", "It took", "No sign", "Nothing: the study is done. Download the"),
    ),
    "none feasible": Scene(
        HOPELESS,
        measure,
        "No arm is feasible",
        ("no arm is feasible", "^Nothing", "It took", "No sign", "done. .*Other arms or limits need a new study"),
    ),
    "turns to come": Scene(
        caches(),
        later,
        "No results count yet",
        ("", "", "", "No sign", ""),
    ),
    "items and bundles": Scene(
        caches(),
        on_items,
        "",
        ("", "", "Not known yet", "No sign", "Wait for tests 4 and 5, held by bench, or ask for more tests"),
    ),
}


def row(page: Page, kind: str) -> str:
    return " ".join(page.locator(f".standing .{kind} dd").inner_text().split())


@pytest.mark.parametrize(("scheme", "viewport"), LOOKS)
def test_it_answers_five_questions_in_every_state(
    visit: Visit, server: Server, scheme: Scheme, viewport: ViewportSize
) -> None:
    visitor = visit(viewport=viewport, scheme=scheme)
    for name, scene in SCENES.items():
        study, path = new_study(server, f"{name} {scheme} {viewport['width']}", scene.plan)
        scene.prepare(study)
        page = visitor.go(path)
        page.locator("#log tbody tr").first.wait_for()
        page.locator(".late", has_text="Being simulated").wait_for(state="hidden")
        assert page.locator(".answer").inner_text().startswith(scene.headline), name
        shown = "(rows) => rows.filter((row) => !row.hidden).map((row) => row.classList[1])"
        kinds = page.locator(".standing .row").evaluate_all(shown)
        assert kinds == QUESTIONS
        for kind, said in zip(QUESTIONS, scene.says, strict=True):
            assert re.search(said, row(page, kind)), f"{name}, {kind}: {row(page, kind)}"
        no_sideways_scrolling(page)
        page.evaluate(AXE.read_text(encoding="utf-8"))
        serious = "result.violations.filter((one) => ['serious', 'critical'].includes(one.impact))"
        found = page.evaluate(f"axe.run('.hero').then((result) => {serious}.map((one) => one.id))")
        assert found == [], name
        # Asking comes right below, before charts and tables.
        ask, charts = page.locator("#ask").bounding_box(), page.locator("#charts").bounding_box()
        assert ask is not None
        assert charts is not None
        assert ask["y"] < charts["y"]
    visitor.check()


def test_a_name_is_asked_for_where_one_is_recorded(visit: Visit, server: Server) -> None:
    """Once: the browser remembers it. Nothing is recorded without it."""
    study, path = new_study(server, "whose name", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    name = page.get_by_label("Your name", exact=True)
    name.fill("")
    page.get_by_role("button", name="Ask for tests").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Go on").click()
    dialog.get_by_text("Type a name").wait_for()
    dialog.get_by_role("button", name="Cancel").click()
    page.get_by_text("Nothing was done: it is recorded under a name.").wait_for()
    assert study.status().pending == 0
    page.get_by_role("button", name="Ask for tests").click()
    dialog.get_by_label("Name", exact=True).fill(" bob ")
    dialog.get_by_role("button", name="Go on").click()
    page.locator(".flight .cell").first.wait_for()
    assert [row.holder for _, row in study.pending()] == ["bob"]
    assert name.input_value() == "bob"
    page.locator("#result-1").fill("0.2")
    page.get_by_role("button", name="Save results").click()
    page.locator("#log tr", has_text="result").first.wait_for()
    assert [event.holder for event in study.log() if event.kind == "told"] == ["bob"]
    visitor.check()


def test_advice_depends_on_the_holders(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "whose turn", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    now = page.locator(".standing .now")
    page.get_by_label("Your name").fill("ann")
    page.get_by_label("How many").fill("2")
    page.get_by_label("Back in (days)").fill("3")
    page.get_by_role("button", name="Ask for tests").click()
    now.get_by_text("of tests 1 and 2.").wait_for()
    assert "due in 3 days" in page.locator(".flight .cell").first.inner_text()
    # The link leads to the first box.
    page.get_by_label("Your name").focus()
    now.get_by_role("link", name="Enter the results").click()
    assert page.evaluate("document.activeElement.id") == "result-1"
    page.locator("#result-1").fill("0.2")
    page.get_by_role("button", name="Save results").click()
    now.get_by_text("of test 2.").wait_for()
    page.locator("#result-2").fill("0.2")
    page.get_by_role("button", name="Save results").click()
    now.get_by_role("link", name="Ask for tests").wait_for()
    # The name is remembered.
    assert visitor.go(path).get_by_label("Your name").input_value() == "ann"
    study.archive()
    now.get_by_text("Nothing: the study is archived").wait_for()
    visitor.check()


def test_a_spent_budget_can_be_raised(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "raised", SHORT)
    noisy(study)
    visitor = visit()
    page = visitor.go(path)
    page.get_by_role("button", name="Allow more tests").click()
    dialog = page.get_by_role("dialog")
    box = dialog.get_by_label("How many more tests")
    assert int(box.input_value()) > 0, "about as many as are lacking"
    box.fill("some")
    dialog.get_by_role("button", name="Confirm").click()
    dialog.get_by_role("alert").get_by_text("tests").wait_for()
    box.fill("20")
    dialog.get_by_role("button", name="Confirm").click()
    page.locator(".badge", has_text="running").wait_for()
    page.locator(".facts.big", has_text="of 200").wait_for()
    visitor.check("422")


def test_one_measure_of_progress_in_list_and_page(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "one number", doses(0.5))
    noisy(study)
    visitor = visit()
    page = visitor.go(path)
    evidence = f"{int(100 * server.get(f'/api{path}')['progress'])}%"
    page.locator(".open-all", has_text=f"{evidence} of the evidence needed").wait_for()
    assert "sure so far" not in page.inner_text("main")
    visitor.go("/")
    card = page.locator(".study-card", has_text="one number")
    card.get_by_text("of the evidence").wait_for()
    assert card.locator(".sure").inner_text() == evidence
    visitor.check()
