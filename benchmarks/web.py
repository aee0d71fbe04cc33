"""The service under load, and at rest: what 50 clients get through HTTP, what is lost on the way, and what 100 open
dashboards cost when nothing happens.

python benchmarks/web.py --seconds 60

Clients ask for 20 tests at a time and tell their 20 results in one request. Speeds are compared within one run with a
loop of `study.tell` on the same kind of database.

With `--rounds` nothing is timed: every client asks and tells so often, and only what is lost on the way is counted.

With `--disturbed`, what an unrelated ask or tell takes while the service does something large for another client, as a
ratio to the undisturbed service.

With `--held`, how long 50 workers wait who ask and tell one test at a time, while 300 watchers have live events and
someone measures a study of 100,000 arms, on one server or more; and what memory the servers take at the beginning and
at the end. Without `--pause`, the workers ask as fast as they are answered, and all but one wait for their turn.
`--db postgresql` is a PostgreSQL server of the benchmark's own, durable as by default:

python benchmarks/web.py --held --seconds 600 --servers 2 --db postgresql
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import multiprocessing
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import bestarm as ba
from bestarm.client import Client
from bestarm.study.study import Study

CLIENTS = 50
PROCESSES = 5
AT_ONCE = 20
STREAMS = 100
DIRECT_TELLS = 1000
PATIENCE = 600.0
"""Seconds after which clients that do not end are given up."""
WARM = [(arm, metric, 0.0) for arm in "abc" for metric in "xy"] * 500


def endless() -> ba.Plan:
    """A study without an answer: all arms are alike, and on the threshold."""
    noise = ba.Gaussian(1.0)
    return ba.Plan(
        arms=["a", "b", "c"],
        objective=ba.maximize("x", noise=noise),
        constraints=[ba.at_most("y", 0.0, noise=noise)],
        name="endless",
    )


@contextlib.contextmanager
def served(path: Path | str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own: its address and process id."""
    command = [sys.executable, "-m", "bestarm", "serve", "--db", str(path), "--port", "0", "--rate", "100000"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            found = re.search(r"http://[\d.:]+", process.stderr.readline())
            assert found, "the server did not start"
            threading.Thread(target=process.stderr.read, daemon=True).start()
            yield found[0], process.pid
        finally:
            process.terminate()


def direct_rate(path: Path) -> float:
    """Results a second that one process tells without a server."""
    study = Study.create(endless(), storage=path)
    tests = study.ask(DIRECT_TELLS)
    start = time.perf_counter()
    for test in tests:
        study.tell(test, 0.5)
    return len(tests) / (time.perf_counter() - start)


# ------------------------------------------------------------------------------------------------------- under load


def one_client(
    client: Client, seed: int, until: float, rounds: int | None
) -> tuple[dict[int, float], Counter[str], int]:
    """Ask and tell until the time is up, or so often: what was acknowledged, what went wrong, and how many requests it
    took."""
    rng, told, errors, requests = random.Random(seed), dict[int, float](), Counter[str](), 0
    study = client.open("endless")
    for _ in itertools.count() if rounds is None else range(rounds):
        if time.time() >= until:
            break
        try:
            requests += 2
            results = {test: rng.gauss(0.0, 1.0) for test in study.ask(AT_ONCE)}
            study.tell_many(results.items())
            for test, value in results.items():
                if test.id in told:
                    errors["the same test twice to one client"] += 1
                told[test.id] = value
        except Exception as error:
            errors[f"{type(error).__name__}: {error}"] += 1
    return told, errors, requests


def some_clients(url: str, first: int, count: int, until: float, rounds: int | None, answers: Any) -> None:
    """Clients of one process, each a thread with a connection of its own."""
    found: list[tuple[dict[int, float], Counter[str], int]] = []

    def run(seed: int) -> None:
        client = Client(url, timeout=PATIENCE)
        found.append(one_client(client, seed, until, rounds))
        client.close()

    threads = [threading.Thread(target=run, args=(first + k,)) for k in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.put(found)


def under_load(folder: Path, seconds: float, rounds: int | None = None) -> dict[str, Any]:
    """For so many seconds, or so many rounds."""
    path = folder / "load.db"
    # Past its beginning, when policies are not compiled yet.
    Study.create(endless(), storage=path).add(WARM)
    with served(path) as (url, _):
        warm = Client(url, timeout=PATIENCE).open("endless")
        warm.tell_many([(test, 0.0) for test in warm.ask(AT_ONCE)])
        before = warm.status().tests
        context = multiprocessing.get_context("spawn")
        answers = context.Queue()
        # Starting the clients takes seconds, and must not count.
        until = time.time() + seconds + 6.0 if rounds is None else math.inf
        each = CLIENTS // PROCESSES
        arguments = [(url, k * each, each, until, rounds, answers) for k in range(PROCESSES)]
        clients = [context.Process(target=some_clients, args=one) for one in arguments]
        for process in clients:
            process.start()
        found = [part for _ in clients for part in answers.get(timeout=seconds + PATIENCE)]
        for process in clients:
            process.join()
    errors = sum((part[1] for part in found), Counter[str]())
    acknowledged: dict[int, float] = {}
    doubled = 0
    for told, _, _ in found:
        doubled += len(acknowledged.keys() & told.keys())
        acknowledged |= told
    recorded: dict[int, float | None] = {}
    times = []
    twice = 0
    study = Study.open("endless", storage=path)
    for test in study.storage.history(study.record.key):
        if test.outcomes:
            twice += len(test.outcomes) > 1
            recorded[test.id] = test.outcomes[-1].value
            times.append(test.outcomes[-1].time)
    times.sort()
    # What was told while the clients started and stopped is not a rate.
    middle = [moment for moment in times if until - seconds <= moment <= until]
    return {
        "clients": CLIENTS,
        "at_once": AT_ONCE,
        "seconds": seconds,
        "served": sum(bool(told) for told, _, _ in found),
        "requests": sum(part[2] for part in found),
        "acknowledged": len(acknowledged),
        "recorded": len(recorded) - before,
        "lost": sum(recorded.get(test) != value for test, value in acknowledged.items()),
        "handed_to_two": doubled,
        "told_twice": twice,
        "unaccounted": len(recorded.keys() - acknowledged.keys()) - before,
        "errors": dict(errors),
        "tells_a_second": len(middle) / seconds if rounds is None else None,
    }


# ---------------------------------------------------------------------------------------------------------- at rest


def processor_seconds(process: int) -> float:
    """Of the server so far (Linux)."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100.0


def open_stream(url: str, path: str) -> socket.socket:
    parts = urlsplit(url)
    sock = socket.create_connection((parts.hostname, parts.port or 80), timeout=30)
    sock.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    said = b""
    while b"data: " not in said:
        piece = sock.recv(65536)
        assert piece, said
        said += piece
    return sock


def at_rest(folder: Path, studies: int, seconds: float) -> float:
    """The share of a core that a server takes with so many studies watched through 100 streams."""
    path = folder / f"rest{studies}.db"
    for k in range(studies):
        study = Study.create(endless(), name=f"study {k}", storage=path)
        for test in study.ask(6):
            study.tell(test, 0.0)
        # Some tests are out, as in a study that people are at work on.
        study.ask(4)
    with served(path) as (url, server):
        paths = [f"/api/studies/{1 + k % studies}/events" for k in range(STREAMS)]
        streams = [open_stream(url, path) for path in paths]
        time.sleep(2.0)
        start, before = time.perf_counter(), processor_seconds(server)
        time.sleep(seconds)
        share = (processor_seconds(server) - before) / (time.perf_counter() - start)
        for sock in streams:
            sock.close()
    return share


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    options.add_argument("--seconds", type=float, default=60.0, help="how long the clients ask and tell")
    options.add_argument("--rounds", type=int, help="how often each client asks and tells, untimed")
    options.add_argument("--rest", type=float, default=10.0, help="how long the server is watched at rest")
    options.add_argument("--disturbed", action="store_true", help="what an unrelated study notices of large requests")
    options.add_argument("--size", type=float, default=1.0, help="of those requests, 1 being a million results")
    options.add_argument("--held", action="store_true", help="workers, watchers and a large study, all at once")
    options.add_argument("--workers", type=int, default=CLIENTS, help="with --held: who ask and tell")
    options.add_argument("--pause", type=float, default=0.0, help="with --held: seconds that a measurement takes")
    options.add_argument("--watchers", type=int, default=300, help="with --held: streams of live events")
    options.add_argument("--arms", type=int, default=100_000, help="with --held: of the large study")
    options.add_argument("--servers", type=int, default=1, help="with --held: on the same database")
    options.add_argument("--db", default="sqlite", help="with --held: sqlite, postgresql, or an empty database")
    options.add_argument("--json", action="store_true", help="print JSON")
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if chosen.held:
            with database(chosen.db, folder) as storage:
                report_held(storage, chosen)
            return
        if chosen.disturbed:
            report_disturbed(folder / "disturbed.db", chosen.seconds, chosen.size)
            return
        if chosen.rounds is not None:
            report_load(under_load(folder, 0.0, chosen.rounds), None, chosen.json)
            return
        # Before and after, for other programs on the machine come and go.
        before = direct_rate(folder / "before.db")
        load = under_load(folder, chosen.seconds)
        direct = (before + direct_rate(folder / "after.db")) / 2
        rest = {studies: at_rest(folder, studies, chosen.rest) for studies in (1, 100)}
    if chosen.json:
        print(json.dumps({"direct": direct, "load": load, "rest": rest}))
        return
    report_load(load, direct)
    for studies, share in rest.items():
        print(f"{STREAMS} event streams on {studies} studies, nothing happening: {100 * share:.1f}% of a core")


def report_disturbed(path: Path, seconds: float, size: float) -> None:
    import disturbances  # type: ignore[import-not-found] # beside this file

    sizes = {"results": int(1e6 * size), "arms": int(1e5 * size), "studies": int(3000 * size)}
    disturbances.prepare(path, plan=endless(), **sizes)
    print("; ".join(f"{count:,} {name}" for name, count in sizes.items()))
    print(f"{'meanwhile':42} {'for':>8} {'requests':>8} {'median':>8} {'99%':>8} {'longest':>8} {'ratio':>6}")
    with served(path) as (url, _):
        found = disturbances.measure(url, min(seconds, 10.0))
    undisturbed = found["nothing"][2]
    for name, (took, p50, p99, longest, count) in found.items():
        shown = f"{took:>6.1f} s {count:>8} {1e3 * p50:>5.1f} ms {1e3 * p99:>5.1f} ms {1e3 * longest:>5.0f} ms"
        print(f"{name:42} {shown} {p99 / undisturbed:>6.1f}")


@contextlib.contextmanager
def database(name: str, folder: Path) -> Iterator[str]:
    """The address of an empty database; the name says of which kind, or is the address of one that is there."""
    if name != "postgresql":
        yield str(folder / "held.db") if name == "sqlite" else name
        return
    sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run
    from tests.tools.postgres import PostgresServer, find_postgres

    programs = find_postgres()
    assert programs is not None, "there is no PostgreSQL on this machine"
    with contextlib.closing(PostgresServer(programs)) as server:
        yield server.new_database()


def report_held(storage: str, chosen: argparse.Namespace) -> None:
    import held_load  # type: ignore[import-not-found] # beside this file

    held_load.prepare(storage, plan=endless(), arms=chosen.arms)
    with contextlib.ExitStack() as servers:
        there = [servers.enter_context(served(storage)) for _ in range(chosen.servers)]
        load = {name: getattr(chosen, name) for name in ("workers", "watchers", "pause")}
        found = held_load.measure(there, chosen.seconds, **load)
    if chosen.json:
        print(json.dumps(found))
        return
    print(f"{found['workers']} workers for {found['seconds']:g} s on {found['servers']} x {chosen.db}", end=", ")
    print(f"{found['pause']:g} s between ask and tell; errors: {found['errors'] or 'none'}")
    for where, times in ("", found), (f" of {chosen.arms:,} arms", found["large_study"]):
        for kind in held_load.KINDS:
            median, p99, longest = (1e3 * (times[kind][name] or 0.0) for name in ("median", "p99", "longest"))
            shown = f"median {median:.0f} ms, 99% {p99:.0f} ms, longest {longest:.0f} ms"
            print(f"{kind}{where}: {times[kind]['requests']:,} requests, {shown}")
    print(f"{found['watchers_at_the_end']} of {found['watchers']} watchers still there; {found['events']:,} events")
    for first, last in zip(found["memory_first"], found["memory_last"], strict=True):
        print(f"memory of a server: {first / 1e6:.0f} MB at the beginning, {last / 1e6:.0f} MB at the end")


def report_load(load: dict[str, Any], direct: float | None, as_json: bool = False) -> None:
    if as_json:
        print(json.dumps({"load": load}))
        return
    if direct is not None:
        print(
            f"{load['clients']} clients, {load['at_once']} tests at a time, {load['seconds']:g} s: "
            f"{load['requests']:,} requests, {load['tells_a_second']:,.0f} tells a second, "
            f"{load['tells_a_second'] / direct:.2f} of a loop of study.tell ({direct:,.0f})"
        )
    print(
        f"{load['acknowledged']:,} results acknowledged, {load['recorded']:,} recorded; {load['lost']} lost, "
        f"{load['told_twice']} told twice, {load['handed_to_two']} tests handed to two, "
        f"{load['unaccounted']} unaccounted for; errors: {load['errors'] or 'none'}"
    )


if __name__ == "__main__":
    main()
