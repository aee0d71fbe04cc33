"""What a study adds to many calls at once: `identify_async` against a bare loop that makes as many.

    nice python benchmarks/calls.py [--calls 2000] [--seconds 0.3] [--concurrency 32] [--repeat 3]

Calls only wait. The study has items and two metrics in each call, and is kept in SQLite; it ends by its budget, because
its arms are tied. The loop is `asyncio.gather` with a semaphore. Both are run in turn, and the ratio of their times
is printed as Markdown, with the time of processors that the study took for a call.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import tempfile
import time
from pathlib import Path

import bestarm as ba

ARMS = [f"prompt {k}" for k in range(1, 7)]


def problem(calls: int) -> ba.Problem:
    """Six arms that are all alike, more than as many items."""
    return ba.Problem(
        arms=ARMS,
        objective=ba.maximize("accuracy", noise=ba.Bernoulli()),
        constraints=[ba.at_most("cost", 5, noise=ba.Bounded(0, 10))],
        measurements=[ba.measurement("accuracy", "cost")],
        items=calls,
    )


async def by_study(calls: int, seconds: float, concurrency: int, folder: Path) -> int:
    made = 0

    async def measure(arm: str, metric: str, item: str) -> dict[str, float]:
        nonlocal made
        made += 1
        await asyncio.sleep(seconds)
        rng = random.Random(f"{arm} {item}")
        return {"accuracy": rng.random() < 0.8, "cost": 3 * rng.random()}

    await ba.identify_async(
        problem(calls),
        measure,
        concurrency=concurrency,
        storage=folder / "calls.db",
        budget=calls,
        seed=1,
        items_seed=1,
    )
    return made


async def by_loop(calls: int, seconds: float, concurrency: int) -> None:
    room = asyncio.Semaphore(concurrency)

    async def call() -> None:
        async with room:
            await asyncio.sleep(seconds)

    await asyncio.gather(*(call() for _ in range(calls)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=0.3)
    parser.add_argument("--concurrency", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    ratios = []
    print("| calls | of the study | of the loop | study ÷ loop | processor time for a call |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for _ in range(given.repeat):
        with tempfile.TemporaryDirectory() as folder:
            began, worked = time.perf_counter(), time.process_time()
            made = asyncio.run(by_study(given.calls, given.seconds, given.concurrency, Path(folder)))
            study, work = time.perf_counter() - began, time.process_time() - worked
        began = time.perf_counter()
        asyncio.run(by_loop(made, given.seconds, given.concurrency))
        loop = time.perf_counter() - began
        ratios.append(study / loop)
        print(
            f"| {made:,} | {study:.1f} s | {loop:.1f} s | {study / loop:.2f} | {1e3 * work / made:.1f} ms |", flush=True
        )
    print(f"\nMedian ratio: {statistics.median(ratios):.2f}")


if __name__ == "__main__":
    main()
