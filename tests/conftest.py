"""What all tests share: how long they are, the parts that some of them need, databases."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from tests import parts
from tests.lengths import TORTURE, long_ones_left_out, shorten
from tests.program import Ended, bestarm
from tests.study.problems import two_arms
from tests.tools.patience import wait_until
from tests.tools.postgres import PostgresServer

# Started in the background by a shell, this process and its children would ignore the Ctrl-C that some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Typer makes all commands anew whenever the program is called, which takes longer than most of what is tested of them.
typer.main.get_command = functools.cache(typer.main.get_command)

# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("bestarm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(TORTURE, settings.get_profile("bestarm"), derandomize=False, print_blob=True)


def _use_memory() -> None:
    """Put what tests write into memory, where that has room: databases wait for the disk at every commit, and no test
    could tell whether they did."""
    memory = Path("/dev/shm")
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK):
        return
    system = os.statvfs(memory)
    if system.f_bavail * system.f_frsize >= 4 * 2**30 and not system.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = tempfile.tempdir = str(memory)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("length")
    group.addoption("--one-in", type=int, default=1, help="of the long tests, run one in so many")
    group.addoption("--picked-by", default="", help="any text: another one picks others of the long tests")


def pytest_configure(config: pytest.Config) -> None:
    _use_memory()
    # Before any test is imported: how many examples there are is settled there.
    chosen = config.option.markexpr
    settings.load_profile(TORTURE if TORTURE in chosen and f"not {TORTURE}" not in chosen else "bestarm")


# Who has an address of a server, however it was started, has use for one.
_url = PostgresServer.url


def _claimed_url(self: PostgresServer, *name: str, **options: Any) -> str:
    parts.claim("postgresql")
    return _url(self, *name, **options)


PostgresServer.url = _claimed_url  # type: ignore[method-assign]


def pytest_itemcollected(item: pytest.Item) -> None:
    parts.mark(item)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    shorten(items)
    left_out = long_ones_left_out(items, config.option.one_in, config.option.picked_by)
    config.hook.pytest_deselected(items=[*left_out])
    items[:] = [item for item in items if item not in left_out]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    parts.begin(item)


@pytest.fixture(scope="session")
def missing() -> Callable[[str, str], None]:
    """Call it with the part's name in `BESTARM_REQUIRE`, and what to call it, when it is not there."""
    return parts.missing


@pytest.fixture
def needs() -> Callable[[str], None]:
    """Call it with the name of a package that the test needs and that `.[dev]` brings."""

    def check(package: str) -> None:
        if importlib.util.find_spec(package) is None:
            parts.missing(package, package)

    return check


@pytest.fixture
def until_written() -> Callable[[Path, int, subprocess.Popen[Any]], None]:
    """Call it with the file of a campaign's chunks, how many are enough, and the process that runs the campaign."""

    def wait(chunks: Path, enough: int, process: subprocess.Popen[Any]) -> None:
        def written() -> bool:
            assert process.poll() is None, "the campaign ended before it could be stopped"
            return chunks.exists() and chunks.read_bytes().count(b"\n") >= enough

        wait_until(written)

    return wait


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test run's own. It waits for no disk, and loses nothing unless the machine stops."""
    server = PostgresServer(parts.postgres_programs(), {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"})
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database on each kind of server, for one test."""
    if request.param == "sqlite":
        return str(tmp_path / "studies.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Ended]:
    """The program in a folder of its own, with a study of two arms."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "two.json").write_text(two_arms(name="two").to_json(), encoding="utf-8")

    def program(*words: str, stdin: bytes = b"") -> Ended:
        return bestarm(*words, stdin=stdin, BESTARM_DB="s.db", COLUMNS="200")

    assert program("new", "two.json").code == 0
    return program
