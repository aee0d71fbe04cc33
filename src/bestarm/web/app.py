"""The HTTP service: studies for programs in any language, and the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from bestarm import __version__
from bestarm.storage.opening import open_storage
from bestarm.web.description import describe
from bestarm.web.errors import Refusal, handle_errors
from bestarm.web.events import LiveUpdates
from bestarm.web.guard import Guard
from bestarm.web.limits import Limits
from bestarm.web.routes import make_router
from bestarm.web.studies import ServedStudies

STATIC = Path(__file__).parent / "static"
_ABOUT = (
    "Find the best option that is also safe, with as few tests as possible, and prove it. Ask which tests to make, "
    "tell their results, and read where the study stands. Errors are `{error: {field, reason, kind, complaints}}`."
)


def create_app(
    storage_url: str, *, token: str | None = None, allowed_hosts: Sequence[str] = (), limits: Limits | None = None
) -> FastAPI:
    """The application over the studies at `storage_url`, which is made if it is not there.

    With a `token`, every request for data must carry it. Without one, requests are answered only if they name this
    machine, or one of `allowed_hosts`, as their host and come from no other site.
    """
    limits = (limits or Limits()).within_descriptors()
    served = ServedStudies(open_storage(storage_url, create=True))
    live = LiveUpdates(served, limits.streams)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        live.close()
        served.close()

    app = FastAPI(
        title="bestarm",
        description=_ABOUT,
        version=__version__,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
    )
    app.state.live = live
    app.state.limits = limits
    handle_errors(app, served.storage.url)
    app.include_router(make_router(served, live, limits, needs_token=token is not None))
    _add_pages(app)
    app.add_middleware(Guard, token=token, allowed_hosts=allowed_hosts, limits=limits)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def _add_pages(app: FastAPI) -> None:
    """The dashboard: files that hold no data, so they are open to everybody."""

    def page(*names: str) -> Response:
        for name in names:
            if (STATIC / name).is_file():
                return FileResponse(STATIC / name, headers={"Cache-Control": "no-cache"})
        raise Refusal(404, "the dashboard is not installed")

    @app.get("/", include_in_schema=False)
    async def studies() -> Response:
        return page("index.html")

    @app.get("/new", include_in_schema=False)
    async def new() -> Response:
        return page("new.html", "index.html")

    @app.get("/studies/{study}", include_in_schema=False)
    async def study(study: int) -> Response:
        return page("study.html", "index.html")

    app.mount("/static", _Static(directory=STATIC, check_dir=False), name="static")


class _Static(StaticFiles):
    """Files that a browser asks about every time, so that an upgrade is seen at once."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers["Cache-Control"] = "no-cache"
        return response
