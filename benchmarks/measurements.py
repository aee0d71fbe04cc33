"""What it saves to measure several metrics at once, and all arms on the same items; and that the guarantee holds.

    python benchmarks/measurements.py [--runs 1000] [--error-runs 100000] [--only TABLE]

Prints tables as Markdown. `--only errors` takes minutes: a hundred thousand studies for each row. `--only differences`
counts errors where a noise is true of each arm's values, and not of the differences on the same item.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

import bestarm as ba
from bestarm.kernel.state import NONE, UNFINISHED, Floats
from bestarm.policies import find_policy
from bestarm.policies.decisions import Stop
from bestarm.policies.setting import to_normal
from bestarm.problem import Plan
from bestarm.simulation.device import open_schedule
from bestarm.simulation.engine import Job
from bestarm.storage.base import Storage
from bestarm.storage.opening import open_storage
from bestarm.study.record.decider import Decider

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `tests` is found, wherever this is run

from tests.tools.hard import hard_problems
from tests.tools.together import all_in_one, tie_together

DELTA = 0.1
LIMIT = 1_000
"""Tests of a run on a hard problem, most of which do not end."""


def row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


def head(*cells: str) -> None:
    row(*cells)
    row("---", *["---:"] * (len(cells) - 1))


def bundles(runs: int) -> None:
    """All metrics in one measurement, against tests of one metric each."""
    head(
        "instance",
        "one by one: tests",
        "of the hardest metric",
        "all at once: measurements",
        "÷ hardest",
        "÷ one by one",
    )
    for name in ("exp1-a", "exp1-b", "exp1-c", "drug"):
        plan = ba.instance(name)
        apart, together = (ba.simulate(each, runs=runs, seed=1) for each in (plan, all_in_one(plan)))
        assert apart.tests_per_stream is not None
        hardest = float(apart.tests_per_stream.sum(axis=1).mean(axis=0).max())
        made = together.mean_tests
        row(name, f"{apart.mean_tests:,.0f}", f"{hardest:,.0f}", f"{made:,.0f}", f"{made / hardest:.2f}",
            f"{made / apart.mean_tests:.2f}")  # fmt: skip


def wrong_answers(job: Job, runs: int, device: str) -> tuple[int, int]:
    """How many of the runs of a job end with a wrong answer, and how many end at all."""
    right = [NONE if answer is None else answer for answer in job.problem.right_answers()]
    wrong = ended = 0
    given = {"device": device, "executor": None, "workers": None, "chunk_seconds": 0.5}
    with open_schedule([job], [[(0, runs)]], **given) as schedule:  # type: ignore[arg-type]
        for _, chunk in schedule:
            answers = chunk.outcomes.answers
            wrong += int((~np.isin(answers, (*right, UNFINISHED))).sum())
            ended += int((answers != UNFINISHED).sum())
    return wrong, ended


def errors(runs: int, device: str) -> None:
    """Hard problems with all metrics in one measurement that move together, or against each other."""
    head("problem, all metrics at once", "metrics", "wrong", "ended", f"of {runs:,} studies", "allowed")
    worlds: dict[str, Callable[[Job], Job]] = {
        "independent": lambda job: job,
        "perfectly correlated": lambda job: tie_together(job, 1.0),
        "perfectly anti-correlated": lambda job: tie_together(job, -1.0),
        "alternating": lambda job: tie_together(job, 1.0, -1.0),
    }
    for plan in hard_problems():
        if not isinstance(plan.objective.noise, ba.Gaussian):
            continue
        for label, world in worlds.items():
            job = Job.of(
                dataclasses.replace(all_in_one(plan), delta=DELTA), find_policy("certify"), seed=3, max_tests=LIMIT
            )
            wrong, ended = wrong_answers(world(job), runs, device)
            row(plan.name, label, f"{wrong:,}", f"{ended:,}", f"{100 * wrong / runs:.3f}%", f"{100 * DELTA:g}%")


def judges(paired: bool, items: int | None = None, repeats: bool = False) -> Plan:
    """Eight prompts, scored by a judge: questions differ by 1.5, and the rest of a score scatters by 0.8."""
    scores = (7.0, 6.85, 6.7, 6.5, 6.4, 6.2, 6.0, 5.8)
    spread = 0.8 if paired else float(np.hypot(1.5, 0.8))
    return Plan(
        name="judges",
        arms=[ba.Arm(f"prompt {k + 1}", {"score": mean}, spreads={"score": spread}) for k, mean in enumerate(scores)],
        objective=ba.maximize("score", noise=ba.Symmetric()),
        items=items,
        repeats=repeats,
        item_spreads={"score": 1.5} if paired else None,
        delta=0.05,
    )


def paired_judges(runs: int) -> None:
    head("judges", "mean tests", "÷ unpaired", "most tests of an arm", "wrong")
    plans = {
        "every prompt on its own questions": judges(paired=False),
        "the same questions, drawn again and again": judges(paired=True, items=10**6, repeats=True),
        "the same 500 questions": judges(paired=True, items=500),
        "the same 2,000 questions": judges(paired=True, items=2_000),
    }
    base = 0.0
    for label, plan in plans.items():
        found = ba.simulate(plan, runs=runs, seed=1)
        assert found.tests_per_stream is not None
        base = base or found.mean_tests
        most = int(found.tests_per_stream.max())
        row(
            label, f"{found.mean_tests:,.0f}", f"{found.mean_tests / base:.2f}", f"{most:,}", f"{found.wrong} of {runs}"
        )


def sets(runs: int) -> None:
    """A set that is too small to tell arms apart by chance is measured out, and the answer is exact."""
    head("items", "gap", "mean tests", "most tests of an arm", "wrong")
    for items in (20, 100, 500):
        for gap in (0.0, 0.01, 0.1):
            means = (7.0, 7.0 - gap, 6.9 - gap)
            plan = Plan(
                name="set",
                arms=[ba.Arm(f"arm {k}", {"score": mean}, spreads={"score": 0.8}) for k, mean in enumerate(means)],
                objective=ba.maximize("score", noise=ba.Symmetric()),
                items=items,
                item_spreads={"score": 1.5},
                delta=0.05,
            )
            found = ba.simulate(plan, runs=runs, seed=1)
            assert found.tests_per_stream is not None
            row(items, gap, f"{found.mean_tests:,.0f}", int(found.tests_per_stream.max()), f"{found.wrong} of {runs}")


ITEMS = 200


def repairable(seed: int) -> dict[str, Floats]:
    """Values of two arms on the items: the old arm is right on half of them, the new one on a tenth."""
    rng = np.random.default_rng(seed)
    rates = {"old": 0.5, "new": 0.1}
    return {arm: rng.permutation(np.arange(ITEMS) < rate * ITEMS).astype(float) for arm, rate in rates.items()}


def decide(storage: Storage, name: str, values: Mapping[str, Floats], **seeds: int) -> tuple[ba.Study, list[int]]:
    """A study of arms with these values on the items, and the items that it met: eight more each time it decides."""
    plan = Plan([*values], ba.maximize("score", noise=ba.Bernoulli()), items=ITEMS, delta=0.05, name=name)
    study = ba.Study.create(plan, storage=storage, seed=seeds.get("seed"), items_seed=seeds.get("items_seed"))
    met: list[int] = []
    while not study.done:
        items = [int(str(study.item_name(len(met) + k))) for k in range(8)]
        study.add([(arm, "score", values[arm][item - 1], item) for item in items for arm in values])
        met += [item - 1 for item in items]
    return study, met


def wrong_after_repairs(studies: int) -> dict[str, int]:
    """How often a second study is wrong, when the new arm was made right on all items that a first one met."""
    storage = open_storage(":memory:", create=True)
    wrong = {"with the order of the first": 0, "with an order of its own": 0}
    for k in range(studies):
        values = repairable(k)
        first, met = decide(storage, f"{k}", values)
        values["new"][met] = 1.0
        assert values["new"].mean() < values["old"].mean()
        for order, seeds in zip(wrong, ({"items_seed": first.record.order_seed}, {}), strict=True):
            answer = decide(storage, f"{k} {order}", values, **seeds)[0].answer
            assert answer is not None
            wrong[order] += answer.arm != "old"
    return wrong


def orders(studies: int) -> None:
    head("a second study on the same items", "wrong")
    for order, wrong in wrong_after_repairs(studies).items():
        row(order, f"{wrong:,} of {studies:,}")


def differences(runs: int) -> None:
    """Answers are right (1) or wrong (0). Arm a is wrong on 12 of 400 items, and b on none: a is 0.03 worse, with a
    tolerance of 0.02. Each arm's values are sub-Gaussian with a scale of 0.5. The differences are 0, and rarely -1."""
    head("noise stated for values of 0 and 1", "items", "mean tests", "wrong")
    for noise in (ba.Bounded(0.0, 1.0), ba.Gaussian(0.5)):
        for repeats in (False, True):
            plan = Plan(
                arms=["a", "b"],
                objective=ba.maximize("right", noise=noise, tolerance=0.02),
                items=400,
                repeats=repeats,
                delta=0.05,
            )
            found = [_answered(plan, seed) for seed in range(runs)]
            wrong = sum(arm == 0 for arm, _ in found)
            mean = sum(tests for _, tests in found) / runs
            row(f"`{noise!r}`", "again and again" if repeats else "each once", f"{mean:,.0f}", f"{wrong} of {runs}")


