"""Parts that a machine may lack: tests that need one skip where it is missing, and fail where it is required."""

from __future__ import annotations

import functools
import importlib.util
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from hypothesis import HealthCheck, settings

from bestarm.testing.patience import wait_until
from bestarm.testing.postgres import PostgresServer, find_postgres
from tests.lengths import TORTURE

# Started in the background by a shell, this process and its children would ignore the Ctrl-C that some tests send.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Typer makes all commands anew whenever the program is called, which takes longer than most of what is tested of them.
typer.main.get_command = functools.cache(typer.main.get_command)

# How long an example takes says how busy the machine is, and nothing about what is tested.
settings.register_profile("bestarm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(TORTURE, settings.get_profile("bestarm"), derandomize=False, print_blob=True)


def pytest_configure(config: pytest.Config) -> None:
    # Before any test is imported: how many examples there are is settled there.
    settings.load_profile(TORTURE if config.option.markexpr == TORTURE else "bestarm")


def _missing(part: str, what: str) -> None:
    """Skip the test, unless `BESTARM_REQUIRE` lists the part that it needs."""
    if part in os.environ.get("BESTARM_REQUIRE", "").split(","):
        pytest.fail(f"{what} is required here and not installed")
    pytest.skip(f"{what} is not installed")


@pytest.fixture(scope="session")
def missing() -> Callable[[str, str], None]:
    """Call it with the part's name in `BESTARM_REQUIRE`, and what to call it, when it is not there."""
    return _missing


@pytest.fixture
def needs() -> Callable[[str], None]:
    """Call it with the name of a package that the test needs, "nvvm" for NVIDIA's compiler, or "postgresql" for a
    server to start."""

    def check(part: str) -> None:
        if part == "postgresql":
            _postgres()
        elif part == "nvvm":
            _nvvm()
        elif importlib.util.find_spec(part) is None:
            _missing(part, part)

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


def _nvvm() -> None:
    """NVIDIA's compiler, where numba-cuda looks for it: pip's, conda's or the system's."""
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        for library in ("nvvm", "nvrtc"):
            load_nvidia_dynamic_lib(library)
    except DynamicLibNotFoundError:
        _missing("nvvm", "NVIDIA's compiler (nvidia-nvvm, nvidia-cuda-nvrtc)")


def _postgres() -> Path:
    """Where the server's programs are; the test is skipped if they, or the driver, are not there."""
    programs = find_postgres()
    if programs is None:
        _missing("postgresql", "the PostgreSQL server")
    if importlib.util.find_spec("psycopg") is None:
        _missing("postgresql", "psycopg")
    assert programs is not None
    return programs


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """A PostgreSQL server of this test run's own. It waits for no disk, and loses nothing unless the machine stops."""
    server = PostgresServer(_postgres(), {"fsync": "off", "full_page_writes": "off", "autovacuum": "off"})
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty database on each kind of server, for one test."""
    if request.param == "sqlite":
        return str(tmp_path / "studies.db")
    server: PostgresServer = request.getfixturevalue("postgres_server")
    return server.new_database()
