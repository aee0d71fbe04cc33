"""The routes that hand out files: a study's record, its report, and sheets to fill in."""

from __future__ import annotations

import asyncio
import io
import re
import tempfile
import threading
import unicodedata
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any, Literal, TextIO
from urllib.parse import quote

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from bestarm.study.files.backup import write_backup
from bestarm.study.files.exchange import write_csv, write_json
from bestarm.study.files.sheets import write_blank_sheet
from bestarm.study.files.workbook import write_workbook
from bestarm.study.intake.xlsx_file import XLSX
from bestarm.study.reports.report import study_report
from bestarm.validation import UNSTATED, NotFound
from bestarm.web.common import READ, Key, file_of
from bestarm.web.shared import SharedStudy
from bestarm.web.studies import ServedStudies, unless_gone

_PIECE = 64 * 1024


def add_downloads(router: APIRouter, served: ServedStudies) -> None:
    """Put the routes into the router."""

    @router.get(
        "/studies/{study}/export",
        responses=file_of("text/csv", "application/json") | READ,
        response_class=StreamingResponse,
        tags=["downloads"],
    )
    async def export_study(
        study: Key,
        request: Request,
        form: Annotated[Literal["csv", "json"], Query(alias="format", description="Of the file.")] = "csv",
    ) -> Response:
        """Every test and result, as a file."""
        shared = await served.study(study)
        write: Callable[[SharedStudy, TextIO], int] = write_csv if form == "csv" else write_json
        kind = "text/csv" if form == "csv" else "application/json"
        return await sent(request, served, lambda out: write(shared, out), kind, attached(shared.name, form))

    @router.get(
        "/studies/{study}/backup",
        responses=file_of("text/plain") | READ,
        response_class=StreamingResponse,
        tags=["downloads"],
    )
    async def get_backup(study: Key, request: Request) -> Response:
        """Everything of the study, as `bestarm export --all` writes it; `bestarm import` restores it."""
        shared = await served.study(study)
        headers = attached(shared.name, "backup")
        return await sent(
            request, served, lambda out: write_backup(served.storage, shared.record, out), "text/plain", headers
        )

    @router.get(
        "/studies/{study}/sheet",
        responses=file_of(XLSX, "text/csv") | READ,
        response_class=Response,
        tags=["downloads"],
    )
    async def get_sheet(
        study: Key,
        form: Annotated[Literal["xlsx", "csv"], Query(alias="format", description="Of the file.")] = "xlsx",
        holder: Annotated[str | None, Query(max_length=200, description="Only the tests that this holder has.")] = None,
    ) -> Response:
        """A sheet to fill in, with all tests that are out: an Excel workbook, or CSV. `POST csv` takes it back."""
        shared = await served.study(study)
        data = await served.do_slowly(study, lambda one: _sheet(one, form, holder))
        kind = XLSX if form == "xlsx" else "text/csv; charset=utf-8"
        return Response(data, headers=attached(shared.name, form), media_type=kind)

    @router.get(
        "/studies/{study}/report",
        responses=file_of("text/html") | READ,
        response_class=Response,
        tags=["downloads"],
    )
    async def get_report(study: Key) -> Response:
        """The report, one self-contained HTML file."""
        shared = await served.study(study)
        page = await served.do_slowly(study, lambda one: study_report(one, forecast=False))
        kind = "text/html; charset=utf-8"
        return Response(page.encode("utf-8", "replace"), headers=attached(shared.name, "html"), media_type=kind)


def _sheet(study: SharedStudy, form: str, holder: str | None) -> bytes:
    """A sheet of the tests that are out: all of them, or those of one holder."""
    tests = [test for test, row in study.pending() if holder is None or (row.holder == holder and row.expires)]
    if not tests:
        raise NotFound("tests", UNSTATED, "there are none to fill in; ask for some first")
    if form == "xlsx":
        book = io.BytesIO()
        write_workbook(study, tests, book)
        return book.getvalue()
    text = io.StringIO(newline="")
    write_blank_sheet(study, tests, text)
    return text.getvalue().encode("utf-8", "replace")


async def sent(
    request: Request,
    served: ServedStudies,
    write: Callable[[TextIO], object],
    kind: str,
    headers: dict[str, str],
) -> Response:
    """What `write` writes, sent while it is being written. Starlette adds the charset to texts."""
    growing = GrowingFile()
    served.threads.start("files", lambda: growing.fill(write))
    await unless_gone(request, asyncio.ensure_future(growing.begin()), growing.leave)
    return StreamingResponse(growing.pieces(), headers=headers, media_type=kind)


def attached(name: str, ending: str) -> dict[str, str]:
    """Headers that make a browser save a file under a name that is safe on any system. They have the full name and, for
    browsers that cannot read it, a name in plain letters."""
    name = unicodedata.normalize("NFC", name)
    plain, full = (re.sub(rf"[^{kept}-]+", "-", name).strip("-")[:60] or "study" for kept in (r"A-Za-z0-9_", r"\w"))
    also = f"; filename*=UTF-8''{quote(full, safe='')}.{ending}" if full != plain else ""
    return {"Content-Disposition": f'attachment; filename="{plain}.{ending}"{also}'}


class _Abandoned(Exception):
    """The reader has left."""


class GrowingFile(io.RawIOBase):
    """A file that is sent while it is being written. Made and read in the event loop, filled in a thread.

    It goes through a temporary file, so that the thread that writes never waits for a client that reads slowly.
    """

    def __init__(self) -> None:
        super().__init__()
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
            text = io.TextIOWrapper(io.BufferedWriter(self, _PIECE), "utf-8", errors="replace", newline="")
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
        self._announce()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        with self._lock:
            if not self._is_wanted:
                raise _Abandoned
            self._file.seek(self._size)
            count = self._file.write(data)
            self._size += count
        self._announce()
        return count

    def _announce(self) -> None:
        def announce() -> None:
            self._news.set()
            self._news = asyncio.Event()

        try:
            self._loop.call_soon_threadsafe(announce)
        except RuntimeError:
            # The server has stopped meanwhile.
            self._is_wanted = False

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
