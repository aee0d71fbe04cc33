"""Servers that fall silent without hanging up: no call waits forever, and long work may take long.

Limits are given short in the URL; that they are kept is asserted with ceilings so high that only what hangs exceeds
them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer
from tests.tools.proxy import Proxy

import bestarm as ba
from bestarm.storage.address import read_address
from bestarm.storage.errors import OutcomeUnknown, StorageError
from bestarm.storage.opening import open_storage
from bestarm.storage.sql.storage import SQLStorage

psycopg: Any = pytest.importorskip("psycopg")

PROBLEM = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
SHORT = "?answer_timeout=1&connect_timeout=2"
TELLING = b"INSERT INTO bestarm_outcomes"


@pytest.fixture
def proxy(postgres_server: PostgresServer) -> Iterator[Proxy]:
    with Proxy(postgres_server.port) as proxy:
        yield proxy


@pytest.fixture
def address(postgres_server: PostgresServer) -> str:
    return postgres_server.new_database()


@pytest.fixture
def study(proxy: Proxy, address: str) -> Iterator[ba.Study]:
    url = address.rpartition("@")[0] + f"@127.0.0.1:{proxy.port}/{address.rpartition('/')[2]}{SHORT}"
    made = ba.Study.create(PROBLEM, name="mine", storage=url)
    yield made
    made.storage.close()


def within_patience(act: Callable[[], object]) -> BaseException | None:
    """What it raises, if it ends at all."""
    raised: list[BaseException | None] = []

    def run() -> None:
        try:
            act()
        except BaseException as error:
            raised.append(error)
        else:
            raised.append(None)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert raised, "it hangs"
    return raised[0]


def told(address: str) -> list[float]:
    with psycopg.connect(address) as connection:
        return [row[0] for row in connection.execute("SELECT value FROM bestarm_outcomes ORDER BY test")]


def test_nobody_waits_for_a_silent_server(study: ba.Study, proxy: Proxy, address: str) -> None:
    first, second = study.ask(2)
    proxy.silence()
    for act in (lambda: study.tell(first, 1.0), study.status, lambda: study.add([("a", "gain", 1.0)])):
        error = within_patience(act)
        assert isinstance(error, StorageError)
        # The server was never told, so it is certain that nothing was recorded.
        assert not isinstance(error, OutcomeUnknown)
        assert "does not answer" in str(error)
    error = within_patience(lambda: open_storage(study.storage._database.engine.url.render_as_string(False)))  # type: ignore[attr-defined]
    assert "does not answer" in str(error)
    proxy.resume()
    study.tell(first, 1.0)
    study.tell(second, 2.0)
    assert told(address) == [1.0, 2.0]


@pytest.mark.parametrize("words", [TELLING, b"COMMIT"])
def test_a_line_that_falls_silent_at_the_deed(words: bytes, study: ba.Study, proxy: Proxy, address: str) -> None:
    """Only that line is lost: another one finds what was done."""
    [test] = study.ask(1)
    happened = proxy.silence_after(words)
    act = (lambda: study.tell(test, 3.0)) if words is TELLING else (lambda: study.add([("b", "gain", 3.0)]))
    assert within_patience(act) is None
    assert happened.is_set()
    assert told(address) == [3.0]


def test_all_falls_silent_at_the_deed(study: ba.Study, proxy: Proxy, address: str) -> None:
    happened = proxy.silence_after(b"COMMIT")

    def watch() -> None:
        happened.wait(PATIENCE)
        proxy.silence()

    threading.Thread(target=watch, daemon=True).start()
    error = within_patience(lambda: study.add([("a", "gain", 3.0)]))
    assert isinstance(error, OutcomeUnknown)
    assert "fell silent before it answered; whether this was recorded is not known; repeat it with key=" in str(error)
    assert told(address) == [3.0]
    proxy.resume()
    assert study.add([("a", "gain", 3.0)], key=error.key) == [1]
    assert told(address) == [3.0]


def test_who_takes_long_is_waited_for(study: ba.Study, address: str) -> None:
    """A server that is at work, or makes us wait for another client, is not silent."""
    storage = study.storage
    assert isinstance(storage, SQLStorage)
    with storage._database.connect() as connection:
        # Three times the limit.
        assert connection.exec_driver_sql("SELECT 1 FROM pg_sleep(3)").scalar() == 1
    [test] = study.ask(1)
    blocker = psycopg.connect(address)
    blocker.execute("SELECT * FROM bestarm_studies FOR UPDATE")
    freed = threading.Timer(3.0, blocker.rollback)
    freed.start()
    study.tell(test, 1.0)
    freed.join()
    blocker.close()
    assert told(address) == [1.0]


def test_who_is_locked_out_for_long_is_told_so(study: ba.Study, address: str) -> None:
    storage = open_storage(address + "?options=-clock_timeout%3D1s")
    other = ba.Study.open("mine", storage=storage)
    with psycopg.connect(address) as blocker:
        blocker.execute("SELECT * FROM bestarm_studies FOR UPDATE")
        with pytest.raises(StorageError, match=r"another process has held the study for over .* nothing was changed"):
            other.add([("a", "gain", 1.0)])
    storage.close()
    assert told(address) == []


def test_who_is_gone_keeps_nobody_out(proxy: Proxy, study: ba.Study, address: str) -> None:
    """A program that falls silent in the middle of its work loses the lock that it holds."""
    url = address.rpartition("@")[0] + f"@127.0.0.1:{proxy.port}/{address.rpartition('/')[2]}"
    gone = open_storage(url + "?options=-cidle_in_transaction_session_timeout%3D1s")
    assert isinstance(gone, SQLStorage)
    here = ba.Study.open("mine", storage=address)

    def work_and_fall_silent() -> None:
        with gone._locked(study.record.key):
            proxy.silence()
            assert here.add([("a", "gain", 1.0)]) == [1]
            proxy.cut()

    with pytest.raises(StorageError):
        work_and_fall_silent()
    here.storage.close()
    gone.close()


@pytest.mark.parametrize("said", ["soon", "0", "-1", "nan", "inf", "1e9"])
def test_a_limit_that_is_none(said: str) -> None:
    with pytest.raises(ba.InvalidInput, match=r"answer_timeout = '.*': must be a number of seconds"):
        open_storage(f"postgresql://me@127.0.0.1:9/x?answer_timeout={said}")


def test_limits_of_the_url_count(address: str) -> None:
    from bestarm.storage.sql.postgres import ANSWER_SECONDS, connect_arguments, take_answer_limit

    plain = read_address(address)
    assert connect_arguments(plain)["connect_timeout"] == 10
    assert take_answer_limit(plain) == (plain, ANSWER_SECONDS)
    given = read_address(address + "?connect_timeout=3&keepalives_idle=7&answer_timeout=2.5")
    stripped, seconds = take_answer_limit(given)
    assert seconds == 2.5
    assert "answer_timeout" not in stripped.query
    assert not {"connect_timeout", "keepalives_idle"} & set(connect_arguments(stripped))
