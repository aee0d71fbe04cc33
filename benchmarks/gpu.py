"""The GPU engine on a real card: is every run the same as on the CPU, and how fast is it?

    python benchmarks/gpu.py --out benchmarks/gpu-h200.md

Writes a table as Markdown. `--small` only runs every policy in both memory layouts for a moment, for
`compute-sanitizer --tool memcheck python benchmarks/gpu.py --small`.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from numba import cuda

import bestarm as ba
from bestarm.policies import all_policies, find_policy
from bestarm.simulation.cuda.card import CardJob, CardSchedule, planned, this_card
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import Simulation, simulate

CLASSICS = {
    "four means, no constraint": ("gaussian", (1.0, 0.85, 0.8, 0.7)),
    "four rates, no constraint": ("bernoulli", (0.5, 0.45, 0.43, 0.4)),
}
PARITY = ("exp1-a", "exp1-b", "exp1-c", "drug", "drug-bernoulli", "exp2-n8", *CLASSICS)
PARITY_MAX_TESTS = 10_000
PARITY_RUNS = 100_000

SPEED = {
    ("feasible-lucb", "exp1-a"): 4_000_000,
    ("feasible-lucb", "exp1-b"): 500_000,
    ("feasible-lucb", "exp1-c"): 1_000_000,
    ("feasible-lucb", "exp2-k64"): 400_000,
    ("feasible-lucb", "exp2-n64"): 400_000,
    ("certify", "exp1-a"): 1_000_000,
    ("certify", "exp1-c"): 2_000_000,
    ("certify", "drug-bernoulli"): 1_000_000,
    ("feasibility-first", "exp1-c"): 200_000,
    ("performance-first", "exp1-c"): 200_000,
    ("tf-lucb", "exp1-c"): 200_000,
    ("racing", "exp1-c"): 200_000,
}
"""Runs of each on the card, some seconds' worth."""

GOALS = {
    ("feasible-lucb", "exp1-a"): 12.0,
    ("feasible-lucb", "exp1-c"): 8.0,
    ("certify", "exp1-c"): 1.0,
    ("certify", "drug-bernoulli"): 0.5,
    ("feasible-lucb", "exp2-k64"): 2.0,
    ("feasible-lucb", "exp2-n64"): 2.0,
}
"""Billion tests a second on an H200."""


@dataclasses.dataclass(frozen=True)
class Difference:
    """How many runs came out otherwise on the card, by what was compared."""

    policy: str
    instance: str
    runs: int
    ended: int
    answers: int
    tests: int
    streams: int


def problem_of(name: str) -> ba.Problem:
    if name not in CLASSICS:
        return ba.instance(name)
    noise, means = CLASSICS[name]
    arms = [ba.Arm(f"arm {k}", {"performance": mean}) for k, mean in enumerate(means)]
    return ba.Problem(
        arms, ba.maximize("performance", noise=ba.Gaussian(1.0) if noise == "gaussian" else ba.Bernoulli())
    )


def on_both(instance: str, policy: str, runs: int, max_tests: int) -> tuple[Simulation, Simulation]:
    options: dict[str, Any] = {"policy": policy, "runs": runs, "seed": 1, "max_tests": max_tests}
    plan = problem_of(instance)
    return simulate(plan, **options), simulate(plan, **options, device="cuda")


def differences(runs: int, max_tests: int) -> Iterator[Difference]:
    for instance in PARITY:
        for policy in all_policies():
            cpu, card = on_both(instance, policy, runs, max_tests)
            assert cpu.tests_per_stream is not None
            assert card.tests_per_stream is not None
            streams = (cpu.tests_per_stream != card.tests_per_stream).any(axis=(1, 2))
            yield Difference(
                policy,
                instance,
                runs,
                runs - cpu.unfinished,
                int((cpu.answers != card.answers).sum()),
                int((cpu.tests != card.tests).sum()),
                int(streams.sum()),
            )


def rates(policy: str, instance: str, runs: int) -> tuple[float, float, float]:
    """Tests a second on the card and on all cores, and seconds on the card."""
    options: dict[str, Any] = {"policy": policy, "seed": 1, "keep_streams": False}
    plan = ba.instance(instance)
    probe = simulate(plan, **options, runs=200)
    count = max(200, round(1.0 * probe.tests_per_second / probe.mean_tests))
    cpu = simulate(plan, **options, runs=count)
    card = simulate(plan, **options, runs=runs, device="cuda")
    return card.tests_per_second, cpu.tests_per_second, card.seconds


