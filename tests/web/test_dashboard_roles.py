"""The dashboard offers what the visitor's token allows, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.web.browser import Server, Visit, doses, measure

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import Role

WORK = ("Ask for tests", "Save results", "Give up or make again", "Add result", "Upload", "Correct")
MANAGE = ("Archive",)


@pytest.mark.parametrize("role", ["read", "work", "manage"])
def test_only_what_a_role_allows_is_offered(visit: Visit, tmp_path: Path, role: Role) -> None:
    server = Server(tmp_path / "roles.db", token="correct horse")
    try:
        study = ba.Study.create(doses(), name="dose", storage=server.database)
        measure(study, 4)
        study.ask(1, days=3)
        storage = open_storage(server.database)
        token, _ = storage.make_token("ann", role)
        storage.close()
        visitor = visit(server.url)
        page = visitor.go("/studies/1")
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("heading", level=1, name="dose").wait_for()
        # Every role sees the results, the test that is out, and what can be downloaded.
        page.locator(".log tbody tr").first.wait_for()
        page.locator(".flight .cell").first.wait_for()
        assert page.get_by_role("button", name="CSV", exact=True).is_visible()
        assert page.get_by_role("button", name="Print a sheet").is_visible()
        for names, allowed in ((WORK, role != "read"), (MANAGE, role == "manage")):
            for name in names:
                assert page.get_by_role("button", name=name).first.is_visible() is allowed, name
        assert page.locator(".flight input.value").first.is_visible() is (role != "read")
        assert page.locator("header").get_by_text("read only").is_visible() is (role == "read")
        assert page.get_by_text("your token is read-only").is_visible() is (role == "read")
        # The token says who it is; nothing is asked.
        assert page.get_by_label("Your name").count() == 0
        assert page.locator(".asking", has_text="ann as you are signed in").is_visible() is (role != "read")
        if role == "work":
            page.get_by_role("button", name="Ask for tests").click()
            page.locator(".flight .cell").nth(1).wait_for()
            assert [row.holder for _, row in study.pending()][1] == "ann"
        page = visitor.go("/")
        page.get_by_role("link", name="dose").first.wait_for()
        assert page.get_by_role("link", name="New study").count() == (2 if role == "manage" else 0)
        page = visitor.go("/new")
        page.get_by_label("Name of the study").wait_for()
        assert page.get_by_role("button", name="Create the study").is_visible() is (role == "manage")
        assert page.get_by_text("that takes one with the role manage").is_visible() is (role != "manage")
        visitor.check("401")
    finally:
        server.close()
