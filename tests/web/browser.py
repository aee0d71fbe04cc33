"""A service for a browser to look at, and a visitor who looks."""

from __future__ import annotations

import contextlib
import json
import re
import urllib.request
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from tests.tools.patience import PATIENCE
from tests.tools.ports import reserve_port

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.web.server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Locator, Page, Request, ViewportSize

Scheme = Literal["light", "dark"]

PHONE: ViewportSize = {"width": 360, "height": 740}
DESK: ViewportSize = {"width": 1400, "height": 900}
MEANS = {"25 mg": (0.2, 0.1), "150 mg": (0.6, 0.3), "300 mg": (0.9, 0.8)}
"""Efficacy and adverse event; measured almost without noise, so that few tests are needed."""
CACHES = {"small": {"time": 4.0, "memory": 2.0}, "large": {"time": 1.0, "memory": 3.0}}


class Server:
    """The service, which can be stopped and started again at the same address."""

    def __init__(self, database: Path, token: str | None = None) -> None:
        self.database = str(database)
        self._token = token
        self._reserved = reserve_port()
        self._running = contextlib.ExitStack()
        self.port = self._reserved.getsockname()[1]
        self.start()

    def start(self) -> None:
        self.url = self._running.enter_context(running(self.database, port=self.port, token=self._token))

    def stop(self) -> None:
        self._running.close()

    def close(self) -> None:
        self.stop()
        self._reserved.close()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=PATIENCE) as answer:
            return json.load(answer)

    def key(self, name: str) -> int:
        return next(int(study["id"]) for study in self.get("/api/studies") if study["name"] == name)


_NAMED = """
try {
  if (localStorage.getItem("bestarm.holder") === null) localStorage.setItem("bestarm.holder", "dashboard");
} catch {
  // Blank pages have no storage.
}
"""


class Visitor:
    """A visitor with a browser. Every error, and every request that leaves the host, is noted."""

    def __init__(self, browser: Browser, url: str) -> None:
        self.url = url
        self.context: BrowserContext = browser.new_context(accept_downloads=True)
        self.context.set_default_timeout(1000 * PATIENCE)
        # Where no name is known, the page asks for one before anything is recorded.
        self.context.add_init_script(_NAMED)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.requests: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.waiting: list[str] = []
        self.page.on("request", self._sent)
        self.page.on("requestfinished", self._answered)
        self.page.on("requestfailed", self._answered)
        self.page.on("dialog", lambda dialog: self.errors.append(f"dialog: {dialog.message}"))

    def _sent(self, request: Request) -> None:
        self.requests.append(request.url)
        self.waiting.append(f"{request.method} {request.url}")

    def _answered(self, request: Request) -> None:
        self.waiting.remove(f"{request.method} {request.url}")

    def account(self) -> str:
        """What the page shows and waits for, to explain why a test failed."""
        return "\n".join(
            [f"at {self.page.url}, waiting for {self.waiting}, errors {self.errors}", self.page.inner_text("body")]
        )

    def go(self, path: str) -> Page:
        self.page.goto(self.url + path)
        return self.page

    def check(self, *expected: str) -> None:
        """Nothing went wrong but what is expected, and nothing left the host."""
        wrong = [error for error in self.errors if not any(part in error for part in expected)]
        assert not wrong, wrong
        local = (self.url, "data:", f"blob:{self.url}")
        elsewhere = [url for url in self.requests if not url.startswith(local)]
        assert not elsewhere, elsewhere

    def leave(self) -> None:
        """Leave nothing behind for the next visitor."""
        self.page.unroute_all()
        self.page.evaluate("localStorage.clear(); sessionStorage.clear()")
        self.page.goto("about:blank")
        self.errors.clear()
        self.requests.clear()


class Visit(Protocol):
    """Makes a visitor of the service that all share, or of the one at an address."""

    def __call__(
        self, at: str | None = None, *, viewport: ViewportSize = DESK, scheme: Scheme = "light"
    ) -> Visitor: ...


