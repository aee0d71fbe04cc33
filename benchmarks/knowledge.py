"""Is what a study says at every moment true? The share of studies that ever say something false, by statement.

    python benchmarks/knowledge.py --runs 1000 --max-tests 200

After every round all that is claimed is compared with the truth. Candidates, feasible arms and regret must all be right
in a share of 1 - delta of the studies, and together with the differences between arms in one of 1 - 2 delta.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import dataclasses
import functools
import os
import sys
from pathlib import Path

from scipy.stats import beta

from bestarm.policies import confidence
from bestarm.problem import Plan

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.knowledge import Claims, false_claims, open_problems


def upper_limit(errors: int, runs: int, confidence: float = 0.99) -> float:
    """Exact (Clopper-Pearson) upper limit of the error probability."""
    return 1.0 if errors == runs else float(beta.ppf(confidence, errors + 1, runs - errors))


def one(plan: Plan, max_tests: int, seed: int) -> Claims:
    # What is shown is compiled for small studies, too. Those with items each have a program of their own.
    confidence.COMPILE_STREAMS = 0 if plan.items is None else 100
    return false_claims(plan, seed, max_tests)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1_000)
    options.add_argument("--max-tests", type=int, default=200)
    options.add_argument("--delta", type=float, default=0.2)
    options.add_argument("--policy", default="certify")
    options.add_argument("--workers", type=int, default=os.cpu_count())
    choice = options.parse_args()
    print(
        f"{choice.runs:,} studies of up to {choice.max_tests:,} tests by {choice.policy}, delta = {choice.delta:g}: ",
        end="",
    )
    print("share that ever said something false [99% upper limit]\n")
    columns = ["problem", "candidates", "feasible", "regret", "any of these", "differences", "any of all"]
    columns.append("said something")
    print(f"| {' | '.join(columns)} |\n| --- |{' ---: |' * (len(columns) - 1)}", flush=True)
    kept = True
    with concurrent.futures.ProcessPoolExecutor(choice.workers) as pool:
        for plan in open_problems():
            if plan.items is not None and choice.policy != "certify":
                continue
            study = functools.partial(
                one, dataclasses.replace(plan, delta=choice.delta, policy=choice.policy), choice.max_tests
            )
            claims = list(pool.map(study, range(choice.runs), chunksize=10))
            counts = [sum(getattr(claim, name) for claim in claims) for name in ("candidates", "feasible", "regret")]
            together = sum(claim.any_of_the_first for claim in claims)
            apart = sum(claim.differences for claim in claims) / choice.runs
            everything = sum(claim.any_of_all for claim in claims)
            limits = [upper_limit(number, choice.runs) for number in (together, everything)]
            kept &= limits[0] <= choice.delta and limits[1] <= 2 * choice.delta
            shares = [f"{number / choice.runs:.4f}" for number in counts]
            both = [
                f"{n / choice.runs:.4f} [{limit:.4f}]" for n, limit in zip((together, everything), limits, strict=True)
            ]
            said = sum(claim.said for claim in claims) / choice.runs
            row = [plan.name, *shares, both[0], f"{apart:.4f}", both[1], f"{said:.0%}"]
            print(f"| {' | '.join(row)} |", flush=True)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
