"""Studies in blocks: what plates that differ and drift do to the number of tests, and to how often answers are wrong.

    python benchmarks/blocks.py

prints the tables of docs/how-to/measure-in-blocks.md. Measurements scatter by 1. Every block adds a number of its own
to all its tests, which scatters by `--spread`, and blocks rise by `--drift` in ten blocks. Without blocks, 24 tests in
a row share what is added. In the laboratory, plates of 24 differ as much as measurements scatter.
"""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import numpy as np

import bestarm as ba
from bestarm.kernel.state import Floats
from bestarm.policies import find_policy, setting_for
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.simulation.engine import Job

DELTA = 0.05
WELLS = 24
YIELDS = {"F1": 0.3, "F2": 0.5, "F3": 0.0, "F4": 1.0, "F5": -0.2, "F6": 0.4, "F7": 0.2, "F8": 0.1}
ALMOST_EQUAL = {"F1": 0.0, "F2": 0.1, "F3": 0.0}
"""Where a study of 1,200 tests seldom ends with an answer, and errs if it takes F1 or F3."""


@dataclasses.dataclass(frozen=True)
class Drifting(Job):
    """What blocks add rises in the course of time."""

    drift: float = 0.0

    def world(self, run: int, room: int) -> Floats:
        world = super().world(run, room)
        return np.asarray(world + self.drift / 10.0 * (np.arange(world.shape[2]) // self.setting.items.capacity))


def plan_of(
    yields: dict[str, float], size: int | None, spread: float, noise: Any = None, *, same: bool = False
) -> ba.Plan:
    blocks: dict[str, Any] = {}
    if size is not None:
        blocks = {"blocks": ba.Blocks("plate", size=size, same_for_all=same), "block_spreads": {"yield": spread}}
    arms = [ba.Arm(name, {"yield": mean}, spreads={"yield": 1.0}) for name, mean in yields.items()]
    objective = ba.maximize("yield", noise=ba.Symmetric() if noise is None else noise)
    return ba.Plan(arms=arms, objective=objective, delta=DELTA, **blocks)


LABORATORY = {
    "F1": (61, 9),
    "F2": (66, 11),
    "F3": (58, 8),
    "F4": (72, 10),
    "F5": (75, 34),
    "F6": (63, 12),
    "F7": (60, 9),
    "F8": (55, 10),
}
SCATTERS = {"viability": 8.0, "toxicity": 4.0}


def laboratory(blocks: ba.Blocks | None) -> ba.Plan:
    """Which formulation keeps most cells alive and is not too toxic? F5 is, and F4 is the best of the others."""
    stated: dict[str, Any] = {} if blocks is None else {"blocks": blocks, "block_spreads": SCATTERS}
    return ba.Plan(
        arms=[ba.Arm(name, {"viability": v, "toxicity": t}, spreads=SCATTERS) for name, (v, t) in LABORATORY.items()],
        objective=ba.maximize("viability", noise=ba.Symmetric()),
        constraints=[ba.at_most("toxicity", 20, noise=ba.Symmetric())],
        delta=DELTA,
        arm_word="formulation",
        **stated,
    )


def in_blocks(plan: ba.Plan, runs: int, drift: float, most: int) -> tuple[list[int], list[int]]:
    """The answers, by arm or negative, and the tests."""
    outcomes = Drifting.of(plan, find_policy("certify"), max_tests=most, seed=1, drift=drift).simulate(0, runs).outcomes
    return outcomes.answers.tolist(), outcomes.tests.tolist()


def unpaired(plan: ba.Plan, runs: int, spread: float, drift: float, most: int) -> tuple[list[int], list[int]]:
    """The same without blocks: `WELLS` tests after the other share what is added."""
    if spread == drift == 0.0:
        outcomes = Job.of(plan, find_policy("certify"), max_tests=most, seed=1).simulate(0, runs).outcomes
        return outcomes.answers.tolist(), outcomes.tests.tolist()
    means = plan.true_means()
    scatters = [SCATTERS.get(metric, 1.0) for metric in plan.metrics]
    policy_class = find_policy("certify")
    setting = setting_for(plan, policy_class, plan.delta, plan.bound)
    answers, tests = [], []
    for run in range(runs):
        rng = np.random.default_rng((7, run))
        policy = policy_class(setting, *means.shape, seed=1, run=run)
        assert isinstance(policy, KernelPolicy)
        policy.compile()
        added, made, answer = 0.0, 0, -2
        while made < most and answer == -2:
            decision = policy.decide()
            if isinstance(decision, Stop):
                answer = -1 if decision.arm is None else decision.arm
                break
            values = np.zeros(len(decision))
            for k, (arm, metric) in enumerate(decision):
                if made % WELLS == 0:
                    added = rng.normal(drift / 10.0 * (made // WELLS), spread)
                sign = plan.normal_form().sign[metric]
                values[k] = sign * (means[arm, metric] + scatters[metric] * (added + rng.normal()))
                made += 1
            policy.advance(np.array(decision), values, np.zeros(len(values), np.int8))
        answers.append(answer)
        tests.append(made)
    return answers, tests


def row(label: str, plan: ba.Plan, found: tuple[list[int], list[int]], beside: float | None) -> float:
    answers, tests = np.array(found[0]), np.array(found[1])
    best = 3 if plan.constraints else int(np.argmax(plan.true_means()[:, 0]))
    wrong, none = int(((answers >= 0) & (answers != best)).sum()), int((answers < 0).sum())
    mean = float(tests.mean())
    ratio = "" if beside is None else f"{mean / beside:.2f}"
    error = tests.std() / np.sqrt(len(tests))
    print(f"| {label} | {mean:,.0f} ± {error:,.0f} | {ratio} | {wrong} of {len(tests):,} | {none} |", flush=True)
    return mean


def nested(runs: int) -> None:
    """Two programs that are equally fast on average run ten times on each of six machines, and each machine suits one
    of them better, by chance."""
    called = {"as 60 pairs of runs": 0, "as six blocks of ten": 0}
    for run in range(runs):
        rng = np.random.default_rng((11, run))
        machines = rng.normal(0.0, 5.0, 6)
        suits = rng.normal(0.0, 1.0, (6, 2))
        for label, blocks in zip(called, (None, ba.Blocks("machine", size=20)), strict=True):
            # As in a race: the n-th runs of both programs are compared.
            paired: dict[str, Any] = {"items": 1, "repeats": True} if blocks is None else {"blocks": blocks}
            problem = ba.Problem(arms=["old", "new"], objective=ba.minimize("time", noise=ba.Symmetric()), **paired)
            study = ba.Study.create(problem, storage=":memory:", delta=DELTA, seed=run)
            results: list[Any] = []
            for machine in range(6):
                for k, arm in enumerate(("old", "new")):
                    times = machines[machine] + suits[machine, k] + rng.normal(0.0, 0.3, 10)
                    place = "1" if blocks is None else f"machine {machine}"
                    results += [(arm, "time", float(time), place) for time in times]
            study.add(results)
            answer = study.answer
            called[label] += answer is not None and answer.state == "certified"
    print("\n| two equal programs, ten runs on each of six machines | called different |\n| --- | ---: |")
    for label, count in called.items():
        print(f"| {label} | {count} of {runs} |")


TOP_YIELDS = {"F1": 1.05, "F2": 1.35, "F3": 0.0, "F4": 1.5, "F5": -0.3, "F6": 0.08, "F7": 0.3, "F8": 0.15}
TOXICITY = {"F1": 0.30, "F2": 0.25, "F3": 0.12, "F4": 0.35, "F5": 0.05, "F6": 0.40, "F7": 0.22, "F8": 0.28}


def other_goals(runs: int, spread: float) -> None:
    """The three best of eight in small blocks, and any with a toxicity of at most 20%."""
    print("\n| other goals | tests | wrong | no answer |\n| --- | ---: | ---: | ---: |")
    toxicity: dict[str, Any] = {
        "of rates": (ba.Bernoulli(), None, 0.0),
        "of values that scatter by 0.2": (ba.Symmetric(), {"toxicity": 0.2}, 0.1),
    }
    plans = {}
    for size in (4, 8):
        best = plan_of(TOP_YIELDS, size, spread)
        plans[f"the three best, blocks of {size}"] = dataclasses.replace(best, goal="top", top=3), {0, 1, 3}
    for size in (4, WELLS):
        for label, (noise, spreads, added) in toxicity.items():
            arms = [ba.Arm(name, {"toxicity": mean}, spreads=spreads) for name, mean in TOXICITY.items()]
            limit = ba.at_most("toxicity", 0.2, noise=noise)
            blocks: Any = {"blocks": ba.Blocks("plate", size=size), "block_spreads": {"toxicity": added}}
            plan = ba.Plan(arms=arms, constraints=[limit], delta=DELTA, goal="any feasible", **blocks)
            plans[f"any feasible, {label}, blocks of {size}"] = plan, {2, 4}
    for label, (plan, right) in plans.items():
        answers, tests = in_blocks(plan, runs, 0.0, 6000)
        error = np.std(tests) / np.sqrt(runs)
        wrong, none = sum(arm >= 0 and arm not in right for arm in answers), sum(arm < 0 for arm in answers)
        print(f"| {label} | {np.mean(tests):,.0f} ± {error:,.0f} | {wrong} of {runs:,} | {none} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--unpaired-runs", type=int, default=30, help="of what is interpreted")
    parser.add_argument("--nested-runs", type=int, default=300)
    parser.add_argument("--spread", type=float, default=3.0)
    parser.add_argument("--drift", type=float, default=1.0)
    parser.add_argument("--goals", action="store_true", help="other goals, in 200 studies each, and nothing else")
    options = parser.parse_args()
    if options.goals:
        other_goals(200, options.spread)
        return
    head = "| tests | ÷ undisturbed | wrong | no answer |\n| --- | ---: | ---: | ---: | ---: |"
    for title, yields, most in (("eight formulations", YIELDS, 2400), ("almost equal", ALMOST_EQUAL, 1200)):
        print(f"\n| {title} {head}")
        plain = plan_of(yields, None, 0.0)
        still = row("no blocks, undisturbed", plain, unpaired(plain, options.runs, 0.0, 0.0, most), None)
        disturbed = unpaired(plain, options.unpaired_runs, options.spread, options.drift, most)
        row("no blocks, disturbed", plain, disturbed, still)
        for size in (len(yields), WELLS):
            for same in (False, True):
                plan = plan_of(yields, size, options.spread, same=same)
                found = in_blocks(plan, options.runs, options.drift, most)
                row(f"blocks of {size}{', the same for all' if same else ''}, disturbed", plan, found, still)
        known = plan_of(yields, WELLS, options.spread, ba.Gaussian(1.0), same=True)
        found = in_blocks(known, options.runs, options.drift, most)
        row(f"blocks of {WELLS}, the same for all, known scatter, disturbed", known, found, still)
    print(f"\n| a laboratory {head}")
    plain, plate = laboratory(None), ba.Blocks("plate", size=WELLS)
    still = row("no plates stated, undisturbed", plain, unpaired(plain, options.runs, 0.0, 0.0, 4800), None)
    row("no plates stated", plain, unpaired(plain, options.unpaired_runs, 1.0, 0.0, 4800), still)
    for same in (False, True):
        plan = laboratory(dataclasses.replace(plate, same_for_all=same))
        label, found = f"plates{', the same for all' if same else ''}", in_blocks(plan, options.runs, 0.0, 4800)
        row(label, plan, found, still)
    plates = np.ceil(np.array(found[1]) / WELLS)
    print(f"\nThe last takes {plates.mean():.1f} plates; {np.mean(plates <= 20):.0%} of studies take at most 20.")
    nested(options.nested_runs)


if __name__ == "__main__":
    main()
