"""Is it really δ-correct? Many runs of every policy on problems chosen to be hard, with exact limits.

    python benchmarks/correctness.py --runs 100000 --max-tests 2000

A run that has no answer within the limit of tests is not an error; the share of runs that ended is shown beside.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table
from scipy.stats import beta

from bestarm.policies import all_policies, find_policy
from bestarm.simulation.simulate import simulate

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.hard import hard_problems


def upper_limit(errors: int, runs: int, confidence: float = 0.99) -> float:
    """Exact (Clopper-Pearson) upper limit of the error probability."""
    return 1.0 if errors == runs else float(beta.ppf(confidence, errors + 1, runs - errors))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=100_000)
    options.add_argument("--max-tests", type=int, default=2_000)
    options.add_argument("--policy", action="append", choices=sorted(all_policies()), help="default: certify")
    options.add_argument("--delta", type=float, action="append", help="default: 0.2 and 0.05")
    choice = options.parse_args()
    deltas = choice.delta or [0.2, 0.05]
    table = Table(title=f"{choice.runs:,} runs of up to {choice.max_tests:,} tests; wrong answers [99% upper limit]")
    table.add_column("problem")
    table.add_column("policy")
    for delta in deltas:
        table.add_column(f"δ = {delta:g}", justify="right")
        table.add_column("ended", justify="right")
    kept = True
    for plan in hard_problems():
        for policy in choice.policy or ["certify"]:
            cells = []
            for delta in deltas:
                result = simulate(
                    plan,
                    policy=find_policy(policy),
                    delta=delta,
                    runs=choice.runs,
                    max_tests=choice.max_tests,
                    keep_streams=False,
                )
                limit = upper_limit(result.wrong, result.runs)
                kept &= limit <= delta
                cells += [f"{result.error_rate:.5f} [{limit:.5f}]", f"{1 - result.unfinished / result.runs:.0%}"]
            table.add_row(plan.name, policy, *cells)
    Console().print(table)
    sys.exit(0 if kept else 1)


if __name__ == "__main__":
    main()
