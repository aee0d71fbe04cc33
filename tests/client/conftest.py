"""Services that give scripted answers, and connections to them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from tests.client.scripted import Connect, Serve, Service
from tests.tools.patience import PATIENCE

from bestarm.client.connection import Connection


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Call it with the answers that a service gives."""
    with contextlib.ExitStack() as closing:

        def start(*answers: bytes) -> Service:
            service = Service(answers)
            closing.callback(service.close)
            return service

        yield start


@pytest.fixture
def connect() -> Iterator[Connect]:
    """Call it with the address of a service."""
    with contextlib.ExitStack() as closing:

        def made(url: str, token: str | None = None, timeout: float = PATIENCE) -> Connection:
            found = Connection(url, token, timeout)
            closing.callback(found.close)
            return found

        yield made


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client would have slept."""
    slept: list[float] = []
    monkeypatch.setattr("bestarm.client.connection.time.sleep", slept.append)
    return slept
