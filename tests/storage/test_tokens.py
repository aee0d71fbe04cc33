"""Tokens in a database: digests that tell a token again, and nothing from which to make one."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import sqlalchemy as sa

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.database import Database
from bestarm.storage.tokens import DAY, token_digest


def test_tokens_are_made_found_and_revoked(database_url: str) -> None:
    storage = open_storage(database_url, create=True)
    token, made = storage.make_token("ann", "work")
    other, short = storage.make_token("bench 1", "read", 2.0)
    assert token != other
    assert len(token) > 40
    assert (made.role, made.expires, made.revoked) == ("work", None, None)
    assert short.expires == pytest.approx(short.created + 2 * DAY)
    assert storage.tokens() == [made, short]
    found = storage.find_token(token_digest(token))
    assert found is not None
    assert found[0] == made
    assert made.fault(found[1]) == ""
    assert short.fault(short.created + 2 * DAY) == "has expired"
    assert storage.find_token(token_digest(token + "x")) is None
    gone = storage.revoke_token("ann")
    assert gone.fault(0.0) == "has been revoked"
    assert storage.revoke_token("ann") == gone == storage.tokens()[0]
    storage.close()


def test_the_database_does_not_hold_the_token(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    storage = open_storage(path, create=True)
    token, _ = storage.make_token("ann", "work")
    storage.close()
    held = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert token_digest(token).encode() in held
    assert token.encode() not in held
    assert token[8:24].encode() not in held


def test_what_cannot_be_a_token(database_url: str) -> None:
    storage = open_storage(database_url, create=True)
    storage.make_token("ann", "work")
    storage.make_token("bob", "work")
    storage.revoke_token("bob")
    for name, role, days, words in (
        ("ann", "read", None, "there is a token of this name"),
        ("bob", "read", None, "a revoked token had this name"),
        ("service", "read", None, "choose another"),
        ("", "read", None, "must be text of 1 to 100"),
        ("x" * 101, "read", None, "must be text of 1 to 100"),
        ("a\nb", "read", None, "must be text of 1 to 100"),
        ("eve", "admin", None, "role = 'admin': must be read, work or manage, or one of them with @PROJECT"),
        ("eve", "read, admin@lab", None, "role = 'admin': must be"),
        ("eve", "read@", None, "role = '': must be text of 1 to 100"),
        ("eve", "read@a@b", None, "role = 'a@b': must be text of 1 to 100"),
        ("eve", "", None, "role = '': must be"),
        ("eve", "read", 0.0, "above 0"),
        ("eve", "read", math.inf, "above 0"),
        ("eve", "read", math.nan, "above 0"),
    ):
        with pytest.raises(ba.InvalidInput, match=words):
            storage.make_token(name, role, days)
    with pytest.raises(ba.InvalidInput, match="no such token"):
        storage.revoke_token("eve")
    assert [token.name for token in storage.tokens()] == ["ann", "bob"]
    storage.close()


def test_a_database_of_version_3_gets_tokens(database_url: str) -> None:
    database = Database(database_url, create=True)
    with database.transaction() as connection:
        for table in (schema.tokens, schema.sessions, schema.acts):
            table.drop(connection)
        for column in ("items_seed", "project"):
            connection.exec_driver_sql(f"ALTER TABLE bestarm_studies DROP COLUMN {column}")
        connection.execute(sa.update(schema.schema).values(version=3))
    database.close()
    Database(database_url, upgrade="always").close()
    storage = open_storage(database_url)
    storage.make_token("ann", "work")
    assert [token.name for token in storage.tokens()] == ["ann"]
    storage.close()
