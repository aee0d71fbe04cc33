"""The dashboard in a real browser: what people do with it, by mouse, by keyboard and on a phone, and what it must be.

Chromium is driven by Playwright. Where one of them is missing the tests skip, unless BESTARM_REQUIRE lists "chromium".
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from benchmarks.dashboard import large_problem, large_results

import bestarm as ba
from bestarm.testing.patience import PATIENCE, wait_until
from bestarm.testing.ports import reserve_port

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

STATIC = Path(ba.__file__).parent / "web" / "static"
AXE = Path(__file__).parents[1] / "vendor" / "axe-core" / "axe.min.js"
PHONE = {"width": 360, "height": 740}
DESK = {"width": 1400, "height": 900}
HOSTILE = [
    "<script>window.hacked = 1</script>",
    '"><img src=x onerror="window.hacked = 2">',
    "\u202egnp.esod\u2066",
    "'; drop table studies; --",
    "{{constructor.constructor('window.hacked = 3')()}}",
    "w" * 200,
]
MEANS = {"25 mg": (0.2, 0.1), "150 mg": (0.6, 0.3), "300 mg": (0.9, 0.8)}
"""Efficacy and adverse event; measured almost without noise, so that few tests are needed."""


# ---------------------------------------------------------------------------------------------------- server, browser

_SERVE = """
import sys, uvicorn
from bestarm.web.app import create_app
app = create_app(sys.argv[1], token=sys.argv[3] or None)
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error")
"""


class Server:
    """The service in a process of its own, which can be stopped and started again at the same address."""

    def __init__(self, database: Path, token: str = "", program: str = _SERVE) -> None:
        self.database = str(database)
        self.token = token
        self._program = program
        self._reserved = reserve_port()
        self.port = self._reserved.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", self._program, self.database, str(self.port), self.token]
        )
        wait_until(self._answers, "the service does not answer")

    def _answers(self) -> bool:
        assert self._process.poll() is None, "the service did not start"
        try:
            self.get("/api/health")
        except OSError:
            return False
        return True

    def stop(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE)

    def close(self) -> None:
        self.stop()
        self._reserved.close()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def key(self, name: str) -> int:
        return next(int(study["id"]) for study in self.get("/api/studies") if study["name"] == name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str, str], None]) -> Iterator[Server]:
    if importlib.util.find_spec("uvicorn") is None:
        missing("chromium", "uvicorn")
    running = Server(tmp_path_factory.mktemp("dashboard") / "studies.db")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser(missing: Callable[[str, str], None]) -> Iterator[Browser]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("chromium", "playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        missing("chromium", "Chromium")
    with sync_playwright() as playwright:
        # Chromium refuses to run as root, as in most containers, unless its own sandbox is off.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


class Visitor:
    """Somebody with a browser, of which everything that goes wrong or leaves the host is noted."""

    def __init__(self, browser: Browser, server: Server, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(**{"viewport": DESK, "accept_downloads": True, **options})
        self.context.set_default_timeout(1000 * PATIENCE)
        self.page: Page = self.context.new_page()
        self.server = server
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def go(self, path: str) -> Page:
        self.page.goto(self.server.url + path)
        return self.page

    def check(self, *expected: str) -> None:
        """Nothing went wrong but what is expected, and nothing left the host."""
        wrong = [error for error in self.errors if not any(part in error for part in expected)]
        assert wrong == []
        local = (self.server.url, "data:", f"blob:{self.server.url}")
        assert [url for url in self.requests if not url.startswith(local)] == []


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    visitors: list[Visitor] = []

    def new(at: Server = server, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, at, **options))
        return visitors[-1]

    yield new
    for visitor in visitors:
        visitor.context.close()


def doses(noise: float = 0.05) -> ba.Problem:
    return ba.Problem(
        arms=list(MEANS),
        objective=ba.maximize("efficacy", noise=ba.Gaussian(noise)),
        constraints=[ba.at_most("adverse event", 0.5, noise=ba.Gaussian(noise), cost=3.0)],
    )


def new_study(server: Server, name: str, problem: ba.Problem | None = None, **options: Any) -> tuple[ba.Study, str]:
    study = ba.Study.create(problem or doses(), name=name, storage=server.database, holder="bench", **options)
    return study, f"/studies/{server.key(name)}"


def measure(study: ba.Study, most: int = 10**6) -> None:
    """Ask and tell without noise until the study is done, or so many tests are made."""
    made = 0
    while made < most and (tests := study.ask(min(10, most - made))):
        study.tell_many([(test, MEANS[test.arm][test.metric == "adverse event"]) for test in tests])
        made += len(tests)


_WORK = """
import sys, time
import bestarm as ba
means = {"25 mg": (0.2, 0.1), "150 mg": (0.6, 0.3), "300 mg": (0.9, 0.8)}
study = ba.Study.open(sys.argv[1], storage=sys.argv[2], holder="second process")
while not study.done:
    for test in study.ask(2):
        study.tell(test, means[test.arm][test.metric == "adverse event"])
    time.sleep(0.05)
