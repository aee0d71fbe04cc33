"""A file that is sent while it is being written.

It goes through a temporary file, so that the thread that writes never waits for a client that reads slowly.
"""

from __future__ import annotations

import asyncio
import io
import tempfile
import threading
from collections.abc import AsyncIterator, Callable
from typing import TextIO

from starlette.concurrency import run_in_threadpool

_PIECE = 64 * 1024


class _Abandoned(Exception):
    """The reader has left."""


class GrowingFile:
    """Made inside the event loop, filled in a thread, read in the event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed by the writer or the reader, the later of the two)
        self._lock = threading.Lock()
        self._size = 0
        self._is_written = False
        self._is_wanted = True
        self._error: BaseException | None = None
        self._news = asyncio.Event()

    # ------------------------------------------------------------------------------------------------ the writer

    def fill(self, write: Callable[[TextIO], object]) -> None:
        """Have `write` write everything. Errors are passed to the reader."""
        try:
            text = io.TextIOWrapper(io.BufferedWriter(_Sink(self), _PIECE), "utf-8", errors="replace", newline="")
            write(text)
            text.flush()
        except _Abandoned:
            pass
        except BaseException as error:
            self._error = error
        with self._lock:
            self._is_written = True
            if not self._is_wanted:
                self._file.close()
        self._call()

    def append(self, data: bytes) -> None:
        with self._lock:
            if not self._is_wanted:
                raise _Abandoned
            self._file.seek(self._size)
            self._file.write(data)
            self._size += len(data)
        self._call()

    def _call(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._announce)
        except RuntimeError:
            # The server has stopped meanwhile.
            self._is_wanted = False

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # ------------------------------------------------------------------------------------------------ the reader

    async def begin(self) -> None:
        """Wait for the first bytes; until then, a failure can still be answered as an error."""
        while not self._size and not self._is_written:
            await self._news.wait()
        if not self._size and self._error is not None:
            self.leave()
            raise self._error

    async def pieces(self) -> AsyncIterator[bytes]:
        """Everything, as it comes. A file that could not be finished ends with an exception, not in silence."""
        sent = 0
        try:
            while True:
                news = self._news
                if sent < self._size:
                    piece = await run_in_threadpool(self._read, sent)
                    sent += len(piece)
                    yield piece
                elif not self._is_written:
                    await news.wait()
                elif self._error is not None:
                    raise self._error
                else:
                    return
        finally:
            self.leave()

    def _read(self, start: int) -> bytes:
        with self._lock:
            self._file.seek(start)
            return self._file.read(_PIECE)

    def leave(self) -> None:
        """The reader leaves; the writer finds out."""
        with self._lock:
            self._is_wanted = False
            if self._is_written:
                self._file.close()


class _Sink(io.RawIOBase):
    """Where the text ends up."""

    def __init__(self, growing: GrowingFile) -> None:
        self._growing = growing

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        taken = bytes(data)  # type: ignore[call-overload] # whatever buffer a writer hands over
        self._growing.append(taken)
        return len(taken)
