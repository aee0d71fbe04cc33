"""Metrics for Prometheus. No label holds a name that a user chose: there are as many series as routes and states."""

from __future__ import annotations

import asyncio
import functools
import os
import socket
from collections import Counter as Counts
from collections.abc import Iterator
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
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from starlette.responses import Response

from bestarm.analysis.status.status import StudyState
from bestarm.storage.errors import StorageError
from bestarm.web.access_log import LoggedRequest
from bestarm.web.common import ALWAYS, StrictRoute, errors, file_of
from bestarm.web.database_health import ANSWER_SECONDS, DatabaseHealth
from bestarm.web.events import LiveUpdates
from bestarm.web.studies import ServedStudies

MOST_STUDIES = 500
"""Studies that are counted by state: the newest that are not archived."""

_BUCKETS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_STATES = (*get_args(StudyState), "archived", "not known")


class _OfProcess(Collector):
    """All that another registry has, with a label that names this process.

    Several servers may stand behind one address. What each of them counts must not be mixed.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._label = {"process": f"{socket.gethostname()}:{os.getpid()}"}

    def collect(self) -> Iterator[Metric]:
        for family in self._registry.collect():
            family.samples = [sample._replace(labels=sample.labels | self._label) for sample in family.samples]
            yield family


class Metrics:
    """What this process has done since it was started, and how the studies of its database stand."""

    def __init__(self) -> None:
        # Registries of its own: several services in one process are counted separately.
        self._of_process, self._of_studies = CollectorRegistry(), CollectorRegistry()
        counter = functools.partial(Counter, registry=self._of_process)
        gauge = functools.partial(Gauge, registry=self._of_studies)
        self._requests = counter("bestarm_requests", "Requests for data that were answered.", ["route", "status"])
        about = "Until the end of the answer, event streams left out."
        self._seconds = Histogram(
            "bestarm_request_seconds", about, ["route"], buckets=_BUCKETS, registry=self._of_process
        )
        self._told = counter("bestarm_results_told", "Results that were taken, repeats included.")
        self._studies = gauge("bestarm_studies", "Studies by state.", ["state"])
        about = "Studies whose guarantee is void because their results contradict it, whatever their state."
        self._void = gauge("bestarm_studies_void", about)
        about = f"Tests that wait for their results, in the {MOST_STUDIES} newest studies that are not archived."
        self._pending = gauge("bestarm_tests_pending", about)
        about = "Event streams that are open."
        self._streams = Gauge("bestarm_event_streams", about, registry=self._of_process)
        about = "Whether the database can be used: 1 or 0."
        self._database = Gauge("bestarm_database_up", about, registry=self._of_process)
        ProcessCollector(registry=self._of_process)
        self._all_of_process = CollectorRegistry()
        self._all_of_process.register(_OfProcess(self._of_process))

    def __call__(self, logged: LoggedRequest) -> None:
        """Count a request."""
        self._requests.labels(logged.route, str(logged.status)).inc()
        if not logged.route.endswith("/events"):
            self._seconds.labels(logged.route).observe(logged.seconds)

    def told(self, results: int) -> None:
        """Count results."""
        self._told.inc(results)

    async def page(self, served: ServedStudies, live: LiveUpdates, health: DatabaseHealth) -> bytes:
        """All of it, in the form that Prometheus reads. Nothing about studies while the database cannot be used."""
        self._streams.set(live.streams)
        page = b""
        is_up = await health.fault() is None
        if is_up:
            try:
                async with asyncio.timeout(ANSWER_SECONDS):
                    page = await self._about_studies(served)
            except (StorageError, TimeoutError):
                health.suspect()
                is_up = False
        self._database.set(is_up)
        return generate_latest(self._all_of_process) + page

    async def _about_studies(self, served: ServedStudies) -> bytes:
        """How the studies stand. A state that takes long to compute is known the next time."""
        rows = await served.rows(lambda: served.storage.newest(MOST_STUDIES, archived="false"))
        there, archived = await served.do(served.storage.count_studies)
        states = Counts(row["state"] or "not known" for row in rows)
        states["not known"] += max(there - len(rows), 0)
        states["archived"] = archived
        for state in _STATES:
            self._studies.labels(state).set(states[state])
        self._void.set(sum(row["guarantee"] == "void" for row in rows))
        self._pending.set(sum(row["pending"] or 0 for row in rows))
        return generate_latest(self._of_studies)


def metrics_router(metrics: Metrics, served: ServedStudies, live: LiveUpdates, health: DatabaseHealth) -> APIRouter:
    """The route, where Prometheus expects it."""
    router = APIRouter(route_class=StrictRoute)

    @router.get(
        "/metrics",
        responses=file_of("text/plain") | errors(*ALWAYS),
        response_class=Response,
        tags=["service"],
    )
    async def get_metrics() -> Response:
        """Metrics for Prometheus: requests, results told, studies by state, studies whose guarantee is void, tests that
        wait for results."""
        return Response(await metrics.page(served, live, health), headers={"Content-Type": CONTENT_TYPE_LATEST})

    return router