"""


def no_sideways_scrolling(page: Page) -> None:
    width, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room


def fill_in(page: Page, name: str) -> None:
    """The form for the doses."""
    page.get_by_label("Name of the study").fill(name)
    page.get_by_label("Arms, one on a line").fill("\n".join(MEANS))
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("Metric").fill("efficacy")
    objective.get_by_label("One result is").select_option("gaussian")
    objective.get_by_label("Standard deviation").fill("0.05")
    constraint = page.get_by_role("group", name="Constraint 1")
    constraint.get_by_label("Metric").fill("adverse event")
    constraint.get_by_label("Mean must be").fill("0.5")
    constraint.get_by_label("One result is").select_option("gaussian")
    constraint.get_by_label("Standard deviation").fill("0.05")
    constraint.get_by_label("Cost of one test").fill("3")


# -------------------------------------------------------------------------------------------------- what people do


@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_create_a_study_enter_results_and_watch_it_become_certified(
    visit: Visit, server: Server, viewport: dict[str, int]
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
    boxes = page.locator(".flight input")
    boxes.nth(1).wait_for()
    for k, label in enumerate(page.locator(".flight label").all_inner_texts()):
        asked = re.search(r"(efficacy|adverse event) of (\d+ mg)$", label)
        assert asked
        boxes.nth(k).fill(str(MEANS[asked[2]][asked[1] == "adverse event"]))
    page.get_by_role("button", name="Save results").click()
    page.get_by_text("No test is out.").wait_for()
    page.get_by_label("Arm", exact=True).select_option("150 mg")
    page.get_by_label("Metric", exact=True).select_option("adverse event")
    page.get_by_label("Result", exact=True).fill("0.3")
    page.get_by_role("button", name="Add result").click()
    page.get_by_text("Result saved as test 3").first.wait_for()
    assert server.get(f"/api/studies/{server.key(name)}")["tests"] == 3

    page.evaluate("window.loadedOnce = true")
    worker = subprocess.Popen([sys.executable, "-c", _WORK, name, server.database])
    try:
        page.get_by_text("150 mg is feasible and best, 95 % confidence").first.wait_for()
        assert worker.wait(PATIENCE) == 0
    finally:
        worker.kill()
    assert page.evaluate("window.loadedOnce") is True, "the page was loaded again"
    page.locator("#log td", has_text="second process").first.wait_for()
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
    tab_to("Arms, one on a line")
    keys.type("25 mg\n150 mg")
    tab_to("Metric")
    keys.type("efficacy")
    tab_to("One result is")
    keys.press("ArrowDown")
    tab_to("Standard deviation")
    keys.type("0.05")
    tab_to("Remove")
    keys.press("Enter")
    tab_to("Create the study")
    keys.press("Enter")
    page.wait_for_url(re.compile(r"/studies/\d+$"))
    page.get_by_role("heading", level=1, name="by keyboard").wait_for()

    tab_to("Ask for tests")
    keys.press("Enter")
    page.locator(".flight input:focus").wait_for()
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


def test_what_everything_waits_for_is_said_and_can_be_freed(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "forgotten", doses(0.5))
    study.ask(2, days=1e-9)
    for test in study.ask(4):
        study.tell(test, 0.5)
    visitor = visit()
    page = visitor.go(path)
    note = page.locator(".notes .note", has_text="4 results recorded but not counted")
    note.wait_for()
    said = note.inner_text()
    assert "waiting for test 1 (" in said
    assert "bench" in said
    assert "and wanted to tell it" in said
    assert "bestarm release forgotten 1" in said
    visitor.check()
    note.get_by_role("button", name="Free test 1").click()
    page.locator(".flight li", has_text="free: last held by").wait_for()
    # An attempt that failed, of which nobody has said what it counts.
    page.get_by_label("Your name").fill("bench")
    study.set_aside(2, "exit status 3")
    page.locator(".flight li", has_text="failed").first.wait_for()
    assert "exit status 3" in page.locator(".flight").inner_text()
    for number in (1, 2):
        page.locator(f"#result-{number}").fill("0.25")
    page.get_by_role("button", name="Save results").click()
    note.wait_for(state="detached")
    assert study.status().waiting == 0
    visitor.check()


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
    page.locator(".flight li").first.wait_for()
    [(_, row)] = study.pending()
    assert row.due is not None
    assert row.due - row.since == pytest.approx(2.5 * 86400)
    assert row.holder == "ann"


def test_give_up_fail_correct_upload_download_and_archive(visit: Visit, server: Server, tmp_path: Path) -> None:
    study, path = new_study(server, "desk work", doses(0.5))
    visitor = visit()
    page = visitor.go(path)
    study.ask(3)
    page.locator(".flight li").nth(2).wait_for()
    assert re.search(r"Test 1 · .?bench.? for \d+ seconds?, at work", page.locator(".flight li").first.inner_text())

    page.get_by_role("button", name="Make again test 1").click()
    page.get_by_role("dialog").get_by_label("Reason").fill("the vial broke")
    page.get_by_role("button", name="Confirm").click()
    page.locator("#log td", has_text="the vial broke").wait_for()
    page.get_by_role("button", name="Give up test 2").click()
    page.get_by_role("button", name="Confirm").click()
    page.locator(".flight li").nth(2).wait_for(state="detached")

    page.locator("#result-1").fill("a lot")
    page.get_by_role("button", name="Save results").click()
    page.locator("#result-1-wrong", has_text="must be a number").wait_for()
    assert page.locator("#result-1").get_attribute("aria-invalid") == "true"
    page.locator("#result-1").fill("0.5")
    page.locator("#result-3").fill("0.7")
    page.get_by_role("button", name="Save results").click()
    page.get_by_role("button", name="Correct test 3").click()
    page.get_by_role("dialog").get_by_label("Right value").fill("0.25")
    page.get_by_role("dialog").get_by_role("button", name="Correct").click()
    page.locator("#log tr", has_text="corrected").locator("td", has_text="0.25").wait_for()

    bad = tmp_path / "bad.csv"
    bad.write_text("arm,metric,value\n25 mg,efficacy,0.2\n26 mg,efficacy,0.2\n25 mg,efficacy,much\n")
    page.get_by_label("CSV file").set_input_files(bad)
    page.get_by_role("button", name="Upload").click()
    complaint = page.locator("pre.error")
    complaint.wait_for()
    assert "26 mg" in complaint.inner_text()
    assert "much" in complaint.inner_text()
    good = tmp_path / "good.csv"
    good.write_text("arm,metric,value\n" + "25 mg,efficacy,0.2\n" * 5)
    page.get_by_label("CSV file").set_input_files(good)
    page.get_by_role("button", name="Upload").click()
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
    visitor.check("422")


def test_the_list_follows_studies_and_says_where_they_stand(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/")
    page.get_by_label("Find a study").fill("listed")
    card = page.locator(".study-card")
    hopeless = dataclasses.replace(doses(), constraints=(ba.at_most("adverse event", 0.01, noise=ba.Gaussian(0.05)),))
    study, _ = new_study(server, "listed, hopeless", hopeless)
    card.filter(has_text="No results yet").wait_for()
    measure(study)
    card.filter(has_text="No arm is feasible, 95 % confidence").wait_for()
    short = ba.Plan.of(doses(0.5), name="listed, short")
    study, _ = new_study(server, "listed, short", dataclasses.replace(short, budget=ba.Budget(tests=12)))
    measure(study)
    card.filter(has_text=re.compile("The budget is spent; .* leads")).wait_for()
    assert card.count() == 2
    study.archive()
    card.nth(1).wait_for(state="detached")
    page.get_by_label("Archived").check()
    card.filter(has_text="listed, short").wait_for()
    card.get_by_role("link").click()
    page.get_by_text("This study is archived").first.wait_for()
    assert page.locator(".answer").inner_text().startswith("The budget is spent;")
    visitor.check()


def test_a_study_that_cannot_be_read_is_listed_as_such(visit: Visit, server: Server) -> None:
    new_study(server, "faulty, not this one")
    with contextlib.closing(sqlite3.connect(server.database)) as connection:
        damaged = "(name, seed, created, revision, plan) VALUES ('faulty, damaged', 0, 1.0, 0, '{')"
        connection.execute(f"INSERT INTO bestarm_studies {damaged}")
        connection.commit()
    visitor = visit()
    page = visitor.go("/")
    page.get_by_label("Find a study").fill("faulty")
    card = page.locator(".study-card")
    # The service searches, so it takes a moment until the others are gone.
    wait_until(lambda: card.count() == 2)
    card.filter(has_text="its plan cannot be read: not valid JSON").wait_for()
    card.filter(has_text="No results yet").wait_for()
    visitor.check()


def test_words_claim_what_is_certified(visit: Visit, server: Server) -> None:
    """Tolerance and slack in the list and on the page; of a spent budget, what is certain all the same."""
    visitor = visit()
    near = dataclasses.replace(
        doses(),
        objective=ba.maximize("efficacy", noise=ba.Gaussian(0.05), tolerance=0.1),
        constraints=(ba.at_most("adverse event", 0.5, noise=ba.Gaussian(0.05), slack=0.02),),
    )
    study, path = new_study(server, "claims, near", near)
    measure(study)
    words = "150 mg is feasible within its slack and within 0.1 of the best, 95 % confidence"
    page = visitor.go("/")
    page.get_by_label("Find a study").fill("claims")
    page.locator(".study-card").filter(has_text=words).wait_for()
    page = visitor.go(path)
    page.get_by_text(words).first.wait_for()
    short = ba.Plan.of(doses(0.3), name="claims, short")
    study, path = new_study(server, "claims, short", dataclasses.replace(short, budget=ba.Budget(tests=60)))
    measure(study)
    page = visitor.go(path)
    page.get_by_text(re.compile("No answer is certified. Certain: .*1 of 3 arms is excluded")).first.wait_for()
    visitor.check()


def test_complaints_are_shown_at_their_fields(visit: Visit, server: Server) -> None:
    new_study(server, "taken")
    visitor = visit()
    page = visitor.go("/new")
    fill_in(page, "taken")

    def complaint(label: str) -> str:
        page.get_by_role("button", name="Create the study").click()
        page.get_by_role("heading", name="The study was not created").wait_for()
        field = page.get_by_label(label).first
        assert field.get_attribute("aria-invalid") == "true"
        error = page.locator(f"#{field.get_attribute('id')}-error").inner_text()
        assert error in page.locator(".summary-errors").inner_text()
        page.get_by_role("button", name="Create the study").is_enabled()
        return error

    assert "taken" in complaint("Name of the study") or "already" in complaint("Name of the study")
    page.get_by_label("Name of the study").fill("complaints")
    page.get_by_label("Accepted chance").fill("7")
    assert "must lie strictly between 0 and 1" in complaint("Accepted chance")
    page.get_by_label("Accepted chance").fill("0.05")
    page.get_by_label("Arms, one on a line").fill("a\n\nb\na")
    assert complaint("Arms, one on a line").startswith("Line 4: another arm has this name")
    page.get_by_label("Arms, one on a line").fill("w" * 10_000)
    assert "at most 200 characters" in complaint("Arms, one on a line")
    page.get_by_label("Arms, one on a line").fill("a\nb")
    page.get_by_label("Mean must be").fill("half")
    assert "must be a number" in complaint("Mean must be")
    page.get_by_label("Mean must be").fill("0.5")
    page.get_by_label("At most so many tests").fill("-3")
    assert "must be a positive number" in complaint("At most so many tests")
    visitor.check("422", "409")


_MORE = """
import bestarm.web.choices as choices
from bestarm.policies.racing import Racing
known, policies = choices.noise_choices, choices.all_policies
scale = {"name": "scale", "label": "scale", "default": 2.0}
heavy = {"name": "heavy", "label": "heavy tails", "sentence": "Results may be far out.",
         "numbers": [scale, {"name": "tail", "label": "tail index"}]}
