"""All studies at once: backup and restore over HTTP, whole or not at all, and the audit."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.tools.patience import PATIENCE
from tests.web.service import FILE, client_at, new_study, refused, tell

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.opening import open_storage
from bestarm.study.files.backup import restore_backup, write_backup_of_all
from bestarm.web.limits import Limits
from bestarm.web.server import running


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    """A service with two studies, which have results."""
    with running(str(tmp_path_factory.mktemp("here") / "here.db")) as url, client_at(url) as client:
        for study in [new_study(client, name) for name in ("one", "two")]:
            client.post(f"{study}/ask", json={"n": 3})
            tell(client, study, (1, 0.5), (2, 1.0))
        yield client


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[httpx.Client]:
    """Another service, which takes little."""
    limits = Limits(backup_body=100_000, body_seconds=0.5)
    with running(str(tmp_path / "elsewhere.db"), limits=limits) as url, client_at(url) as client:
        yield client


def names(service: httpx.Client) -> list[str]:
    return [row["name"] for row in service.get("/api/studies?archived=true").json()]


def restore(service: httpx.Client, content: Any, **query: str) -> httpx.Response:
    return service.post("/api/backup", content=content, headers=FILE, params=query)


def test_all_studies_go_to_another_service(here: httpx.Client, elsewhere: httpx.Client) -> None:
    saved = here.get("/api/backup")
    assert saved.headers["content-disposition"] == 'attachment; filename="studies.backup"'
    answer = restore(elsewhere, saved.content)
    assert answer.status_code == 200, answer.text
    assert [one["name"] for one in answer.json()["studies"]] == ["one", "two"]
    assert elsewhere.get("/api/backup").content == saved.content
    # A repeat, as after a lost connection, changes nothing.
    assert restore(elsewhere, saved.content).json() == {"studies": [], "there": ["one", "two"], "differ": []}
    one, two = "/api/studies/1", "/api/studies/2"
    for study in (one, two):
        assert elsewhere.get(f"{study}/log?last=100").json() == here.get(f"{study}/log?last=100").json()
    assert tell(elsewhere, one, (3, 0.25)).status_code == 200
    assert restore(elsewhere, saved.content).json()["differ"] == ["one"]
    # One study alone, under its name and under another.
    alone = here.get(f"{two}/backup").content
    refused(restore(elsewhere, alone), 409, "a study of this name exists already in this service")
    assert restore(elsewhere, alone, name="due").json()["studies"][0]["name"] == "due"
    refused(restore(elsewhere, saved.content, name="x"), 422, "is for the file of one study", "name")
    assert names(elsewhere) == ["due", "two", "one"]
    # Whoever restored them is in the audit, after what is said to have been done before.
    lines = [json.loads(line) for line in elsewhere.get("/api/audit").text.splitlines()]
    imported = [(line["study"], line["who"]) for line in lines if line["kind"] == "study imported"]
    assert imported == [(name, "somebody@127.0.0.1") for name in ("one", "two", "due")]
    assert [line["tests"] for line in lines if line["study"] == "one" and line["kind"] == "told"] == [[1, 2], [3]]


def test_what_is_not_whole_too_large_or_too_slow_leaves_nothing(here: httpx.Client, elsewhere: httpx.Client) -> None:
    whole = here.get("/api/backup").content
    for bad, status, said in (
        (b"", 422, "the file: is empty"),
        (whole[: len(whole) // 2], 422, "the file: is not complete"),
        (whole.replace(b"0.5", b"0.6"), 422, "the file: is damaged"),
        (b"x" * 100_001, 413, "at most 100,000 bytes"),
    ):
        refused(restore(elsewhere, bad), status, said)
    pieces = (b"x" * 1000 for _ in range(101))
    refused(restore(elsewhere, pieces), 413, "at most 100,000 bytes")

    def slowly() -> Iterator[bytes]:
        yield whole[:100]
        threading.Event().wait(2.0)
        yield whole[100:]

    # The service may have hung up before it is asked what it says.
    with contextlib.suppress(httpx.RequestError):
        refused(restore(elsewhere, slowly()), 408, "did not arrive within 0.5 s")

    def breaks_off() -> Iterator[bytes]:
        yield whole[:-10]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        restore(elsewhere, breaks_off())
    assert names(elsewhere) == []
    assert restore(elsewhere, whole).status_code == 200


@pytest.mark.parametrize("most", [1, 2])
def test_one_backup_is_restored_at_a_time(
    here: httpx.Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    whole = here.get("/api/backup").content
    begun, go_on, done = threading.Event(), threading.Event(), restore_backup
    under_way = 0

    def slowly(*arguments: Any, **named: Any) -> Any:
        nonlocal under_way
        under_way += 1
        assert under_way == 1
        begun.set()
        assert go_on.wait(PATIENCE)
        restored = done(*arguments, **named)
        under_way -= 1
        return restored

    monkeypatch.setattr("bestarm.web.wholesale.restore_backup", slowly)
    monkeypatch.setattr("bestarm.web.wholesale._MOST_UPLOADS", most)
    with running(str(tmp_path / "x.db")) as url, client_at(url) as client:
        answers: list[httpx.Response] = []
        senders = [threading.Thread(target=lambda: answers.append(restore(client, whole))) for _ in range(most)]
        for sender in senders:
            sender.start()
        assert begun.wait(PATIENCE)
        if most == 1:
            refused(restore(client, whole), 503, "other backups are being restored")
        # Others can work meanwhile.
        assert client.post(f"{new_study(client, 'other')}/ask", json={}).json()["tests"]
        go_on.set()
        for sender in senders:
            sender.join()
        assert [answer.status_code for answer in answers] == [200] * most
        assert sorted(len(answer.json()["there"]) for answer in answers) == [0, 2][:most]
        assert names(client) == ["two", "one", "other"]


def test_the_client_moves_whole_databases(tmp_path: Path) -> None:
    here = open_storage(tmp_path / "here.db", create=True)
    for name in ("one", "two"):
        plan = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli()), name=name)
        study = ba.Study.create(plan, storage=here)
        study.add([("a", "gain", k % 2) for k in range(5000)])
    token, _ = here.make_token("ann", "manage")
    expected = io.StringIO()
    write_backup_of_all(here, expected)
    file = io.BytesIO(b"what was in it")
    with (
        running(str(tmp_path / "here.db"), tokens=True) as url,
        running(str(tmp_path / "there.db")) as other,
        Client(url, token) as client,
        Client(other) as there,
    ):
        client.backup(file)
        assert file.getvalue() == expected.getvalue().encode()
        assert [one.name for one in there.restore(file).studies] == ["one", "two"]
        alone = io.BytesIO()
        client.backup(alone, "two")
        assert there.restore(alone, "due").studies[0].name == "due"
        assert there.open("due").status().tests == 5000
        assert client.audit() == here.audit_of_all()
        with pytest.raises(ba.InvalidInput, match="no such study"):
            client.backup(alone, "three")
    here.close()
