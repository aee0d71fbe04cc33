"""No client waits for another: while the service or the database works for one study, others go on."""

from __future__ import annotations

import contextlib
import http.client
import sqlite3
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from tests.lengths import lengths
from tests.tools.patience import PATIENCE, wait_until

import bestarm as ba
from bestarm.client import Client
from bestarm.client import client as client_module
from bestarm.storage.base import Rounds, Storage
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import database
from bestarm.study.files import exchange
from bestarm.study.forecast import continuations
from bestarm.study.record import checks, overview
from bestarm.study.study import Study, Test
from bestarm.study.work.workers import drive
from bestarm.web import downloads, shared
from bestarm.web.server import running

PROBLEM = ba.Problem(
    arms=["a", "b"],
    objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
    constraints=[ba.at_most("harm", 0.5, noise=ba.Gaussian(1.0))],
)


class Gate:
    """Something that goes on only when it is opened, and that can be seen to wait."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def pass_through(self) -> None:
        self.reached.set()
        assert self.opened.wait(PATIENCE)


@contextlib.contextmanager
def stuck(gate: Gate, *deeds: Callable[[], object]) -> Iterator[None]:
    """While the deeds are under way, and at least one of them waits at the gate."""
    threads = [threading.Thread(target=deed, daemon=True) for deed in deeds]
    for thread in threads:
        thread.start()
    try:
        assert gate.reached.wait(PATIENCE)
        yield
    finally:
        gate.opened.set()
        for thread in threads:
            thread.join(PATIENCE)


def go_on(study: Any) -> None:
    """Everything that a worker does."""
    for _ in range(10):
        [test] = study.ask(1)
        study.tell(test, 0.0)
    study.add([("a", "gain", 0.0)])
    assert study.status().tests > 10


# ----------------------------------------------------------------------------------------------- in one database


@pytest.fixture
def storage(database_url: str) -> Iterator[Storage]:
    with contextlib.closing(open_storage(database_url, create=True)) as opened:
        yield opened


def test_deciding_does_not_block_the_database(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, plan_rounds = Gate(), Study._plan_rounds

    def slowly(self: Study, count: int) -> Rounds:
        if self.name == "slow":
            gate.pass_through()
        return plan_rounds(self, count)

    slow = Study.create(PROBLEM, name="slow", storage=storage)
    results: list[int] = []
    monkeypatch.setattr(Study, "_plan_rounds", slowly)
    with stuck(gate, lambda: results.extend(test.id for test in slow.ask(2))):
        go_on(Study.create(PROBLEM, name="other", storage=storage))
        # The same study, from another process as it were: its results are recorded.
        Study.open("slow", storage=storage).add([("a", "gain", 0.0)] * 3)
    # What was decided before that is decided again, and comes after it.
    assert results == [4, 5]


@pytest.mark.parametrize("rounds", lengths(4, 15))
def test_decisions_of_many_end_in_one_order(storage: Storage, rounds: int) -> None:
    """Each decides outside the lock; no tests are lost, or issued twice."""
    Study.create(PROBLEM, name="x", storage=storage)
    told: list[int] = []
    lock = threading.Lock()

    def work() -> None:
        study = Study.open("x", storage=storage)
        for _ in range(rounds):
            for test in study.ask(3):
                study.tell(test, 0.0)
                with lock:
                    told.append(test.id)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    study = Study.open("x", storage=storage)
    issued = study.storage.issued(study.record.key)
    assert sorted(told) == list(range(1, issued + 1))
    assert study.status().tests == issued
    assert not study.pending()


def test_those_in_the_queue_of_a_file_that_another_process_holds_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.3)
    study = Study.create(PROBLEM, name="x", storage=tmp_path / "x.db")
    tests = study.ask(4)
    said: list[str] = []

    def tell(test: Test) -> None:
        try:
            study.tell(test, 0.0)
        except StorageError as error:
            said.append(str(error))

    with contextlib.closing(sqlite3.connect(tmp_path / "x.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        threads = [threading.Thread(target=tell, args=(test,)) for test in tests]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        other.execute("ROLLBACK")
    assert len(said) == 4
    assert all("another process has held the database" in words for words in said)
    for test in tests:
        study.tell(test, 0.0)


# ------------------------------------------------------------------------------------------------- in one service


def connect(url: str) -> Client:
    return Client(url, timeout=PATIENCE)


def test_a_long_record_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, sync = Gate(), shared.SharedStudy._sync
    monkeypatch.setattr(shared, "MOST_IN_PASSING", 100)

    def slowly(self: shared.SharedStudy) -> None:
        sync(self)
        if self.name == "long":
            gate.pass_through()

    for name in ("long", "other"):
        Study.create(PROBLEM, name=name, storage=tmp_path / "x.db").add([("a", "gain", 0.0)] * 500)
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        long, other = client.open("long"), client.open("other")
        monkeypatch.setattr(shared.SharedStudy, "_sync", slowly)
        long.correct(1, 0.5, "misread")
        # More of them than there are threads.
        with stuck(gate, *20 * [lambda: long.ask(1)], *5 * [lambda: long.done]):
            go_on(other)
            # Results of the long one are recorded as well, though nothing can be decided on them yet.
            long.add([("b", "gain", 0.0)])
        assert long.status().tests == 501


def test_long_exports_do_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, write = Gate(), exchange.write_csv

    def slowly(study: Any, out: Any) -> int:
        gate.pass_through()
        return write(study, out)

    monkeypatch.setattr(downloads, "write_csv", slowly)
    Study.create(PROBLEM, name="other", storage=tmp_path / "x.db").add([("a", "gain", 0.0)])
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        exported: list[str] = []

        def export() -> None:
            exported.append(httpx.get(f"{url}/api/studies/1/export", timeout=PATIENCE).text)

        with stuck(gate, *5 * [export]):
            go_on(client.open("other"))
            assert "harm" in httpx.get(f"{url}/api/studies/1/report", timeout=PATIENCE).text
            assert client.open("other").log(3)
        assert len(exported) == 5
        assert all(text.startswith("test,arm,metric") for text in exported)


def hang_up(url: str, path: str, gate: Gate) -> None:
    """Leave before the answer is there, and not before the service has begun with it."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
    connection.request("GET", path)
    assert gate.reached.wait(PATIENCE)
    connection.close()


