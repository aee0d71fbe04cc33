"""The page about the HTTP interface: everything that the description has, from this service alone."""

from __future__ import annotations

import re
from pathlib import Path

from tests.web.browser import Server, Visit
from tests.web.service import TOKEN

from bestarm.web.roles import NEEDED


def test_the_page_has_every_request_with_its_role(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/reference")
    page.get_by_text(f"{len(NEEDED)} requests").wait_for()
    cards = page.locator("article[data-find]").all_inner_texts()
    shown = {}
    for card in cards:
        found = re.match(r"(GET|POST)\s+(\S+)\s+(?:needs the role (\w+)|needs no token)", card)
        assert found, card
        shown[f"{found[1]} {found[2]}"] = found[3] or "anybody"
    assert shown == NEEDED
    schemas = server.get("/openapi.json")["components"]["schemas"]
    assert page.locator("article[id^=schema-]").count() == len(schemas)
    visitor.check()


def test_requests_are_found_and_lead_to_their_schemas(visit: Visit) -> None:
    visitor = visit()
    page = visitor.go("/reference")
    page.get_by_label("Find requests").fill("post /tell")
    page.get_by_text("1 request", exact=True).wait_for()
    card = page.locator("article[data-find]:visible")
    card.get_by_text("Fields, answers and an example").click()
    assert "Authorization: Bearer $BESTARM_TOKEN" in card.locator("pre").inner_text()
    card.get_by_role("link", name="Tell", exact=True).click()
    assert page.url.endswith("#schema-Tell")
    assert "required" in page.locator("#schema-Tell").inner_text()
    visitor.check()


def test_it_asks_for_the_token(visit: Visit, tmp_path: Path) -> None:
    guarded = Server(tmp_path / "guarded.db", token=TOKEN)
    try:
        visitor = visit(guarded.url)
        page = visitor.go("/reference")
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("heading", name="API", level=1).wait_for()
        visitor.check("401")
    finally:
        guarded.close()
