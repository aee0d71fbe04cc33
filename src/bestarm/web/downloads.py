"""The routes that hand out files: a study's record, and its report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Annotated, Literal, TextIO

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.responses import Response

from bestarm.study.files.exchange import write_csv, write_json
from bestarm.study.files.report import study_report
from bestarm.web.common import READ, Key
from bestarm.web.sending import GrowingFile
from bestarm.web.shared import SharedStudy
from bestarm.web.studies import ServedStudies
from bestarm.web.threads import unless_gone


def add_downloads(router: APIRouter, served: ServedStudies) -> None:
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
        study: Key,
        request: Request,
        form: Annotated[Literal["csv", "json"], Query(alias="format", description="Of the file.")] = "csv",
    ) -> Response:
        """Every test and result, as a file."""
        shared = await served.study(study)
        write: Callable[[SharedStudy, TextIO], int] = write_csv if form == "csv" else write_json
        growing = GrowingFile()
        served.threads.start("files", lambda: growing.fill(lambda out: write(shared, out)))
        await unless_gone(request, asyncio.ensure_future(growing.begin()), growing.leave)
        kind = "text/csv; charset=utf-8" if form == "csv" else "application/json"
        return StreamingResponse(growing.pieces(), headers=_attached(shared, form), media_type=kind)

    @router.get(
        "/studies/{study}/report",
        responses={200: {"content": {"text/html": {"schema": {"type": "string"}}}}, **READ},
        response_class=Response,
        tags=["downloads"],
    )
    async def report(study: Key) -> Response:
        """The report, one self-contained HTML file."""
        shared = await served.study(study)
        page = await served.do_slowly(study, lambda one: study_report(one, forecast=False))
        kind = "text/html; charset=utf-8"
        return Response(page.encode("utf-8", "replace"), headers=_attached(shared, "html"), media_type=kind)


def _attached(study: SharedStudy, ending: str) -> dict[str, str]:
    """To be saved, under a name that is harmless on any system, whatever the study is called."""
    plain = re.sub(r"[^A-Za-z0-9_-]+", "-", study.name).strip("-")[:60]
    return {"Content-Disposition": f'attachment; filename="{plain or "study"}.{ending}"'}
