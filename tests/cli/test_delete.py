"""`bestarm delete` and `bestarm prune`."""

from __future__ import annotations

import json
import os
import pty
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
from tests.program import bestarm
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.opening import open_storage
from bestarm.web.server import running

PLAN = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli()))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("cache", "other"):
        ba.Study.create(PLAN, name=name, storage=tmp_path / "bestarm.db").storage.close()
    assert bestarm("archive", "cache", cwd=tmp_path).code == 0
    return tmp_path


def names(folder: Path) -> list[str]:
    with closing(open_storage(folder / "bestarm.db")) as storage:
        return [record.name for record in storage.studies()]


def test_the_name_is_stated_once_more(folder: Path) -> None:
    for words, said in (
        (["cache"], "--confirm: must repeat the study's name"),
        (["cache", "--confirm", "Cache"], "--confirm = 'Cache': must be the name of the study, 'cache'"),
        (["other", "--confirm", "other"], "study = 'other': is not archived; put it away with `bestarm archive`"),
        (["third", "--confirm", "third"], "no such study"),
        (["cache", "--confirm", "cache", "--token", "x"], "--token: goes with --db http://…"),
    ):
        ended = bestarm("delete", *words, cwd=folder)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert names(folder) == ["cache", "other"]
    assert bestarm("delete", "cache", "--confirm", "cache", cwd=folder).out == "cache is deleted.\n"
    assert names(folder) == ["other"]
    with closing(open_storage(folder / "bestarm.db")) as storage:
        [act] = storage.acts()
    assert (act.subject, act.kind) == ("cache", "study deleted")


@pytest.mark.parametrize("typed", ["cache", "no"])
def test_a_person_is_asked(typed: str, folder: Path) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "bestarm", "delete", "cache"]
    with subprocess.Popen(command, cwd=folder, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"Type its name to delete it: " not in said:
            said += os.read(ours, 1000)
        os.write(ours, f"{typed}\n".encode())
        assert process.wait(PATIENCE) == (0 if typed == "cache" else 2)
        os.close(ours)
    assert names(folder) == (["other"] if typed == "cache" else ["cache", "other"])


def test_studies_archived_for_long(folder: Path) -> None:
    for name in ("old", "older"):
        ba.Study.create(PLAN, name=name, storage=folder / "bestarm.db").storage.close()
    with closing(sqlite3.connect(folder / "bestarm.db")) as file:
        for name, days in (("old", 100), ("older", 400)):
            file.execute("UPDATE bestarm_studies SET archived = ? WHERE name = ?", [time.time() - days * 86400, name])
        file.commit()
    listed = bestarm("prune", "--archived-for", "90", cwd=folder)
    assert "2 studies would be deleted; --apply does it." in listed.out
    assert len(names(folder)) == 4
    told = json.loads(bestarm("prune", "--archived-for", "365", "--apply", "--json", cwd=folder).out)
    assert (told["deleted"], [study["name"] for study in told["studies"]]) == (True, ["older"])
    assert names(folder) == ["cache", "other", "old"]
    assert "1 study deleted." in bestarm("prune", "--archived-for", "90", "--apply", cwd=folder).out
    assert bestarm("prune", "--archived-for", "90", "--apply", cwd=folder).out == "0 studies deleted.\n"
    for few in ("0", "nan", "-1", "1e9"):
        ended = bestarm("prune", f"--archived-for={few}", "--apply", cwd=folder)
        assert ended.code == 2, ended
    assert names(folder) == ["cache", "other"]


def test_what_one_may_not_delete_stays(folder: Path) -> None:
    database = folder / "bestarm.db"
    for name, project in (("ours", "lab-a"), ("theirs", "lab-b"), ("ours too", "lab-a")):
        ba.Study.create(PLAN, name=name, storage=database, project=project).storage.close()
    with closing(sqlite3.connect(database)) as file:
        file.execute("UPDATE bestarm_studies SET archived = 1 WHERE project != 'default'")
        file.commit()
    with closing(open_storage(database)) as storage:
        token, _ = storage.make_token("ann", "manage@lab-a, read@lab-b")
    with running(str(database), tokens=True) as url:
        ended = bestarm("prune", "--archived-for", "1", "--apply", "--db", url, "--token", token, cwd=folder)
    assert ended.code == 2, ended
    assert "2 studies deleted." in ended.out
    assert ended.err.startswith("theirs is not deleted: ")
    assert "needs the role manage in the project 'lab-b'" in ended.err
    assert names(folder) == ["cache", "other", "theirs"]


def test_over_http(folder: Path) -> None:
    with running(str(folder / "bestarm.db")) as url:
        there = ["--db", url]
        with Client(url) as client:
            study = client.open("cache")
            refused = bestarm("delete", "other", "--confirm", "other", *there)
            assert (refused.code, "is not archived" in refused.err) == (2, True), refused
            assert bestarm("delete", "cache", "--confirm", "cache", *there).out == "cache is deleted.\n"
            assert bestarm("delete", "cache", "--confirm", "cache", *there).code == 2
            with pytest.raises(ba.InvalidInput, match="no such study"):
                study.status()
            assert [line.name for line in client.studies(archived=True)] == ["other"]
            # Another process may delete a study that this one has open.
            other = client.open("other")
            assert other.status().tests == 0
            assert bestarm("archive", "other", cwd=folder).code == 0
            assert bestarm("delete", "other", "--confirm", "other", cwd=folder).code == 0
            with pytest.raises(ba.InvalidInput, match="is no longer in this service"):
                other.status()