choices.noise_choices = lambda: [*known(), heavy]
choices.all_policies = lambda: policies() | {"on-a-whim": Racing}
"""


def test_the_form_offers_what_the_service_says(visit: Visit, tmp_path: Path) -> None:
    """Also what is not built in; what is chosen reaches the service in the form that its description states."""
    server = Server(tmp_path / "form.db", program=_MORE + _SERVE)
    try:
        visitor = visit(server)
        page = visitor.go("/new")
        fill_in(page, "chosen")
        choices = server.get("/api/choices")

        def offered(label: str) -> list[str]:
            return [
                option.get_attribute("value") or "" for option in page.get_by_label(label).first.locator("option").all()
            ]

        assert offered("One result is") == [one["name"] for one in choices["noises"]]
        assert "heavy" in offered("One result is")
        assert offered("Policy") == [one["name"] for one in choices["policies"]]
        assert "on-a-whim" in offered("Policy")
        assert offered("Results count") == ["issue", "arrival"]
        assert page.get_by_label("Policy").input_value() == choices["defaults"]["policy"]
        page.get_by_label("Policy").select_option("racing")
        page.get_by_text(next(one["sentence"] for one in choices["policies"] if one["name"] == "racing")).wait_for()
        page.get_by_label("Results count").select_option("arrival")
        objective = page.get_by_role("group", name="What to make best")
        objective.get_by_label("One result is").select_option("heavy")
        objective.get_by_text("Results may be far out.").wait_for()
        assert objective.get_by_label("Scale").get_attribute("placeholder") == "2"
        objective.get_by_label("Scale").fill("3")
        objective.get_by_label("Tail index").fill("1.5")
        with page.expect_request("**/api/studies") as sent:
            page.get_by_role("button", name="Create the study").click()
        plan = json.loads(sent.value.post_data or "")["plan"]
        assert (plan["policy"], plan["order"]) == ("racing", "arrival")
        assert plan["objective"]["noise"] == {"heavy": [3, 1.5]}
        # Only the form knows of that noise here: the service refuses it, and the form says so at its field.
        page.get_by_role("heading", name="The study was not created").wait_for()
        assert objective.get_by_label("One result is").get_attribute("aria-invalid") == "true"
        objective.get_by_label("One result is").select_option("gaussian")
        objective.get_by_label("Standard deviation").fill("-1")
        page.get_by_role("button", name="Create the study").click()
        page.locator(".summary-errors", has_text="must be a positive number").wait_for()
        assert objective.get_by_label("Standard deviation").get_attribute("aria-invalid") == "true"
        objective.get_by_label("Standard deviation").fill("0.05")
        page.get_by_role("button", name="Create the study").click()
        page.wait_for_url(re.compile(r"/studies/\d+$"))
        assert ba.Study.open("chosen", storage=server.database).plan.order == "arrival"
        visitor.check("422")
    finally:
        server.close()


def test_a_lost_connection_is_shown_and_mended(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "lost.db")
    try:
        study, path = new_study(server, "lost and found")
        visitor = visit(server)
        page = visitor.go(path)
        page.locator(".answer", has_text="No results yet").wait_for()
        assert page.locator("#connection").is_hidden()
        server.stop()
        page.locator("#connection", has_text="Connection lost").wait_for()
        measure(study, 4)
        server.start()
        page.locator("#connection").wait_for(state="hidden")
        page.locator(".facts.big dd", has_text=re.compile("^4$")).first.wait_for()
        # In which way requests fail while there is no service depends on when it went.
        visitor.check("net::ERR_")
    finally:
        server.close()


def test_the_token_is_asked_for_kept_and_sent(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "token.db", token="correct horse")
    try:
        study = ba.Study.create(doses(), name="secret", storage=server.database)
        measure(study, 4)
        visitor = visit(server)
        page = visitor.go("/studies/1")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("did not accept this token").wait_for()
        assert "secret" not in page.content()
        page.get_by_label("Token").fill("correct horse")
        sent: list[str | None] = []
        page.on("request", lambda r: sent.append(r.headers.get("authorization")) if "/api/studies" in r.url else None)
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("heading", level=1, name="secret").wait_for()
        with page.expect_download() as started:
            page.get_by_role("button", name="CSV", exact=True).click()
        assert "efficacy" in started.value.path().read_text(encoding="utf-8")
        assert set(sent) == {"Bearer correct horse"}
        assert all("correct" not in url for url in visitor.requests)
        visitor.go("/")
        page.get_by_role("link", name="secret").wait_for()
        assert page.evaluate("[Object.keys(localStorage).length, document.cookie]") == [0, ""]
        visitor.check("401")
    finally:
        server.close()


# ------------------------------------------------------------------------------------------------ what it must be


def hostile_study(server: Server) -> str:
    problem = ba.Problem(
        arms=HOSTILE,
        objective=ba.maximize("<b>speed</b> \u202e", noise=ba.Gaussian(1.0)),
        constraints=[ba.at_most('limit "><i>', 0.5, noise=ba.Gaussian(1.0))],
    )
    study, path = new_study(server, "<img src=x onerror='window.hacked = 4'> \u202estudy", problem)
    tests = study.ask(40)
    study.tell_many([(test, 0.1 * (test.id % 7)) for test in tests[:38]])
    return path


def test_hostile_names_are_shown_harmlessly(visit: Visit, server: Server) -> None:
    path = hostile_study(server)
    for viewport in (DESK, PHONE):
        visitor = visit(viewport=viewport)
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
        page.get_by_role("link", name="<img src=x onerror=").wait_for()
        assert page.evaluate("typeof window.hacked") == "undefined"
        assert page.locator("main img, main script, main b, main i").count() == 0
        no_sideways_scrolling(page)
        visitor.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("viewport", [DESK, PHONE], ids=["desk", "phone"])
def test_accessibility(visit: Visit, server: Server, scheme: str, viewport: dict[str, int]) -> None:
    name = f"seen {scheme} {viewport['width']}"
    study, path = new_study(server, name, doses(0.5))
    measure(study, 40)
    study.ask(3)
    done, done_path = new_study(server, f"{name}, done")
    measure(done)
    visitor = visit(viewport=viewport, color_scheme=scheme)
    found: list[str] = []

    def audit(where: str) -> None:
        page.evaluate(AXE.read_text(encoding="utf-8"))
        for violation in page.evaluate("axe.run(document).then((result) => result.violations)"):
            if violation["impact"] in ("serious", "critical"):
                places = [node["target"] for node in violation["nodes"][:3]]
                found.append(f"{where}: {violation['id']}: {violation['help']} at {places}")

    page = visitor.go("/")
    page.get_by_role("link", name=name).first.wait_for()
    audit("list")
    visitor.go("/new")
    page.get_by_role("button", name="Create the study").click()
    page.get_by_role("heading", name="The study was not created").wait_for()
    audit("form with complaints")
    for where in (path, done_path):
        visitor.go(where)
        page.locator("#log tbody tr").first.wait_for()
        page.locator("#progress").scroll_into_view_if_needed()
        page.locator(".history canvas").wait_for()
        page.get_by_text("The same as a table").click()
        audit(f"study {where}")
    page.get_by_role("button", name=re.compile("Correct test")).first.click()
    page.get_by_role("dialog").wait_for()
    audit("dialog")
    assert found == []
    visitor.check("422")


def test_the_theme_can_be_chosen_and_is_kept(visit: Visit) -> None:
    visitor = visit(color_scheme="light")
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


def test_a_thousand_arms_by_five_metrics(visit: Visit, server: Server) -> None:
    """They can be filtered, sorted and scrolled, and only what is in view is drawn: that keeps it quick. How quick is
    measured by `python -m benchmarks.dashboard`."""
    study, path = new_study(server, "large", large_problem())
    study.add(large_results(study.plan))
    visitor = visit()
    page = visitor.go(path)
    page.locator("table.arms tbody tr").nth(49).wait_for()
    page.get_by_label("Find arms").fill("configuration 777")
    page.locator("table.arms tbody tr").nth(1).wait_for(state="detached")
    page.locator(".chart").nth(4).locator("text.arm-name", has_text="777").wait_for()
    page.get_by_label("Find arms").fill("")
    page.get_by_role("button", name="throughput").click()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51 to 100 of 1,000 arms").wait_for()
    elements = page.evaluate("document.querySelectorAll('*').length")
    assert elements < 6000, "not only what is in view is drawn"
    scroller = page.locator(".rows").first
    scroller.evaluate("(element) => { element.scrollTop = element.scrollHeight; }")
    page.locator(".chart").nth(4).locator("svg[data-from='978']").wait_for()  # all charts show the same arms
    assert scroller.locator("g.arm").count() < 40
    visitor.check()


# ------------------------------------------------------------------------------------------------------- the files


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
    scripts = {path.relative_to(STATIC / "js").as_posix() for path in (STATIC / "js").rglob("*.js")}
    assert set(re.findall(r"/static/js/([a-z/]+\.js)", page)) == scripts, "every module is announced in the page's head"
    assert "MIT" in (STATIC / "vendor" / "uplot" / "LICENSE").read_text(encoding="utf-8")
