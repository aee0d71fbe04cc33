"""What a reserve for arms that come later costs: `python benchmarks/reserve.py [RUNS]`.

Mean tests of studies that keep 10% of delta, as the form for a new study may, over those of the same studies that keep
nothing. With 600 runs, seed 1 (version of 2026-11-18), K options:

| K | no constraint, known scatter | no constraint, unknown scatter | no constraint, rates | one constraint |
| --- | --- | --- | --- | --- |
| 4 | 1.23 | 1.06 | | 1.03 |
| 8 | 1.31 | 1.03 | 1.28 | 0.97 to 1.00 |
| 16 | 1.38 | 1.02 | | 0.98 to 0.99 |
| 32 | 1.46 | 1.02 | 1.26 | 0.99 |

On 500 items, each measured once, with rates (150 runs): 1.06, 1.03 and 1.02 without a constraint, for K = 4, 8 and 32,
and 1.01, 1.00 and 0.99 with one that is measured in the same test.

Without constraints the reserve gives up evidence that is pooled over all arms, which is why it is dear there. With 64
arms and five constraints (exp2-k64, 1,000 runs) it costs 17%.
"""

from __future__ import annotations

import dataclasses
import sys

import numpy as np

import bestarm as ba

RESERVE, SPREAD = 0.1, 6.0
NOISES = {"known scatter": ba.Gaussian(SPREAD), "unknown scatter": ba.Symmetric(), "rates": ba.Bernoulli()}


def options(number: int, scatter: str, *, constraints: int) -> ba.Plan:
    """One option is clearly best; with a constraint, another violates it."""
    gains = np.linspace(60.0, 68.0, number) if scatter != "rates" else np.linspace(0.3, 0.5, number)
    gains[number // 2] = 72.0 if scatter != "rates" else 0.65
    toxic = [{"toxic": 0.8 if k == 1 else 0.15} if constraints else {} for k in range(number)]
    arms = [ba.Arm(f"F{k}", {"gain": float(gain), **toxic[k]}) for k, gain in enumerate(gains)]
    limits = [ba.at_most("toxic", 0.5, noise=ba.Bernoulli())][:constraints]
    problem = ba.Problem(arms, ba.maximize("gain", noise=NOISES[scatter]), limits)
    if scatter == "unknown scatter":
        problem = problem.with_spreads({arm.name: {"gain": SPREAD} for arm in arms})
    return ba.Plan.of(problem)


def on_items(plan: ba.Plan) -> ba.Plan:
    """The same on a set of items, on each of which one test measures everything."""
    together = (ba.measurement(*plan.metrics),) if plan.constraints else ()
    return dataclasses.replace(plan, items=500, measurements=together)


def main(runs: int) -> None:
    plans = {
        f"{number} options, {scatter}, {constraints} constraints": options(number, scatter, constraints=constraints)
        for number in (4, 8, 16, 32)
        for scatter in NOISES
        for constraints in (0, 1)
    }
    plans |= {f"{name}, items": on_items(plan) for name, plan in plans.items() if "rates" in name}
    for name, plan in (plans | {"exp2-k64": ba.Plan.of(ba.instance("exp2-k64"))}).items():
        without, kept = (
            ba.simulate(dataclasses.replace(plan, reserve=reserve), runs=runs, seed=1).mean_tests
            for reserve in (0.0, RESERVE)
        )
        print(f"{name:42} {without:10,.1f} {kept:10,.1f} {kept / without:7.3f}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 600)
