"""Pages of studies that were made by the form use no word that a newcomer does not know."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.tools.plain_words import avoided_words
from tests.web.browser import PHONE, Server, Visit, doses, measure, new_study

import bestarm as ba

if TYPE_CHECKING:
    from playwright.sync_api import Page

READ = """() => {
  const copy = document.body.innerText;
  const codes = [...document.querySelectorAll("code, pre")].map((one) => one.innerText);
  return codes.reduce((text, code) => text.replaceAll(code, ""), copy);
}"""


def said(page: Page) -> set[str]:
    return avoided_words(page.evaluate(READ))


def test_no_word_that_a_newcomer_does_not_know(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "plain.db")
    try:
        visitor = visit(server.url)
        page = visitor.go("/")
        page.get_by_role("button", name="Look at a sample study").wait_for()
        assert said(page) == set()
        visitor.go("/new")
        page.get_by_role("button", name="Add a constraint").click()
        assert said(page) == set()
        plan = ba.Plan.of(ba.Problem(doses().arms, doses(0.5).objective, doses(0.5).constraints, arm_word="option"))
        for made in (0, 12, 10**6):
            study, path = new_study(server, f"after {made}", plan)
            measure(study, made)
            visitor.go(path)
            page.locator("#log tbody tr").first.wait_for()
            page.get_by_role("heading", name="Options", exact=True).wait_for()
            assert said(page) == set(), made
        visitor.go("/")
        page.locator(".study-card").first.wait_for()
        assert said(page) == set()
        visitor.check()
    finally:
        server.close()


def test_an_empty_list_offers_a_sample(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "sample.db")
    try:
        visitor = visit(server.url, viewport=PHONE, scheme="dark")
        page = visitor.go("/")
        page.locator(".start-picture").nth(2).wait_for()
        assert page.locator(".start-picture").count() == 3
        page.get_by_role("button", name="Look at a sample study").click()
        page.get_by_text("Which of 4 formulations has the largest viability").wait_for()
        page.locator("table.arms").get_by_text("F4").wait_for()
        assert server.get("/api/studies")[0]["tests"] == 64
        visitor.go("/")
        page.locator(".study-card").wait_for()
        assert page.locator(".start").is_hidden()
        visitor.check()
    finally:
        server.close()
