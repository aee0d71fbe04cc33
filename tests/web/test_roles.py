"""What each role may do: every route of the description, with every kind of token."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.tools.patience import wait_until
from tests.web.service import CSV, JSON, PLAN, TOKEN, client_at, new_study, refused

from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import ROLES, allows
from bestarm.web import roles
from bestarm.web.app import create_app
from bestarm.web.server import running

DOCUMENT = create_app(":memory:").openapi()
OPERATIONS = [(method, path) for path, found in DOCUMENT["paths"].items() for method in found]


class Team:
    """A service for several people, and their tokens."""

    def __init__(self, url: str, database: str) -> None:
        self.url = url
        self.storage = open_storage(database)
        self.tokens = {role: self.storage.make_token(role, role)[0] for role in ROLES}
        self.gone = {
            "has been revoked": self.storage.make_token("left", "manage")[0],
            "has expired": self.storage.make_token("late", "manage", 1e-9)[0],
        }
        self.storage.revoke_token("left")
        self.client = client_at(url)
        self.study = new_study(self.as_(TOKEN), "shared")

    def as_(self, token: str | None) -> httpx.Client:
        self.client.headers = httpx.Headers({} if token is None else {"Authorization": f"Bearer {token}"})
        return self.client

    def send(self, token: str | None, method: str, path: str) -> httpx.Response:
        """The head of the answer, and the whole if it is an error."""
        headers = CSV if path.endswith("/csv") else JSON if method == "post" else {}
        path = path.replace("/api/studies/{study}", self.study)
        with self.as_(token).stream(method, path, headers=headers) as answer:
            if answer.status_code >= 400:
                answer.read()
            return answer


@pytest.fixture(scope="module")
def team(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Team]:
    database = str(tmp_path_factory.mktemp("team") / "studies.db")
    with running(database, token=TOKEN) as url:
        made = Team(url, database)
        yield made
        made.client.close()
        made.storage.close()


def wanted_role(method: str, path: str) -> Any:
    """As the description says; None if no token is wanted."""
    stated = DOCUMENT["paths"][path][method]["security"]
    if not stated:
        return None
    assert stated[1:] == [{}]
    [role] = stated[0]["token"]
    return role


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_every_route_is_for_those_with_the_role_it_needs(team: Team, method: str, path: str) -> None:
    needed = wanted_role(method, path)
    for role in ROLES:
        answer = team.send(team.tokens[role], method, path)
        assert answer.headers.get("Bestarm-Role") == (None if needed is None else role)
        if needed is None or allows(role, needed):
            assert answer.status_code not in (401, 403), answer
        else:
            refused(answer, 403, f"needs the role {needed}; '{role}' has the role {role}", "Authorization")
    assert team.send(TOKEN, method, path).status_code not in (401, 403)
    for reason, token in {"Authorization: Bearer": None, **team.gone}.items():
        answer = team.send(token, method, path)
        if needed is None:
            assert answer.status_code == 200
        else:
            refused(answer, 401, reason, "Authorization")


def test_every_route_has_its_role_and_no_role_is_for_nothing() -> None:
    assert {f"{method.upper()} {path}" for method, path in OPERATIONS} == set(roles.NEEDED)
    for name, role in roles.NEEDED.items():
        looks = name.startswith(("GET ", "POST /api/session")) and name not in ("GET /api/audit", "GET /api/backup")
        assert (role in ("read", "anybody")) == looks, name


def test_an_address_that_only_looks_different_needs_the_same_role(team: Team) -> None:
    """A line break at the end is another address to some, and the same to others."""
    for path in (f"{team.study}/archive%0A", f"{team.study}/archive%0a", f"{team.study}//archive", "/api//studies"):
        answer = team.as_(team.tokens["read"]).post(path, json={})
        assert answer.status_code in (403, 404, 405), (path, answer)
    assert team.as_(TOKEN).get(team.study).json()["archived"] is None


def test_unauthorized_body_is_not_read(team: Team) -> None:
    answer = team.as_(team.tokens["read"]).post(f"{team.study}/tell", content=b"{" * 2_000_000, headers=JSON)
    refused(answer, 403, "needs the role work")


def test_work_is_done_in_the_name_of_the_token(team: Team) -> None:
    asked = team.as_(team.tokens["work"]).post(f"{team.study}/ask", json={"days": 1})
    [test] = asked.json()["tests"]
    pending = team.as_(team.tokens["read"]).get(f"{team.study}/pending").json()
    assert [row["holder"] for row in pending if row["id"] == test["id"]] == ["work@127.0.0.1"]


def test_nobody_acts_in_the_name_of_another(team: Team) -> None:
    client = team.as_(team.tokens["work"])
    for holder in ("ann", "manage", "work2", "workers@bench", "work@", "work@ ", "work@a\nb", "Work", " work"):
        answer = client.post(f"{team.study}/ask", json={"holder": holder})
        refused(
            answer, 422, r"holder = .*: you are 'work', so leave it out, or give 'work' or 'work@MACHINE'", "holder"
        )
        answer = client.post(
            f"{team.study}/csv", content=b"arm,metric,value\na,gain,1\n", headers=CSV, params={"holder": holder}
        )
        refused(answer, 422, "you are 'work'", "holder")
    answer = client.post(f"{team.study}/renew", json={"holder": "manage", "tests": [1]})
    refused(answer, 422, "you are 'work'", "holder")
    for holder in ("work", "work@bench-3"):
        [test] = client.post(f"{team.study}/ask", json={"holder": holder}).json()["tests"]
        assert (
            client.post(f"{team.study}/abandon", json={"test": test["id"], "reason": "x", "holder": holder}).status_code
            == 200
        )
        log = client.get(f"{team.study}/log").json()
        assert [row["holder"] for row in log if row["test"] == test["id"] and row["kind"] == "dropped"] == [holder]
    answer = team.as_(TOKEN).post(f"{team.study}/ask", json={"holder": "work"})
    refused(answer, 422, "you are 'service'", "holder")


def test_a_token_that_is_revoked_ends_what_it_began(team: Team) -> None:
    token, _ = team.storage.make_token("guest", "read")
    client = team.as_(token)
    assert client.get("/api/studies").status_code == 200
    with client.stream("GET", f"{team.study}/events") as stream:
        lines = stream.iter_lines()
        assert next(lines).startswith("event")
        team.storage.revoke_token("guest")
        with client_at(team.url) as other:
            wait_until(lambda: other.get("/api/studies", headers=client.headers).status_code == 401)
            # The stream ends at the next change.
            manager = {"Authorization": f"Bearer {TOKEN}"}
            assert other.post(f"{team.study}/ask", json={}, headers=manager).status_code == 200
        assert len(list(lines)) < 10


def test_tokens_alone_guard_a_service(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, tokens=True) as url, client_at(url) as client:
        assert client.get("/api/health").json()["token"] is True
        refused(client.get("/api/studies"), 401, "Bearer")
        refused(client.get("/api/studies", headers={"Authorization": "Bearer None"}), 401, "Bearer")
        storage = open_storage(database)
        token, _ = storage.make_token("ann", "manage")
        storage.close()
        client.headers["Authorization"] = f"Bearer {token}"
        made = client.post("/api/studies", json={"plan": PLAN, "name": "x"})
        assert made.status_code == 201
        assert client.get("/api/studies", headers={"Host": "lab.example"}).status_code == 200
