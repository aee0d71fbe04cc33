"""Whether the database can be used, for probes, metrics and the log; and waiting for it before the service starts."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from bestarm.storage.base import Storage
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.validation import InvalidInput
from bestarm.web.errors import refused

ANSWER_SECONDS = 3.0
"""How long a check may take. A database that is silent for longer cannot be used."""

FRESH_SECONDS = 1.0
"""How long the outcome of a check holds: probes cost the database no more than one question a second."""

_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 10.0

# A logger of its own, whose lines are never left out as repeats: each is about another outage.
_log = logging.getLogger("bestarm.web.database")


class DatabaseHealth:
    """Checks the database when someone asks, or when something failed, and goes on until it can be used again.

    The log has a line when it cannot be used any more, and one when it can.
    """

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        # Its own thread: those for requests may all be waiting for the database.
        self._thread = ThreadPoolExecutor(1, "bestarm-health")
        self._check: asyncio.Task[None] | None = None
        self._watch: asyncio.Task[None] | None = None
        self._checked = -math.inf
        self._lost = 0.0
        self._fault: str | None = None

    def close(self) -> None:
        for task in (self._check, self._watch):
            if task is not None:
                task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def fault(self) -> str | None:
        """Why the database cannot be used, in one sentence. None if it can."""
        if time.monotonic() - self._checked > FRESH_SECONDS:
            await self._look()
        return self._fault

    def suspect(self) -> None:
        """A request has met a database that could not be used: look whether that goes for all."""
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._follow())

    async def _follow(self) -> None:
        """Check until the database can be used."""
        pause = _FIRST_PAUSE
        await self._look()
        while self._fault is not None:
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            await self._look()

    async def _look(self) -> None:
        """Check, together with all who want to know at the same time."""
        if self._check is None or self._check.done():
            self._check = asyncio.get_running_loop().create_task(self._ask())
        done, _ = await asyncio.wait([self._check], timeout=ANSWER_SECONDS)
        for check in done:
            check.result()
        if not done:
            self._note(f"the database has not answered within {ANSWER_SECONDS:g} s")

    async def _ask(self) -> None:
        def ask() -> str | None:
            try:
                self._storage.check_tables()
                self._storage.newest(1)
            except StorageError as error:
                return refused(error, self._storage.url).reason
            except InvalidInput as error:
                return f"storage: {refused(error, self._storage.url).reason}"
            return None

        self._note(await asyncio.get_running_loop().run_in_executor(self._thread, ask))

    def _note(self, fault: str | None) -> None:
        before, self._fault, self._checked = self._fault, fault, time.monotonic()
        if fault is not None and before is None:
            self._lost = time.monotonic()
            _log.warning("the database cannot be used: %s", fault)
            self.suspect()
        elif fault is None and before is not None:
            _log.warning("the database can be used again, after %.1f s", time.monotonic() - self._lost)


def open_when_ready(storage_url: str, seconds: float, *, sleep: Callable[[float], None] = time.sleep) -> Storage:
    """Open the database, made if it is not there. If it is out of reach, try for so many seconds again."""
    if not seconds >= 0:
        raise InvalidInput("wait-for-db", seconds, "must be a number of seconds, 0 or more; inf waits without end")
    start, pause, said = time.monotonic(), _FIRST_PAUSE, False
    while True:
        try:
            storage = open_storage(storage_url, create=True)
        except StorageError as error:
            left = start + seconds - time.monotonic()
            if left <= 0:
                raise
            if not said:
                _log.warning("waiting for the database: %s", error)
            said = True
            sleep(min(pause, left))
            pause = min(2 * pause, _LONGEST_PAUSE)
        else:
            if said:
                _log.warning("the database can be used, after %.1f s", time.monotonic() - start)
            return storage
