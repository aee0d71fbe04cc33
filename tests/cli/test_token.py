"""Tokens from the command line."""

from __future__ import annotations

import json
from pathlib import Path

from tests.program import bestarm

from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import token_digest


def test_tokens_are_made_listed_and_revoked(tmp_path: Path) -> None:
    made = bestarm("token", "create", "bench 1", "--days", "30", cwd=tmp_path)
    assert made.code == 0, made.err
    # The token alone, for a file; all else is said beside it.
    [token] = made.out.splitlines()
    assert "with the role work until 20" in made.err
    assert "not shown again" in made.err
    assert token not in made.err
    other = json.loads(bestarm("token", "create", "ann", "--role", "manage", "--json", cwd=tmp_path).out)
    assert (other["role"], other["expires"], other["revoked"]) == ("manage", None, None)
    storage = open_storage(tmp_path / "bestarm.db")
    for found in (token, other["token"]):
        assert storage.find_token(token_digest(found)) is not None
    storage.close()
    gone = bestarm("token", "revoke", "bench 1", cwd=tmp_path)
    assert (gone.code, gone.out) == (0, "The token bench 1 is revoked.\n")
    listed = bestarm("token", "list", cwd=tmp_path)
    assert "revoked" in listed.out
    assert "valid" in listed.out
    rows = json.loads(bestarm("token", "list", "--json", cwd=tmp_path).out)
    assert [(row["name"], row["revoked"] is None) for row in rows] == [("bench 1", False), ("ann", True)]
    for shown in (listed.out, json.dumps(rows)):
        assert token not in shown
        assert other["token"] not in shown


def test_what_is_refused(tmp_path: Path) -> None:
    assert bestarm("token", "create", "ann", cwd=tmp_path).code == 0
    for words, said in (
        (["make", "ann"], "must be one of create, list, revoke"),
        (["create"], "needs the NAME"),
        (["list", "ann"], "leave out NAME"),
        (["revoke", "ann", "--days", "3"], "--days: goes with create"),
        (["create", "bob", "--role", "admin"], "role = 'admin': must be read, work or manage"),
        (["create", "bob", "--days", "0"], "days = 0.0: must be a number above 0"),
        (["create", "ann"], "there is a token of this name"),
        (["revoke", "bob"], "no such token"),
    ):
        ended = bestarm("token", *words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert "No tokens yet" in bestarm("token", "list", "--db", "x.db", cwd=_empty(tmp_path)).out


def _empty(folder: Path) -> Path:
    open_storage(folder / "x.db", create=True).close()
    return folder
