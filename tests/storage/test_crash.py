"""Nothing acknowledged is lost: processes killed at random moments, disks that fill up, servers that stop."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.lengths import lengths
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer, StopMode
from tests.torture import disks, workers
from tests.torture.workers import DELTA, measure, problem

import bestarm as ba
from bestarm.storage.errors import StorageError


@pytest.mark.torture
@pytest.mark.parametrize("kills", lengths(4, 40))
def test_killed_processes_lose_nothing(database_url: str, tmp_path: Path, kills: int) -> None:
    found = workers.run(database_url, tmp_path / "acknowledged", kills, patience=PATIENCE)
    assert found.wrong == []
    assert found.killed >= kills
    assert found.finished >= found.studies
    assert found.acknowledged > 10 * found.studies


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """A limit on the size of files stands for a quota."""
    assert disks.run("limit", tmp_path, PATIENCE) == []


def test_a_disk_that_is_full(tmp_path: Path) -> None:
    """On a file system of 16 MB, mounted where only the child sees it, and nearly filled by something else."""
    if not disks.can_mount(tmp_path):
        pytest.skip("this machine does not let us mount a small file system")
    assert disks.run("full", tmp_path, PATIENCE) == []


# ------------------------------------------------------------------------------------- servers that stop


@pytest.fixture(scope="module")
def own_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """One to stop and start: a server with few databases, which recovers soon."""
    server = PostgresServer(postgres_server.programs)
    yield server
    server.close()


@pytest.mark.parametrize(
    ("mode", "times"),
    [*lengths(("immediate", 2), ("immediate", 4)), pytest.param("fast", 4, marks=pytest.mark.torture)],
)
def test_a_server_that_stops_and_starts(own_server: PostgresServer, mode: StopMode, times: int) -> None:
    """The same objects go on, in mid-ask and mid-tell, and nothing acknowledged is lost."""
    url = own_server.new_database()
    study = ba.Study.create(problem(), delta=DELTA, policy="certify", storage=url)
    told: dict[int, float] = {}
    stops = 0
    while not study.done:
        tests = study.ask(5, lease=0.001)
        if stops < times and len(told) > 20 * stops:
            stops += 1
            own_server.stop(mode)
            attempts: list[Callable[[], object]] = [
                functools.partial(study.tell, tests[0], measure(study.name, tests[0])),
                functools.partial(study.tell_many, [(tests[0], 0.0)]),
                lambda: study.ask(1),
                lambda: study.done,
                lambda: ba.Study.open(study.name, storage=url),
            ]
            for attempt in attempts:
                with pytest.raises(StorageError) as caught:
                    attempt()
                assert "the database server" in str(caught.value)
                assert "\n" not in str(caught.value)
                assert "only-for-tests" not in str(caught.value)
            own_server.start()
        for test in tests:
            told[test.id] = measure(study.name, test)
            study.tell(test, told[test.id])
    assert stops == times
    assert study.answer is not None
    assert study.answer.arm == "safe"
    fresh = ba.Study.open(study.name, storage=url)
    for number, value in told.items():
        found = fresh.storage.test(fresh.record.key, number)
        assert found is not None
        assert found[1] is not None
        assert found[1].value == value
    study.storage.close()
    fresh.storage.close()


def test_a_server_that_stops_within_a_transaction(own_server: PostgresServer) -> None:
    """An ask that was cut off leaves no trace."""
    url = own_server.new_database()
    study = ba.Study.create(problem(), delta=DELTA, storage=url)
    storage, key = study.storage, study.record.key

    def plan(count: int) -> list[list[tuple[int, int]]]:
        own_server.stop("immediate")
        return [[(0, 0)]]

    with pytest.raises(StorageError, match=r"the database server (stopped|cannot be reached)"):
        storage.hand_out(key, 1, "ann", 100.0, 0, plan)
    own_server.start()
    assert storage.issued(key) == 0
    assert [test.id for test in study.ask(2)] == [1, 2]
    storage.close()
