"""What the dashboard must be: harmless, accessible, and fit for a thousand arms."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from benchmarks.dashboard import large_problem, large_results
from tests.web.browser import (
    DESK,
    PHONE,
    Scheme,
    Server,
    Visit,
    add_constraint,
    caches,
    doses,
    measure,
    new_study,
    no_sideways_scrolling,
    plates_of,
)

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import ViewportSize

STATIC = Path(ba.__file__).parent / "web" / "static"
AXE = Path(__file__).parents[1] / "vendor" / "axe-core" / "axe.min.js"
HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 2">',
    "\u202egnp.esod\u2066",
    "'; drop table studies; --",
    "{{constructor.constructor('window.hacked = 3')()}}",
    "w" * 200,
]


def hostile_study(server: Server, name: str, **more: Any) -> str:
    problem = ba.Problem(
        arms=HOSTILE,
        objective=ba.maximize("<b>speed</b> \u202e", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most('limit "><i>', 0.5, noise=ba.Gaussian(1.0))],
        **more,
    )
    study, path = new_study(server, f"<img src=x onerror='window.hacked = 4'> \u202e{name}", problem)
    tests = study.ask(40)
    for part in (tests[:20], tests[20:-2]):  # at two moments: a chart of the progress needs two
        study.tell_many([(test, dict.fromkeys(test.metrics, 0.1 * (test.id % 7))) for test in part])
    return path


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
def test_hostile_names_are_shown_harmlessly(visit: Visit, server: Server, together: bool) -> None:
    if together:
        several = ba.measurement('limit "><i>', "<b>speed</b> \u202e")
        path = hostile_study(server, "together", measurements=[several], items=HOSTILE)
    else:
        path = hostile_study(server, "study")
    visitor = visit()
    for viewport in (DESK, PHONE):
        visitor.page.set_viewport_size(viewport)
        page = visitor.go(path)
        page.locator("#log tbody tr").first.wait_for()
        page.locator("#progress").scroll_into_view_if_needed()
        page.locator(".history canvas").wait_for()
        names = page.locator("table.arms tbody th bdi").all_inner_texts()
        assert sorted(names) == sorted(HOSTILE)
        isolated = "[...document.querySelectorAll('.name')].every((e) => getComputedStyle(e).unicodeBidi === 'isolate')"
        assert page.evaluate(isolated)
        no_sideways_scrolling(page)
        visitor.go("/")
        page.get_by_role("link", name="<img src=x onerror=").first.wait_for()
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.locator("main img, main script, main b, main i").count() == 0
        no_sideways_scrolling(page)
        visitor.check()


in_every_look = pytest.mark.parametrize(
    ("scheme", "viewport"),
    [
        pytest.param("light", DESK, id="light-desk"),
        pytest.param("dark", PHONE, id="dark-phone"),
        # Colors are the same at all widths.
        pytest.param("dark", DESK, id="dark-desk", marks=pytest.mark.torture),
        pytest.param("light", PHONE, id="light-phone", marks=pytest.mark.torture),
    ],
)


@in_every_look
def test_accessibility(visit: Visit, server: Server, scheme: Scheme, viewport: ViewportSize) -> None:
    name = f"seen {scheme} {viewport['width']}"
    study, path = new_study(server, name, doses(0.5))
    measure(study, 40)
    study.ask(3)
    done, done_path = new_study(server, f"{name}, done")
    measure(done)
    together, together_path = new_study(server, f"{name}, together", caches())
    for test in together.ask(3):
        together.tell(test, dict.fromkeys(test.metrics, 1.0))
    together.ask(2)
    plates, plate_path = new_study(server, f"{name}, plates", plates_of(24))
    plates.tell_many([(test, 1.0 * test.id) for test in plates.ask_block()[:7]])
    visitor = visit(viewport=viewport, scheme=scheme)
    found: list[str] = []

    def audit(where: str) -> None:
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for violation in page.evaluate(
            "axe.run(document, { resultTypes: ['violations'] }).then((result) => result.violations)"
        ):
            if violation["impact"] in ("serious", "critical"):
                places = [node["target"] for node in violation["nodes"][:3]]
                found.append(f"{where}: {violation['id']}: {violation['help']} at {places}")

    page = visitor.go("/")
    page.get_by_role("link", name=name).first.wait_for()
    audit("list")
    visitor.go("/reference")
    for operation in page.locator("details").all()[:12]:
        operation.locator("summary").click()
    audit("reference")
    no_sideways_scrolling(page)
    visitor.go("/new")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_role("heading", name="The study was not created").wait_for()
    page.get_by_role("group", name="What to make best").get_by_label("Metric").fill("time")
    add_constraint(page).get_by_label("Metric").fill("memory")
    page.get_by_role("button", name="Measure metrics together").click()
    page.get_by_role("group", name="Measurement 1").get_by_label("time").check()
    page.get_by_label("Each measurement is made on").select_option("names")
    audit("form with complaints")
    for where in (path, done_path):
        visitor.go(where)
        page.locator("#log tbody tr").first.wait_for()
        page.locator("#progress").scroll_into_view_if_needed()
        page.locator(".history canvas").wait_for()
        page.get_by_text("The same as a table").click()
        audit(f"study {where}")
    visitor.go(together_path)
    for box in (page.locator(".flight input.value").first, page.locator(".entry-values input").first):
        box.fill("1")
        box.press("Enter")
    page.get_by_role("button", name="Save results").click()
    page.get_by_role("button", name=re.compile("Correct test")).first.wait_for()
    no_sideways_scrolling(page)
    audit("study of measurements on items")
    # By the keyboard: on a busy machine, news may move the button away from under the mouse.
    page.get_by_role("button", name=re.compile("Correct test")).last.press("Enter")
    page.get_by_role("dialog").wait_for()
    audit("dialog")
    page.keyboard.press("Escape")
    visitor.go(plate_path)
    page.locator(".flight input.value").first.fill("much")
    page.get_by_role("button", name="Save results").click()
    page.get_by_text("must be a number").wait_for()
    page.get_by_role("button", name="Give up or make again").click()
    page.get_by_role("button", name="Choose all").click()
    no_sideways_scrolling(page)
    audit("plate")
    assert found == []
    visitor.check("422")


def test_the_theme_can_be_chosen_and_is_kept(visit: Visit) -> None:
    visitor = visit(scheme="light")
    page = visitor.go("/")
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    page.get_by_role("heading", name="Studies", level=1).wait_for()
    assert min(page.evaluate(shade)) > 200
    page.get_by_label("Colors").select_option("dark")
    assert max(page.evaluate(shade)) < 60
    visitor.go("/new")
    page.get_by_role("heading", name="New study").wait_for()
    assert max(page.evaluate(shade)) < 60
    visitor.check()


def test_a_report_on_many_metrics_fits_on_paper_and_on_a_phone(visit: Visit, tmp_path: Path) -> None:
    """A4 less the margins is 680 pixels wide. Of five metrics and more, each option is a block."""
    noise, metrics = ba.Bounded(0, 100), ("throughput", *(f"p{k} latency" for k in (50, 75, 90, 95, 98, 99, 99.9)))
    limits = [ba.at_most(metric, 50, noise=noise) for metric in metrics[1:]]
    arms = ["baseline configuration", "large cache with compression", "small cache"]
    together = [ba.measurement(*metrics)]
    problem = ba.Problem(arms, ba.maximize(metrics[0], noise=noise), limits, measurements=together)
    study = ba.Study.create(problem, name="eight metrics", storage=":memory:")
    study.add([(arm, {metric: 10.0 * k + 1.5 for k, metric in enumerate(metrics)}) for arm in arms * 4])
    report = tmp_path / "report.html"
    study.report(report, forecast=False)
    places: list[tuple[Literal["print", "screen"], int]] = [("print", 680), ("screen", 390), ("screen", 1100)]
    for media, width in places:
        visitor = visit(viewport={"width": width, "height": 960})
        visitor.page.goto(report.as_uri())
        visitor.page.emulate_media(media=media)
        no_sideways_scrolling(visitor.page)
        tables = visitor.page.locator("table.many")
        assert tables.count() == 2
        for row in tables.first.locator("tbody tr").all():
            box = row.bounding_box()
            assert box is not None
            assert box["x"] + box["width"] <= width
            assert row.locator("td[data-head]").count() == len(metrics)
        visitor.go("/")


def test_a_thousand_arms_by_five_metrics(visit: Visit, server: Server) -> None:
    """They can be filtered, sorted and scrolled, and only what is in view is drawn: that keeps it quick. How quick is
    measured by `python -m benchmarks.dashboard`."""
    study, path = new_study(server, "large", large_problem())
    study.add(large_results(study.plan))
    visitor = visit()
    # To simulate how a study this large goes on takes the service twenty seconds.
    visitor.page.route("**/forecast", lambda route: route.fulfill(body="null"))
    page = visitor.go(path)
    page.locator("table.arms tbody tr").nth(49).wait_for()
    page.get_by_label("Find by name or reason").fill("configuration 777")
    page.locator("table.arms tbody tr").nth(1).wait_for(state="detached")
    page.locator(".chart").nth(4).locator("text.arm-name", has_text="777").wait_for()
    page.get_by_label("Find by name or reason").fill("")
    page.get_by_role("button", name="throughput").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51 to 100 of 1,000 arms").wait_for()
    elements = page.evaluate("document.querySelectorAll('*').length")
    assert elements < 7000, "not only what is in view is drawn"
    scroller = page.locator(".rows").first
    scroller.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    page.locator(".chart").nth(4).locator("svg[data-from='978']").wait_for()  # all charts show the same arms
    assert scroller.locator("g.arm").count() < 40
    visitor.page.unroute("**/forecast")
    visitor.check()


def test_nothing_is_inserted_as_markup_and_nothing_comes_from_elsewhere() -> None:
    ours = [
        path for path in STATIC.rglob("*") if path.suffix in (".js", ".html", ".css") and "vendor" not in path.parts
    ]
    assert len(ours) > 15
    markup = re.compile(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function|srcdoc")
    elsewhere = re.compile(r"(?:https?:)?//(?!www\.w3\.org/2000/svg)[a-z0-9.-]+\.[a-z]{2,}|@import")
    for path in ours:
        text = path.read_text(encoding="utf-8")
        assert not markup.search(text), path
        assert not elsewhere.search(text), path
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    assert not re.search(r"\sstyle=|<style|\son[a-z]+=|<script>", page)
    assert "MIT" in (STATIC / "vendor" / "uplot" / "LICENSE").read_text(encoding="utf-8")
