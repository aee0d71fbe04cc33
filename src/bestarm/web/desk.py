"""The studies of one database as a server process keeps them, and the threads that wait for the database.

The event loop never waits for the database. Threads are few, and no study and no slow request can take all of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from bestarm.plan import Plan
from bestarm.study.checks import check_can_be_decided, new_record
from bestarm.study.storage import NameTaken, Storage, StorageError, StudyRecord
from bestarm.validation import InvalidInput
from bestarm.web.problems import NotThere, Taken
from bestarm.web.pulse import Pulse
from bestarm.web.shared import SharedStudy, Snapshot, Version, list_row, version_of

T = TypeVar("T")

QUICK_THREADS = 10
SLOW_THREADS = 3
"""Together fewer than the connections that the database's pool allows."""

AT_ONCE = 5
"""Requests for one study that are worked on at once: waiting for its lock, they must not keep all threads."""

MOST_STUDIES = 200
"""Studies kept in memory; the others are read again when somebody wants them."""

LIST_PATIENCE = 1.0
"""Seconds after which the list of studies is returned without what is not yet computed."""


class _Flight:
    """Computes something for all who want it at the same time, and never hands out what was begun before they came."""

    def __init__(self, compute: Callable[[], Any]) -> None:
        self._compute = compute
        self._running: asyncio.Task[Any] | None = None
        self._next: asyncio.Task[Any] | None = None

    async def join(self) -> Any:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._running))
        return await asyncio.shield(self._next)

    @property
    def is_over(self) -> bool:
        return self._next is None and (self._running is None or self._running.done())

    async def _after(self, before: asyncio.Task[Any] | None) -> Any:
        if before is not None:
            await asyncio.wait([before])
        self._running, self._next = self._next, None
        return await self._compute()


