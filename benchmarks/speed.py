"""How fast the engine is, as ratios within one run: `make bench`.

Prints four tables: tests per second of each policy on exp1-c beside the engine's bare normal generator and the same
policy interpreted; time per test against the number of arms; starts and compilation; memory at 100,000 arms.
With `--check` it ends with status 1 if one of the limits that the project holds itself to is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table

import bestarm as ba
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, ZIGGURAT, Generator, Ziggurat, normal, seed_generator
from bestarm.policies import all_policies
from bestarm.policies.base import Policy
from bestarm.problem import Problem
from bestarm.simulation.engine import Job

POLICIES = ("feasible-lucb", "feasibility-first", "performance-first", "tf-lucb", "racing", "certify")
SIZES = (10, 100, 1_000, 10_000)
ROUNDS = 9

console = Console(width=110)
missed: list[str] = []


def limit(holds: bool, claim: str) -> None:
    console.print(f"[{'green' if holds else 'red'}]{'holds ' if holds else 'missed'}[/] {claim}")
    if not holds:
        missed.append(claim)


@kernel
def sum_of_normals(generator: Generator, ziggurat: Ziggurat, count: int) -> float:
    total = 0.0
    for _ in range(count):
        total += normal(generator, ziggurat)
    return total


def seconds(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def bare_rate() -> float:
    """Normals per second of the bare generator."""
    generator = np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, 1, 1, NOISE)
    loop = compiled(sum_of_normals)
    loop(generator, ZIGGURAT, 1)
    return 20_000_000 / seconds(lambda: loop(generator, ZIGGURAT, 20_000_000))


def compiled_rate(job: Job, tests: int) -> float:
    """Tests per second of the compiled policy, over runs that make about `tests` tests."""
    probe = job.simulate(0, 2).outcomes.tests.mean()
    chunk = job.simulate(0, max(1, round(tests / probe)))
    return float(chunk.outcomes.tests.sum()) / chunk.seconds


def interpreted_rate(job: Job) -> float:
    short = Job(job.problem, job.policy, job.delta, job.bound, job.seed, 20_000)
    short.interpret(0, 0)
    return 20_000 / seconds(lambda: short.interpret(0, 1))


def speed_on_exp1_c() -> None:
    table = Table(title="exp1-c, one core: tests per second", title_justify="left")
    for heading in ("policy", "million/s", "bare normals ÷ policy", "compiled ÷ interpreted"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    ratios: dict[str, tuple[float, float]] = {}
    for name in POLICIES:
        job = Job(ba.instance("exp1-c"), all_policies()[name], 0.1, "paper", 1, 10**9)
        rates = [(bare_rate(), compiled_rate(job, 8_000_000), interpreted_rate(job)) for _ in range(ROUNDS)]
        slower = statistics.median(bare / fast for bare, fast, _ in rates)
        faster = statistics.median(fast / slow for _, fast, slow in rates)
        ratios[name] = slower, faster
        rate = statistics.median(fast for _, fast, _ in rates)
        table.add_row(name, f"{rate / 1e6:.1f}", f"{slower:.1f}", f"{faster:.0f}")
    console.print(table)
    times = ratios["certify"][0] / ratios["feasible-lucb"][0]
    limit(times <= 5, f"certify at most 5 times slower per test than feasible-lucb ({times:.1f})")
    slower, faster = ratios["feasible-lucb"]
    limit(slower <= 10, f"feasible-lucb at least 1/10 of the bare generator's rate (1/{slower:.1f})")
    limit(faster >= 200, f"feasible-lucb at least 200 times its interpreted self ({faster:.0f})")


def many_arms(arms: int) -> Problem:
    """`arms` arms and 5 constraints with random means: a fifth of the arms feasible."""
    rng = np.random.default_rng(arms)
    noise = ba.Gaussian(1.0)
    metrics = ["performance", *(f"constraint {k}" for k in range(1, 6))]
    means = np.column_stack([rng.uniform(0, 1, arms), rng.uniform(-0.5, 0.2, (arms, 5))])
    return ba.Problem(
        arms=tuple(ba.Arm(f"arm {k}", dict(zip(metrics, row, strict=True))) for k, row in enumerate(means.tolist())),
        objective=ba.maximize("performance", noise=noise),
        constraints=tuple(ba.at_most(metric, 0.0, noise=noise) for metric in metrics[1:]),
    )


def time_per_test(problem: Problem, policy: type[Policy]) -> float:
    """Nanoseconds per test over the first 10^6 tests after every stream's initial one."""
    first = len(problem.arms) * len(problem.metrics)

    def timed(max_tests: int) -> tuple[float, int]:
        job = Job(problem, policy, 1e-9, "paper", 1, max_tests)
        chunks = [job.simulate(0, 1) for _ in range(3)]
        return min(chunk.seconds for chunk in chunks), int(chunks[0].outcomes.tests[0])

    (initial, _), (whole, tests) = timed(first), timed(first + 1_000_000)
    return (whole - initial) * 1e9 / (tests - first)


