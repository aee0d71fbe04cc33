"""The studies of one database as a server process keeps them, and the threads that wait for the database.

The event loop never waits for the database, no study waits for another, and no request waits for another's computation.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, TypeVar

from starlette.requests import ClientDisconnect, Request

from bestarm.problem import Plan
from bestarm.storage.base import Storage, StudyRecord
from bestarm.storage.errors import StorageError
from bestarm.storage.projects import DEFAULT_PROJECT
from bestarm.study.record.checks import UnreadableStudy, check_can_be_decided, new_record, read_plan
from bestarm.study.record.seeds import choose_seeds
from bestarm.validation import InvalidInput, NotFound
from bestarm.web.errors import fault_words, no_such_study
from bestarm.web.shared import BacklogTooLong, SharedStudy, Snapshot, list_row
from bestarm.web.versions import Version, version_of

T = TypeVar("T")

MOST_RECORDING = 4
"""Requests to record something in one study that are worked on at once."""

LONG_PLAN = 50_000
"""Characters of a plan that takes long to read: a tenth of a second or more."""

MOST_STUDIES = 200
"""Studies kept in memory; the others are read again on demand."""

LIST_PATIENCE = 1.0
"""Seconds after which the list of studies is returned without what is not yet computed."""

_ENDING_SECONDS = 2.0
"""How long work under way is waited for when the service ends."""

Kind = Literal["quick", "large plans", "catching up", "slow", "files", "forecasts"]

_THREADS: dict[Kind, int] = {
    "quick": 7,  # questions to the database that take milliseconds
    "large plans": 1,  # whatever depends on a whole plan that takes seconds to read
    "catching up": 2,  # reading long records, when a study is opened or something in its past was corrected
    "slow": 2,  # reports, logs and uploads
    "files": 2,  # exports
    "forecasts": 1,  # simulations, each of which can use a core for long
}
"""Together no more than the connections that the database's pool allows."""


def kind_for(plan: int) -> Kind:
    """The threads for what takes the longer, the longer a study's plan is; `plan` is its length in characters."""
    return "large plans" if plan > LONG_PLAN else "quick"


