"""How many tests `certify` takes, beside what it took in version 0.1.0.

    python benchmarks/versions.py

Means of 2,000 simulated studies at δ = 0.1 with the same seeds, as Markdown: every instance of the paper, and two
problems without constraints from Garivier and Kaufmann (2016). `version-0.1.0.json` has the means of that version. They
were printed by this file in a checkout of commit fb125db, the last one of 0.1.0:

    PYTHONPATH=src python versions.py --json > version-0.1.0.json
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import bestarm as ba

DELTA, RUNS, SEED = 0.1, 2000, 7
CLASSICS = ((0.5, 0.45, 0.43, 0.4), (0.3, 0.21, 0.2, 0.19, 0.18))


def classic(rates: tuple[float, ...]) -> ba.Problem:
    """Which rate is the largest?"""
    arms = [ba.Arm(f"arm {place}", {"success": rate}) for place, rate in enumerate(rates, 1)]
    return ba.Problem(arms, ba.maximize("success", noise=ba.Bernoulli()))


def problems() -> dict[str, Callable[[], ba.Problem]]:
    """By name, how each problem is made."""
    found: dict[str, Callable[[], ba.Problem]] = {name: partial(ba.instance, name) for name in ba.instance_names()}
    return found | {"rates " + ", ".join(map(str, rates)): partial(classic, rates) for rates in CLASSICS}


def means(runs: int) -> Iterator[tuple[str, float, float]]:
    """Each problem's name, its mean number of tests and the standard error of that, as soon as they are known."""
    for name, make in problems().items():
        outcome = ba.simulate(make(), policy="certify", delta=DELTA, runs=runs, seed=SEED, keep_streams=False)
        yield name, outcome.mean_tests, float(outcome.tests.std() / runs**0.5)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=RUNS, help="simulated studies of each problem")
    parser.add_argument("--json", action="store_true", help="print the means of this version as JSON")
    options = parser.parse_args()
    if options.json:
        print(json.dumps({name: round(mean, 1) for name, mean, _ in means(options.runs)}, indent=2))
        return
    before = json.loads(Path(__file__).with_name("version-0.1.0.json").read_text())
    print("| problem | version 0.1.0 | now | ± | now ÷ version 0.1.0 |\n| --- | ---: | ---: | ---: | ---: |")
    for name, mean, error in means(options.runs):
        row = (name, f"{before[name]:,.0f}", f"{mean:,.0f}", f"{error:,.0f}", f"{mean / before[name]:.3f}")
        print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
