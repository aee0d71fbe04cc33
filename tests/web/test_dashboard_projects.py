"""Projects on the dashboard: a filter that the address names, and nothing where there is only the default one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.web.browser import PHONE, Server, Visit, doses, new_study, no_sideways_scrolling
from tests.web.test_dashboard_looks import AXE

import bestarm as ba
from bestarm.storage.opening import open_storage

if TYPE_CHECKING:
    from playwright.sync_api import Page


def names(page: Page, *expected: str) -> None:
    """The list shows these studies, sooner or later."""
    page.wait_for_function(
        "wanted => [...document.querySelectorAll('.study-card h2')].map((one) => one.innerText).join() === wanted",
        arg=",".join(expected),
    )


def test_without_projects_nothing_is_said_of_them(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "plain.db")
    try:
        _, path = new_study(server, "dose")
        visitor = visit(server.url)
        for place, there in {"/": ".study-card .facts", path: ".crumbs", "/new": "form.new"}.items():
            page = visitor.go(place)
            page.locator(there).first.wait_for()
            assert "roject" not in page.inner_text("body")
            assert page.get_by_label("Project").count() == 0
        visitor.check()
    finally:
        server.close()


def test_studies_are_shown_by_project(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "several.db", token="correct horse")
    try:
        for name, project in (("old", "default"), ("a1", "lab a"), ("a2", "lab a"), ("b1", "lab-b"), ("c1", "lab-c")):
            ba.Study.create(doses(), name=name, storage=server.database, project=project)
        storage = open_storage(server.database)
        token, _ = storage.make_token("ann", "manage@lab a, manage@lab-b, read@default")
        visitor = visit(server.url)
        page = visitor.go("/")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Go on").click()
        names(page, "b1", "a2", "a1", "old")
        choice = page.get_by_label("Project")
        assert choice.locator("option").all_inner_texts() == ["All projects", "default", "lab a", "lab-b"]
        assert page.locator(".study-card", has_text="b1").locator("dt", has_text="Project").count() == 1
        page.evaluate(AXE.read_text(encoding="utf-8"))
        found = page.evaluate("axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa']})")
        assert found["violations"] == []
        page.set_viewport_size(PHONE)
        no_sideways_scrolling(page)
        choice.select_option("lab a")
        names(page, "a2", "a1")
        assert page.url == f"{server.url}/?project=lab%20a"
        # What others do there is seen, and the address can be shared.
        ba.Study.create(doses(), name="a3", storage=server.database, project="lab a")
        names(page, "a3", "a2", "a1")
        page.reload()
        names(page, "a3", "a2", "a1")
        assert choice.input_value() == "lab a"
        page.get_by_role("link", name="New study").last.click()
        page.get_by_label("Name of the study").fill("a4")
        # Only where one may make studies, and the one that was looked at.
        field = page.get_by_label("Project")
        assert field.locator("option").all_inner_texts() == ["lab a", "lab-b"]
        assert field.input_value() == "lab a"
        field.select_option("lab-b")
        page.get_by_label("Options, one on a line").fill("x\ny")
        page.get_by_label("Metric").first.fill("gain")
        page.get_by_role("button", name="Create the study").click()
        page.get_by_role("heading", level=1, name="a4").wait_for()
        page.locator(".crumbs").get_by_role("link", name="lab-b").click()
        names(page, "a4", "b1")
        record = storage.find_study("a4")
        assert record is not None
        assert record.project == "lab-b"
        # Where several could be meant, none is chosen beforehand.
        page.goto(f"{server.url}/new")
        page.get_by_label("Name of the study").wait_for()
        assert field.locator("option").all_inner_texts() == ["Choose a project", "lab a", "lab-b"]
        page.get_by_role("button", name="Create the study").click()
        page.get_by_role("alert").get_by_text("Project: choose one").wait_for()
        # Another study's page offers what the role in its project allows.
        page.goto(f"{server.url}/studies/1")
        page.get_by_role("heading", level=1, name="old").wait_for()
        assert page.get_by_role("button", name="Archive").count() == 0
        # One that may not be read is as one that is not there.
        page.goto(f"{server.url}/studies/5")
        page.get_by_role("heading", name="There is no such study").wait_for()
        page.goto(f"{server.url}/?project=gone")
        page.get_by_text("There is no study in this project.").wait_for()
        assert page.get_by_label("Project").input_value() == "gone"
        storage.close()
        visitor.check("401", "404")
    finally:
        server.close()
