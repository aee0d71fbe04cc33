"""The README's table: how many tests studies take, beside the bounds that no correct method can beat.

    python benchmarks/figures.py

Means over simulated studies at δ = 0.1, as Markdown.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import bestarm as ba

DELTA = 0.1
INSTANCES = ("exp1-a", "exp1-c", "exp2-n64", "exp2-k64", "drug")
HEADER = (
    "| problem | arms × metrics | Theorem 1 | T\\* kl(δ, 1 − δ) | `certify` | wrong answers "
    "| the paper's Algorithm 1 | times as many |"
)


def table(runs: int) -> Iterator[str]:
    """The table's lines, each as soon as it is known."""
    yield HEADER
    yield "| --- |" + " ---: |" * (HEADER.count("|") - 2)
    for name in INSTANCES:
        plan = ba.instance(name)
        ours = ba.simulate(plan, policy="certify", delta=DELTA, runs=runs)
        paper = ba.simulate(plan, policy="feasible-lucb", delta=DELTA, runs=runs)
        theory = ba.analyze(plan, DELTA)
        cells = (
            name,
            f"{len(plan.arm_names)} × {len(plan.metrics)}",
            f"{theory.lower_bound:,.0f}",
            f"{theory.kl_bound:,.0f}",
            f"**{ours.mean_tests:,.0f}**",
            f"{ours.wrong} of {runs:,}",
            f"{paper.mean_tests:,.0f}",
            f"{paper.mean_tests / ours.mean_tests:.1f}",
        )
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2000, help="simulated studies of each kind")
    for line in table(parser.parse_args().runs):
        print(line, flush=True)


if __name__ == "__main__":
    main()
