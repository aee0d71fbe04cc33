"""Services and a browser that many tests share; each test makes a study of its own."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.web.browser import Server, Visit, Visitor
from tests.web.service import TOKEN, client_at, new_study

from bestarm.web.server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser


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


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, missing: Callable[[str, str], None]) -> Iterator[Server]:
    if importlib.util.find_spec("uvicorn") is None:
        missing("chromium", "uvicorn")
    running = Server(tmp_path_factory.mktemp("dashboard") / "studies.db")
    yield running
    running.close()


@pytest.fixture(scope="module")
def browser(missing: Callable[[str, str], None]) -> Iterator[Browser]:
    """Not for the whole run: as long as there is one, no test in this process can run an event loop."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("chromium", "playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        missing("chromium", "Chromium")
    with sync_playwright() as playwright:
        # Chromium refuses to run as root, as in most containers, unless its own sandbox is off.
        launched = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture
def visit(browser: Browser, server: Server) -> Iterator[Visit]:
    visitors: list[Visitor] = []

    def new(at: Server = server, **options: Any) -> Visitor:
        visitors.append(Visitor(browser, at, **options))
        return visitors[-1]

    yield new
    for visitor in visitors:
        visitor.context.close()
