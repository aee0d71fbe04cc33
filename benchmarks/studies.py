"""How fast studies are: durable tells, asks of a large problem, opening a long record.

python benchmarks/studies.py

Speeds are compared within one run with a bare loop of sqlite3 inserts of the same durability.
"""

from __future__ import annotations

import itertools
import resource
import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

import bestarm as ba

TELLS, BLOCKS = 250, 40
LONG = 1_000_000


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


def large_problem(arms: int, metrics: int) -> tuple[ba.Problem, npt.NDArray[np.float64]]:
    noise = ba.Gaussian(1.0)
    problem = ba.Problem(
        arms=tuple(ba.Arm(f"arm {k}") for k in range(arms)),
        objective=ba.maximize("metric 0", noise=noise),
        constraints=tuple(ba.at_most(f"metric {k}", 0.0, noise=noise) for k in range(1, metrics)),
    )
    return problem, np.random.default_rng(0).normal(-0.5, 1.0, (arms, metrics))


def asks(folder: Path) -> tuple[float, float, float]:
    """Milliseconds of an ask at 1,000 arms × 10 metrics, half-way: median and 99 % quantile; and of a status."""
    problem, means = large_problem(1000, 10)
    lots = np.random.default_rng(1)
    study = ba.Study.create(problem, storage=folder / "asks.db")
    times = []
    for k in range(13_000):
        start = time.perf_counter()
        [test] = study.ask(1)
        times.append(time.perf_counter() - start)
        arm, metric = study.arm_number(test.arm), study.metric_number(test.metric)
        study.tell(test, float(means[arm, metric] + lots.normal()))
        if k == 11_000:
            study.status()
    settled = 1e3 * np.array(times[11_000:])
    return float(np.median(settled)), float(np.quantile(settled, 0.99)), 1e3 * seconds(study.status)


def long_record(folder: Path) -> tuple[float, float]:
    """Seconds to open a study of a million results and say whether it is done; megabytes that it takes."""
    noise = ba.Gaussian(1.0)
    arms = tuple(ba.Arm(name) for name in "abc")
    constraints = (ba.at_most("y", 0.0, noise=noise),)
    problem = ba.Problem(arms=arms, objective=ba.maximize("x", noise=noise), constraints=constraints)
    study = ba.Study.create(problem, storage=folder / "long.db", name="long")
    key, storage = study.record.key, study.storage
    # All means are equal and on the threshold, so the study goes on for ever; rounds of six tests.
    round_of_six = [(arm, metric) for arm in range(3) for metric in range(2)]
    lots = np.random.default_rng(2)
    for _ in range(LONG // 60_000 + 1):
        tests = storage.hand_out(key, 60_000, "benchmark", 3600.0, 0, lambda count: [round_of_six] * (count // 6))
        values = lots.normal(size=len(tests)).tolist()
        # Into the table at one go: a million tells are not what is measured here.
        with sqlite3.connect(folder / "long.db") as connection:
            connection.executemany(
                "INSERT INTO bestarm_outcomes VALUES (?, ?, 0, ?, NULL, 'benchmark', 0)",
                [(key, test.id, value) for test, value in zip(tests, values, strict=True)],
            )
    ba.Study.open("long", storage=folder / "long.db").status()  # compiles, or loads what was compiled earlier
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    took = seconds(lambda: ba.Study.open("long", storage=folder / "long.db").done)
    return took, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        told, bare = tells(folder)
        print(f"durable tells: {told:,.0f} a second, {told / bare:.2f} of a bare sqlite3 insert loop ({bare:,.0f})")
        median, high, status = asks(folder)
        print(
            f"ask at 1,000 arms × 10 metrics: median {median:.1f} ms, 99 % within {high:.1f} ms; status {status:.0f} ms"
        )
        took, memory = long_record(folder)
        print(f"open a study of {LONG:,} results: {took:.1f} s, {memory:.0f} MB more memory at the peak")


if __name__ == "__main__":
    main()
