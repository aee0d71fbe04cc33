"""Who did what: in the record, in the audit and in the access log, under the name that a token or a proxy gives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
from tests.program import bestarm
from tests.web.service import CSV, PLAN, TOKEN, client_at

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.web.server import running

CLI = Callable[..., Any]


def test_every_act_has_its_author_and_its_tests(tmp_path: Path) -> None:
    database, log = str(tmp_path / "x.db"), tmp_path / "access.log"
    plan = PLAN | {"reserve": 0.1, "budget": {"tests": 50}}
    storage = open_storage(database, create=True)
    tokens = {
        name: storage.make_token(name, role, by="root@here")[0] for name, role in (("ann", "manage"), ("bob", "work"))
    }
    with running(database, token=TOKEN, access_log=str(log)) as url, client_at(url) as client:

        def post(who: str, path: str, **body: Any) -> Any:
            headers = {"Authorization": f"Bearer {tokens[who]}"}
            answer = client.post(f"/api/studies{path}", json=body, headers=headers)
            assert answer.is_success, answer.text
            return answer.json()

        post("ann", "", plan=plan, name="x")
        assert [test["id"] for test in post("bob", "/1/ask", n=3, holder="bob@rig")["tests"]] == [1, 2, 3]
        told = [{"test": 1, "value": 0.5}, {"test": 2, "value": 1.0}]
        post("bob", "/1/tell", results=told, holder="bob")
        post("ann", "/1/release", tests=[3], holder="ann")
        assert [test["id"] for test in post("ann", "/1/ask", holder="ann")["tests"]] == [3]
        post("ann", "/1/abandon", test=3, reason="broken", holder="ann")
        post("bob", "/1/correct", test=1, value=0.25, reason="typing", holder="bob")
        post("bob", "/1/add", results=[{"arm": "a", "metric": "gain", "value": 0.5}], holder="bob")
        bearer = {"Authorization": f"Bearer {tokens['bob']}"}
        client.post("/api/studies/1/csv", content="arm,metric,value\na,gain,1\nb,gain,2\n", headers=CSV | bearer)
        post("ann", "/1/extend", tests=10, holder="ann")
        post("ann", "/1/arms/add", arms=["c"], holder="ann")
        post("ann", "/1/archive")
        there = ("--db", url, "--token", tokens["ann"], "--json-lines")
        remote = bestarm("log", "x", "--audit", *there, cwd=tmp_path)
        storage.revoke_token("bob", by="root@here")
        remote_of_all = bestarm("log", "--audit", *there, cwd=tmp_path)
    storage.close()

    ended = bestarm("log", "x", "--audit", "--json-lines", "--db", database, cwd=tmp_path)
    assert ended.code == 0, ended.err
    acts = [json.loads(line) for line in ended.out.splitlines()]
    assert remote.out == ended.out
    assert [(act["event"], act["who"], act["tests"]) for act in acts] == [
        ("created", "ann@127.0.0.1", []),
        ("asked", "bob@rig", [1, 2, 3]),
        ("told", "bob", [1, 2]),
        ("released", "ann", [3]),
        ("asked", "ann", [3]),
        ("dropped", "ann", [3]),
        ("corrected", "bob", [1]),
        ("given", "bob", [4]),
        ("given", "bob@127.0.0.1", [5, 6]),
        ("amended", "ann", []),
        ("amended", "ann", []),
        ("archived", "ann@127.0.0.1", []),
    ]
    assert [act["detail"] for act in acts if act["event"] in ("dropped", "corrected")] == ["broken", "typing"]

    # The log has who asked, too.
    lines = bestarm("log", "x", "--json", "--db", database, cwd=tmp_path)
    assert [row["who"] for row in json.loads(lines.out) if row["event"] == "asked"] == ["bob@rig"] * 3

    # The audit of a whole database has tokens, too.
    of_all = bestarm("log", "--audit", "--json-lines", "--db", database, cwd=tmp_path)
    assert remote_of_all.out == of_all.out
    everything = [json.loads(line) for line in of_all.out.splitlines()]
    made = [(act["event"], act["who"], act["token"]) for act in everything if act["token"]]
    assert made == [
        ("token made", "root@here", "ann"),
        ("token made", "root@here", "bob"),
        ("token revoked", "root@here", "bob"),
    ]
    assert sum(act["study"] == "x" for act in everything) == len(acts)
    table = bestarm("log", "x", "--audit", "--last", "11", "--db", database, cwd=tmp_path).out
    assert "1-3" in table
    assert "created" not in table

    seen = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert [(row["path"].rpartition("/")[2], row["who"], row["holder"], row["tests"]) for row in seen[1:6]] == [
        ("ask", "bob", "bob@rig", "1-3"),
        ("tell", "bob", "bob", "1-2"),
        ("release", "ann", "ann", "3"),
        ("ask", "ann", "ann", "3"),
        ("abandon", "ann", "ann", "3"),
    ]
    assert [row["tests"] for row in seen if row["path"].endswith("/csv")] == ["5-6"]
    assert {row["through"] for row in seen} == {"token"}


def test_local_use_is_in_the_audit_under_its_own_names(tmp_path: Path) -> None:
    database = str(tmp_path / "x.db")
    study = ba.Study.create(ba.Plan.from_data(PLAN), name="x", storage=database, holder="bench")
    [test] = study.ask(1)
    study.tell(test, 0.5)
    assert [(act.kind, act.who, act.tests) for act in study.audit()] == [
        ("created", "bench", ()),
        ("asked", "bench", (1,)),
        ("told", "bench", (1,)),
    ]
    study.storage.close()
    for words, said in {
        ("log",): "needs the name of a STUDY, or --audit",
        ("log", "y", "--audit"): "no such study",
        ("log", "x", "--audit", "--last", "-1"): "last = -1: must be",
    }.items():
        ended = bestarm(*words, "--db", database, cwd=tmp_path)
        assert ended.code == 2
        assert said in ended.err


def test_a_request_without_a_token_is_logged_under_the_name_it_gives(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    with running(str(tmp_path / "x.db"), access_log=str(log)) as url, httpx.Client(base_url=url) as client:
        client.post("/api/studies", json={"plan": PLAN, "name": "x"})
        client.post("/api/studies/1/ask", json={"holder": "bench-1", "n": 2})
    made, asked = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert (made["who"], made["holder"], asked["holder"], asked["tests"]) == (None, None, "bench-1", "1-2")
