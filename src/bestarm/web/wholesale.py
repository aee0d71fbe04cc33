"""The routes about all studies at once: backup and restore, and the audit."""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import AsyncIterator
from typing import Annotated, Any, BinaryIO, TextIO

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from bestarm.storage.projects import LONGEST_PROJECT
from bestarm.study.files.backup import restore_backup, write_backup_of_all
from bestarm.web import inputs, models
from bestarm.web.access import who_asks
from bestarm.web.common import ALWAYS, BACKUP, errors, file_of
from bestarm.web.downloads import attached, sent
from bestarm.web.errors import Refusal, json_response
from bestarm.web.events import LiveUpdates
from bestarm.web.studies import ServedStudies

_MOST_UPLOADS = 2
"""Backups that are received, or wait until they are restored, one after the other. Each takes up to
`Limits.backup_body` of the disk."""

_UPLOAD_SECONDS = 3600.0

_FILE: dict[str, Any] = {
    "requestBody": {"required": True, "content": {BACKUP: {"schema": {"type": "string", "format": "binary"}}}}
}


def add_wholesale(router: APIRouter, served: ServedStudies, live: LiveUpdates) -> None:
    """Put the routes into the router."""
    uploads, restoring = asyncio.Semaphore(_MOST_UPLOADS), asyncio.Lock()

    @router.get(
        "/backup",
        responses=file_of("text/plain") | errors(*ALWAYS),
        response_class=StreamingResponse,
        tags=["downloads"],
    )
    async def get_backup_of_all(request: Request) -> Response:
        """Everything of all studies as they are at one moment, as `bestarm export --all` writes it.

        Tokens are not in it."""
        headers = attached("studies", "backup")
        return await sent(request, served, lambda out: write_backup_of_all(served.storage, out), "text/plain", headers)

    @router.post(
        "/backup",
        response_model=models.Restored,
        responses=errors(*ALWAYS, 400, 408, 409, 413, 415, 422, 504),
        openapi_extra=_FILE,
        tags=["studies"],
    )
    async def restore(
        request: Request,
        name: Annotated[
            str | None, Query(max_length=inputs.LONGEST_NAME, description="The name to restore one study under.")
        ] = None,
        project: Annotated[
            str | None, Query(max_length=LONGEST_PROJECT, description="The project to restore into.")
        ] = None,
    ) -> Response:
        """Restore a backup of one study, or of all studies: all of it, or nothing.

        Of all studies, those whose names are taken are left out: the answer says which they are, and whether their
        records differ.
        """
        if uploads.locked():
            raise Refusal(503, "other backups are being restored; try again", None, Retry_After="5")
        async with uploads, _uploaded(request) as file, restoring:
            by = who_asks(request, None)
            done = await served.threads.run(
                "slow", lambda: restore_backup(served.storage, file, "the file", name=name, project=project, by=by)
            )
        live.nudge(0)
        return json_response(done._asdict() | {"studies": [one._asdict() for one in done.studies]})

    @router.get(
        "/audit",
        responses=file_of("text/plain") | errors(*ALWAYS),
        response_class=StreamingResponse,
        tags=["service"],
    )
    async def get_audit(request: Request) -> Response:
        """Who did what in all studies and with tokens, the oldest first: a line of JSON for each request."""

        def write(out: TextIO) -> None:
            for entry in served.storage.audit_of_all():
                out.write(json.dumps(entry.to_dict()) + "\n")

        return await sent(request, served, write, "text/plain", {})


@contextlib.asynccontextmanager
async def _uploaded(request: Request) -> AsyncIterator[BinaryIO]:
    """The body, in a temporary file."""
    with tempfile.TemporaryFile() as file:
        try:
            async with asyncio.timeout(_UPLOAD_SECONDS):
                async for piece in request.stream():
                    await run_in_threadpool(file.write, piece)
        except TimeoutError:
            raise Refusal(408, f"the backup did not arrive within {_UPLOAD_SECONDS:g} s") from None
        file.seek(0)
        yield file
