"""How soon a slice of the items that got worse is found, and how often an answer about slices is wrong.

    python benchmarks/slices.py                  # the tables of docs/how-to/slices.md
    python benchmarks/slices.py --runs 100       # a tenth of it

A new model is compared with an old one on 1,000 questions, 50 of them about law, 150 about medicine, 300 about history
and 500 about other things. It passes if its accuracy over all questions is at least the old one's less 2 points, and in
each topic at least the old one's less 10 points, at delta = 0.05. Every study has an order of its own and new answers.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
from collections.abc import Mapping

import bestarm as ba
from bestarm.kernel.state import Setting
from bestarm.policies import find_policy
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import Simulation

DELTA = 0.05
SIZES = {"law": 50, "medicine": 150, "history": 300, "other": 500}
ITEMS = sum(SIZES.values())
OLD = {"law": 0.8, "medicine": 0.8, "history": 0.8, "other": 0.8}
WORLDS: Mapping[str, Mapping[str, float]] = {
    "law drops by 30 points, all rises by 3": {"law": 0.5, "medicine": 0.82, "history": 0.84, "other": 0.86},
    "law drops by 20 points, all rises by 3": {"law": 0.6, "medicine": 0.82, "history": 0.84, "other": 0.85},
    "law drops by 12 points: just too much": {"law": 0.68, "medicine": 0.82, "history": 0.84, "other": 0.84},
    "law drops by 10 points: just allowed": {"law": 0.7, "medicine": 0.82, "history": 0.84, "other": 0.84},
    "no topic changes": OLD,
    "every topic rises by 4 points": {"law": 0.84, "medicine": 0.84, "history": 0.84, "other": 0.84},
}


def problem_of(new: Mapping[str, float]) -> ba.Plan:
    """The question, where these are the new model's accuracies by topic."""
    accuracies = []
    for by_topic in (OLD, new):
        total = sum(by_topic[topic] * size for topic, size in SIZES.items()) / ITEMS
        slices = {f"accuracy where topic = {topic}": rate for topic, rate in by_topic.items()}
        accuracies.append({"accuracy": total, **slices})
    right = ba.Bernoulli()
    problem = ba.Problem(
        arms=[ba.Arm("old", accuracies[0]), ba.Arm("new", accuracies[1])],
        objective=ba.maximize("accuracy", noise=right),
        constraints=[
            ba.at_least("accuracy", noise=right, relative_to_baseline=True, margin=0.02),
            ba.at_least("accuracy", noise=right, relative_to_baseline=True, margin=0.1, for_each="topic"),
        ],
        items=ITEMS,
        attributes={"topic": [topic for topic, size in SIZES.items() for _ in range(size)]},
        item_spreads={"accuracy": 1.5},
        baseline="old",
        goal="every feasible",
    )
    return ba.Plan.of(problem, delta=DELTA)


@dataclasses.dataclass(frozen=True)
class InPlaceOrder(Job):
    """Studies that go through all questions in one order, whichever topic decides."""

    @functools.cached_property
    def setting(self) -> Setting:
        setting = super().setting
        return setting._replace(queue=setting.lead)


def simulated(job: type[Job], plan: ba.Plan, runs: int) -> Simulation:
    made = job.of(plan, find_policy("certify"), max_tests=10**7, seed=5)
    outcomes, _, sets = made.simulate(0, runs)
    found = outcomes.answers, outcomes.tests, outcomes.cost
    return Simulation(plan, "certify", 5, 10**7, *found, None, float("nan"), sets)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    runs: int = parser.parse_args().runs
    print(f"| the new model | passes | refuted | mean tests | in one order | all questions | wrong of {runs:,} |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, new in WORLDS.items():
        plan = problem_of(new)
        result, in_order = (simulated(job, plan, runs) for job in (Job, InPlaceOrder))
        refuted = sum(count for answer, count in result.answer_counts.items() if answer == "none")
        means = f"{result.tests.mean():,.0f} | {in_order.tests.mean():,.0f} | {2 * ITEMS:,}"
        wrong = f"{result.wrong} and {in_order.wrong}"
        print(f"| {name} | {runs - refuted} | {refuted} | {means} | {wrong} |", flush=True)


if __name__ == "__main__":
    main()
