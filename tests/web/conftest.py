"""Services and a browser that many tests share; each test makes a study of its own."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import httpx
import pytest
from tests import parts
from tests.web.browser import DESK, Scheme, Server, Visit, Visitor
from tests.web.service import TOKEN, client_at, new_study

from bestarm.web.server import running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ViewportSize

# It is run with a package that a test makes.
collect_ignore = ["generated_client.py"]

# Every client, and every request without one, reads all certificates that this machine trusts. Nothing here needs them.
mock.patch("httpx._transports.default.create_ssl_context", functools.cache(httpx.create_ssl_context)).start()


_LOST_CLICKS = pytest.mark.flaky(reruns=1, only_rerun=["TimeoutError", "it never came true"])
"""On a busy machine, a click of the mouse may miss what moves under it. A test that waited in vain waits once more."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "visit" in getattr(item, "fixturenames", ()):
            item.add_marker(_LOST_CLICKS)


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
def server(folder: Path) -> Iterator[Server]:
    running = Server(folder / "dashboard.db")
    yield running
    running.close()


@contextlib.contextmanager
def _running_loop(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


@pytest.fixture(scope="session")
def browser() -> Iterator[tuple[Browser, asyncio.AbstractEventLoop | None]]:
    """Chromium, and the event loop that must run while it is used. In between it does not, as far as others can see:
    they have loops of their own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium refuses to run as root, as in most containers, unless its own sandbox is off.
        launched = playwright.chromium.launch(executable_path=parts.find_chromium(), args=["--no-sandbox"])
        loop = asyncio._get_running_loop()
        with _running_loop(None):
            yield launched, loop
        launched.close()


@pytest.fixture(scope="session")
def idle() -> list[Visitor]:
    """Whose page can be used again: in a new one, everything is loaded and compiled anew, which takes a second."""
    return []


@pytest.fixture
def visit(
    browser: tuple[Browser, asyncio.AbstractEventLoop | None],
    server: Server,
    idle: list[Visitor],
    request: pytest.FixtureRequest,
) -> Iterator[Visit]:
    parts.claim("chromium")
    chromium, loop = browser
    visitors: list[Visitor] = []

    def new(at: str | None = None, *, viewport: ViewportSize = DESK, scheme: Scheme = "light") -> Visitor:
        visitor = idle.pop() if at is None and idle else Visitor(chromium, at or server.url)
        visitors.append(visitor)
        visitor.page.set_viewport_size(viewport)
        visitor.page.emulate_media(color_scheme=scheme)
        return visitor

    with _running_loop(loop):
        failures = request.session.testsfailed
        yield new
        for visitor in visitors:
            if request.session.testsfailed > failures:
                print(visitor.account())
            if visitor.url == server.url:
                visitor.leave()
                idle.append(visitor)
            else:
                visitor.context.close()