def doses(noise: float = 0.05) -> ba.Problem:
    return ba.Problem(
        arms=list(MEANS),
        objective=ba.maximize("efficacy", noise=ba.Gaussian(noise)),
        constraints=[ba.at_most("adverse event", 0.5, noise=ba.Gaussian(noise), cost=3.0)],
    )


def caches() -> ba.Problem:
    """One test yields time and memory, on an item; crashes are measured alone."""
    bounded = ba.Bounded(0.0, 10.0)
    return ba.Problem(
        arms=list(CACHES),
        objective=ba.minimize("time", noise=bounded),
        constraints=[ba.at_most("memory", 5.0, noise=bounded), ba.at_most("crash", 0.9, noise=ba.Bernoulli())],
        measurements=[ba.measurement("time", "memory", cost=2.0)],
        items=[f"question {k}" for k in (1, 2, 3, 4)],
    )


def plates_of(size: int, **more: Any) -> ba.Problem:
    """Four formulations, measured in plates."""
    goal, arms = ba.maximize("yield", noise=ba.Symmetric()), [f"F{k}" for k in range(1, 5)]
    return ba.Problem(arms, goal, blocks=ba.Blocks("plate", size=size), arm_word="formulation", **more)


def new_study(server: Server, name: str, problem: ba.Problem | None = None, **options: Any) -> tuple[ba.Study, str]:
    with contextlib.closing(open_storage(server.database)) as storage:
        # One of that name is what the same test has left behind, which now runs again.
        if (left := storage.find_study(name)) is not None:
            storage.archive(left.key, "bench")
            storage.delete(left.key, "bench")
    study = ba.Study.create(problem or doses(), name=name, storage=server.database, holder="bench", **options)
    return study, f"/studies/{server.key(name)}"


def measure(study: ba.Study, most: int = 10**6) -> None:
    """Ask and tell without noise until the study is done, or so many tests are made."""
    made = 0
    while made < most and (tests := study.ask(min(10, most - made))):
        study.tell_many([(test, MEANS[test.arm][test.metric == "adverse event"]) for test in tests])
        made += len(tests)


def no_sideways_scrolling(page: Page) -> None:
    width, room = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width <= room


def begin_form(page: Page, name: str, options: Iterable[str], metric: str, noise: str, word: str = "") -> Locator:
    """Fill in the form for a new study as far as every study needs it. Returns the group of its objective."""
    unfold(page)
    page.get_by_label("Name of the study").fill(name)
    if word:
        page.get_by_label("What you call an option").fill(word)
    page.get_by_label(re.compile("one on a line")).first.fill("\n".join(options))
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("Metric").fill(metric)
    objective.get_by_label("One result is").select_option(noise)
    return objective


def create(page: Page) -> None:
    """Create the study of the form, and wait for its page."""
    page.get_by_role("button", name="Create the study").click()
    page.wait_for_url(re.compile(r"/studies/\d+$"))


def unfold(page: Page) -> None:
    """Open what the form folds away."""
    page.get_by_role("button", name="Create the study").wait_for()
    page.evaluate("document.querySelectorAll('details').forEach((fold) => { fold.open = true; })")


def add_constraint(page: Page) -> Locator:
    """The fields of one more constraint."""
    page.get_by_role("button", name="Add a constraint").click()
    unfold(page)
    return page.get_by_role("group", name=re.compile(r"^Constraint \d+")).last


def fill_in(page: Page, name: str) -> None:
    """The form for the doses."""
    page.get_by_label("Name of the study").fill(name)
    unfold(page)
    page.get_by_label("Options, one on a line").fill("\n".join(MEANS))
    objective = page.get_by_role("group", name="What to make best")
    objective.get_by_label("Metric").fill("efficacy")
    objective.get_by_label("One result is").select_option("gaussian")
    objective.get_by_label("Standard deviation").fill("0.05")
    constraint = add_constraint(page)
    constraint.get_by_label("Metric").fill("adverse event")
    constraint.get_by_label("Mean must be").fill("0.5")
    constraint.get_by_label("One result is").select_option("gaussian")
    constraint.get_by_label("Standard deviation").fill("0.05")
    constraint.get_by_label("Cost of one test").fill("3")
