"""Live updates as server-sent events. One poller follows a study for all who watch it.

Pollers look at the database, so results told through another server process, or without any, are seen as well. As long
as nothing at all is written to it, they only compare its change mark.
A stream remembers only what it sent last: a client that reads slowly misses versions in between and costs nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import hashlib
import json
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from bestarm.storage.errors import StorageError
from bestarm.validation import InvalidInput, NotFound
from bestarm.web.errors import Refusal
from bestarm.web.studies import ServedStudies

EVERY = 0.5
"""Seconds between two looks at a study: at most two events a second."""

LOOKS_PER_SECOND = 20.0
"""Looks per second of all pollers together, so that many watched studies cost no more than a few."""

SHARE = 0.1
"""The share of its time that a poller may spend computing: large studies are polled less often."""

COMMENT_EVERY = 15.0
_AFTER_TROUBLE = 2.0


WATCHED = 100
"""Studies of a list that are looked at for changes."""


class ListPage(NamedTuple):
    """The studies older than one, or all; the newest of them are watched."""

    before: int | None
    projects: frozenset[str] | None = None
    """Of these projects, or of all."""


class PollResult(NamedTuple):
    """What a poller saw, ready to send, and how many looks and how much computing that took."""

    version: str
    event: bytes
    looks: int
    seconds: float


class Watch:
    """Follows something as long as it has listeners."""

    def __init__(self, live: LiveUpdates, look: Callable[[], Awaitable[PollResult]]) -> None:
        self._live = live
        self._look = look
        self.listeners = 0
        self.looks = 1
        self._latest: PollResult | None = None
        self._mark: object | None = None
        self._news = asyncio.Event()
        self._nudge = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._is_over = False

    def nudge(self) -> None:
        """Something has just been recorded: look soon."""
        self._nudge.set()

    def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._news.set()

    async def _follow(self) -> None:
        while self.listeners:
            pause = EVERY
            mark = await self._live.mark()
            if mark is not None and mark == self._mark:
                await asyncio.sleep(EVERY)
                continue
            try:
                seen = await self._look()
                # Read before the look: anything written after it changes the mark again.
                self._mark = mark
                self.looks = seen.looks
                pause = max(pause, self._live.looks / LOOKS_PER_SECOND, seen.seconds / SHARE)
                if self._latest is None or seen.version != self._latest.version:
                    self._latest = seen
                    self._news.set()
                    self._news = asyncio.Event()
            except NotFound:
                # Deleted, for good.
                self._is_over = True
                self._news.set()
                return
            except (InvalidInput, StorageError):
                pause = _AFTER_TROUBLE
            await asyncio.sleep(EVERY)
            if pause > EVERY:
                self._nudge.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._nudge.wait(), pause - EVERY)

    async def stream(self, may_listen: Callable[[], Awaitable[bool]]) -> AsyncIterator[bytes]:
        """Events: the present state at once, then every change, as long as the listener has permission."""
        self.listeners += 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow())
        sent = None
        try:
            while not (self._live.closing or self._is_over) and await may_listen():
                news = self._news
                if self._latest is not None and self._latest.version != sent:
                    sent = self._latest.version
                    yield self._latest.event
                    continue
                try:
                    await asyncio.wait_for(news.wait(), COMMENT_EVERY)
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self.listeners -= 1
            if not self.listeners:
                self.end()
                self._latest = self._mark = None
                self._live.forget(self)


class LiveUpdates:
    """Everything that clients of this process watch."""

    def __init__(self, served: ServedStudies, most_streams: int) -> None:
        self._served = served
        self._most_streams = most_streams
        self._watches: dict[int | ListPage, Watch] = {}
        self._mark: tuple[float, object | None] = (-math.inf, None)
        self.streams = 0
        """How many are open."""
        self.closing = False

    @property
    def looks(self) -> int:
        """Looks at the database that all pollers make in one round."""
        return sum(watch.looks for watch in self._watches.values())

    async def mark(self) -> object | None:
        """What changes whenever there may be news: the database's change mark, read for all pollers together."""
        now = time.monotonic()
        if now - self._mark[0] > EVERY / 2:
            # Concurrent callers may each read it, which does no harm.
            self._mark = now, await self._served.do(self._served.storage.change_mark)
        return None if self._mark[1] is None else (self._mark[1], self._served.computed.total())

    def close(self) -> None:
        """End all streams, so that the server can stop."""
        self.closing = True
        for watch in list(self._watches.values()):
            watch.end()

    def forget(self, watch: Watch) -> None:
        for key, other in list(self._watches.items()):
            if other is watch:
                del self._watches[key]

    def nudge(self, key: int) -> None:
        """A client of this process has recorded something in a study."""
        for watched, watch in self._watches.items():
            if watched == key or isinstance(watched, ListPage):
                watch.nudge()

    def open_stream(self, key: int | ListPage, may_listen: Callable[[], Awaitable[bool]]) -> Response:
        """The events of a study, or of all of them, until `may_listen` says no."""
        if self.streams >= self._most_streams:
            raise Refusal(503, "too many event streams are open; try again later", None, Retry_After="10")
        self.streams += 1
        return _Stream(self, self._watch(key).stream(may_listen))

    def _watch(self, key: int | ListPage) -> Watch:
        """The watch over a study, or over all of them."""
        watch = self._watches.get(key)
        if watch is None:
            look: Callable[[], Awaitable[PollResult]] = (
                functools.partial(self._look_at_list, key)
                if isinstance(key, ListPage)
                else functools.partial(self._look_at_study, key)
            )
            watch = self._watches[key] = Watch(self, look)
        return watch

    async def _look_at_study(self, key: int) -> PollResult:
        snapshot = await self._served.snapshot(key)
        version = str(snapshot.version)
        data = {"version": version} | {
            name: snapshot.row[name] for name in ("state", "guarantee", "tests", "confidence")
        }
        return PollResult(version, _event("change", data), 1, snapshot.seconds)

    async def _look_at_list(self, page: ListPage) -> PollResult:
        served = self._served
        versions = await served.do(lambda: served.versions(served.newest(WATCHED, page.projects, before=page.before)))
        for record, version in versions:
            if version is None and record.archived is None:
                # From then on its changes are cheap to see.
                served.compute(record)
        parts = [
            f"{record.key}:{version or (record.revision, record.archived)}:{served.computed[record.key]}"
            for record, version in versions
        ]
        digest = hashlib.sha256(" ".join(parts).encode()).hexdigest()[:16]
        return PollResult(digest, _event("studies", {"version": digest}), 1 + len(parts), 0.0)


class _Stream(StreamingResponse):
    """Counts as open from the moment it is promised, even if its client leaves before it begins."""

    def __init__(self, live: LiveUpdates, events: AsyncIterator[bytes]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"})
        self._live = live

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._live.streams -= 1


def _event(kind: str, data: dict[str, Any]) -> bytes:
    return f"event: {kind}\ndata: {json.dumps(data, allow_nan=False)}\n\n".encode()
