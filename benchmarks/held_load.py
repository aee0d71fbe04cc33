"""Load that is held: workers over HTTP, watchers of live events, and a very large study beside, on one or more servers.

What a request takes at worst, and what memory the servers take at the beginning and at the end.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import selectors
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import bestarm as ba
from bestarm.client import Client
from bestarm.study.study import Study

KINDS = ("ask", "tell")
PROCESSES = 5
PATIENCE = 600.0
WARM_SHARE = 0.2
"""The share of the time after which memory is first read: by then, all that is loaded once has been."""


def prepare(storage: str, *, plan: ba.Plan, arms: int) -> None:
    """The study that the workers measure, and a very large one."""
    Study.create(plan, name="measured", storage=storage).add([(arm, metric, 0.0) for arm in "abc" for metric in "xy"])
    names = [f"arm {k}" for k in range(arms)]
    Study.create(
        ba.Problem(arms=names, objective=ba.maximize("x", noise=ba.Gaussian(1.0))), name="wide", storage=storage
    )


def measure(
    servers: Sequence[tuple[str, int]], seconds: float, *, workers: int, watchers: int, pause: float
) -> dict[str, Any]:
    """Hold the load for so many seconds. `servers` are addresses and process ids. Between an ask and its tell, a worker
    pauses."""
    urls = [url for url, _ in servers]
    with _watching(urls, watchers) as watched, _large_study_at_work(urls[0]) as beside:
        context = multiprocessing.get_context("spawn")
        answers, begin = context.Queue(), context.Barrier(PROCESSES + 1)
        counts = [len(range(k, workers, PROCESSES)) for k in range(PROCESSES)]
        clients = [
            context.Process(target=_work, args=(urls, count, seconds, pause, begin, answers)) for count in counts
        ]
        for process in clients:
            process.start()
        begin.wait(PATIENCE)
        time.sleep(WARM_SHARE * seconds)
        first = [_memory(process) for _, process in servers]
        found = [answers.get(timeout=seconds + PATIENCE) for _ in clients]
        for process in clients:
            process.join()
        last = [_memory(process) for _, process in servers]
        there, events = watched()
    errors = sum((wrong for _, wrong in found), beside.errors)
    return {
        "seconds": seconds,
        "pause": pause,
        "servers": len(servers),
        "workers": workers,
        "watchers": watchers,
        "watchers_at_the_end": there,
        "events": events,
        **{kind: _summary(itertools.chain.from_iterable(took[kind] for took, _ in found)) for kind in KINDS},
        "large_study": {kind: _summary(beside.times[kind]) for kind in KINDS},
        "memory_first": first,
        "memory_last": last,
        "errors": dict(errors),
    }


def _summary(times: Iterable[float]) -> dict[str, Any]:
    """How many requests there were, and how many seconds they took."""
    took = sorted(times)
    shares = {"median": 0.5, "p99": 0.99, "longest": 1.0}
    places = {name: min(len(took) - 1, int(share * len(took))) for name, share in shares.items()}
    return {"requests": len(took)} | {name: took[place] if took else None for name, place in places.items()}


def _memory(process: int) -> int:
    """Bytes of memory that a process takes (Linux)."""
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


# ------------------------------------------------------------------------------------------------------- the workers


class _Timed:
    """What requests took, and what went wrong."""

    def __init__(self) -> None:
        self.times: dict[str, list[float]] = {kind: [] for kind in KINDS}
        self.errors = Counter[str]()

    def ask_and_tell(self, study: Any, pause: float = 0.0) -> None:
        """One test: two requests, and the time that its measurement takes in between."""
        try:
            start = time.perf_counter()
            tests = study.ask(1)
            self.times["ask"].append(time.perf_counter() - start)
            time.sleep(pause)
            start = time.perf_counter()
            study.tell_many([(test, 0.0) for test in tests])
            self.times["tell"].append(time.perf_counter() - start)
        except Exception as error:
            self.errors[f"{type(error).__name__}: {error}"] += 1


def _work(urls: Sequence[str], count: int, seconds: float, pause: float, begin: Any, answers: Any) -> None:
    """The workers of one process, each a thread with a connection of its own."""
    timed = [_Timed() for _ in range(count)]
    studies = [Client(urls[k % len(urls)], timeout=PATIENCE).open("measured") for k in range(count)]
    begin.wait(PATIENCE)
    until = time.monotonic() + seconds

    def run(k: int) -> None:
        while time.monotonic() < until:
            timed[k].ask_and_tell(studies[k], pause)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took = {kind: [seconds for one in timed for seconds in one.times[kind]] for kind in KINDS}
    answers.put((took, sum((one.errors for one in timed), Counter[str]())))


@contextlib.contextmanager
def _large_study_at_work(url: str) -> Iterator[_Timed]:
    """Someone measures the very large study, a test a second."""
    timed, over = _Timed(), threading.Event()
    study = Client(url, timeout=PATIENCE).open("wide")

    def run() -> None:
        while not over.wait(1.0):
            timed.ask_and_tell(study)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield timed
    finally:
        over.set()
        thread.join()


# ------------------------------------------------------------------------------------------------------ the watchers


@contextlib.contextmanager
def _watching(urls: Sequence[str], count: int) -> Iterator[Any]:
    """Open streams, half of the measured study and half of the list. Yields a function that counts those that are
    still open, and the events so far."""
    number = next(line.id for line in Client(urls[0], timeout=PATIENCE).studies() if line.name == "measured")
    selector, over = selectors.DefaultSelector(), threading.Event()
    events = Counter[str]()
    for k in range(count):
        parts = urlsplit(urls[k % len(urls)])
        stream = socket.create_connection((parts.hostname or "", parts.port or 80), timeout=PATIENCE)
        path = f"/api/studies/{number}/events" if k % 2 else "/api/events"
        stream.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        selector.register(stream, selectors.EVENT_READ)

    def read() -> None:
        while not over.is_set():
            for key, _ in selector.select(0.5):
                stream: Any = key.fileobj
                try:
                    piece = stream.recv(65536)
                except OSError:
                    piece = b""
                events["seen"] += piece.count(b"event: ")
                if not piece:
                    selector.unregister(stream)
                    stream.close()

    thread = threading.Thread(target=read)
    thread.start()
    try:
        yield lambda: (len(selector.get_map()), events["seen"])
    finally:
        over.set()
        thread.join()
        for key in list(selector.get_map().values()):
            selector.unregister(key.fileobj)
            key.fileobj.close()  # type: ignore[union-attr] # it is a socket
        selector.close()