def test_a_forecast_ends_when_its_client_hangs_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, ended, forecast = Gate(), threading.Event(), continuations.simulate_continuations

    def slowly(*arguments: Any, is_wanted: Callable[[], bool], **options: Any) -> Any:
        if not gate.reached.is_set():
            gate.reached.set()
            wait_until(lambda: not is_wanted())
            ended.set()
        return forecast(*arguments, is_wanted=is_wanted, **options)

    everything = [(arm, metric, 0.0) for arm in "ab" for metric in ("gain", "harm")]
    Study.create(PROBLEM, name="other", storage=tmp_path / "x.db").add(everything)
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        monkeypatch.setattr(overview, "simulate_continuations", slowly)
        hang_up(url, "/api/studies/1/forecast?runs=5", gate)
        assert ended.wait(PATIENCE)
        # The next one has the thread.
        assert client.open("other").forecast(runs=2) is not None


def test_an_unread_export_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, given_up = Gate(), threading.Event()

    def endlessly(study: Any, out: Any) -> int:
        gate.reached.set()
        try:
            while True:
                out.write("x" * 100_000)
        finally:
            given_up.set()

    monkeypatch.setattr(downloads, "write_csv", endlessly)
    Study.create(PROBLEM, name="other", storage=tmp_path / "x.db")
    with running(str(tmp_path / "x.db")) as url:
        hang_up(url, "/api/studies/1/export", gate)
        assert given_up.wait(PATIENCE)


def test_the_list_does_not_block_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, snapshot = Gate(), shared.SharedStudy.snapshot

    def slowly(self: shared.SharedStudy) -> Any:
        if self.name.startswith("small"):
            gate.pass_through()
        return snapshot(self)

    for k in range(30):
        Study.create(PROBLEM, name=f"small {k}", storage=tmp_path / "x.db")
    Study.create(PROBLEM, name="other", storage=tmp_path / "x.db").add([("a", "gain", 0.0)])
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        other = client.open("other")
        monkeypatch.setattr(shared.SharedStudy, "snapshot", slowly)
        with stuck(gate, *5 * [client.studies]):
            go_on(other)
            lines = client.studies()
            assert len(lines) == 31
            assert {line.name for line in lines if line.tests is not None} <= {"other"}
        wait_until(lambda: all(line.tests is not None for line in client.studies()))


# ------------------------------------------------------------------------------------------------------- in pages


def test_studies_come_in_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for k in range(7):
        Study.create(PROBLEM, name=f"study {k}", storage=tmp_path / "x.db")
    Study.open("study 3", storage=tmp_path / "x.db").archive()
    monkeypatch.setattr(client_module, "_PAGE", 2)
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        assert [line.name for line in client.studies()] == [f"study {k}" for k in (6, 5, 4, 2, 1, 0)]
        assert [line.name for line in client.studies(archived=True)] == [f"study {k}" for k in range(6, -1, -1)]

        def names(**query: Any) -> list[str]:
            found = httpx.get(f"{url}/api/studies", params=query, timeout=PATIENCE)
            assert found.status_code == 200, found.text
            return [row["name"] for row in found.json()]

        assert names(limit=2) == ["study 6", "study 5"]
        assert names(limit=2, before=7) == ["study 5", "study 4"]
        assert names(contains="Y 1") == ["study 1"]
        assert names(archived="only") == ["study 3"]
        assert names(archived="true", name="study 3") == ["study 3"]
        assert names(name="study 3") == []
        for query, field in (({"limit": 0}, "limit"), ({"before": "x"}, "before"), ({"archived": "2"}, "archived")):
            answer = httpx.get(f"{url}/api/studies", params=query, timeout=PATIENCE)
            assert (answer.status_code, answer.json()["error"]["field"]) == (422, field)


