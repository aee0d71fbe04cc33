"""Browsers sign in: a cookie stands for the token, for a week at most, and no page of another site can use it."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy as sa
from tests.tools.patience import PATIENCE, wait_until
from tests.web.service import PLAN, TOKEN, client_at, refused

from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.database import Database
from bestarm.storage.tokens import TokenKeeper
from bestarm.web.server import running
from bestarm.web.sessions import BY_SCRIPT, COOKIE

SCRIPT = {BY_SCRIPT: "test"}


class Desk:
    """A service behind a proxy that is trusted, and what a browser would do there."""

    def __init__(self, url: str, database: str) -> None:
        self.url = url
        self.database = database
        self.storage = open_storage(database)

    @contextlib.contextmanager
    def sign_in(self, token: str) -> Iterator[httpx.Client]:
        with client_at(self.url) as client:
            answer = client.post("/api/session", json={}, headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200, answer.text
            yield client

    def get(self, headers: dict[str, str] | list[tuple[bytes, bytes]]) -> httpx.Response:
        """What a stranger with these headers is told."""
        return httpx.get(f"{self.url}/api/session", headers=headers, timeout=PATIENCE)

    def post(self, headers: dict[str, str]) -> httpx.Response:
        """The answer to signing in."""
        return httpx.post(f"{self.url}/api/session", json={}, headers=headers, timeout=PATIENCE)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    database = str(tmp_path_factory.mktemp("sessions") / "studies.db")
    with running(database, token=TOKEN, proxies=["127.0.0.1"]) as url:
        desk = Desk(url, database)
        yield desk
        desk.storage.close()


def test_a_cookie_stands_for_the_token(desk: Desk) -> None:
    token, _ = desk.storage.make_token("ann", "manage")
    for own, name in ((token, "ann"), (TOKEN, "service")):
        with desk.sign_in(own) as browser:
            assert browser.get("/api/session").json() == {"name": name, "role": "manage", "through": "session"}
            body = {"plan": PLAN, "name": f"of {name}"}
            assert browser.post("/api/studies", json=body, headers=SCRIPT).status_code == 201
            # A header counts alone, whatever cookie comes with it.
            wrong = {"Authorization": "Bearer wrong"}
            refused(browser.get("/api/studies", headers=wrong), 401, "Bearer TOKEN")
    refused(desk.get({}), 401, "Bearer TOKEN")


@pytest.mark.parametrize(
    ("headers", "path", "is_secure"),
    [
        ({}, "/", False),
        ({"X-Forwarded-Proto": "https"}, "/", True),
        ({"X-Forwarded-Prefix": "/bestarm", "X-Forwarded-Proto": "https"}, "/bestarm", True),
    ],
)
def test_the_cookie_goes_nowhere_else(desk: Desk, headers: dict[str, str], path: str, is_secure: bool) -> None:
    answer = desk.post({"Authorization": f"Bearer {TOKEN}"} | headers)
    first, *rest = answer.headers["set-cookie"].split("; ")
    assert re.fullmatch(rf"{COOKIE}=[\w-]{{43}}", first)
    secure = ["Secure"] if is_secure else []
    assert sorted(rest) == sorted(["HttpOnly", "Max-Age=604800", f"Path={path}", "SameSite=strict", *secure])
    assert TOKEN not in answer.text + str(answer.headers)


def test_another_site_cannot_use_the_cookie(desk: Desk) -> None:
    with desk.sign_in(TOKEN) as browser:
        host = browser.base_url.netloc.decode()
        for headers in (
            {"Origin": "http://evil.example"},
            {"Origin": "null"},
            {"Sec-Fetch-Site": "cross-site"},
            # A neighbor under the same domain.
            {"Sec-Fetch-Site": "same-site"},
        ):
            refused(browser.get("/api/studies", headers=headers), 403, "other sites", "Origin")
            refused(browser.post("/api/studies", json={}, headers=SCRIPT | headers), 403, "other sites", "Origin")
        # Without a script, which may not add this header elsewhere, nothing is changed.
        refused(browser.post("/api/studies", json={}), 403, f"takes the header {BY_SCRIPT}", BY_SCRIPT)
        refused(browser.post("/api/session/end", json={}), 403, f"takes the header {BY_SCRIPT}")
        # A form can be sent from anywhere, and has none of the types that are accepted.
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/plain"):
            answer = browser.post("/api/studies", content=b"{}", headers=SCRIPT | {"Content-Type": kind})
            refused(answer, 415, "must be application/json")
        # A proxy may have changed the port in Host; the browser knows.
        moved = {"Origin": "https://lab.example:8443", "Sec-Fetch-Site": "same-origin"}
        assert browser.get("/api/studies", headers=moved).status_code == 200
        assert browser.get("/api/studies", headers={"Origin": f"http://{host}"}).status_code == 200


def test_signing_out_ends_the_session_everywhere(desk: Desk) -> None:
    with desk.sign_in(TOKEN) as browser, client_at(desk.url) as thief:
        stolen = {"Cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}
        assert thief.get("/api/session", headers=stolen).status_code == 200
        ended = browser.post("/api/session/end", json={}, headers=SCRIPT)
        assert "Max-Age=0" in ended.headers["set-cookie"]
        assert COOKIE not in browser.cookies
        refused(browser.get("/api/studies"), 401, "Bearer TOKEN")
        refused(thief.get("/api/session", headers=stolen), 401, "this session is over")


def test_a_session_ends_with_its_token(desk: Desk) -> None:
    token, _ = desk.storage.make_token("bob", "read")
    with desk.sign_in(token) as browser, browser.stream("GET", "/api/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("event")
        desk.storage.revoke_token("bob")
        with client_at(desk.url) as other:
            cookie = {"Cookie": f"{COOKIE}={browser.cookies[COOKIE]}"}
            wait_until(lambda: other.get("/api/session", headers=cookie).status_code == 401)
            refused(other.get("/api/session", headers=cookie), 401, "'bob' has been revoked")
            # What it opened ends at the next change.
            made = {"plan": PLAN, "name": "after bob"}
            bearer = {"Authorization": f"Bearer {TOKEN}"}
            assert other.post("/api/studies", json=made, headers=bearer).status_code == 201
        assert len(list(lines)) < 10


def test_a_session_ends_after_its_week(desk: Desk) -> None:
    with desk.sign_in(TOKEN) as browser:
        assert browser.get("/api/session").status_code == 200
        database = Database(desk.database)
        with database.transaction() as connection:
            connection.execute(sa.update(schema.sessions).values(expires=1.0))
        wait_until(lambda: browser.get("/api/session").status_code == 401)
        # The next one to sign in clears up.
        assert desk.post({"Authorization": f"Bearer {TOKEN}"}).status_code == 200
        with database.connect() as connection:
            assert connection.execute(sa.select(sa.func.count()).select_from(schema.sessions)).scalar() == 1
        database.close()


def test_a_session_of_the_services_own_token_ends_when_that_is_replaced(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, token=TOKEN) as url:
        signed_in = httpx.post(
            f"{url}/api/session", json={}, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=PATIENCE
        )
        cookie = {"Cookie": f"{COOKIE}={signed_in.cookies[COOKIE]}"}
    # Another replica, or the same service started again, knows the session.
    with running(database, token=TOKEN) as url, client_at(url) as client:
        assert client.get("/api/session", headers=cookie).json()["name"] == "service"
    with running(database, token=TOKEN + "2") as url, client_at(url) as client:
        refused(client.get("/api/session", headers=cookie), 401, "Bearer TOKEN")


def test_the_database_does_not_hold_the_cookie(desk: Desk) -> None:
    token, _ = desk.storage.make_token("eve", "read")
    with desk.sign_in(token) as browser, desk.sign_in(TOKEN) as own:
        database = Database(desk.database)
        with database.connect() as connection:
            kept = [tuple(row) for row in connection.execute(sa.select(schema.sessions))]
        database.close()
        for secret in (token, TOKEN, browser.cookies[COOKIE], own.cookies[COOKIE]):
            assert all(secret not in map(str, row) for row in kept)
        # What it does hold is no cookie.
        for row in kept:
            for text in row[:2]:
                refused(desk.get({"Cookie": f"{COOKIE}={text}"}), 401, "this session is over")


@pytest.mark.parametrize("cookie", ["", "x", "a" * 5000, 'a"b', "%00", "ä".encode().decode("latin-1")])
def test_odd_cookies_are_refused(desk: Desk, cookie: str) -> None:
    header = f"other=1; {COOKIE}={cookie}".encode("latin-1")
    refused(desk.get([(b"Cookie", header)]), 401, "sign in again|Bearer TOKEN")


def test_signing_in_takes_a_token_in_the_header(desk: Desk) -> None:
    with desk.sign_in(TOKEN) as browser:
        answer = browser.post("/api/session", json={}, headers=SCRIPT)
        refused(answer, 422, "takes the header Authorization", "Authorization")
        answer = browser.post("/api/session", json={"token": TOKEN}, headers={"Authorization": f"Bearer {TOKEN}"})
        refused(answer, 422, "not a known field")
        for wrong in ("Bearer wrong", f"Basic {TOKEN}", ""):
            refused(desk.post({"Authorization": wrong}), 401, "Bearer TOKEN")


def test_a_storage_without_sessions_keeps_them_in_memory() -> None:
    keeper = TokenKeeper()
    assert keeper.find_session("x") is None
    made = keeper.open_session("x", "digest")
    assert keeper.find_session("x") == made
    keeper.end_session("x")
    keeper.end_session("x")
    assert keeper.find_session("x") is None
