"""The routes that hand out files: a study's record, and its report."""

from __future__ import annotations

import io
import re
import tempfile
from collections.abc import Callable, Iterator
from typing import IO, Annotated, Literal, TextIO

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from starlette.background import BackgroundTask
from starlette.responses import Response

from bestarm.analysis.report import study_report
from bestarm.study.exchange import write_csv, write_json
from bestarm.web.common import READ, Key
from bestarm.web.desk import Desk
from bestarm.web.shared import SharedStudy

_PIECE = 64 * 1024


def add_downloads(router: APIRouter, desk: Desk) -> None:
    """Put the routes into the router."""

    @router.get(
        "/studies/{study}/export",
        responses={
            200: {
                "content": {
                    "text/csv": {"schema": {"type": "string"}},
                    "application/json": {"schema": {"type": "object"}},
                }
            },
            **READ,
        },
        response_class=StreamingResponse,
        tags=["downloads"],
    )
    async def export(
        study: Key, form: Annotated[Literal["csv", "json"], Query(alias="format", description="Of the file.")] = "csv"
    ) -> Response:
        """Every test and result, as a file."""
        shared = await desk.study(study)
        write: Callable[[SharedStudy, TextIO], int] = write_csv if form == "csv" else write_json
        file = await desk.do_slowly(lambda: _written(shared, write))
        return _download(file, shared, form, "text/csv; charset=utf-8" if form == "csv" else "application/json")

    @router.get(
        "/studies/{study}/report",
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **READ},
        response_class=Response,
        tags=["downloads"],
    )
    async def report(study: Key) -> Response:
        """The report, one self-contained HTML file."""
        shared = await desk.study(study)
        page = await desk.with_study(study, lambda one: study_report(one, forecast=False), slowly=True)
        headers = {"Content-Disposition": f'attachment; filename="{_file_name(shared, "html")}"'}
        return Response(page.encode("utf-8", "replace"), headers=headers, media_type="text/html; charset=utf-8")


def _written(study: SharedStudy, write: Callable[[SharedStudy, TextIO], int]) -> IO[bytes]:
    """The whole file, before the first byte is sent: a client that reads slowly then keeps no thread, and what goes
    wrong is an error and not half a file."""
    file = tempfile.TemporaryFile()  # noqa: SIM115
    try:
        wrapper = io.TextIOWrapper(file, "utf-8", errors="replace", newline="")
        write(study, wrapper)
        wrapper.flush()
        wrapper.detach()
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _download(file: IO[bytes], study: SharedStudy, ending: str, kind: str) -> Response:
    headers = {"Content-Disposition": f'attachment; filename="{_file_name(study, ending)}"'}
    return StreamingResponse(_pieces(file), headers=headers, media_type=kind, background=BackgroundTask(file.close))


def _file_name(study: SharedStudy, ending: str) -> str:
    """A name that is harmless on any system, whatever the study is called."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", study.name).strip("-")[:60]
    return f"{plain or 'study'}.{ending}"
