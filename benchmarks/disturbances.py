"""What an unrelated ask or tell takes while a neighbor has the service do something large."""

from __future__ import annotations

import contextlib
import http.client
import math
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np

import bestarm as ba
from bestarm.client import Client
from bestarm.storage.columns import Columns
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study.study import Study

PATIENCE = 300.0

# A process of its own: a client that shares a processor lock with the disturbance would measure itself.
_NEIGHBOR = """
import sys, time
from bestarm.client import Client
study = Client(sys.argv[1], timeout=600.0).open("unrelated")
print("ready", flush=True)
while True:
    start = time.perf_counter()
    tests = study.ask(1)
    asked = time.perf_counter()
    study.tell(tests[0], 0.0)
    print(asked - start, time.perf_counter() - asked, flush=True)
"""


def prepare(path: Path, *, results: int, arms: int, studies: int, plan: ba.Plan) -> None:
    """An unrelated study, a long one, a wide one, and very many small ones."""
    Study.create(plan, name="unrelated", storage=path).add([(arm, metric, 0.0) for arm in "abc" for metric in "xy"])
    storage = SQLStorage(str(path))
    long = Study.create(plan, name="long", storage=storage)
    rng = np.random.default_rng(0).normal(size=results)
    rows = Columns((k % 3, k // 3 % 2, float(value)) for k, value in enumerate(rng))
    storage.give(long.record.key, rows, "benchmark", "", range(5, results, 6))
    noise = ba.Gaussian(1.0)
    wide = ba.Problem(arms=[f"arm {k}" for k in range(arms)], objective=ba.maximize("x", noise=noise))
    Study.create(wide, name="wide", storage=storage)
    for k in range(studies):
        Study.create(plan, name=f"small {k}", storage=storage)


@contextlib.contextmanager
def neighbor(url: str) -> Iterator[list[float]]:
    """Seconds that each ask and tell of an unrelated study takes, as they come."""
    with subprocess.Popen([sys.executable, "-c", _NEIGHBOR, url], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        took: list[float] = []
        lines = process.stdout

        def read() -> None:
            for line in lines:
                took.extend(map(float, line.split()))

        threading.Thread(target=read, daemon=True).start()
        try:
            yield took
        finally:
            process.kill()


def hang_up(url: str, path: str) -> None:
    """Ask for something, and leave before it is there."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
    connection.request("GET", path)
    time.sleep(0.2)
    connection.close()


def all_at_once(*deeds: Callable[[], object]) -> None:
    threads = [threading.Thread(target=deed) for deed in deeds]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def disturbances(url: str, seconds: float) -> dict[str, Callable[[], object]]:
    """What a neighbor may do, each until it is over."""
    client = Client(url, timeout=PATIENCE)
    long, wide = client.open("long"), client.open("wide")
    number = {line.name: line.id for line in client.studies()}

    def download(form: str) -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        connection.request("GET", f"/api/studies/{number['long']}/export?format={form}")
        answer = connection.getresponse()
        while answer.read(1 << 20):
            pass

    def correct() -> None:
        long.correct(1, 0.25, "misread")
        long.ask(1)

    def upload() -> None:
        parts = urlsplit(url)
        connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=PATIENCE)
        body = "arm,metric,value\n" + "a,x,0.5\n" * 199_000
        connection.request("POST", f"/api/studies/{number['long']}/csv", body, {"Content-Type": "text/csv"})
        assert connection.getresponse().status == 200

    def forecast_and_leave() -> None:
        for k in range(5):
            hang_up(url, f"/api/studies/{number['long']}/forecast?runs=1000&seed={k}")
        time.sleep(seconds)

    def for_a_while(deed: Callable[[], object]) -> Callable[[], None]:
        def act() -> None:
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                deed()

        return act

    return {
        "a correction in a long study, and an ask": correct,
        "asks of a wide study": for_a_while(lambda: wide.ask(100, days=math.inf)),
        "the list of studies, by two": lambda: all_at_once(*2 * [for_a_while(client.studies)]),
        "three exports of a long study": lambda: all_at_once(
            lambda: download("csv"), lambda: download("json"), lambda: download("csv")
        ),
        "an upload of 199,000 results": upload,
        "five forecasts whose clients hung up": forecast_and_leave,
    }


def measure(url: str, seconds: float) -> dict[str, tuple[float, float, float, float, int]]:
    """For each disturbance: how long it took, and the median, 99th percentile, longest and number of an unrelated
    study's requests meanwhile."""
    found = {}
    with neighbor(url) as took:

        def note(name: str, deed: Callable[[], object]) -> None:
            time.sleep(2.0)
            before, start = len(took), time.perf_counter()
            deed()
            end = time.perf_counter()
            # What has not come back yet has taken at least as long as it is out.
            count = len(took)
            give_up = time.monotonic() + PATIENCE
            while len(took) < count + 2:
                assert time.monotonic() < give_up, "the unrelated study hears nothing any more"
                time.sleep(0.01)
            some = np.array(took[before : count + 2])
            p50, p99 = np.quantile(some, [0.5, 0.99])
            found[name] = end - start, float(p50), float(p99), float(some.max()), len(some)

        # The first time ever, kernels are compiled.
        Client(url, timeout=PATIENCE).open("long").ask(1)
        note("nothing", lambda: time.sleep(seconds))
        for name, deed in disturbances(url, seconds).items():
            note(name, deed)
            print(name, found[name], file=sys.stderr, flush=True)
    return found
