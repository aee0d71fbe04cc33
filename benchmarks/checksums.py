"""Every decision of every policy on every instance, as checksums: `python benchmarks/checksums.py`.

A row is a digest of what came of the first runs: answers, number of tests, costs, and tests of each stream. Two
versions that print the same table decide alike, test by test. The rows that begin with "shown" are digests of all that
is shown of small studies (intervals, findings, regret, differences, what is open), interpreted and compiled: of one
study for every two features that go together. With `--against FILE` it ends with status 1 and names the rows that
differ from a table printed earlier; `benchmarks/checksums.txt` is the one that holds at present. `--only` prints the
rows of one kind.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import bestarm as ba
from bestarm.policies import all_policies
from bestarm.simulation.engine import Job
from bestarm.simulation.loop import Outcomes

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.shown import ENGINES, moments_of, pairwise

DELTA, SEED, MAX_TESTS = 0.1, 16, 100_000
POLICIES = ("certify", "feasibility-first", "feasible-lucb", "performance-first", "racing", "tf-lucb")


def mixed() -> ba.Problem:
    """Every noise and every option at once: minimizing, at_least, costs, slack, tolerance and weights."""
    arms = [
        ba.Arm(f"arm {k}", {"time": 50 + 3 * k, "crash": 0.02 + 0.03 * k, "score": 7.5 - 0.5 * k, "memory": 10.0 + k})
        for k in range(5)
    ]
    return ba.Problem(
        arms=(*arms[:4], ba.Arm("heavy", arms[4].means, weight=3.0)),
        objective=ba.minimize("time", noise=ba.Bounded(0, 200), tolerance=0.5),
        constraints=(
            ba.at_most("crash", 0.1, noise=ba.Bernoulli(), cost=2.0),
            ba.at_least("score", 6.2, noise=ba.Bounded(0, 10), slack=0.1),
            ba.at_most("memory", 12.5, noise=ba.Gaussian(3.0), weight=2.0),
        ),
    )


def rates() -> ba.Problem:
    """No constraints, and a largest rate to find."""
    arms = tuple(ba.Arm(f"arm {k}", {"rate": rate}) for k, rate in enumerate((0.3, 0.21, 0.2, 0.19, 0.18)))
    return ba.Problem(arms=arms, objective=ba.maximize("rate", noise=ba.Bernoulli()))


def none_feasible() -> ba.Problem:
    arms = tuple(ba.Arm(f"arm {k}", {"yield": 1.0 * k, "harm": 0.6 + 0.1 * k}) for k in range(4))
    noise = ba.Gaussian(0.5)
    return ba.Problem(
        arms=arms, objective=ba.maximize("yield", noise=noise), constraints=(ba.at_most("harm", 0.5, noise=noise),)
    )


def problems() -> Iterator[tuple[str, ba.Problem]]:
    for name in ba.instance_names():
        yield name, ba.instance(name)
    yield "mixed", mixed()
    yield "rates", rates()
    yield "none-feasible", none_feasible()


def digest(outcomes: Outcomes) -> str:
    whole = hashlib.sha256()
    for array in outcomes:
        whole.update(np.ascontiguousarray(array).tobytes())
    return whole.hexdigest()[:16]


def shown_rows() -> Iterator[str]:
    for name, plan in pairwise().items():
        whole = {engine: hashlib.sha256() for engine in ENGINES}
        for moment in moments_of(plan):
            for engine, shown in moment.shown.items():
                whole[engine].update(repr((moment.rounds, sorted(shown.items()))).encode())
        for engine, found in whole.items():
            yield f"shown {name:70} {engine:11} {found.hexdigest()[:16]}"


def rows(runs: int) -> Iterator[str]:
    for name, problem in problems():
        for policy in POLICIES:
            job = Job(problem, all_policies()[policy], DELTA, "paper", SEED, MAX_TESTS, keep_counts=True)
            yield f"{name:16} {policy:18} {digest(job.simulate(0, runs).outcomes)}"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=20)
    options.add_argument("--against", type=Path, help="a table printed earlier")
    options.add_argument("--only", choices=("decisions", "shown"), help="which rows to print")
    chosen = options.parse_args()
    earlier = chosen.against.read_text().splitlines() if chosen.against else None
    found = []
    wanted = {"decisions": rows(chosen.runs), "shown": shown_rows()}
    if chosen.only is not None:
        wanted = {chosen.only: wanted[chosen.only]}
        if earlier is not None:
            earlier = [row for row in earlier if row.startswith("shown ") == (chosen.only == "shown")]
    for row in itertools.chain(*wanted.values()):
        print(row, flush=True)
        found.append(row)
    if earlier is not None:
        differing = sorted(set(earlier) ^ set(found))
        for row in differing:
            print(f"differs: {row}", file=sys.stderr)
        sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
