"""Where simulated runs are computed: threads, processes, a Dask cluster, Ray, or any executor that is passed in."""

from __future__ import annotations

import importlib
import importlib.util
import os
import socket
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any

import numpy as np

from bestarm.simulation.engine import Job
from bestarm.simulation.loop import Chunk
from bestarm.validation import InvalidInput

RETRIES = 3
"""A simulated run is the same whenever it is computed, so a lost call may be repeated."""

_KINDS = "threads, processes, dask:ADDRESS or ray:ADDRESS"

# The exceptions of Dask and Ray that mean a worker is gone, not that the work itself failed.
_LOST = {
    *("KilledWorker", "CommClosedError", "FutureCancelledError", "FuturesCancelledError"),
    *("WorkerCrashedError", "NodeDiedError", "OwnerDiedError", "ObjectLostError", "LocalRayletDiedError"),
}


def is_lost_worker(error: BaseException) -> bool:
    """Whether `error` says that a worker is gone, so that the same work may succeed on another."""
    if isinstance(error, BrokenExecutor | CancelledError | ConnectionError | EOFError):
        return True
    return any(kind.__name__ in _LOST for kind in type(error).__mro__)


def _simulate(job: Job, first: int, runs: int) -> Chunk:
    """The function that other processes call."""
    return job.simulate(first, runs)


class Workers:
    """Submits chunks of runs to an executor. If it made the executor itself, it replaces it when it breaks."""

    def __init__(self, make: Callable[[], Executor], count: int, *, owned: bool = True) -> None:
        self.count = count
        self._make = make
        self._owned = owned
        self._executor = make()
        self._stop = np.zeros(1, np.int64)

    def submit(self, job: Job, first: int, runs: int) -> Future[Chunk]:
        if isinstance(self._executor, ThreadPoolExecutor):
            # Threads share the flag that ends their work early. Other processes would get a copy.
            return self._submit(job.simulate, first, runs, self._stop)
        return self._submit(_simulate, job, first, runs)

    def call(self, function: Callable[..., Any], /, *arguments: Any) -> Future[Any]:
        """Call any function on a worker."""
        return self._submit(function, *arguments)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return self._executor.submit(function, *arguments)
        except OSError as error:
            # Python's pool of processes says so while it is breaking: it starts a new process and has lost its pipes.
            if isinstance(self._executor, ProcessPoolExecutor):
                raise BrokenProcessPool(f"the pool is broken: {error}") from error
            raise

    def replace_broken(self) -> bool:
        """Replace the broken executor. False if it is not ours to replace."""
        if not self._owned:
            return False
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._executor = self._make()
        return True

    def close(self) -> None:
        self._stop[0] = 1
        if self._owned:
            self._executor.shutdown(wait=True, cancel_futures=True)


def _refuse_unreachable(kind: str, address: str) -> None:
    """Fail at once with one clear line. The cluster's own client would try for a minute or more."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if not port.isdigit():
        return
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except OSError as error:
        raise InvalidInput(
            "executor", f"{kind}:{address}", f"nothing answers there: {error}", shown=f"'{kind}:{address}'"
        ) from None


def _dask(address: str, retries: int) -> tuple[Callable[[], Executor], int]:
    try:
        distributed: Any = importlib.import_module("distributed")
        base: Any = importlib.import_module("distributed.cfexecutor").ClientExecutor
    except ImportError:
        raise InvalidInput("executor = 'dask:…' needs Dask: pip install 'bestarm[dask]'") from None
    _refuse_unreachable("dask", address)
    try:
        client = distributed.Client(address, timeout=10, set_as_default=False)
        count = sum(client.nthreads().values())
    except (OSError, ValueError, TimeoutError) as error:
        raise InvalidInput(
            "executor", f"dask:{address}", f"is not a Dask scheduler: {_first_line(error)}", shown=f"'dask:{address}'"
        ) from None

    class DaskExecutor(base):  # type: ignore[misc] # known only where Dask is installed
        """Dask's own executor. It also closes the connection that was opened for it."""

        def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
            super().shutdown(wait=wait)
            client.close()

    def make() -> Executor:
        executor: Executor = DaskExecutor(client, retries=retries)
        return executor

    return make, max(count, 1)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


class RayExecutor(Executor):
    """Ray with the interface of an executor."""

    def __init__(self, address: str, retries: int = RETRIES) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray: Any = importlib.import_module("ray")
        self._ray = ray
        self._mine = not ray.is_initialized()
        if self._mine:
            ray.init(address=address or None, configure_logging=False, log_to_driver=False, include_dashboard=False)
        self._call = ray.remote(max_retries=retries)(
            lambda function, arguments, options: function(*arguments, **options)
        )

    @property
    def workers(self) -> int:
        return int(self._ray.cluster_resources().get("CPU", 1))

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = self._call.remote(function, arguments, options).future()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        if self._mine:
            self._ray.shutdown()


def _ray(address: str, retries: int) -> tuple[Callable[[], Executor], int]:
    if importlib.util.find_spec("ray") is None:
        raise InvalidInput("executor = 'ray:…' needs Ray: pip install 'bestarm[ray]'")
    _refuse_unreachable("ray", address)
    try:
        executor = RayExecutor(address, retries)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise InvalidInput(
            "executor", f"ray:{address}", f"this is no Ray cluster: {_first_line(error)}", shown=f"'ray:{address}'"
        ) from None
    return lambda: executor, executor.workers


def open_workers(executor: str | Executor | None, workers: int | None, *, retries: int = RETRIES) -> Workers:
    """Workers on the executor that is named or passed in; by default threads, one per core.

    `workers` limits threads and processes. For any other executor it says how many chunks to keep under way.
    `retries` is how often Dask and Ray may repeat a call on their own.
    """
    count = (os.cpu_count() or 1) if workers is None else workers
    if isinstance(executor, Executor):
        return Workers(lambda: executor, count, owned=False)
    if executor is None or executor == "threads":
        return Workers(lambda: ThreadPoolExecutor(count), count)
    if executor == "processes":
        return Workers(lambda: ProcessPoolExecutor(count, mp_context=get_context("spawn")), count)
    kind, _, address = str(executor).partition(":")
    if kind == "dask" and address:
        make, count = _dask(address, retries)
        return Workers(make, workers or count)
    if kind == "ray":
        make, count = _ray(address, retries)
        return Workers(make, workers or count)
    raise InvalidInput("executor", executor, f"must be {_KINDS}")
