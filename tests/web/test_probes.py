"""What those who run the service see of it while its database is there, gone, and back."""

from __future__ import annotations

import contextlib
import functools
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests import parts
from tests.tools.patience import PATIENCE, wait_until
from tests.tools.ports import reserve_port
from tests.tools.postgres import PostgresServer
from tests.tools.proxy import Proxy
from tests.web.service import client_at, new_study, refused

import bestarm as ba
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.web.database_health import open_when_ready
from bestarm.web.server import running


@pytest.fixture
def database() -> Iterator[PostgresServer]:
    """A server that this test alone stops and starts."""
    parts.claim("postgresql")
    server = PostgresServer(parts.postgres_programs())
    yield server
    server.close()


def samples(client: httpx.Client) -> dict[str, float]:
    """The metrics by name and labels, those that name the process with its name alone."""
    answer = client.get("/metrics")
    assert answer.status_code == 200, answer.text
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            is_of_process = "process" in sample.labels
            assert is_of_process != sample.name.startswith(("bestarm_studies", "bestarm_tests_pending"))
            labels = {name: value for name, value in sample.labels.items() if name != "process"}
            found[f"{sample.name} {' '.join(labels.values())}".strip()] = sample.value
    return found


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "bestarm.web.database"]


def test_probes_need_no_token_and_no_name(tmp_path: Path) -> None:
    with running(str(tmp_path / "x.db"), tokens=True, allowed_hosts=["lab.example"]) as url, client_at(url) as client:
        for path, status in (("/livez", "alive"), ("/readyz", "ready")):
            # As Kubernetes asks: under the address of the pod.
            answer = client.get(path, headers={"Host": "10.1.2.3:8000"})
            assert (answer.status_code, answer.json()) == (200, {"status": status})
            assert answer.headers["cache-control"] == "no-store"
        refused(client.get("/metrics", headers={"Host": "lab.example"}), 401, "Authorization: Bearer")


@pytest.mark.parts("postgresql")
def test_an_outage_of_the_database_is_seen_and_so_is_its_end(
    database: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING), running(database.url(), tokens=True) as url, client_at(url) as client:
        storage = open_storage(database.url())
        token, _ = storage.make_token("prometheus", "manage", None)
        storage.close()
        client.headers["Authorization"] = f"Bearer {token}"
        new_study(client, "here")
        assert client.get("/readyz").status_code == 200
        there = samples(client)
        assert (there["bestarm_database_up"], there["bestarm_studies archived"]) == (1.0, 0.0)
        assert lines(caplog) == []
        refused(client.get("/metrics", headers={"Authorization": "Bearer tried-before"}), 401, "Bearer")

        database.stop("immediate")
        refused(client.get("/api/studies"), 503, "database")
        wait_until(lambda: client.get("/readyz").status_code == 503)
        for _ in range(2):
            refused(client.get("/readyz"), 503, r"^the database server (cannot be reached|stopped)", "storage")
            assert client.get("/livez").status_code == 200
        # Whether a token is valid cannot be looked up now, even if it was not a moment ago.
        for unknown in ("made-meanwhile", "tried-before"):
            bearer = {"Authorization": f"Bearer {unknown}"}
            wait_until(functools.partial(lambda sent: client.get("/metrics", headers=sent).status_code == 503, bearer))
            refused(client.get("/metrics", headers=bearer), 503, "database")
        gone = samples(client)
        assert gone["bestarm_database_up"] == 0.0
        assert gone["bestarm_requests_total GET /api/studies 503"] >= 1
        assert not [name for name in gone if name.startswith("bestarm_studies")]

        database.start()
        # Nothing needs to be asked for the log to say so.
        wait_until(lambda: len(lines(caplog)) == 2)
        assert client.get("/readyz").json() == {"status": "ready"}
        assert samples(client)["bestarm_database_up"] == 1.0
        went, came = lines(caplog)
        assert went.startswith("the database cannot be used: the database server")
        assert came.startswith("the database can be used again, after ")
        assert "only-for-tests" not in caplog.text


@pytest.mark.parts("postgresql")
def test_a_silent_database_does_not_silence_the_probes(postgres_server: PostgresServer) -> None:
    address = postgres_server.new_database()
    with Proxy(postgres_server.port) as line:
        url = address.rpartition("@")[0] + f"@127.0.0.1:{line.port}/{address.rpartition('/')[2]}"
        with contextlib.closing(open_storage(address, create=True)) as storage:
            token, _ = storage.make_token("prometheus", "read")
        with running(url, tokens=True) as service, client_at(service) as client:
            client.headers["Authorization"] = f"Bearer {token}"
            assert client.get("/readyz").status_code == 200
            assert samples(client)["bestarm_database_up"] == 1.0
            line.silence()
            wait_until(lambda: client.get("/readyz").status_code == 503)
            refused(client.get("/readyz"), 503, "the database has not answered within 3 s")
            assert samples(client)["bestarm_database_up"] == 0.0
            assert client.get("/livez").status_code == 200
            # So that the service can end.
            line.cut()


@pytest.mark.parts("postgresql")
def test_tables_of_another_version_are_not_ready(postgres_server: PostgresServer) -> None:
    import psycopg

    def says(reason: str) -> bool:
        return reason in client.get("/readyz").text

    database = postgres_server.new_database()
    with running(database) as url, client_at(url) as client:
        assert client.get("/readyz").status_code == 200
        for version, reason in (("version - 1", "earlier bestarm"), ("version + 2", "newer bestarm")):
            with psycopg.connect(database, autocommit=True) as connection:
                connection.execute(f"UPDATE bestarm_schema SET version = {version}".encode())
            # What was found out a moment ago still holds.
            wait_until(functools.partial(says, reason))
            refused(client.get("/readyz"), 503, f"^storage: was made by an? {reason}")


@pytest.mark.parts("postgresql")
def test_the_program_waits_for_its_database(database: PostgresServer) -> None:
    database.stop("fast")
    with pytest.raises(StorageError, match="cannot be reached"):
        open_when_ready(database.url(), 0.0)
    pauses: list[float] = []
    with pytest.raises(StorageError, match="cannot be reached"):
        open_when_ready(database.url(), 0.01, sleep=pauses.append)
    assert all(0 <= pause <= 0.01 for pause in pauses)
    with reserve_port() as port:
        number = port.getsockname()[1]
        command = [sys.executable, "-m", "bestarm", "serve", "--db", database.url(), "--port", str(number)]
        serving = subprocess.Popen([*command, "--wait-for-db", "inf"], stderr=subprocess.PIPE, text=True)
        try:
            assert serving.stderr is not None
            assert serving.stderr.readline().startswith("waiting for the database: ")
            database.start()
            assert serving.stderr.readline().startswith("the database can be used, after ")
            assert serving.stderr.readline().startswith("bestarm is serving http://127.0.0.1:")
            assert httpx.get(f"http://127.0.0.1:{number}/readyz", timeout=PATIENCE).status_code == 200
        finally:
            serving.terminate()
            serving.communicate(timeout=PATIENCE)


def test_what_cannot_be_waited_for_ends_at_once(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_text("no database, and none comes by waiting" * 100)
    with pytest.raises(ba.InvalidInput, match="is not a bestarm database"):
        open_when_ready(str(tmp_path / "x.db"), float("inf"))
    for seconds in (-1.0, float("nan")):
        with pytest.raises(ba.InvalidInput, match=r"^wait-for-db = .*: must be a number of seconds"):
            open_when_ready(str(tmp_path / "y.db"), seconds)
