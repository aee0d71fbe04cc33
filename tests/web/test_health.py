"""The service and the dashboard say what a study's results contradict."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.tools.patience import wait_until
from tests.web.browser import PHONE, Scheme, Server, Visit, new_study, no_sideways_scrolling
from tests.web.service import new_study as make
from tests.web.test_dashboard_looks import AXE

import bestarm as ba
from bestarm.client import Client

if TYPE_CHECKING:
    from playwright.sync_api import Locator

PLAN = ba.Plan(
    arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(1.0), tolerance=0.01), name="watched"
)
PARTS: dict[str, Any] = {"arms": ["old", "new"], "objective": PLAN.to_data()["objective"], "constraints": []}


def results(scatter: float) -> list[tuple[str, str, float]]:
    rng = random.Random(1)
    return [(("old", "new")[k % 2], "yield", rng.gauss(0.0, scatter)) for k in range(40)]


def test_the_status_and_the_client_have_it(service: httpx.Client) -> None:
    study = make(service, "watched", **PARTS)
    with Client(str(service.base_url)) as client:
        there = client.open("watched")
        assert there.health == ba.Health(7)
        there.add(results(4.0))
        health = service.get(study).json()["health"]
        assert [note["kind"] for note in health["notes"]] == ["scatter"]
        sent = dict(health["notes"][0])
        sentence = sent.pop("sentence")
        note = ba.HealthNote(**sent)
        assert there.health == there.status().health == ba.Health(7, (note,))
        # Advice is sent in the words of study files, and the client gives it in those of Python.
        assert 'noise = "symmetric"' in sentence == note.through("file").sentence
        assert "ba.Symmetric()" in note.sentence


def test_a_conclusion_has_its_warnings(service: httpx.Client) -> None:
    study = make(service, "warned", **PARTS, budget={"tests": 40})
    with Client(str(service.base_url)) as client:
        there = client.open("warned")
        there.add(results(4.0))
        answer = there.answer
    assert answer is not None
    [sent] = service.get(study).json()["conclusion"]["warnings"]
    assert "noise = " in sent
    assert answer.warnings[0].startswith("yield: results scatter by about ")


def test_the_page_has_a_line_or_a_list(visit: Visit, server: Server) -> None:
    study, path = new_study(server, "watched on the page", PLAN)
    visitor = visit()
    page = visitor.go(path)
    health = page.get_by_role("region", name="Health of the data")
    study.add(results(1.0))
    health.get_by_text("no sign of trouble: 7 checks").wait_for()
    study.add(results(9.0))
    item = health.get_by_role("listitem").filter(has_text="results scatter by about")
    item.wait_for()
    assert item.inner_text().removeprefix("✗").strip().startswith("Broken: yield")
    visitor.check()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_findings_are_accessible(visit: Visit, server: Server, scheme: Scheme) -> None:
    """A broken assumption, a doubtful result and a hint, in both themes, on a narrow screen."""
    plan = ba.Plan(
        arms=["old", "<b>new</b>"],
        objective=ba.maximize("yield", noise=ba.Gaussian(1.0)),
        constraints=[
            ba.at_most(name, 0.0, noise=ba.Gaussian(sigma)) for name, sigma in (("typo", 1.0), ("wide", 30.0))
        ],
    )
    study, path = new_study(server, f"findings, {scheme}", plan)
    rng = random.Random(2)
    for k in range(60):
        arm = plan.arm_names[k % 2]
        study.add([(arm, "yield", rng.gauss(0.0, 4.0)), (arm, "typo", 40.0 if k == 50 else rng.gauss(0.0, 1.0))])
        study.add([(arm, "wide", rng.gauss(0.0, 1.0))])
    visitor = visit(viewport=PHONE, scheme=scheme)
    page = visitor.go(path)
    items = page.get_by_role("region", name="Health of the data").get_by_role("listitem")
    items.first.wait_for()
    assert [text.split("\n")[-1].split(":")[0] for text in items.all_inner_texts()] == ["Broken", "Doubtful", "Hint"]
    assert page.locator("main b").count() == 0
    no_sideways_scrolling(page)
    page.evaluate(AXE.read_text(encoding="utf-8"))
    assert page.evaluate("axe.run('.health').then((result) => result.violations.map((one) => one.id))") == []
    visitor.check()


AMBER = {"light": "rgb(92, 67, 0)", "dark": "rgb(255, 221, 138)"}


def wait_until_amber(badge: Locator, words: str, scheme: Scheme) -> None:
    """The list is drawn anew when figures come, and what was found before is then no part of the page."""
    look = "(one) => [one.textContent, getComputedStyle(one).color]"
    wait_until(lambda: badge.evaluate(look) == [words, AMBER[scheme]])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_void_guarantee_is_amber_and_nowhere_certified(visit: Visit, server: Server, scheme: Scheme) -> None:
    new_study(server, f"certified, {scheme}", PLAN)
    name = f"void, {scheme}"
    plan = ba.Plan(arms=["old", "new"], objective=ba.maximize("yield", noise=ba.Gaussian(1.0)))
    study, path = new_study(server, name, plan, seed=0)
    rng = random.Random(5)
    while tests := study.ask(2):
        study.tell_many([(test, rng.gauss(2.0 * (test.arm == "new"), 3.0)) for test in tests])
    assert study.status().state == "void"
    visitor = visit(scheme=scheme)
    page = visitor.go(path)
    wait_until_amber(page.locator("h1 .badge.void"), "guarantee void", scheme)
    edge = page.locator(".hero").evaluate("(one) => getComputedStyle(one).borderLeftColor")
    assert edge == AMBER[scheme]
    page.get_by_text("new leads; the guarantee is void, because results scatter by about").wait_for()
    assert "certified" not in page.locator("main").inner_text().lower()
    for address in ("/", f"/compare?studies={path.rsplit('/', 1)[-1]}"):
        page = visitor.go(address)
        # The page to compare studies also has the names of all others, whatever they are called.
        place = (
            page.get_by_role("listitem").filter(has_text=name) if address == "/" else page.locator("main table").first
        )
        wait_until_amber(place.locator(".badge.void"), "guarantee void", scheme)
        assert "certified" not in place.inner_text().lower()
    visitor.check()
