"""Projects from the command line and from Python: in a database, and at a service by callers with a role in one."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.live import DOSE, Program
from tests.web.service import TOKEN

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.opening import open_storage
from bestarm.web.server import running


@pytest.fixture(params=["database", "service"])
def program(request: pytest.FixtureRequest, bestarm: Program) -> Iterator[Program]:
    """The program on a database, and on the same through a service."""
    if request.param == "database":
        yield bestarm
        return
    with running("s.db", token=TOKEN) as url:
        yield functools.partial(bestarm, BESTARM_DB=url, BESTARM_TOKEN=TOKEN)


def works(program: Program, *words: str) -> str:
    ended = program(*words)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out


def test_studies_are_made_listed_and_moved(program: Program) -> None:
    works(program, "new", "dose.toml")
    # Without projects, nothing is said of them.
    assert "project" not in works(program, "list")
    for name, project in (("a1", "lab-a"), ("a2", "lab-a"), ("b1", "lab-b")):
        works(program, "new", "dose.toml", "--name", name, "--project", project)
    rows = json.loads(works(program, "list", "--json"))
    assert [(row["study"], row["project"]) for row in rows] == [
        ("dose", "default"),
        ("a1", "lab-a"),
        ("a2", "lab-a"),
        ("b1", "lab-b"),
    ]
    assert "lab-b" in works(program, "list")
    assert [row["study"] for row in json.loads(works(program, "list", "--project", "lab-a", "--json"))] == ["a1", "a2"]
    assert "No studies of the project lab-c" in works(program, "list", "--project", "lab-c")
    assert works(program, "move", "a2", "lab-c") == "a2 is in the project lab-c.\n"
    works(program, "archive", "b1")
    listed = json.loads(works(program, "projects", "--json"))
    counts = {row["name"]: (row["studies"], row["archived"]) for row in listed}
    assert counts == {"default": (1, 0), "lab-a": (1, 0), "lab-b": (0, 1), "lab-c": (1, 0)}
    assert {row.get("role") for row in listed} <= {None, "manage"}
    assert "lab-c" in works(program, "projects")
    assert "from the project lab-a to lab-c" in works(program, "log", "a2")
    for words in (("move", "a1", "a@b"), ("new", "dose.toml", "--name", "x", "--project", "a@b")):
        ended = program(*words)
        assert (ended.code, "project = 'a@b': must be text of 1 to 100" in ended.err) == (2, True), ended
    ended = program("move", "no such", "lab-a")
    assert (ended.code, "no such study" in ended.err) == (2, True)


def test_a_backup_is_restored_into_another_project(bestarm: Program) -> None:
    works(bestarm, "new", "dose.toml", "--project", "lab-a")
    works(bestarm, "export", "dose", "--all", "-o", "dose.backup")
    works(bestarm, "import", "dose.backup", "--as", "same")
    works(bestarm, "import", "dose.backup", "--as", "other", "--project", "lab-b")
    rows = json.loads(works(bestarm, "list", "--json"))
    assert {row["study"]: row["project"] for row in rows} == {"dose": "lab-a", "same": "lab-a", "other": "lab-b"}
    ended = bestarm("import", "dose", "results.csv", "--project", "lab-b")
    assert (ended.code, "--project: is only for a backup" in ended.err) == (2, True), ended


def test_tokens_grant_roles_in_projects(bestarm: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, project in (("a1", "lab-a"), ("b1", "lab-b")):
        works(bestarm, "new", "dose.toml", "--name", name, "--project", project)
    made = bestarm("token", "create", "ann", "--role", "manage@lab-a", "--role", "read@lab-b")
    assert "with the role manage@lab-a, read@lab-b; it" in made.err
    [bob] = bestarm("token", "create", "bob", "--role", "work@lab-b").out.splitlines()
    [ann] = made.out.splitlines()
    listed = json.loads(works(bestarm, "token", "list", "--json"))
    assert [row["role"] for row in listed] == ["manage@lab-a, read@lab-b", "work@lab-b"]
    audit = json.loads(works(bestarm, "log", "--audit", "--json"))
    assert [row["detail"] for row in audit if row["event"] == "created"] == [
        "in the project lab-a",
        "in the project lab-b",
    ]
    monkeypatch.setattr("bestarm.cli.shared.audit.MOST_LINES", 2)
    table = bestarm("log", "--audit")
    assert table.err == f"the newest 2 of {len(audit)} lines; --last N shows more, --json-lines all\n"
    assert [name in table.out for name in ("ann", "bob", "a1", "b1")] == [True, True, False, False]
    with running("s.db", tokens=True) as url:
        by_ann, by_bob = (functools.partial(bestarm, BESTARM_DB=url, BESTARM_TOKEN=token) for token in (ann, bob))
        assert [row["study"] for row in json.loads(works(by_ann, "list", "--json"))] == ["a1", "b1"]
        assert [row["study"] for row in json.loads(works(by_bob, "list", "--json"))] == ["b1"]
        assert json.loads(works(by_bob, "projects", "--json")) == [
            {"name": "lab-b", "role": "work", "studies": 1, "archived": 0}
        ]
        hidden, missing = (by_bob("status", name) for name in ("a1", "zz"))
        assert (hidden.code, hidden.err.replace("a1", "zz")) == (2, missing.err)
        assert "there are 'b1'" in hidden.err
        for command in (("archive", "b1"), ("new", "dose.toml")):
            ended = by_bob(*command)
            assert (ended.code, "needs the role manage; 'bob' has the role work@lab-b" in ended.err) == (2, True), ended
        for words, said in {
            ("archive", "b1"): "needs the role manage in the project 'lab-b'",
            ("ask", "b1"): "needs the role work in the project 'lab-b'",
            ("move", "a1", "lab-b"): "needs the role manage in the project 'lab-b'",
            ("new", "dose.toml"): "needs the role manage in the project 'default'",
        }.items():
            ended = by_ann(*words)
            assert (ended.code, said in ended.err) == (2, True), ended
        works(by_ann, "new", "dose.toml", "--name", "a2", "--project", "lab-a")
        assert by_bob("ask", "b1").code == 0
        plan = ba.Plan.load(tmp_path / "dose.toml")
        with Client(url, bob) as client:
            assert [line.project for line in client.studies()] == ["lab-b"]
            assert client.studies(project="lab-a") == []
            assert client.open("b1").project == "lab-b"
        storage = open_storage("s.db")
        [one, _] = (storage.make_token(name, "manage@lab-c")[0] for name in ("eve", "joe"))
        storage.close()
        with Client(url, one) as client:
            # Their only project.
            assert client.create(plan, name="c1").project == "lab-c"
            [line] = client.projects()
            assert (line.name, line.role, line.studies) == ("lab-c", "manage", 1)


def test_a_study_says_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "dose.toml").write_text(DOSE)
    plan = ba.Plan.load(tmp_path / "dose.toml")
    study = ba.Study.create(plan, storage=tmp_path / "s.db", project="lab-a", holder="ann")
    again = ba.Study.open("dose", storage=tmp_path / "s.db")
    [test] = study.ask(1, days=1)
    study.move("lab-b")
    assert study.project == again.project == "lab-b"
    study.tell(test, 0.5 if test.metric == "efficacy" else 1)
    assert again.status().tests == 1
    assert [event.holder for event in study.log() if event.kind == "moved"] == ["ann"]
