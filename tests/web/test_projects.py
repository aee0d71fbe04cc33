"""Projects: every route, by every kind of caller, about studies that they may read and others."""

from __future__ import annotations

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.lengths import cases, first, lengths
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer
from tests.web.service import CSV, JSON, PLAN, TOKEN, client_at, new_study, refused

from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import ROLES, Grants, Role, allows
from bestarm.web.roles import BY_PROJECT, NEEDED
from bestarm.web.server import running

A, B = "lab-a", "lab-b"
NO_STUDY = 900_001
ABOUT_ONE = sorted(name for name in NEEDED if "{study}" in name)
CHOICES: tuple[Role | None, ...] = (None, *ROLES)
ALL_GRANTS = [
    Grants(everywhere, {name: role for name, role in ((A, in_a), (B, in_b)) if role is not None})
    for everywhere, in_a, in_b in itertools.product(CHOICES, CHOICES, CHOICES)
    if (everywhere, in_a, in_b) != (None, None, None)
]
BODIES = {"none": b"", "cut off": b'{"results": [', "empty": b"{}", "other": b'{"n": "many", "name": "in a"}'}


class Service:
    """A service with a study in each of three projects, and a caller for each combination of roles."""

    def __init__(self, url: str, database: str) -> None:
        self.url = url
        self.client = client_at(url)
        self.manager = {"Authorization": f"Bearer {TOKEN}"}
        storage = open_storage(database)
        self.headers = {
            str(grants): {"Authorization": f"Bearer {storage.make_token(f't{k}', str(grants))[0]}"}
            for k, grants in enumerate(ALL_GRANTS)
        }
        storage.close()
        with client_at(url) as client:
            client.headers.update(self.manager)
            self.studies = {project: self.new(client, project) for project in (A, B, "default")}

    def new(self, client: httpx.Client, project: str) -> int:
        body = {"plan": PLAN, "name": f"in {project}", "project": project}
        made = client.post("/api/studies", json=body)
        assert made.status_code == 201, made.text
        assert made.json()["project"] == project
        return int(made.json()["id"])

    def send(self, grants: Grants, route: str, study: int, body: bytes = b"", **more: Any) -> httpx.Response:
        """The head of the answer, and the whole if it is an error: streams have no end."""
        method, path = route.split(" ")
        kind = CSV if path.endswith("/csv") else JSON if method == "POST" else {}
        path = path.replace("{study}", str(study))
        headers = self.headers[str(grants)] | kind
        with self.client.stream(method, path, headers=headers, content=body, **more) as answer:
            if answer.status_code >= 400:
                answer.read()
            return answer

    def get(self, grants: Grants, path: str, **query: Any) -> Any:
        answer = self.client.get(path, headers=self.headers[str(grants)], params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    database = str(tmp_path_factory.mktemp("projects") / "x.db")
    with running(database, token=TOKEN) as url:
        made = Service(url, database)
        yield made
        made.client.close()


def seen(answer: httpx.Response, study: int) -> Any:
    """All that an answer shows, with its study's number left out."""
    headers = {name: value for name, value in answer.headers.items() if name not in ("date", "content-length")}
    return answer.status_code, headers, re.sub(rf"\b{study}\b", "N", answer.text)


@pytest.mark.parametrize("every", lengths(11, 1))
@pytest.mark.parametrize("route", ABOUT_ONE)
def test_a_study_that_may_not_be_read_is_as_one_that_is_not_there(service: Service, route: str, every: int) -> None:
    """And any other is for those with the role in its project."""
    needed: Any = NEEDED[route]
    for grants in ALL_GRANTS[::every]:
        for body in BODIES.values() if route.startswith("POST") else [b""]:
            missing = service.send(grants, route, NO_STUDY, body)
            assert missing.status_code in (400, 403, 404, 422) if grants.visible is None else (403, 404)
            for project, study in service.studies.items():
                told = f"{grants} in {project}"
                role = grants.role_in(project)
                if not allows(grants.highest, needed):
                    answer = service.send(grants, route, study, body)
                    assert seen(answer, study) == seen(missing, NO_STUDY), told
                    refused(answer, 403, f"needs the role {needed}")
                elif role is None:
                    answer = service.send(grants, route, study, body)
                    assert seen(answer, study) == seen(missing, NO_STUDY), told
                    refused(answer, 404, f"study = {study}: no such study in this service", "study")
                elif not allows(role, needed):
                    answer = service.send(grants, route, study, body)
                    refused(answer, 403, f"needs the role {needed} in the project '{project}'")
                    assert answer.headers["Bestarm-Role"] == role
                elif body == BODIES["cut off"]:
                    # It gets as far as its body, which nothing can be done with.
                    assert service.send(grants, route, study, body).status_code in (400, 422), told
                elif route.startswith("GET"):
                    answer = service.send(grants, route, study)
                    assert answer.status_code == 200 or "there are none to fill in" in answer.text, (told, answer)
                    assert answer.headers["Bestarm-Role"] == role


@cases(17)
@pytest.mark.parametrize("grants", ALL_GRANTS, ids=str)
def test_what_concerns_several_studies_shows_those_that_may_be_read(service: Service, grants: Grants) -> None:
    projects = [name for name in service.studies if grants.role_in(name) is not None]
    mine = {f"in {name}" for name in projects}

    def names(**query: Any) -> set[str]:
        rows = service.get(grants, "/api/studies", archived="true", **query)
        assert all(row["name"] == f"in {row['project']}" for row in rows)
        return {row["name"] for row in rows}

    assert names() == names(contains="IN ") == mine
    for project in service.studies:
        one = {f"in {project}"} & mine
        assert names(project=project) == names(name=f"in {project}") == names(contains=project) == one
        assert names(project=project, name="in lab-a") == one & {"in lab-a"}
    assert names(project="lab-c") == set()

    found = service.get(grants, "/api/projects")
    assert [(row["name"], row["role"], row["studies"], row["archived"]) for row in found] == sorted(
        (name, grants.role_in(name), 1, 0) for name in projects
    )
    missing = service.send(grants, "GET /api/comparison", 0, params={"studies": f"{NO_STUDY}"})
    for project, study in service.studies.items():
        answer = service.send(grants, "GET /api/comparison", 0, params={"studies": f"{study}"})
        if project in projects:
            assert answer.status_code == 200
        else:
            assert seen(answer, study) == seen(missing, NO_STUDY)
    metrics = service.send(grants, "GET /metrics", 0)
    if grants.everywhere is None:
        refused(metrics, 403, "needs the role read in all projects")
    else:
        assert metrics.status_code == 200


@cases(17)
@pytest.mark.parametrize("grants", ALL_GRANTS, ids=str)
def test_studies_are_made_and_moved_where_one_manages(service: Service, grants: Grants) -> None:
    """Whether the project exists does not show."""

    def words(answer: httpx.Response, project: str) -> str:
        return answer.text.replace(repr(project), "P").replace(f'"{project}"', "P")

    for project in (A, B, "default", "lab-c", None):
        place = project or grants.usual_project
        # The name is taken, so nothing is made.
        body = {"plan": PLAN, "name": "in lab-b"} | ({} if project is None else {"project": project})
        answer = service.send(grants, "POST /api/studies", 0, json.dumps(body).encode())
        if not allows(grants.highest, "manage"):
            refused(answer, 403, "needs the role manage; ")
        elif (role := grants.role_in(place)) is None or not allows(role, "manage"):
            refused(answer, 403, f"needs the role manage in the project '{place}'", "project")
        else:
            refused(answer, 409, "a study of this name exists already", "name")
    if allows(grants.highest, "manage") and grants.everywhere is None:
        for study in service.studies.values():
            here = [
                words(service.send(grants, "POST /api/studies/{study}/move".replace("{study}", str(study)), study,
                                   json.dumps({"project": name}).encode()), name)
                for name in ("lab-c", "lab-d")
            ]  # fmt: skip
            assert here[0] == here[1]
    assert Grants.of([str(grants)]) == grants


def test_the_same_on_postgresql(postgres_server: PostgresServer) -> None:
    database = postgres_server.new_database()
    with running(database, token=TOKEN) as url:
        made = Service(url, database)
        for route in ("GET /api/studies/{study}", "POST /api/studies/{study}/ask", "POST /api/studies/{study}/move"):
            test_a_study_that_may_not_be_read_is_as_one_that_is_not_there(made, route, 7)
        for grants in ALL_GRANTS[::7]:
            test_what_concerns_several_studies_shows_those_that_may_be_read(made, grants)
            test_studies_are_made_and_moved_where_one_manages(made, grants)
        made.client.close()


def test_a_route_concerns_all_projects_unless_it_says_otherwise() -> None:
    """A new route that shows all studies is safe without a word about projects."""
    assert set(NEEDED) >= BY_PROJECT
    everywhere = {name for name, role in NEEDED.items() if role != "anybody" and name not in BY_PROJECT}
    assert everywhere == {"GET /metrics", "GET /api/audit", "GET /api/backup", "POST /api/backup"}


def test_a_key_that_others_used_shows_nothing(service: Service) -> None:
    """A repeat under a key is answered as the first time, but not to those who may not read the study."""
    body = json.dumps({"plan": PLAN, "name": "under a key", "project": B}).encode()
    in_a, in_b = Grants.of([f"manage@{A}"]), Grants.of([f"manage@{B}"])
    key = {"Idempotency-Key": "1"}
    ids = {
        service.client.post("/api/studies", content=body, headers=service.headers[str(in_b)] | JSON | key).json()["id"]
        for _ in range(2)
    }
    assert len(ids) == 1
    for stated in ({}, {"project": A}):
        other = {"plan": PLAN, "name": "under a key", **stated}
        answer = service.client.post("/api/studies", json=other, headers=service.headers[str(in_a)] | key)
        refused(answer, 409, "a study of this name exists already in this service", "name")
    with client_at(service.url) as client:
        client.headers.update(service.manager)
        for study in ids:
            assert client.post(f"/api/studies/{study}/archive", json={}).status_code == 200
            assert client.post(f"/api/studies/{study}/delete", json={"name": "under a key"}).status_code == 200


def test_who_looked_too_early_sees_the_next_study(tmp_path: Path) -> None:
    with contextlib.closing(open_storage(tmp_path / "x.db", create=True)) as storage:
        reader = {"Authorization": f"Bearer {storage.make_token('ann', f'read@{A}')[0]}"}
    with running(str(tmp_path / "x.db"), token=TOKEN) as url, client_at(url) as client:
        refused(client.get("/api/studies/1", headers=reader), 404, "no such study")
        manager = {"Authorization": f"Bearer {TOKEN}"}
        made = client.post("/api/studies", json={"plan": PLAN, "name": "first", "project": A}, headers=manager)
        assert made.json()["id"] == 1
        assert client.get("/api/studies/1", headers=reader).status_code == 200


def first_event(url: str, path: str, headers: dict[str, str]) -> Any:
    with httpx.stream("GET", url + path, headers=headers, timeout=PATIENCE) as stream:
        data = next(line for line in stream.iter_lines() if line.startswith("data: "))
        return json.loads(data.removeprefix("data: "))


def test_events_say_nothing_of_other_projects(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, token=TOKEN) as url, client_at(url) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        a, b = (new_study_in(client, project) for project in (A, B))
        storage = open_storage(database)
        token = {"Authorization": f"Bearer {storage.make_token('ann', f'work@{A}')[0]}"}
        storage.close()

        def versions() -> list[Any]:
            # Once their lines are computed, events of a list stay the same as long as nothing is recorded.
            client.get("/api/studies")
            ways = ((client.headers, ""), (token, ""), (client.headers, f"?project={A}"), (token, f"?project={B}"))
            return [first_event(url, f"/api/events{query}", dict(headers)) for headers, query in ways]

        before = versions()
        assert client.post(f"{b}/ask", json={"days": 1}).status_code == 200
        after = versions()
        assert [one == other for one, other in zip(before, after, strict=True)] == [False, True, True, True]
        assert client.post(f"{a}/ask", json={"days": 1}).status_code == 200
        last = versions()
        assert [one == other for one, other in zip(after, last, strict=True)] == [False, False, False, True]


def new_study_in(client: httpx.Client, project: str) -> str:
    made = client.post("/api/studies", json={"plan": PLAN, "name": f"in {project}", "project": project})
    assert made.status_code == 201
    return f"/api/studies/{made.json()['id']}"


@pytest.mark.parametrize("how", first(1, ["service", "storage"]))
def test_a_stream_ends_when_its_study_is_moved_away(tmp_path: Path, how: str) -> None:
    database = str(tmp_path / "x.db")
    with running(database, token=TOKEN) as url, client_at(url) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        study = new_study_in(client, A)
        storage = open_storage(database)
        token = {"Authorization": f"Bearer {storage.make_token('ann', f'read@{A}, work@{B}')[0]}"}
        with client_at(url) as ann:
            ann.headers.update(token)
            assert ann.get(study).json()["project"] == A
            with ann.stream("GET", f"{study}/events") as stream:
                lines = stream.iter_lines()
                assert next(lines).startswith("event")
                for project in (B, "lab-c"):
                    if how == "service":
                        assert client.post(f"{study}/move", json={"project": project}).status_code == 200
                    else:
                        storage.move(int(study.split("/")[-1]), project, "bob")
                # The second move ends it.
                assert len(list(lines)) < 20
            refused(ann.get(study), 404, "no such study")
        log = client.get(f"{study}/log").json()
        moves = [(row["holder"], row["detail"]) for row in log if row["kind"] == "moved"]
        who = "service@127.0.0.1" if how == "service" else "bob"
        assert moves == [
            (who, "from the project lab-a to lab-b"),
            (who, "from the project lab-b to lab-c"),
        ]
        assert client.get(study).json()["project"] == "lab-c"
        assert [row["project"] for row in client.get("/api/studies").json()] == ["lab-c"]
        storage.close()


def test_work_goes_on_after_a_move(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    with running(database, token=TOKEN) as url, client_at(url) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        study = new_study(client, "one")
        [test] = client.post(f"{study}/ask", json={"days": 1}).json()["tests"]
        for project in ("lab-a", "lab-a", "default"):
            assert client.post(f"{study}/move", json={"project": project}).status_code == 200
        told = client.post(f"{study}/tell", json={"results": [{"test": test["id"], "value": 1.0}]})
        assert told.status_code == 200
        assert client.get(study).json()["tests"] == 1
        for name in ("", " a", "a@b", "a/b", "a,b", "a=b", "a\nb"):
            refused(client.post(f"{study}/move", json={"project": name}), 422, "must be text of 1 to 100", "project")
            body = {"plan": PLAN, "name": "bad", "project": name}
            refused(client.post("/api/studies", json=body), 422, "must be text of 1 to 100", "project")


def test_groups_of_a_proxy_have_roles_in_projects(tmp_path: Path) -> None:
    from bestarm.web.proxy_identity import ProxyIdentity

    identity = ProxyIdentity(
        "X-User", "X-Groups", ["staff=read@lab-a", "lab=work@lab-a", "lab=read@lab-b", "it=manage"]
    )
    database = str(tmp_path / "x.db")
    with (
        running(database, token=TOKEN, proxies=["127.0.0.1"], proxy_identity=identity) as url,
        client_at(url) as client,
    ):
        it = {"X-User": "root", "X-Groups": "it", "X-Requested-With": "test"}
        for project in (A, B):
            body = {"plan": PLAN, "name": f"in {project}", "project": project}
            assert client.post("/api/studies", json=body, headers=it).status_code == 201
        for groups, wanted in {
            "staff": {A: "read"},
            "staff,lab": {A: "work", B: "read"},
            "it,lab": {A: "manage", B: "manage", "default": "manage"},
        }.items():
            rows = client.get("/api/projects", headers={"X-User": "ann", "X-Groups": groups}).json()
            assert {row["name"]: row["role"] for row in rows} == wanted
        refused(client.get("/api/projects", headers={"X-User": "ann", "X-Groups": "x"}), 403, "in none of the groups")
