"""How fast studies are: durable tells, asks of a large problem, many arms, opening and importing a long record.

python benchmarks/studies.py

Speeds are compared within one run with a bare loop of sqlite3 inserts of the same durability.
"""

from __future__ import annotations

import itertools
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import bestarm as ba
from bestarm.noises import Noise

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.postgres import PostgresServer, find_postgres

TELLS, BLOCKS = 250, 40
LONG = 1_000_000
FEW, MANY = 1_000, 100_000
PIECE = 10_000


def seconds(act: Callable[[], object]) -> float:
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def tells(folder: Path) -> tuple[float, float]:
    """Results a second that one process tells one study, and rows a second of a plain loop, one transaction each.

    In turns, and the median of each: another program may be at the disk for a while.
    """
    study = ba.Study.create(ba.instance("exp1-c"), storage=folder / "tells.db")
    tests = iter(study.ask(BLOCKS * TELLS))
    connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE results (study INTEGER, test INTEGER, value REAL, PRIMARY KEY (study, test))")
    rows = itertools.count()

    def tell() -> None:
        for test in itertools.islice(tests, TELLS):
            study.tell(test, 0.5)

    def insert() -> None:
        for test in itertools.islice(rows, TELLS):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO results VALUES (1, ?, ?)", (test, 0.5))
            connection.execute("COMMIT")

    times = np.array([(seconds(tell), seconds(insert)) for _ in range(BLOCKS)])
    told, bare = TELLS / np.median(times, axis=0)
    return float(told), float(bare)


NOISES: dict[str, tuple[Noise, Noise]] = {
    "known scatter": (ba.Gaussian(1.0), ba.Gaussian(1.0)),
    "symmetric": (ba.Symmetric(), ba.Symmetric()),
    "bounded": (ba.Bounded(-20.0, 20.0), ba.Bounded(-20.0, 20.0)),
    "symmetric, with medians as constraints": (ba.Symmetric(), ba.Quantile(0.5)),
    "exact, with symmetric constraints": (ba.Exact(), ba.Symmetric()),
}
"""Of the objective and of the constraints."""


def large_problem(
    arms: int, metrics: int, noises: tuple[Noise, Noise] = NOISES["known scatter"]
) -> tuple[ba.Problem, npt.NDArray[np.float64]]:
    problem = ba.Problem(
        arms=tuple(ba.Arm(f"arm {k}") for k in range(arms)),
        objective=ba.maximize("metric 0", noise=noises[0]),
        constraints=tuple(ba.at_most(f"metric {k}", 0.0, noise=noises[1]) for k in range(1, metrics)),
    )
    return problem, np.random.default_rng(0).normal(-0.5, 1.0, (arms, metrics))


def asks(file: Path, noises: tuple[Noise, Noise]) -> tuple[float, float, float]:
    """Milliseconds of an ask at 1,000 arms × 10 metrics, halfway: median and 99% quantile; and of a status."""
    problem, means = large_problem(1000, 10, noises)
    rng = np.random.default_rng(1)
    study = ba.Study.create(problem, storage=file)
    times = []
    for k in range(13_000):
        start = time.perf_counter()
        [test] = study.ask(1)
        times.append(time.perf_counter() - start)
        arm, metric = study.arm_number(test.arm), study.metric_number(test.metric)
        scatters = not problem.noises[metric].is_exact
        study.tell(test, float(means[arm, metric] + scatters * rng.normal()))
        if k == 11_000:
            study.status()
    settled = 1e3 * np.array(times[11_000:])
    return float(np.median(settled)), float(np.quantile(settled, 0.99)), 1e3 * seconds(study.status)


def first_round(file: Path, arms: int, piece: int) -> float:
    """Seconds to make a study of two metrics, ask for a test of every stream in pieces, tell all, and take stock."""
    start = time.perf_counter()
    study = ba.Study.create(large_problem(arms, 2)[0], storage=file)
    asked: list[ba.Test] = []
    while len(asked) < 2 * arms:
        asked += study.ask(min(piece, 2 * arms - len(asked)))
    values = np.random.default_rng(3).normal(-0.5, 1.0, len(asked)).tolist()
    results = list(zip(asked, values, strict=True))
    for k in range(0, len(results), piece):
        study.tell_many(results[k : k + piece])
    assert study.status().tests == 2 * arms
    return time.perf_counter() - start