def mixed_problem() -> ba.Problem:
    """Every noise, and arms enough for a tournament of two levels."""
    rng = np.random.default_rng(1)
    means = zip(rng.uniform(0, 4, 12), rng.uniform(0.1, 0.9, 12), rng.uniform(1, 9, 12), strict=True)
    return ba.Problem(
        arms=tuple(
            ba.Arm(f"arm {k}", dict(zip(("latency", "rate", "score"), map(float, row), strict=True)))
            for k, row in enumerate(means)
        ),
        objective=ba.minimize("latency", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("rate", 0.5, noise=ba.Bernoulli()), ba.at_least("score", 5.0, noise=ba.Bounded(0, 10))),
    )


def small_jobs() -> Iterator[CardJob]:
    """Every policy in shared memory and in the card's memory."""
    card = this_card()
    for policy in all_policies().values():
        job = Job(mixed_problem(), policy, 0.1, "mixture", 1, 700, keep_counts=True)
        for place in (card, card._replace(shared=0)):
            yield CardJob(job, planned(job, 300, place))


def small() -> None:
    for card_job in small_jobs():
        runs = sum(len(chunk.outcomes.answers) for _, chunk in card_job.simulate(0, 300))
        print(f"{card_job.job.label}: {runs} runs, {card_job.layout}", flush=True)


def machine() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
    driver = subprocess.run(query, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    cpu = platform.processor() or "CPU"
    if Path("/proc/cpuinfo").exists():
        names = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()]
        cpu = next((name for name in names if "CPU" in name or "Processor" in name or "EPYC" in name), cpu)
    card = cuda.get_current_device().name
    card = card.decode() if isinstance(card, bytes) else card
    packages = ", ".join(f"{name} {version(name)}" for name in ("numba", "numba-cuda", "numpy"))
    return [
        f"- card: {card}, {this_card().multiprocessors} multiprocessors; driver {driver}",
        f"- beside it: {os.cpu_count()} cores, {cpu}",
        f"- Python {platform.python_version()}, {packages}",
        f"- command: `{' '.join(['python benchmarks/gpu.py', *sys.argv[1:]])}`",
    ]


def speed_table() -> list[str]:
    lines = ["| policy | instance | runs | s | card, G tests/s | all cores, G tests/s | card ÷ cores | goal |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |"]
    for (policy, instance), runs in SPEED.items():
        job = Job.of(ba.instance(instance), find_policy(policy), seed=1, max_tests=10**9)
        start = time.perf_counter()
        CardSchedule([job], [[(0, runs)]]).compile()
        compiling = time.perf_counter() - start
        card, cores, seconds = rates(policy, instance, runs)
        goal = GOALS.get((policy, instance))
        said = "" if goal is None else f"{goal:g}: {'reached' if card >= goal * 1e9 else 'missed'}"
        lines.append(
            f"| {policy} | {instance} | {runs:,} | {seconds:.2f} | {card / 1e9:.2f} | {cores / 1e9:.3f} "
            f"| {card / cores:.0f} | {said} |"
        )
        print(lines[-1], f"(compiled in {compiling:.1f} s)", flush=True)
    return lines


def parity_table(runs: int, max_tests: int) -> list[str]:
    lines = ["| instance | policy | runs | ended by themselves | other answer | other tests | other streams |"]
    lines += ["| --- | --- | ---: | ---: | ---: | ---: | ---: |"]
    for d in differences(runs, max_tests):
        lines.append(
            f"| {d.instance} | {d.policy} | {d.runs:,} | {d.ended:,} | {d.answers} | {d.tests} | {d.streams} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, help="file for the tables")
    options.add_argument("--small", action="store_true")
    options.add_argument("--only", choices=["speed", "parity"])
    options.add_argument("--runs", type=int, default=PARITY_RUNS, help="runs of each comparison")
    options.add_argument("--max-tests", type=int, default=PARITY_MAX_TESTS, help="of a run that is compared")
    choice = options.parse_args()
    if choice.small:
        small()
        return
    lines = machine()
    print("\n".join(lines), flush=True)
    if choice.only != "parity":
        lines += ["", *speed_table()]
    if choice.only != "speed":
        lines += ["", *parity_table(choice.runs, choice.max_tests)]
    if choice.out is not None:
        choice.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