def time_against_arms() -> None:
    table = Table(title="time per test, N = 5, first 10^6 tests after the initial ones (ns)", title_justify="left")
    table.add_column("policy")
    for size in SIZES:
        table.add_column(f"K = {size:,}", justify="right")
    table.add_column("last ÷ first", justify="right")
    problems = [many_arms(size) for size in SIZES]
    for name in POLICIES:
        times = [time_per_test(problem, all_policies()[name]) for problem in problems]
        table.add_row(name, *(f"{t:.0f}" for t in times), f"{times[-1] / times[0]:.1f}")
        if name == "feasible-lucb":
            growth = times[-1] / times[0]
    console.print(table)
    limit(growth <= 5, f"feasible-lucb's time per test at K = 10,000 at most 5 times that at K = 10 ({growth:.1f})")


def subprocess_seconds(script: str, cache: str) -> float:
    environment = {**os.environ, "BESTARM_CACHE_DIR": cache}
    return seconds(lambda: subprocess.run([sys.executable, "-c", script], env=environment, check=True, stdout=-3))


def starts() -> None:
    simulate = "import bestarm as ba; ba.simulate(ba.instance('exp1-c'), policy='{}', runs=1)"
    every = "import bestarm as ba\nfor p in {}: ba.simulate(ba.instance('exp1-c'), policy=p, runs=1)"
    help_script = "from bestarm.cli.app import app; app(['--help'])"
    with tempfile.TemporaryDirectory() as cache:
        first = subprocess_seconds(simulate.format("feasible-lucb"), cache)
        later = min(subprocess_seconds(simulate.format("feasible-lucb"), cache) for _ in range(3))
    with tempfile.TemporaryDirectory() as cache:
        all_first = subprocess_seconds(every.format(POLICIES), cache)
    shown = min(subprocess_seconds(help_script, ".") for _ in range(5))
    table = Table(title="starting, in seconds, Python's own start included", title_justify="left")
    table.add_column("what")
    table.add_column("s", justify="right")
    for what, value in [
        ("bestarm --help", shown),
        ("first simulation ever with feasible-lucb (compiles)", first),
        ("the same from the cache", later),
        ("first simulation ever with each of the policies (compiles all)", all_first),
    ]:
        table.add_row(what, f"{value:.2f}")
    console.print(table)
    limit(shown < 0.3, f"bestarm --help in under 0.3 s ({shown:.2f})")
    limit(first < 15, f"first compile under 15 s ({first:.1f})")
    limit(later < 1.5, f"later starts under 1.5 s ({later:.2f})")


def memory() -> None:
    script = (
        "import sys; sys.path.insert(0, 'benchmarks')\n"
        "import resource, speed\n"
        "from bestarm.policies import all_policies\n"
        "from bestarm.simulation.simulate import simulate\n"
        "problem = speed.many_arms(100_000)\n"
        "for policy in speed.POLICIES: simulate(problem, policy=policy, runs=1, max_tests=1_000_000)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    result = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    unit = 1 if sys.platform == "darwin" else 1024
    gigabytes = int(result.stdout) * unit / 1e9
    limit(gigabytes < 1, f"100,000 arms × 6 metrics, every policy in turn, in 1 GB ({gigabytes:.2f} GB at most)")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--check", action="store_true", help="end with status 1 if a limit is missed")
    check = options.parse_args().check
    for part in (speed_on_exp1_c, time_against_arms, starts, memory):
        part()
    if check and missed:
        sys.exit(1)


if __name__ == "__main__":
    main()