def _answered(plan: Plan, seed: int) -> tuple[int | None, int]:
    """The arm that a study answers, and after how many tests."""
    rng = np.random.default_rng(seed)
    mistakes = rng.choice(400, 12, replace=False)
    # The item at each place of the order: all of them once, or drawn again and again.
    order = rng.integers(400, size=100_000) if plan.repeats else rng.permutation(400)
    policy = Decider(plan, seed).policy
    proposal: list[tuple[int, int]] | Stop = policy.tests_of([(0, 0), (1, 0)])
    while not isinstance(proposal, Stop):
        counts = policy.streams.counts[:, 0].copy()
        tests = []
        for arm, metric in proposal:
            tests.append((arm, metric, int(counts[arm])))
            counts[arm] += 1
        asked = np.array(tests)
        values = np.where((asked[:, 0] == 0) & np.isin(order[asked[:, 2]], mistakes), 0.0, 1.0)
        normal = to_normal(plan, policy.setting, asked[:, 1], values)
        ends = np.zeros(len(tests), np.int8)
        ends[-1] = 1
        decided = policy.advance(asked, normal, ends)
        assert decided is not None
        proposal = decided
    return proposal.arm, policy.spent[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--error-runs", type=int, default=100_000)
    parser.add_argument("--device", default="cpu", help="cpu or cuda, for the errors")
    parser.add_argument("--only", choices=("bundles", "errors", "judges", "sets", "orders", "differences"))
    given = parser.parse_args()
    tables: dict[str, Callable[[], None]] = {
        "bundles": lambda: bundles(given.runs),
        "errors": lambda: errors(given.error_runs, given.device),
        "judges": lambda: paired_judges(given.runs),
        "sets": lambda: sets(given.runs),
        "orders": lambda: orders(given.runs),
        "differences": lambda: differences(given.runs),
    }
    for name, table in tables.items():
        if given.only in (None, name):
            table()
            print()


if __name__ == "__main__":
    main()
