"""Metrics for Prometheus. No label holds a name that a user chose: there are as many series as routes and states."""

from __future__ import annotations

import functools
from collections import Counter as Counts
from typing import get_args

from fastapi import APIRouter
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.responses import Response

from bestarm.analysis.status.status import StudyState
from bestarm.web.access_log import LoggedRequest
from bestarm.web.common import ALWAYS, StrictRoute, errors
from bestarm.web.events import LiveUpdates
from bestarm.web.studies import ServedStudies

MOST_STUDIES = 500
"""Studies that are counted by state: the newest that are not archived."""

_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_STATES = (*get_args(StudyState), "archived", "not known")


class Metrics:
    """What this process has done since it was started, and how the studies of its database stand."""

    def __init__(self) -> None:
        # A registry of its own: several services in one process are counted separately.
        self.registry = CollectorRegistry()
        counter = functools.partial(Counter, registry=self.registry)
        gauge = functools.partial(Gauge, registry=self.registry)
        self._requests = counter("bestarm_requests", "Requests for data that were answered.", ["route", "status"])
        about = "Until the end of the answer, event streams left out."
        self._seconds = Histogram("bestarm_request_seconds", about, ["route"], buckets=_BUCKETS, registry=self.registry)
        self._told = counter("bestarm_results_told", "Results that were taken, repeats included.")
        self._studies = gauge("bestarm_studies", "Studies by state.", ["state"])
        about = "Studies whose guarantee is void because their results contradict it, whatever their state."
        self._void = gauge("bestarm_studies_void", about)
        about = f"Tests that wait for their results, in the {MOST_STUDIES} newest studies that are not archived."
        self._pending = gauge("bestarm_tests_pending", about)
        self._streams = gauge("bestarm_event_streams", "Event streams that are open.")
        ProcessCollector(registry=self.registry)

    def __call__(self, logged: LoggedRequest) -> None:
        """Count a request."""
        self._requests.labels(logged.route, str(logged.status)).inc()
        if not logged.route.endswith("/events"):
            self._seconds.labels(logged.route).observe(logged.seconds)

    def told(self, results: int) -> None:
        """Count results."""
        self._told.inc(results)

    async def page(self, served: ServedStudies, live: LiveUpdates) -> bytes:
        """All of it, in the form that Prometheus reads. A state that takes long to compute is known the next time."""
        rows = await served.rows(lambda: served.storage.newest(MOST_STUDIES, archived="false"))
        there, archived = await served.do(served.storage.count_studies)
        states = Counts(row["state"] or "not known" for row in rows)
        states["not known"] += max(there - len(rows), 0)
        states["archived"] = archived
        for state in _STATES:
            self._studies.labels(state).set(states[state])
        self._void.set(sum(row["guarantee"] == "void" for row in rows))
        self._pending.set(sum(row["pending"] or 0 for row in rows))
        self._streams.set(live.streams)
        return generate_latest(self.registry)


def metrics_router(metrics: Metrics, served: ServedStudies, live: LiveUpdates) -> APIRouter:
    """The route, where Prometheus expects it."""
    router = APIRouter(route_class=StrictRoute)

    @router.get(
        "/metrics",
        responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **errors(*ALWAYS)},
        response_class=Response,
        tags=["service"],
    )
    async def page() -> Response:
        """Metrics for Prometheus: requests, results told, studies by state, studies whose guarantee is void, tests that
        wait for results."""
        return Response(await metrics.page(served, live), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
