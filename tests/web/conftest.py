"""Services that many tests share; each makes a study of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.web.service import TOKEN, client_at, new_study

from bestarm.web.server import running


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("web")


@pytest.fixture(scope="session")
def service(folder: Path) -> Iterator[httpx.Client]:
    """One service for all tests that need nothing special; each makes a study of its own."""
    with running(str(folder / "studies.db")) as url, client_at(url) as client:
        yield client


@pytest.fixture
def study(service: httpx.Client, request: pytest.FixtureRequest) -> str:
    return new_study(service, request.node.name[:150])


@pytest.fixture(scope="session")
def guarded(folder: Path) -> Iterator[str]:
    with running(str(folder / "guarded.db"), token=TOKEN) as url:
        yield url
