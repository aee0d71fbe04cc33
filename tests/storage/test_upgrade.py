"""Databases of earlier versions open, are brought up to date, and go on as they would have."""

from __future__ import annotations

import json
import math
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.program import bestarm
from tests.storage.problem import measure

import bestarm as ba
from bestarm.storage.base import Outcome
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.database import Database
from bestarm.storage.sql.storage import SQLStorage

PLAN = {
    "name": "old",
    "delta": 0.05,
    "policy": "certify",
    "bound": "paper",
    "objective": {"metric": "gain", "goal": "maximize", "noise": {"gaussian": 1.0}},
    "arms": [{"name": "a"}, {"name": "b"}],
}

VERSION_1 = """
CREATE TABLE bestarm_schema (version INTEGER NOT NULL, PRIMARY KEY (version));
CREATE TABLE bestarm_studies (study {serial}, name TEXT NOT NULL UNIQUE, plan TEXT NOT NULL, seed BIGINT NOT NULL,
  created {double} NOT NULL, archived {double}, revision INTEGER NOT NULL);
CREATE TABLE bestarm_tests (study INTEGER NOT NULL, test BIGINT NOT NULL, round BIGINT NOT NULL, ends SMALLINT NOT NULL,
  arm INTEGER NOT NULL, metric INTEGER NOT NULL, given SMALLINT NOT NULL, issued {double} NOT NULL,
  PRIMARY KEY (study, test), FOREIGN KEY(study) REFERENCES bestarm_studies (study)){rowless};
CREATE TABLE bestarm_outcomes (study INTEGER NOT NULL, test BIGINT NOT NULL, correction INTEGER NOT NULL,
  value {double}, reason TEXT, holder TEXT NOT NULL, told {double} NOT NULL, PRIMARY KEY (study, test, correction),
  FOREIGN KEY(study, test) REFERENCES bestarm_tests (study, test)){rowless};
CREATE INDEX bestarm_outcomes_by_time ON bestarm_outcomes (study, told);
CREATE TABLE bestarm_events (event {serial}, study INTEGER NOT NULL, kind TEXT NOT NULL, test BIGINT,
  holder TEXT NOT NULL, detail TEXT NOT NULL, time {double} NOT NULL);
CREATE INDEX ix_bestarm_events_study ON bestarm_events (study);
CREATE TABLE bestarm_rounds (study INTEGER NOT NULL, round BIGINT NOT NULL, first BIGINT NOT NULL, tests TEXT NOT NULL,
  PRIMARY KEY (study)){rowless};
CREATE TABLE bestarm_sources (study INTEGER NOT NULL, source TEXT NOT NULL, PRIMARY KEY (study, source)){rowless};
CREATE TABLE bestarm_queue (study INTEGER NOT NULL, test BIGINT NOT NULL, holder TEXT NOT NULL,
  expires {double} NOT NULL, attempts INTEGER NOT NULL, PRIMARY KEY (study, test)){rowless};
CREATE INDEX bestarm_queue_by_time ON bestarm_queue (study, expires);
INSERT INTO bestarm_schema VALUES (1);
INSERT INTO bestarm_studies (name, plan, seed, created, archived, revision) VALUES ('old', '{plan}', 3, 100.0, NULL, 0);
INSERT INTO bestarm_tests VALUES (1, 1, 1, 0, 0, 0, 0, 101.0), (1, 2, 1, 1, 1, 0, 0, 101.0),
  (1, 3, 2, 1, 0, 0, 0, 103.0);
INSERT INTO bestarm_outcomes VALUES (1, 1, 0, 3.0, NULL, 'ann', 102.0), (1, 2, 0, 0.5, NULL, 'bob', 102.5);
INSERT INTO bestarm_events (study, kind, test, holder, detail, time) VALUES (1, 'created', NULL, '', '', 100.0);
INSERT INTO bestarm_rounds VALUES (1, 2, 3, '[[0, 0, 1]]');
INSERT INTO bestarm_queue VALUES (1, 3, 'ann', 3703.0, 1)
"""
"""The tables as version 0.1.0 made them, with a study half-way: one test is out, on a lease that ran out long ago."""


VERSION_2 = Path(__file__).with_name("version_2.sql")


def make_version(version: int, url: str) -> None:
    """A database as that version left it: studies half-way, the first of which is called "old"."""
    is_server = "://" in url
    words = {
        "serial": "SERIAL PRIMARY KEY" if is_server else "INTEGER NOT NULL PRIMARY KEY",
        "double": "DOUBLE PRECISION" if is_server else "DOUBLE",
        "rowless": "" if is_server else " WITHOUT ROWID",
        "infinity": "'Infinity'" if is_server else "9e999",
        "plan": json.dumps(PLAN),
    }
    script = VERSION_1 if version == 1 else VERSION_2.read_text()
    for name, text in words.items():
        script = script.replace(f"{{{name}}}", text)
    if not is_server:
        file = sqlite3.connect(url)
        file.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
        file.executescript(script)
        file.close()
        return
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        for statement in script.split(";\n"):
            connection.exec_driver_sql(statement.replace("%", "%%"))
        if version == 2:
            # Only a server counts arrivals apart from the outcomes.
            connection.exec_driver_sql("UPDATE bestarm_arrivals SET last = 7")
    engine.dispose()


