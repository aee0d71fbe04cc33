"""Connections that are cut, or fall silent: a repeat counts once, no call waits forever, and an unknown
outcome is reported as unknown."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.program import Ended, bestarm
from tests.tools.postgres import PostgresServer
from tests.tools.proxy import Proxy

import bestarm as ba
from bestarm.storage.errors import HandedOn, OutcomeUnknown, StorageError, StudyArchived

psycopg: Any = pytest.importorskip("psycopg")

PROBLEM = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))

TELLING = b"INSERT INTO bestarm_outcomes"


@pytest.fixture
def address(postgres_server: PostgresServer) -> str:
    """Of a new database, without anything in between."""
    return postgres_server.new_database()


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy


def through(proxy: Proxy, address: str, options: str = "") -> str:
    """The same database by way of the proxy."""
    head, _, tail = address.rpartition("@")
    return f"{head}@127.0.0.1:{proxy.port}/{tail.partition('/')[2]}{options}"


def values(address: str) -> list[float]:
    """What is recorded, as another program sees it."""
    with psycopg.connect(address) as connection:
        return [row[0] for row in connection.execute("SELECT value FROM bestarm_outcomes ORDER BY test, correction")]


def events(address: str, kind: str) -> int:
    with psycopg.connect(address) as connection:
        found = connection.execute("SELECT count(*) FROM bestarm_events WHERE kind = %s", [kind]).fetchone()
    assert found is not None
    return int(found[0])


# --------------------------------------------------------------------------------------- cut at the very commit


@pytest.fixture
def study(proxy: Proxy, address: str) -> Iterator[ba.Study]:
    made = ba.Study.create(PROBLEM, name="mine", storage=through(proxy, address))
    yield made
    made.storage.close()


def test_what_is_told_when_the_line_is_cut_counts_once(study: ba.Study, proxy: Proxy, address: str) -> None:
    first, second = study.ask(2)
    happened = proxy.cut_after(TELLING)
    study.tell(first, 1.0)
    assert happened.is_set()
    happened = proxy.cut_after(b"COMMIT")
    study.tell_many([(first, 1.0), (second, 2.0)])
    assert happened.is_set()
    assert values(address) == [1.0, 2.0]
    happened = proxy.cut_after(b"COMMIT")
    study.correct(second, 3.0, "typing")
    assert happened.is_set()
    assert values(address) == [1.0, 2.0, 3.0]


def test_what_is_added_when_the_line_is_cut_counts_once(study: ba.Study, proxy: Proxy, address: str) -> None:
    for source in ("", "a file"):
        happened = proxy.cut_after(b"COMMIT")
        ids = study.add([("a", "gain", 1.0), ("b", "gain", 1.0)], source=source)
        assert happened.is_set()
        assert len(ids) == 2
    # Before the commit nothing is recorded, and it is done again.
    happened = proxy.cut_before(b"COMMIT")
    assert study.add([("a", "gain", 5.0)]) == [5]
    assert happened.is_set()
    assert values(address) == [1.0] * 4 + [5.0]
    with pytest.raises(ba.InvalidInput, match="a file"):
        study.add([("a", "gain", 1.0)], source="a file")


def test_tests_asked_for_when_the_line_is_cut_are_found(study: ba.Study, proxy: Proxy) -> None:
    happened = proxy.cut_after(b"COMMIT")
    assert [test.id for test in study.ask(2)] == [1, 2]
    assert happened.is_set()
    assert [row.id for _, row in study.pending()] == [1, 2]
    assert study.storage.issued(study.record.key) == 2


def test_a_connection_that_the_server_ended_is_noticed_before_it_is_used(address: str) -> None:
    study = ba.Study.create(PROBLEM, name="mine", storage=address)
    with psycopg.connect(address, autocommit=True) as admin:
        ended = admin.execute(
            "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        ).fetchall()
    assert ended
    assert all(row[0] for row in ended)
    # This one only reads, and is not repeated.
    assert study.storage.count_pending(study.record.key) == 0
    study.storage.close()


def test_what_else_changes_is_done_once(study: ba.Study, proxy: Proxy, address: str) -> None:
    first, second = study.ask(2)
    acts: list[tuple[str, Callable[[], object]]] = [
        ("set aside", lambda: study.set_aside(first, "broke")),
        ("failed", lambda: study.fail(first, "power")),
        ("archived", study.archive),
        ("restored", lambda: study.archive(undo=True)),
    ]
    for kind, act in acts:
        happened = proxy.cut_after(b"COMMIT")
        act()
        assert happened.is_set(), kind
        assert events(address, kind) == 1, kind
    other = ba.Study.open("mine", storage=address, holder="boss")
    happened = proxy.cut_after(b"COMMIT")
    boss = ba.Study.open("mine", storage=study.storage, holder="boss")
    boss.release(second)
    assert happened.is_set()
    assert events(address, "released") == 1
    happened = proxy.cut_after(TELLING)
    study.abandon(first, "lost")
    assert happened.is_set()
    [told] = [event for event in other.log() if event.kind == "dropped"]
    assert told.detail == "lost"
    other.storage.close()


def test_a_study_made_when_the_line_is_cut_is_there_once(study: ba.Study, proxy: Proxy) -> None:
    happened = proxy.cut_after(b"COMMIT")
    made = ba.Study.create(PROBLEM, name="other", storage=study.storage)
    assert happened.is_set()
    assert [record.name for record in study.storage.studies()] == ["mine", "other"]
    with pytest.raises(ba.InvalidInput, match="exists already"):
        ba.Study.create(PROBLEM, name="other", storage=study.storage)
    assert made.record.key != study.record.key


def test_a_key_is_for_one_thing(study: ba.Study) -> None:
    assert study.add([("a", "gain", 1.0)], key="mine") == [1]
    assert study.add([("a", "gain", 1.0)], key="mine") == [1]
    assert study.add([("a", "gain", 1.0)]) == [2]
    with pytest.raises(ba.InvalidInput, match="key = 'mine': was used in this study for something else"):
        study.add([("a", "gain", 2.0)], key="mine")
    for wrong in ("", "x" * 201, "a\nb", 7):
        with pytest.raises(ba.InvalidInput, match="key = "):
            study.add([("a", "gain", 1.0)], key=wrong)  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------- nobody there to ask again


def test_who_cannot_know_says_so_and_how_to_repeat(study: ba.Study, proxy: Proxy, address: str) -> None:
    [test] = study.ask(1)
    proxy.cut_after(b"COMMIT", refuse=True)
    with pytest.raises(OutcomeUnknown, match=r"whether this was recorded is not known; repeat it with key='") as caught:
        study.add([("b", "gain", 4.0)])
    key = caught.value.key
    proxy.resume()
    assert values(address) == [4.0]
    assert study.add([("b", "gain", 4.0)], key=key) == [2]
    proxy.cut_after(TELLING, refuse=True)
    with pytest.raises(OutcomeUnknown, match="not known; it is safe to repeat: it counts once"):
        study.tell(test, 2.0)
    proxy.resume()
    study.tell(test, 2.0)
    assert values(address) == [2.0, 4.0]
    proxy.cut_after(b"COMMIT", refuse=True)
    with pytest.raises(OutcomeUnknown, match=r"asking again with key='.*' finds the tests"):
        study.ask(1)
    proxy.resume()
    # The study remembers the key by itself.
    assert [test.id for test in study.ask(1)] == [3]
    assert [row.id for _, row in study.pending()] == [3]
    # What never reached the server was not done, and that is said, too.
    proxy.cut(refuse=True)
    with pytest.raises(StorageError) as plain:
        study.tell(3, 1.0)
    assert not isinstance(plain.value, OutcomeUnknown)
    assert values(address) == [2.0, 4.0]
    proxy.resume()


def command(*words: str, stdin: str = "") -> Ended:
    return bestarm(*words, stdin=stdin.encode())


@pytest.mark.parametrize("how", ["names", "pipe"])
def test_a_command_is_repeated_with_its_key(how: str, study: ba.Study, proxy: Proxy, address: str) -> None:
    url = through(proxy, address)
    words = ["tell", "mine", "--db", url]
    words += ["--arm", "a", "--metric", "gain", "1"] if how == "names" else ["--csv", "-"]
    lines = "" if how == "names" else "arm,metric,value\na,gain,1\nb,gain,0\n"
    # Said twice, it is measured twice.
    for _ in range(2):
        assert command(*words, stdin=lines).code == 0
    once = len(values(address)) // 2
    happened = proxy.cut_after(b"COMMIT")
    assert command(*words, stdin=lines).code == 0
    assert happened.is_set()
    assert len(values(address)) == 3 * once
    proxy.cut_after(b"COMMIT", refuse=True)
    result = command(*words, stdin=lines)
    proxy.resume()
    assert result.code == 1
    assert "whether this was recorded is not known; repeat the command with --key " in result.err
    key = result.err.partition("--key ")[2].partition(",")[0]
    repeated = command(*words, "--key", key, stdin=lines)
    assert repeated.code == 0, repeated.err
    assert len(values(address)) == 4 * once


def test_errors_reach_other_processes_whole() -> None:
    for error in (
        OutcomeUnknown("lost").advised("repeat it", "k1"),
        StudyArchived("mine"),
        HandedOn(3, "bob"),
    ):
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_commands_take_keys(tmp_path: Path) -> None:
    path = str(tmp_path / "studies.db")
    ba.Study.create(PROBLEM, name="mine", storage=path).storage.close()
    asked = [command("ask", "mine", "-n", "1", "--key", key, "--json", "--db", path).out for key in ("k1", "k1", "k2")]
    assert asked[0] == asked[1] != asked[2]
    refused = command("tell", "mine", "1", "0.5", "--key", "k3", "--db", path)
    assert refused.code == 2
    assert "a test's number is key enough" in refused.err
    refused = command("tell", "mine", "--arm", "a", "--metric", "gain", "1", "--key", "", "--db", path)
    assert refused.code == 2
    assert "key = '': must be text of 1 to 200 printable characters" in refused.err
