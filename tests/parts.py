"""Parts that a machine may lack and `make test` does without: servers, a browser, packages that `.[dev]` leaves out.

A test that needs one has the mark `parts` with its name. `make parts` runs such tests. Where a part is missing they
skip with a reason, and fail if `BESTARM_REQUIRE` lists it.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.tools.nginx import find_nginx
from tests.tools.postgres import find_postgres

PARTS = "parts"

FIXTURES = {
    "postgres_server": "postgresql",
    "browser": "chromium",
    "dask_cluster": "distributed",
    "on_simulator": "numba_cuda",
    "optuna": "optuna",
    "ax": "ax",
    "inspect_ai": "inspect_ai",
    "tracking": "mlflow",
}
"""Who uses such a fixture needs the part: the mark is given when tests are collected."""

_of_this_test: set[str] = set()


def mark(item: pytest.Item) -> None:
    """Give the test the marks of the fixtures that it uses, and of its database."""
    for fixture in FIXTURES.keys() & set(getattr(item, "fixturenames", ())):
        item.add_marker(pytest.mark.parts(FIXTURES[fixture]))
    call = getattr(item, "callspec", None)
    if call is not None and call.params.get("database_url") == "postgresql":
        item.add_marker(pytest.mark.parts("postgresql"))


def begin(item: pytest.Item) -> None:
    """The test is about to run: skip it if it lacks a part."""
    _of_this_test.clear()
    _of_this_test.update(part for marker in item.iter_markers(PARTS) for part in marker.args)
    for part in sorted(_of_this_test):
        _look_for(part)


def claim(part: str) -> None:
    """Fail the test that is running unless it is marked as one that needs the part."""
    if part not in _of_this_test:
        pytest.fail(f'this test needs pytest.mark.parts("{part}")')


def missing(part: str, what: str) -> None:
    """Skip the test, unless `BESTARM_REQUIRE` lists the part that it needs."""
    if part in os.environ.get("BESTARM_REQUIRE", "").split(","):
        pytest.fail(f"{what} is required here and not installed")
    pytest.skip(f"{what} is not installed")


def find_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def find_client_generator() -> str | None:
    """openapi-python-client. It wants releases of packages that bestarm does not, so it has an environment of its own;
    a link to it lies beside Python, or it is on the path."""
    beside = str(Path(sys.executable).parent)
    return shutil.which("openapi-python-client", path=os.pathsep.join([beside, os.environ.get("PATH", "")]))


def find_program(name: str) -> str | None:
    """A program on the path, or one that a package has put beside Python."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def postgres_programs() -> Path:
    programs = find_postgres()
    assert programs is not None
    return programs


def _look_for(part: str) -> None:
    if part == "postgresql":
        if find_postgres() is None:
            missing(part, "the PostgreSQL server")
        _look_for_package("psycopg", part)
    elif part == "chromium":
        if find_chromium() is None:
            missing(part, "Chromium")
        _look_for_package("playwright", part)
    elif part == "openapi-python-client":
        if find_client_generator() is None:
            missing(part, part)
    elif part == "nginx":
        if find_nginx() is None:
            missing(part, "nginx")
    elif part == "nvvm":
        _look_for_nvvm()
    elif find_program(part) is None:
        _look_for_package(part, part)


def _look_for_package(package: str, part: str) -> None:
    if importlib.util.find_spec(package) is None:
        missing(part, package)


def _look_for_nvvm() -> None:
    """NVIDIA's compiler, where numba-cuda looks for it: pip's, conda's or the system's."""
    _look_for_package("cuda", "nvvm")
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib

    try:
        for library in ("nvvm", "nvrtc"):
            load_nvidia_dynamic_lib(library)
    except DynamicLibNotFoundError:
        missing("nvvm", "NVIDIA's compiler (nvidia-nvvm, nvidia-cuda-nvrtc)")