def make_upgraded(version: int, url: str) -> None:
    """The same, and upgraded by command, as a server's database has to be."""
    make_version(version, url)
    assert bestarm("migrate", "--apply", "--db", url).code == 0


def test_a_database_of_version_1(database_url: str) -> None:
    make_upgraded(1, database_url)
    study = ba.Study.open("old", storage=database_url, holder="bob")
    assert not study.record.by_arrival
    assert study.plan.order == "issue"
    status = study.status()
    assert (status.tests, status.pending, status.waiting) == (2, 1, 0)
    [(test, row)] = study.pending()
    assert (test.id, row.holder, row.since, row.due, row.aside) == (3, "ann", 103.0, None, None)
    # By the rule under which it was asked for, its time was over long ago.
    assert study.ask(1) == [test]
    study.tell(test, 2.5)
    while not study.done:
        for test in study.ask(2):
            study.tell(test, 3.0 if test.arm == "a" else 0.0)
    assert study.answer is not None
    assert study.answer.arm == "a"
    tests = study.status().tests
    study.storage.close()
    again = ba.Study.open("old", storage=database_url)
    assert again.status().tests == tests
    # It has all that new ones have.
    made = ba.Study.create(ba.Plan.from_data(PLAN | {"name": "new", "order": "arrival"}), storage=again.storage)
    made.ask(2, days=math.inf)
    made.tell(2, 1.0)
    assert made.status().waiting == 0
    again.storage.close()


NEXT = (
    "pg sr br pg sr br pg sr br sg sr br pg sr br sg sr br pg sr br sg sr br pg sr br sg sr br pg sr br sg sr br pg sr "
    "br sg sr br pg sr br sg br pg br sg pg sg br pg sg pg sg pg sg pg sg pg sg sg"
)
"""What is asked for next in either study, arm and metric by their first letters: as by the program of that time, which
needed four tests more at the end."""


@pytest.mark.parametrize("name", ["old", "by arrival"])
def test_a_database_of_version_2(name: str, database_url: str) -> None:
    make_upgraded(2, database_url)
    study = ba.Study.open(name, storage=database_url, holder="ann")
    status = study.status()
    assert (status.tests, status.pending, status.waiting) == (7, 3, 2 if name == "old" else 0)
    # A repeat is recognized, though it was done by the earlier program.
    assert list(study.add([("safe", "gain", 2.125), ("poor", "risk", -1.5)], key="k1")) == [8, 9]
    history = {test.id: test for test in study.storage.history(study.record.key)}
    assert [(told.value, told.reason, told.more) for told in history[2].outcomes] == [
        (-1.311, None, ()),
        (-1.25, "typing", ()),
    ]
    assert {test.item for test in history.values()} == {None}
    assert all(len(part.more) == len(part.items) == 0 for part in study.storage.entries(study.record.key, 0))
    for test, row in study.pending():
        assert (row.holder, row.expires, row.item) == ("ann", math.inf, None)
        study.tell(test, measure(test))
    asked = []
    while not study.done:
        for test in study.ask(4):
            asked.append(test.arm[0] + test.metric[0])
            study.tell(test, measure(test))
    assert " ".join(asked) == NEXT
    found = "safe: feasible and best, with 99.9% confidence, after 72 tests; 2 results were neither asked for nor"
    assert str(study.answer).startswith(found)
    assert study.status().tests == 74
    study.storage.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_database_takes_what_is_new(version: int, database_url: str) -> None:
    make_upgraded(version, database_url)
    storage = open_storage(database_url)
    old = storage.find_study("old")
    assert old is not None
    made = storage.create_study("new", "{}", seed=0)
    for key in (made.key, old.key):
        first = storage.issued(key) + 1
        storage.give(key, [(0, 0, 1.0, (1.5, 2.5), 7)], "ann", "")
        [part] = storage.entries(key, first - 1)
        assert (part.values.tolist(), part.more.tolist(), part.items.tolist()) == ([1.0], [(1.5, 2.5)], [7])
        storage.correct(key, first, 1.0, "ann", "typing", more=(1.5, 2.0))
        found = storage.test(key, first)
        assert found is not None
        assert found[1] == Outcome(1.0, "typing", "ann", (1.5, 2.0))
    storage.close()
    with closing(SQLStorage(database_url)) as again, again._database.connect() as connection:
        assert connection.execute(sa.select(schema.schema.c.version)).scalars().all() == [schema.VERSION]


@pytest.mark.parametrize("version", [1, 2])
def test_the_tables_are_those_of_a_new_database(version: int, tmp_path: Path) -> None:
    make_version(version, str(tmp_path / "old.db"))
    tables = []
    for name in ("old.db", "new.db"):
        database = Database(str(tmp_path / name), create=True)
        with database.connect() as connection:
            inspector = sa.inspect(connection)
            tables.append(
                {
                    table: (
                        {column["name"]: str(column["type"]) for column in inspector.get_columns(table)},
                        {index["name"] for index in inspector.get_indexes(table)},
                        inspector.get_pk_constraint(table)["constrained_columns"],
                    )
                    for table in inspector.get_table_names()
                }
            )
        database.close()
    assert tables[0] == tables[1]


@pytest.mark.parametrize("order", ["sometimes", "", None, 1])
def test_an_order_that_is_none(order: object) -> None:
    with pytest.raises(ba.InvalidInput, match=r"order = .*: must be one of 'issue' or 'arrival'"):
        ba.Plan.from_data(PLAN | {"order": order})
