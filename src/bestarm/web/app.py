"""The HTTP service: studies for programs in any language, and the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

from fastapi import FastAPI
from starlette.responses import FileResponse, Response
from starlette.staticfiles import StaticFiles

from bestarm import __version__
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.storage.tokens import Token
from bestarm.validation import InvalidInput
from bestarm.web.access import Access
from bestarm.web.access_log import AccessLog, RequestObserver
from bestarm.web.description import describe
from bestarm.web.errors import Refusal, handle_errors, refused
from bestarm.web.events import LiveUpdates
from bestarm.web.guard import Guard
from bestarm.web.limits import Limits
from bestarm.web.metrics import Metrics, metrics_router
from bestarm.web.routes import make_router
from bestarm.web.studies import ServedStudies

STATIC = Path(__file__).parent / "static"
_ABOUT = (
    "Find the best option that is also safe, with as few tests as possible, and prove it. Ask which tests to make, "
    "tell their results, and read where the study stands. Errors are `{error: {field, reason, kind, complaints}}`."
)


def create_app(
    storage_url: str,
    *,
    token: str | None = None,
    tokens: bool = False,
    allowed_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    access_log: str | None = None,
) -> FastAPI:
    """The application over the studies at `storage_url`, which is made if it is not there.

    With a `token`, every request for data must carry it, or a token of the database (`bestarm token`); if `tokens`, one
    of the database. Otherwise, requests are answered only if they name this machine, or one of `allowed_hosts`, as
    their host and come from no other site. `access_log` is a file for a line about each request for data, or "-".
    """
    limits = (limits or Limits()).within_descriptors()
    metrics = Metrics()
    log = None if access_log is None else AccessLog(access_log)
    served = ServedStudies(open_storage(storage_url, create=True))
    live = LiveUpdates(served, limits.streams)

    async def find(digest: str) -> tuple[Token, float] | None:
        try:
            return await served.do(lambda: served.storage.find_token(digest))
        except (InvalidInput, StorageError) as error:
            raise refused(error, served.storage.url) from None

    access = Access(token, named=tokens, find=find)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        live.close()
        served.close()
        if log is not None:
            log.close()

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
    app.include_router(make_router(served, live, limits, access, metrics))
    app.include_router(metrics_router(metrics, served, live))
    _add_pages(app)
    app.add_middleware(Guard, access=access, allowed_hosts=allowed_hosts, limits=limits)
    app.add_middleware(RequestObserver, listeners=[metrics] if log is None else [metrics, log])
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def _add_pages(app: FastAPI) -> None:
    """The dashboard: files without data, which need no token. Its one page shows what the address says."""

    async def page() -> Response:
        if not (STATIC / "index.html").is_file():
            raise Refusal(404, "the dashboard is not installed")
        return FileResponse(STATIC / "index.html")

    async def study_page(study: int) -> Response:
        return await page()

    for path in ("/", "/new", "/reference", "/compare"):
        app.get(path, include_in_schema=False)(page)
    app.get("/studies/{study}", include_in_schema=False)(study_page)
    app.mount("/static", StaticFiles(directory=STATIC, check_dir=False), name="static")