class Desk:
    """Where the routes find studies and have them do things."""

    def __init__(self, storage: Storage, url: str) -> None:
        self.storage = storage
        self.pulse = Pulse(storage, url)
        # SQLite lets those wait who find it locked by sleeping and trying again; in a queue they lose no time.
        self.writing: contextlib.AbstractContextManager[Any] = (
            threading.Lock() if self.pulse.has_one_writer else contextlib.nullcontext()
        )
        self._studies: OrderedDict[int, SharedStudy] = OrderedDict()
        self._opening: dict[int, asyncio.Task[SharedStudy]] = {}
        self._turns: dict[int, asyncio.Semaphore] = {}
        self._flights: dict[tuple[int, str], _Flight] = {}
        self._rows: dict[int, tuple[Version, int, dict[str, Any]]] = {}
        self._computing: dict[int, asyncio.Task[Any]] = {}
        self._quick = ThreadPoolExecutor(QUICK_THREADS, "bestarm-quick")
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "bestarm-slow")
        self._forecaster = ThreadPoolExecutor(1, "bestarm-forecast")
        self.computed = 0
        """Grows with every line of the list of studies that came too late for those who asked for it."""

    def close(self) -> None:
        for pool in (self._quick, self._slow, self._forecaster):
            pool.shutdown(wait=False, cancel_futures=True)
        self.pulse.close()
        self.storage.close()

    # ----------------------------------------------------------------------------------------------- in threads

    async def do(self, act: Callable[[], T]) -> T:
        """Something with the database that does not concern one study."""
        return await asyncio.get_running_loop().run_in_executor(self._quick, act)

    async def do_slowly(self, act: Callable[[], T]) -> T:
        """Something that may take seconds."""
        return await asyncio.get_running_loop().run_in_executor(self._slow, act)

    def start_slowly(self, act: Callable[[], None]) -> None:
        """Something that may take seconds, of which nobody waits for the end."""
        self._slow.submit(act)

    async def forecast(self, act: Callable[[], T]) -> T:
        """A simulation; one at a time, for each can use a core for long."""
        return await asyncio.get_running_loop().run_in_executor(self._forecaster, act)

    async def with_study(self, key: int, act: Callable[[SharedStudy], T], *, slowly: bool = False) -> T:
        """Something with a study; `slowly` if it may take seconds."""
        study = await self.study(key)
        if slowly:
            return await self.do_slowly(lambda: act(study))
        async with self._turns.setdefault(key, asyncio.Semaphore(AT_ONCE)):
            return await self.do(lambda: act(study))

    # -------------------------------------------------------------------------------------------------- studies

    async def study(self, key: int) -> SharedStudy:
        """The study with that number; read once for all who want it."""
        found = self._studies.get(key)
        if found is not None:
            self._studies.move_to_end(key)
            return found
        task = self._opening.get(key)
        if task is None:
            task = self._opening[key] = asyncio.create_task(self.do(lambda: self._open(key)))
            task.add_done_callback(lambda _: self._opening.pop(key, None))
        study = await asyncio.shield(task)
        return self._keep(study)

    def _open(self, key: int) -> SharedStudy:
        for record in self.storage.studies():
            if record.key == key:
                return SharedStudy(self.storage, record)
        raise NotThere(f"study = {key}: no such study in this service")

    def _keep(self, study: SharedStudy) -> SharedStudy:
        kept = self._studies.setdefault(study.record.key, study)
        while len(self._studies) > MOST_STUDIES:
            gone, _ = self._studies.popitem(last=False)
            self._turns.pop(gone, None)
        return kept

    async def create(self, plan: Plan, seed: int, key: str | None = None) -> SharedStudy:
        """A new study, one for each `key`."""

        def make() -> SharedStudy:
            check_can_be_decided(plan)
            try:
                record = new_record(self.storage, plan, seed, key)
            except NameTaken as error:
                raise Taken(str(error)) from None
            return SharedStudy(self.storage, record)

        return self._keep(await self.do(make))

    async def snapshot(self, key: int) -> Snapshot:
        """Where a study stands, computed once for all who ask at the same time."""
        return await self.together(key, "snapshot", SharedStudy.snapshot)

    async def together(self, key: int, what: str, act: Callable[[SharedStudy], T], *, slowly: bool = False) -> T:
        """Something that all who ask for it at the same time can share."""
        flight = self._flights.get((key, what))
        if flight is None:
            flight = self._flights[key, what] = _Flight(lambda: self.with_study(key, act, slowly=slowly))
        try:
            result: T = await flight.join()
        finally:
            if flight.is_over and self._flights.get((key, what)) is flight:
                del self._flights[key, what]
        return result

    # --------------------------------------------------------------------------------------- the list of studies

    async def rows(self, *, archived: bool, name: str | None) -> list[dict[str, Any]]:
        """A line for each study, the newest first. What takes long to compute is there the next time."""
        found = await self.do(lambda: list(self.versions(archived=archived, name=name)))
        late = [record for record, version in found if version is None or self._rows[record.key][0] != version]
        for record in late:
            self.compute(record)
        waited = [self._computing[record.key] for record in late if record.key in self._computing]
        if waited:
            await asyncio.wait(waited, timeout=LIST_PATIENCE)
        return [self._row(record) for record, _ in reversed(found)]

    def versions(self, *, archived: bool, name: str | None = None) -> Iterator[tuple[StudyRecord, Version | None]]:
        """The studies and their present versions, as far as these can be had without reading a whole record."""
        for record in self.storage.studies():
            if (archived or record.archived is None) and (name is None or record.name == name):
                known = self._rows.get(record.key)
                if known is None or known[0].revision != record.revision:
                    yield record, None
                else:
                    yield record, version_of(self.storage, record, known[1])

    def compute(self, record: StudyRecord) -> None:
        """Have a study's line computed, in the background."""
        key = record.key
        if key in self._computing:
            return

        async def compute() -> None:
            start = time.monotonic()
            # Whoever opens the study hears of what is wrong with it; the list goes without.
            with contextlib.suppress(InvalidInput, StorageError):
                study = self._studies.get(key)
                if study is None:
                    study = self._keep(await self.do(lambda: SharedStudy(self.storage, record)))
                snapshot = await self.snapshot(key)
                self._rows[key] = snapshot.version, study.entered, snapshot.row
            if time.monotonic() - start > LIST_PATIENCE:
                self.computed += 1

        task = self._computing[key] = asyncio.create_task(compute())
        task.add_done_callback(lambda _: self._computing.pop(key, None))

    def _row(self, record: StudyRecord) -> dict[str, Any]:
        known = self._rows.get(record.key)
        if known is not None:
            return known[2] | {"archived": record.archived}
        study = self._studies.get(record.key)
        return list_row(record, Plan.from_json(record.plan) if study is None else study.plan)
