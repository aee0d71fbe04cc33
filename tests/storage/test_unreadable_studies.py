"""One study that cannot be read: it is listed as such, can be put away, and does not affect others."""

from __future__ import annotations

import json
from typing import Any

import pytest
import sqlalchemy as sa
from tests import program

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.sql.schema import studies
from bestarm.storage.sql.storage import SQLStorage
from bestarm.web.server import running

PLAN = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), name="good")
GOOD = PLAN.to_json()

DAMAGES = {
    "cut": GOOD[: len(GOOD) // 2],
    "empty": "",
    "no object": "[1, 2]",
    "nested": "[" * 100_000,
    "nobody's policy": GOOD.replace("certify", "magic"),
    "nobody's bound": json.dumps(PLAN.to_data() | {"bound": "magic"}),
    # An older program took it.
    "delta": json.dumps(PLAN.to_data() | {"delta": 5e-324}),
    "noise": GOOD.replace('"gaussian"', '"cauchy"'),
    "no arms": json.dumps(PLAN.to_data() | {"arms": []}),
}


@pytest.fixture
def damaged(database_url: str) -> str:
    """A database with one study for each damage, between two that are as they should be."""
    storage = ba.Study.create(PLAN, storage=database_url).storage
    assert isinstance(storage, SQLStorage)
    for name in DAMAGES:
        ba.Study.create(PLAN, name=name, storage=storage)
    ba.Study.create(PLAN, name="last", storage=storage).add([("a", "gain", 1.0)])
    with storage._database.transaction() as connection:
        for name, plan in DAMAGES.items():
            connection.execute(sa.update(studies).where(studies.c.name == name).values(plan=plan))
        if storage._database.is_sqlite:
            connection.exec_driver_sql("UPDATE bestarm_studies SET plan = CAST(x'7bff' AS TEXT) WHERE name = 'empty'")
    storage.close()
    return database_url


def bestarm(*words: str, ends: int = 0) -> str:
    run = program.bestarm(*words)
    assert run.code == ends, run
    assert "Traceback" not in run.err
    return run.out if not ends else run.out + run.err


@pytest.mark.torture
def test_the_command_line(damaged: str) -> None:
    rows = {row["study"]: row for row in json.loads(bestarm("list", "--json", "--db", damaged))}
    assert list(rows) == ["good", *DAMAGES, "last"]
    assert rows["good"]["error"] is None
    assert rows["last"]["tests"] == 1
    for name in DAMAGES:
        assert rows[name]["state"] is None
        assert rows[name]["error"]
    assert "5e-324" in rows["delta"]["error"]
    assert "magic" in rows["nobody's policy"]["error"]
    assert bestarm("list", "--db", damaged).count("cannot be read") >= len(DAMAGES)
    # Work with it fails with one line. Work with another study is not affected.
    said = bestarm("status", "cut", "--db", damaged, ends=2)
    assert said.startswith("error: study = 'cut': its plan cannot be read: not valid JSON")
    assert bestarm("tell", "last", "--arm", "b", "--metric", "gain", "1", "--db", damaged)
    [database] = [part for part in json.loads(_doctor(damaged))["parts"] if part["part"] == "database"]
    assert database["state"] == "broken"
    assert (
        f"holds {len(DAMAGES) + 2} studies, of which {len(DAMAGES)} cannot be read: study = 'cut'" in database["detail"]
    )
    away = ["cut", "empty", "nobody's policy"]
    for name in away:
        assert "is archived" in bestarm("archive", name, "--db", damaged)
    left = [row["study"] for row in json.loads(bestarm("list", "--json", "--db", damaged))]
    assert left == ["good", *(name for name in DAMAGES if name not in away), "last"]
    bestarm("archive", "cut", "--undo", "--db", damaged)
    assert "cut" in bestarm("list", "--db", damaged)


def _doctor(url: str) -> str:
    return program.bestarm("doctor", "--json", "--db", url).out


def test_the_service(damaged: str) -> None:
    with running(damaged) as service, Client(service) as client:
        lines = {line.name: line for line in client.studies()}
        assert list(lines) == ["last", *reversed(DAMAGES), "good"]
        assert lines["good"].error is None
        assert (lines["last"].delta, lines["last"].arms) == (0.05, 2)
        for name in DAMAGES:
            assert lines[name].error, name
            assert lines[name].state is None
        assert lines["cut"].delta is None
        study = client.open("last")
        study.add([("b", "gain", 2.0)])
        assert study.status().tests == 2
        with pytest.raises(ba.InvalidInput, match="its plan cannot be read"):
            client.open("cut")
        answer: Any = client._connection.post(f"/api/studies/{lines['cut'].id}/archive", {"undo": False})
        assert answer == {}
        assert "cut" not in [line.name for line in client.studies()]
        client._connection.post(f"/api/studies/{lines['cut'].id}/archive", {"undo": True})
        assert "cut" in [line.name for line in client.studies()]