def test_pending_tests_come_in_pages(tmp_path: Path) -> None:
    study = Study.create(PROBLEM, name="x", storage=tmp_path / "x.db", holder="ann")
    study.add([(arm, metric, 0.0) for arm in "ab" for metric in ("gain", "harm")])
    study.ask(700)
    everything = study.pending()
    assert [test.id for test, _ in everything] == list(range(5, 705))
    assert study.pending(after=10, limit=2) == everything[6:8]
    with running(str(tmp_path / "x.db")) as url, connect(url) as client:
        there = client.open("x")
        assert [test.id for test, _ in there.pending()] == list(range(5, 705))
        assert [test.id for test, _ in there.pending(after=100, limit=3)] == [101, 102, 103]
        page = httpx.get(f"{url}/api/studies/1/pending", params={"limit": 10}, timeout=PATIENCE).json()
        assert [row["id"] for row in page] == list(range(5, 15))
        assert httpx.get(f"{url}/api/studies/1/pending", params={"limit": 10_001}, timeout=PATIENCE).status_code == 422


def test_all_tests_of_a_holder_are_released_under_a_key(tmp_path: Path) -> None:
    study = Study.create(PROBLEM, name="x", storage=tmp_path / "x.db", holder="ann")
    study.ask(3, days=1)
    with running(str(tmp_path / "x.db")) as url:

        def release(**body: Any) -> httpx.Response:
            key = {"Idempotency-Key": "k"}
            address = f"{url}/api/studies/1/release"
            return httpx.post(address, json=body | {"holder": "b"}, headers=key, timeout=PATIENCE)

        assert release(held_by="ann").json() == {"released": [1, 2, 3]}
        assert release(held_by="ann").json() == {"released": []}
        assert release(held_by="ann", tests=[1]).json()["error"]["field"] == "held_by"
        assert release(held_by="bob").status_code == 422, "a key is for one thing"


# ------------------------------------------------------------------------------------------------ how much is out


@pytest.mark.parametrize("database_url", lengths("sqlite", "postgresql"), indirect=True)
def test_more_workers_than_tests_can_be_out(storage: Storage) -> None:
    study = Study.create(PROBLEM, name="x", storage=storage)
    most, values = 0, {("a", "gain"): 9.0}

    def submit(test: Test, failures: int) -> Future[float]:
        done: Future[float] = Future()
        done.set_result(values.get((test.arm, test.metric), 0.0))
        return done

    def watch(study: Study, running: int) -> None:
        nonlocal most
        most = max(most, study.storage.count_pending(study.record.key))

    assert drive(study, submit, 5000, watch=watch).arm == "a"
    assert most <= checks.most_held(study.plan)


@pytest.fixture
def opened(request: pytest.FixtureRequest, database_url: str, storage: Storage) -> Iterator[Callable[[str], Any]]:
    """Opens a study under a holder's name."""
    Study.create(PROBLEM, name="x", storage=storage)
    if request.param == "here":
        yield lambda holder: Study.open("x", storage=storage, holder=holder)
    else:
        with running(database_url) as url, connect(url) as client:
            yield lambda holder: client.open("x", holder=holder)


_HERE = lengths(("here", "sqlite"), ("here", "postgresql"))
_THERE = lengths(("on a server", "sqlite"), ("on a server", "postgresql"))


@pytest.mark.parametrize(("opened", "database_url"), _HERE + _THERE, indirect=True)
def test_one_holder_has_only_so_many_tests(opened: Callable[[str], Any]) -> None:
    ann, bob = opened("ann"), opened("bob o'neil")
    ann.add([(arm, metric, 0.0) for arm in "ab" for metric in ("gain", "harm")])
    assert (most := checks.most_held(ann.plan)) == 1040
    assert len(ann.ask(10_000, days=30)) == most
    for _ in range(5):
        with pytest.raises(ba.InvalidInput, match=r"ann holds 1,040 tests .* at most 1,040 .*release x --held-by ann"):
            ann.ask(10_000, days=30)
    assert len(ann.pending()) == most
    # Others are not kept from working, and a result makes room for another test.
    assert len(bob.ask(2)) == 2
    ann.tell(ann.pending()[0][0], 0.0)
    assert len(ann.ask(5, days=30)) == 1
    with pytest.raises(ba.InvalidInput, match="ann holds"):
        ann.ask(1)
    freed = bob.release_held_by("ann")
    assert len(freed) == most
    assert bob.release_held_by("ann") == []
    assert len(bob.ask(3)) == 3
    # What was released is handed out before anything new is planned.
    assert ann.ask(1)[0].id in freed