class Threads:
    """Runs work that must not block the event loop: a few threads of each kind, so that slow work stops nothing."""

    def __init__(self) -> None:
        self._pools = {kind: ThreadPoolExecutor(count, f"bestarm-{kind}") for kind, count in _THREADS.items()}

        self.on_trouble: Callable[[], None] = lambda: None
        """Called when the database could not be used."""

    def close(self) -> None:
        """Begin nothing more, and give what is under way some time: a connection in use would be left open."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
        ending = threading.Thread(target=self._wait, daemon=True)
        ending.start()
        ending.join(_ENDING_SECONDS)

    def _wait(self) -> None:
        for pool in self._pools.values():
            pool.shutdown()

    def start(self, kind: Kind, act: Callable[[], None]) -> None:
        """Start something without waiting for its end."""
        self._pools[kind].submit(act)

    async def run(self, kind: Kind, act: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pools[kind], act)
        except StorageError:
            self.on_trouble()
            raise

    async def run_while_wanted(self, kind: Kind, request: Request, act: Callable[[Callable[[], bool]], T]) -> T:
        """Run something that may take long. `act` gets a function that says whether the client still waits.

        It need not have begun: if the client hangs up in the queue, it never does.
        """
        left = threading.Event()
        running: asyncio.Future[T] = asyncio.ensure_future(self.run(kind, lambda: act(lambda: not left.is_set())))
        return await unless_gone(request, running, left.set)


async def unless_gone(request: Request, running: asyncio.Future[T], when_left: Callable[[], None]) -> T:
    """The result of a future. If the client hangs up first, it is canceled and `ClientDisconnect` is raised."""

    async def leaving() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass

    left = asyncio.ensure_future(leaving())
    try:
        await asyncio.wait((running, left), return_when=asyncio.FIRST_COMPLETED)
    finally:
        left.cancel()
    if not running.done():
        when_left()
        running.cancel()
        raise ClientDisconnect
    return running.result()


class _SharedComputation:
    """Computes something once for concurrent callers. A caller never gets a result begun before its call."""

    def __init__(self, compute: Callable[[], Awaitable[Any]]) -> None:
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


class ServedStudies:
    """Where the routes find studies and work on them."""

    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.threads = Threads()
        self._studies: OrderedDict[int, SharedStudy] = OrderedDict()
        self._recording: dict[int, asyncio.Semaphore] = {}
        self._deciding: dict[int, asyncio.Lock] = {}
        self._listing = asyncio.Semaphore(2)
        self._computations: dict[tuple[int, str], _SharedComputation] = {}
        self._rows: dict[int, tuple[Version, int, dict[str, Any]]] = {}
        self._faults: dict[int, str] = {}
        self._computing: dict[int, asyncio.Task[Any]] = {}
        self.computed: Counter[int] = Counter()
        """Counts, by study, the lines of the list that were computed too late for their request."""

    def close(self) -> None:
        self.threads.close()
        self.storage.close()

    # ------------------------------------------------------------------------------------------------- doing things

    async def do(self, act: Callable[[], T]) -> T:
        """Run a quick query."""
        return await self.threads.run("quick", act)

    async def record(self, key: int, act: Callable[[SharedStudy], T]) -> T:
        """Run something with a study that needs no decision."""
        study = await self.study(key)
        async with self._recording.setdefault(key, asyncio.Semaphore(MOST_RECORDING)):
            return await self.do(lambda: act(study))

    async def decide(self, key: int, act: Callable[[SharedStudy], T]) -> T:
        """Run something with a study that must be up to date for it; one at a time, because it has one lock.

        If that means to read a long record first, other studies must not wait for it.
        """
        study = await self.study(key)

        def without_long_reads() -> T:
            with study.without_long_reads():
                return act(study)

        async with self._deciding.setdefault(key, asyncio.Lock()):
            while True:
                try:
                    return await self.threads.run(kind_for(len(study.record.plan)), without_long_reads)
                except BacklogTooLong:
                    await self.threads.run("catching up", study.catch_up)

    async def do_slowly(self, key: int, act: Callable[[SharedStudy], T]) -> T:
        """Run something with a study that may take seconds."""
        study = await self.study(key)
        return await self.threads.run("slow", lambda: act(study))

    # -------------------------------------------------------------------------------------------------- studies

    async def study(self, key: int) -> SharedStudy:
        """The study with that number, read once for all who want it."""
        found = self._studies.get(key)
        if found is not None:
            self._studies.move_to_end(key)
            return found
        return await self.together(key, "study", lambda: self._find(key))

    async def _find(self, key: int) -> SharedStudy:
        if (found := self._studies.get(key)) is not None:
            return found
        record = await self.do(lambda: self.storage.study(key))
        if record is None:
            raise no_such_study(key)
        return self._keep(await self._open(record))

    async def _open(self, record: StudyRecord) -> SharedStudy:
        return await self.threads.run(kind_for(len(record.plan)), lambda: SharedStudy(self.storage, record))

    def _keep(self, study: SharedStudy) -> SharedStudy:
        kept = self._studies.setdefault(study.record.key, study)
        while len(self._studies) > MOST_STUDIES:
            gone, _ = self._studies.popitem(last=False)
            for locks in (self._recording, self._deciding):
                locks.pop(gone, None)
        return kept

    def new_study(
        self, plan: Plan, seed: int | None, items_seed: int | None, key: str | None = None, *, author: str, project: str
    ) -> SharedStudy:
        """Make a new study of a plan that was read, once for each `key`. It may take seconds."""
        check_can_be_decided(plan)
        seeds = choose_seeds(plan, seed, items_seed)
        record = new_record(self.storage, plan, seeds, key, author=author, project=project, was_read=True)
        return SharedStudy(self.storage, record)

    async def create(self, kind: Kind, make: Callable[[], SharedStudy]) -> SharedStudy:
        """Take in a study that `make` makes."""
        return self._keep(await self.threads.run(kind, make))

    async def delete(self, key: int, name: str, holder: str, within: str | None) -> None:
        """Remove an archived study of that name for good, if it is in the project `within`, or that is None."""

        def delete() -> None:
            record = self.storage.study(key)
            if record is None:
                raise no_such_study(key)
            if record.name != name:
                raise InvalidInput("name", name, "is not the name of this study; nothing was deleted")
            try:
                self.storage.delete(key, holder, within=within)
            except NotFound:
                raise no_such_study(key) from None

        await self.threads.run("slow", delete)
        for kept in (self._studies, self._rows, self._faults):
            kept.pop(key, None)

    async def snapshot(self, key: int) -> Snapshot:
        """Where a study stands, computed once for all who ask at the same time."""
        return await self.together(key, "snapshot", lambda: self.decide(key, SharedStudy.snapshot))

    async def made(self, key: int, snapshot: Snapshot, form: Literal["body", "zipped"]) -> bytes:
        """What a snapshot shows, made once for all who ask at the same time."""
        study = await self.study(key)
        what, kind = f"{form} {snapshot.version}", kind_for(len(study.record.plan))
        return await self.together(key, what, lambda: self.threads.run(kind, lambda: getattr(snapshot, form)))

    async def together(self, key: int, what: str, compute: Callable[[], Awaitable[T]]) -> T:
        """Compute something that concurrent callers can share."""
        computation = self._computations.get((key, what))
        if computation is None:
            computation = self._computations[key, what] = _SharedComputation(compute)
        try:
            result: T = await computation.join()
        finally:
            if computation.is_over and self._computations.get((key, what)) is computation:
                del self._computations[key, what]
        return result

    # --------------------------------------------------------------------------------------- the list of studies

    def newest(self, limit: int, projects: Collection[str] | None, **wanted: Any) -> list[StudyRecord]:
        """As `newest` of the storage, of these projects or of all."""
        if projects is None:
            return self.storage.newest(limit, **wanted)
        if self.storage.keeps_projects:
            return self.storage.newest(limit, projects=projects, **wanted)
        return self.storage.newest(limit, **wanted) if DEFAULT_PROJECT in projects else []

    async def rows(self, records: Callable[[], Sequence[StudyRecord]]) -> list[dict[str, Any]]:
        """A line for each study. What takes long to compute is there the next time."""
        found = await self.do(lambda: self.versions(records()))
        # A study that is deleted meanwhile has no line.
        known = {record.key: line[0] for record, _ in found if (line := self._rows.get(record.key)) is not None}
        late = [record for record, version in found if version is None or known.get(record.key) != version]
        for record in late:
            self.compute(record)
        waited = [self._computing[record.key] for record in late if record.key in self._computing]
        if waited:
            await asyncio.wait(waited, timeout=LIST_PATIENCE)
        return await self.do(lambda: [self._row(record) for record, _ in found])

    def versions(self, records: Sequence[StudyRecord]) -> list[tuple[StudyRecord, Version | None]]:
        """Studies and their present versions; None where it takes reading a whole record."""

        def version(record: StudyRecord) -> Version | None:
            known = self._rows.get(record.key)
            if known is None or known[0].revision != record.revision:
                return None
            return version_of(self.storage, record, known[1])

        return [(record, version(record)) for record in records]

    def compute(self, record: StudyRecord) -> None:
        """Compute a study's line in the background."""
        key = record.key
        if key in self._computing:
            return

        async def compute() -> None:
            start = time.monotonic()
            try:
                # A few at a time, in the order of the list: those who look at it must not take the threads of those
                # who ask and tell.
                async with self._listing:
                    study = await self.study(key)
                    snapshot = await self.snapshot(key)
                self._rows[key] = snapshot.version, study.entered, snapshot.row
                self._faults.pop(key, None)
            except StorageError:
                # The next request may find the database in reach again.
                pass
            except Exception as error:
                # One study that cannot be read must not hide the others.
                self._faults[key] = fault_words(error)
            if time.monotonic() - start > LIST_PATIENCE:
                self.computed[key] += 1

        task = self._computing[key] = asyncio.create_task(compute())
        task.add_done_callback(lambda _: self._computing.pop(key, None))

    def _row(self, record: StudyRecord) -> dict[str, Any]:
        known = self._rows.get(record.key)
        if known is not None:
            return known[2] | {"archived": record.archived, "project": record.project}
        study, fault = self._studies.get(record.key), self._faults.get(record.key)
        try:
            # What a large plan says is there once its line is computed.
            plan = (
                None
                if study is None and len(record.plan) > LONG_PLAN
                else read_plan(record)
                if study is None
                else study.plan
            )
            return list_row(record, plan, fault)
        except UnreadableStudy as error:
            return list_row(record, None, str(error))
