"""The HTTP service: studies for programs in any language, and the dashboard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Sequence

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles

from bestarm import __version__
from bestarm.storage.base import Storage
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.validation import InvalidInput
from bestarm.web.access import Access
from bestarm.web.access_log import AccessLog, RequestObserver
from bestarm.web.assets import STATIC, load_dashboard
from bestarm.web.compression import Compression
from bestarm.web.database_health import DatabaseHealth
from bestarm.web.description import describe
from bestarm.web.errors import handle_errors, json_response, refused
from bestarm.web.events import LiveUpdates
from bestarm.web.guard import Guard
from bestarm.web.limits import Limits
from bestarm.web.metrics import Metrics, metrics_router
from bestarm.web.probes import probes_router
from bestarm.web.proxies import ProxyHeaders, TrustedProxies, check_root_path, root_path_of
from bestarm.web.proxy_identity import ProxyIdentity
from bestarm.web.roles import PAGES
from bestarm.web.routes import make_router
from bestarm.web.studies import ServedStudies

_ABOUT = (
    "Find the best option that is also safe, with as few tests as possible, and prove it. Ask which tests to make, "
    "tell their results, and read where the study stands. Errors are `{error: {field, reason, kind, complaints}}`."
)


def create_app(
    storage_url: str | Storage,
    *,
    token: str | None = None,
    tokens: bool = False,
    allowed_hosts: Sequence[str] = (),
    limits: Limits | None = None,
    access_log: str | None = None,
    proxies: Sequence[str] = (),
    root_path: str = "",
    proxy_identity: ProxyIdentity | None = None,
) -> FastAPI:
    """The application over the studies at `storage_url`, which is made if it is not there.

    With a `token`, every request for data must carry it, or a token of the database (`bestarm token`); if `tokens`, one
    of the database. Otherwise, requests are answered only if they name this machine, or one of `allowed_hosts`, as
    their host and come from no other site. `access_log` is a file for a line about each request for data, or "-".

    `proxies` are the addresses and networks of proxies that are trusted to say who a client is, and under which path
    they pass the service on. `root_path` is that path if they do not say it. With `proxy_identity`, they say who asks.
    """
    limits = (limits or Limits()).within_descriptors()
    trusted, root_path = TrustedProxies(proxies), check_root_path(root_path)
    metrics = Metrics()
    log = None if access_log is None else AccessLog(access_log)
    served = ServedStudies(open_storage(storage_url, create=True))
    health = DatabaseHealth(served.storage)
    served.threads.on_trouble = health.suspect
    live = LiveUpdates(served, limits.streams)

    async def ask(question: Callable[[Storage], object]) -> object:
        try:
            return await served.do(lambda: question(served.storage))
        except (InvalidInput, StorageError) as error:
            raise refused(error, served.storage.url) from None

    access = Access(token, named=tokens, ask=ask, proxied=proxy_identity)

    @contextlib.asynccontextmanager
    async def life(app: FastAPI) -> AsyncIterator[None]:
        yield
        live.close()
        health.close()
        served.close()
        if log is not None:
            log.close()

    app = FastAPI(
        title="bestarm",
        description=_ABOUT,
        version=__version__,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=life,
        redirect_slashes=False,
        # Programs that make clients name their functions after it.
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.live = live
    app.state.access = access
    app.state.limits = limits
    handle_errors(app, served.storage.url)
    app.include_router(make_router(served, live, limits, access, metrics))
    app.include_router(metrics_router(metrics, served, live, health))
    app.include_router(probes_router(health))
    _add_pages(app)
    app.add_middleware(Compression)
    app.add_middleware(Guard, access=access, allowed_hosts=allowed_hosts, limits=limits)
    app.add_middleware(RequestObserver, listeners=[metrics] if log is None else [metrics, log])
    app.add_middleware(ProxyHeaders, proxies=trusted, root_path=root_path)
    app.openapi = lambda: describe(app)  # type: ignore[method-assign]
    return app


def _add_pages(app: FastAPI) -> None:
    """The dashboard, which needs no token because it has no data, and the description of the service.

    The dashboard's one page shows what its address says.
    """

    async def page(request: Request) -> Response:
        return load_dashboard().page(root_path_of(request.scope), request.headers)

    async def study_page(study: int, request: Request) -> Response:
        return await page(request)

    async def asset(name: str, request: Request) -> Response:
        return load_dashboard().asset(name, request.headers)

    async def description(request: Request) -> Response:
        root_path = root_path_of(request.scope)
        return json_response(app.openapi() | ({"servers": [{"url": root_path}]} if root_path else {}))

    app.get("/openapi.json", include_in_schema=False)(description)
    for path in PAGES:
        app.get(path, include_in_schema=False)(study_page if "{" in path else page)
    app.get("/assets/{name}", include_in_schema=False)(asset)
    # The sources one by one, for those who look for a fault in them.
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
