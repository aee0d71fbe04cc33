"""What the dashboard says: where studies stand, what is wrong, that the line is lost, that a token is needed."""

from __future__ import annotations

import contextlib
import dataclasses
import re
import sqlite3
from pathlib import Path

from tests.tools.patience import wait_until
from tests.tools.proxy import Proxy
from tests.web.browser import Server, Visit, doses, fill_in, measure, new_study

import bestarm as ba


def test_the_list_follows_studies_and_says_where_they_stand(visit: Visit, server: Server) -> None:
    visitor = visit()
    page = visitor.go("/")
    page.get_by_label("Find a study").fill("listed")
    card = page.locator(".study-card")
    hopeless = dataclasses.replace(doses(), constraints=(ba.at_most("adverse event", 0.01, noise=ba.Gaussian(0.05)),))
    study, _ = new_study(server, "listed, hopeless", hopeless)
    # The service searches, so other studies may still be listed for a moment.
    card.filter(has_text="listed, hopeless").filter(has_text="No results yet").wait_for()
    measure(study)
    card.filter(has_text="No arm is feasible, 95% confidence").wait_for()
    short = ba.Plan.of(doses(0.5), name="listed, short")
    study, _ = new_study(server, "listed, short", dataclasses.replace(short, budget=ba.Budget(tests=12)))
    measure(study)
    card.filter(has_text=re.compile("The budget is spent; .* leads")).wait_for()
    wait_until(lambda: card.count() == 2)
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


def test_a_baseline_that_only_sets_limits_comes_after_the_others(visit: Visit, server: Server) -> None:
    limit = ba.at_most("time", 1.5, noise=ba.Gaussian(0.1), relative_to_baseline=True)
    problem = ba.Problem(["old", "slow", "fast"], constraints=[limit], goal="every feasible", baseline="old")
    study, path = new_study(server, "with a baseline", problem)
    study.add([(arm, "time", time) for arm, time in {"old": 1.0, "slow": 3.0, "fast": 1.0}.items() for _ in range(20)])
    verdicts = {arm.name: arm.verdict for arm in study.status().arms}
    assert verdicts == {"old": "baseline", "slow": "infeasible", "fast": "feasible"}
    visitor = visit()
    page = visitor.go(path)
    page.get_by_role("button", name="Verdict").click()
    names = page.locator("table.arms tbody th bdi")
    wait_until(lambda: names.all_inner_texts() == ["fast", "slow", "old"])
    assert page.locator(".chart").first.locator("text.arm-name").all_text_contents() == ["fast", "slow", "old"]
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
    words = "150 mg is feasible within its slack and within 0.1 of the best, 95% confidence"
    page = visitor.go("/")
    page.get_by_label("Find a study").fill("claims")
    page.locator(".study-card").filter(has_text=words).wait_for()
    page = visitor.go(path)
    page.get_by_text(words).first.wait_for()
    short = ba.Plan.of(doses(0.3), name="claims, short")
    study, path = new_study(server, "claims, short", dataclasses.replace(short, budget=ba.Budget(tests=60)))
    measure(study)
    page = visitor.go(path)
    page.locator(".known", has_text="With 95% confidence 300 mg is out: adverse event too high").wait_for()
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
    page.get_by_label("Options, one on a line").fill("a\n\nb\na")
    assert complaint("Options, one on a line").startswith("Line 4: another option has this name")
    page.get_by_label("Options, one on a line").fill("w" * 10_000)
    assert "at most 200 characters" in complaint("Options, one on a line")
    page.get_by_label("Options, one on a line").fill("a\nb")
    page.get_by_label("Mean must be").fill("half")
    assert "must be a number" in complaint("Mean must be")
    page.get_by_label("Mean must be").fill("0.5")
    page.get_by_label("At most this many tests").fill("-3")
    assert "must be a positive number" in complaint("At most this many tests")
    visitor.check("422", "409")


def test_a_lost_connection_is_shown_and_mended(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "lost.db")
    try:
        study, path = new_study(server, "lost and found")
        with Proxy(server.port) as proxy:
            visitor = visit(f"http://127.0.0.1:{proxy.port}")
            # An answer that breaks off, as when the line is lost right then, is no fault of the page.
            visitor.page.route("**/log?*", lambda route: route.fulfill(body='[{"time'), times=1)
            page = visitor.go(path)
            page.locator(".answer", has_text="No results yet").wait_for()
            assert page.locator("#connection").is_hidden()
            proxy.cut(refuse=True)
            page.locator("#connection", has_text="Connection lost").wait_for()
            server.stop()
            measure(study, 4)
            server.start()
            proxy.resume()
            page.locator("#connection").wait_for(state="hidden")
            page.locator(".facts.big dd", has_text=re.compile("^4$")).first.wait_for()
            page.locator("#log tbody tr").first.wait_for()
            # In which way requests fail while there is no service depends on when it went.
            visitor.check("net::ERR_")
    finally:
        server.close()


def test_a_browser_signs_in_once_and_signs_out(visit: Visit, tmp_path: Path) -> None:
    server = Server(tmp_path / "token.db", token="correct horse")
    try:
        study = ba.Study.create(doses(), name="secret", storage=server.database)
        measure(study, 4)
        visitor = visit(server.url)
        page = visitor.go("/studies/1")
        page.get_by_label("Token").fill("wrong")
        page.get_by_role("button", name="Go on").click()
        page.get_by_text("did not accept this token").wait_for()
        assert "secret" not in page.content()
        page.get_by_label("Token").fill("correct horse")
        page.get_by_role("button", name="Go on").click()
        page.get_by_role("heading", level=1, name="secret").wait_for()
        with page.expect_download() as started:
            page.get_by_role("button", name="CSV", exact=True).click()
        assert "efficacy" in started.value.path().read_text(encoding="utf-8")
        assert all("correct" not in url for url in visitor.requests)
        # No script can read the cookie, and nothing else is kept.
        kept = page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
        assert "correct" not in kept
        assert "bestarm_session" not in kept
        [cookie] = visitor.context.cookies()
        assert (cookie["name"], cookie["httpOnly"], cookie["sameSite"]) == ("bestarm_session", True, "Strict")
        # The service's own token is shared, so the visitor's name is asked for.
        page.get_by_label("Your name").fill("Ann")
        page.get_by_role("button", name="Ask for tests").click()
        page.locator(".flight .cell").first.wait_for()
        assert [row.holder for _, row in study.pending()] == ["service@Ann"]
        another = visitor.context.new_page()
        another.goto(f"{server.url}/")
        another.get_by_role("link", name="secret").wait_for()
        another.get_by_role("button", name="Sign out").click()
        another.get_by_label("Token").wait_for()
        another.close()
        visitor.go("/studies/1")
        page.get_by_label("Token").wait_for()
        assert "secret" not in page.content()
        visitor.check("401")
    finally:
        server.close()