def many_arms(folder: Path) -> tuple[float, float, float, float]:
    """Seconds of the first round of many arms, in pieces and at once; by how much more a test takes than with few arms;
    megabytes."""
    first_round(folder / "warm.db", FEW, PIECE)  # compiles, or loads what was compiled earlier
    few = float(np.median([first_round(folder / f"few{k}.db", FEW, PIECE) for k in range(5)]))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    pieces = first_round(folder / "many.db", MANY, PIECE)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return pieces, first_round(folder / "once.db", MANY, 2 * MANY), pieces / MANY / (few / FEW), memory


def long_record(folder: Path) -> tuple[float, float]:
    """Seconds to open a study of a million results and say whether it is done; megabytes that it takes."""
    noise = ba.Gaussian(1.0)
    arms = tuple(ba.Arm(name) for name in "abc")
    constraints = (ba.at_most("y", 0.0, noise=noise),)
    problem = ba.Problem(arms=arms, objective=ba.maximize("x", noise=noise), constraints=constraints)
    study = ba.Study.create(problem, storage=folder / "long.db", name="long")
    key, storage = study.record.key, study.storage
    # All means are equal and on the threshold, so the study goes on forever; rounds of six tests.
    round_of_six = [(arm, metric) for arm in range(3) for metric in range(2)]
    rng = np.random.default_rng(2)
    for _ in range(LONG // 60_000 + 1):
        tests = storage.hand_out(key, 60_000, "benchmark", 3600.0, 0, lambda count: [round_of_six] * (count // 6))
        values = rng.normal(size=len(tests)).tolist()
        # Into the table at one go: a million tells are not what is measured here.
        with sqlite3.connect(folder / "long.db") as connection:
            connection.executemany(
                "INSERT INTO bestarm_outcomes (study, test, correction, value, holder, told) "
                "VALUES (?, ?, 0, ?, 'benchmark', 0)",
                [(key, test.id, value) for test, value in zip(tests, values, strict=True)],
            )
    ba.Study.open("long", storage=folder / "long.db").status()  # compiles, or loads what was compiled earlier
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = seconds(lambda: ba.Study.open("long", storage=folder / "long.db").done)
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def bestarm(*words: str) -> tuple[float, float]:
    """Seconds and megabytes that a command takes, in a process of its own."""
    start = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", "bestarm", *words], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, words
    return time.perf_counter() - start, usage.ru_maxrss / 1024


def long_file(file: Path) -> None:
    rng = np.random.default_rng(4)
    with file.open("w") as out:
        out.write("arm,metric,value\n")
        for _ in range(LONG // PIECE):
            columns = rng.integers(0, 20, PIECE), rng.integers(0, 2, PIECE), rng.normal(size=PIECE)
            rows = zip(*(column.tolist() for column in columns), strict=True)
            out.writelines(f"arm {arm},metric {metric},{value!r}\n" for arm, metric, value in rows)


def imports(url: str, file: Path) -> tuple[float, float]:
    """Seconds and megabytes of `bestarm import` of a file of a million results."""
    ba.Study.create(large_problem(20, 2)[0], name="import", storage=url).storage.close()
    return bestarm("import", "import", str(file), "--db", url)


def bare_inserts(folder: Path) -> float:
    """Seconds to insert a million rows into a plain SQLite table with a key, in one transaction."""
    connection = sqlite3.connect(folder / "plain.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE results (study INTEGER, test INTEGER, value REAL, PRIMARY KEY (study, test))")
    values = array("d", np.random.default_rng(5).normal(size=LONG))

    def insert() -> None:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO results VALUES (1, ?, ?)", enumerate(values))
        connection.execute("COMMIT")

    return seconds(insert)


def exports(folder: Path) -> tuple[float, float]:
    """Seconds to export a million results as CSV and as JSON."""
    where = ("--db", str(folder / "import.db"))
    csv, json = (bestarm("export", "import", *where, "-o", str(folder / f"out.{form}"))[0] for form in ("csv", "json"))
    return csv, json


def import_and_export(folder: Path) -> None:
    file = folder / "past.csv"
    long_file(file)
    took, memory = imports(str(folder / "import.db"), file)
    bare = bare_inserts(folder)
    print(
        f"import {LONG:,} results: {took:.1f} s, {memory:.0f} MB at the peak; "
        f"{took / bare:.1f} times a bare sqlite3 insert of as many rows in one transaction ({bare:.1f} s)"
    )
    csv, json = exports(folder)
    print(f"export them: {csv:.0f} s as CSV, {json:.0f} s as JSON, {json / csv:.2f} of that")
    programs = find_postgres()
    if programs is not None:
        server = PostgresServer(programs, {"shared_buffers": "128MB"})
        try:
            slow, memory = imports(server.new_database(), file)
        finally:
            server.close()
        print(f"import them into PostgreSQL: {slow:.1f} s, {memory:.0f} MB at the peak; {slow / took:.1f} times SQLite")


def asks_on_items(file: Path) -> tuple[int, float, float, float, float]:
    """A whole study of 20 arms on 500 items, three metrics a test: how many tests it takes; the median of an ask, 99%,
    and the longest; and a look at the status at the end, all in milliseconds."""
    arms, items = 20, 500
    problem = ba.Problem(
        arms=[f"prompt {k + 1}" for k in range(arms)],
        objective=ba.maximize("score", noise=ba.Bounded(0.0, 10.0)),
        constraints=[
            ba.at_most("violation", 0.1, noise=ba.Bernoulli()),
            ba.at_most("cost", 3.0, noise=ba.Symmetric()),
        ],
        measurements=[ba.measurement("score", "violation", "cost")],
        items=items,
    )
    random = np.random.default_rng(0)
    ease, risk = random.normal(0.0, 1.5, items), random.normal(0.0, 1.0, items)
    study, took, tests = ba.Study.create(problem, storage=file), [], 0
    while not study.done:
        start = time.perf_counter()
        [test] = study.ask()
        took.append(time.perf_counter() - start)
        arm, item = int(test.arm.split()[1]) - 1, int(test.item or 0) - 1
        score = float(np.clip(6.5 - 0.08 * arm + ease[item] + random.normal(0.0, 0.8), 0.0, 10.0))
        violates = bool(risk[item] + random.normal() > 2.3 - 0.02 * arm)
        study.tell(test, {"score": score, "violation": violates, "cost": 2.0 + 0.03 * arm + random.normal(0.0, 0.3)})
        tests += 1
    median, high, most = (1e3 * float(np.quantile(took, q)) for q in (0.5, 0.99, 1.0))
    return tests, median, high, most, 1e3 * seconds(study.status)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        # First: a new process counts as its own what the one that starts it has taken.
        import_and_export(folder)
        told, bare = tells(folder)
        print(f"durable tells: {told:,.0f} a second, {told / bare:.2f} of a bare sqlite3 insert loop ({bare:,.0f})")
        print("ask at 1,000 arms × 10 metrics:")
        for k, (label, noises) in enumerate(NOISES.items()):
            median, high, status = asks(folder / f"asks{k}.db", noises)
            print(f"  {label}: median {median:.1f} ms, 99% within {high:.1f} ms; status {status:.0f} ms", flush=True)
        tests, median, high, most, status = asks_on_items(folder / "items.db")
        print(
            f"20 arms × 500 items × 3 metrics, {tests:,} tests: ask in a median of {median:.1f} ms, 99% within "
            f"{high:.1f} ms, at most {most:.1f} ms; status {status:.0f} ms"
        )
        pieces, once, ratio, memory = many_arms(folder)
        print(
            f"first round of {MANY:,} arms × 2 metrics: {pieces:.0f} s in pieces of {PIECE:,} tests, "
            f"{once:.0f} s at once, {memory:.0f} MB more memory at the peak; "
            f"a test takes {ratio:.2f} of what it takes at {FEW:,} arms"
        )
        took, memory = long_record(folder)
        print(f"open a study of {LONG:,} results: {took:.1f} s, {memory:.0f} MB more memory at the peak")


if __name__ == "__main__":
    main()
