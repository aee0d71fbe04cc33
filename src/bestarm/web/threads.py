"""The threads of the service: a few of each kind, so that slow work does not block quick requests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Literal, TypeVar

from starlette.requests import Request

T = TypeVar("T")

Kind = Literal["quick", "catching up", "slow", "files", "forecasts"]

_THREADS: dict[Kind, int] = {
    "quick": 8,  # questions to the database that take milliseconds
    "catching up": 2,  # reading long records, when a study is opened or something in its past was corrected
    "slow": 2,  # reports, logs and uploads
    "files": 2,  # exports
    "forecasts": 1,  # simulations, each of which can use a core for long
}
"""Together no more than the connections that the database's pool allows."""


class Gone(Exception):
    """The client has hung up."""


class Threads:
    """Runs work that must not block the event loop."""

    def __init__(self) -> None:
        self._pools = {kind: ThreadPoolExecutor(count, f"bestarm-{kind}") for kind, count in _THREADS.items()}

    def close(self) -> None:
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)

    def start(self, kind: Kind, act: Callable[[], None]) -> None:
        """Start something without waiting for its end."""
        self._pools[kind].submit(act)

    async def run(self, kind: Kind, act: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pools[kind], act)

    async def run_while_wanted(self, kind: Kind, request: Request, act: Callable[[Callable[[], bool]], T]) -> T:
        """Run something that may take long. `act` gets a function that says whether the client still waits.

        It need not have begun: if the client hangs up in the queue, it never does.
        """
        left = threading.Event()
        running: asyncio.Future[T] = asyncio.ensure_future(self.run(kind, lambda: act(lambda: not left.is_set())))
        return await unless_gone(request, running, left.set)


async def unless_gone(request: Request, running: asyncio.Future[T], when_left: Callable[[], None]) -> T:
    """The result of a future. If the client hangs up first, it is canceled and `Gone` is raised."""
    leaving = asyncio.ensure_future(_leaving(request))
    try:
        await asyncio.wait((running, leaving), return_when=asyncio.FIRST_COMPLETED)
    finally:
        leaving.cancel()
    if not running.done():
        when_left()
        running.cancel()
        raise Gone
    return running.result()


async def _leaving(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
