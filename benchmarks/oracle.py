"""How far `certify` is from an oracle that knows the means and tests each certificate's best stream until it is met.

    python benchmarks/oracle.py --runs 1000
    python benchmarks/oracle.py --runs 1000 --costs drug
    python benchmarks/oracle.py --runs 1000 --arms

Both use the same evidence and the same levels; the oracle only spares itself the search. The second command prints what
studies of one problem cost if tests of its metrics cost 1, 3 and 10, and what they would cost if the policy took all
tests to cost the same. The third prints the same where tests of some arms cost 50 times as much as those of others.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table

import bestarm as ba
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import NONE, Batch, Floats, Ints, Setting, Streams, add_test, conclude, every_stream
from bestarm.noises.dispatch import scatter
from bestarm.policies.certify import memory as certify
from bestarm.policies.certify.best_arm import close_certificates
from bestarm.policies.certify.updating import update as _inner_update
from bestarm.policies.kernels import KernelPolicy, Kernels
from bestarm.policies.setting import true_references
from bestarm.simulation.simulate import simulate


class Memory(NamedTuple):
    """What `certify` keeps, and the truth."""

    inner: certify.Memory
    truth: Floats
    best: Ints


@kernel
def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
    _inner_update(setting, streams, memory.inner, arm, metric)


@kernel
def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
    if streams.counts[0, 0] == 0:
        return every_stream(streams, batch)
    inner, truth, best = memory
    leader = best[0]
    close_certificates(setting, streams, inner, leader)
    size = 0
    leader_tested = False
    for place in range(inner.open_count[0]):
        arm = int(np.int64(inner.open_arms[place]))
        chosen = 0
        promise = 0.0
        for metric in range(1, truth.shape[1]):
            limit = setting.threshold[metric]
            excess = (truth[arm, metric] - limit) / scatter(setting, streams, arm, metric, limit)
            gain = max(excess, 0.0) ** 2 * setting.inverse_cost[arm, metric]
            if gain > promise:
                promise = gain
                chosen = metric
        if leader >= 0:
            noise = scatter(setting, streams, leader, 0, truth[leader, 0])
            lead = (truth[leader, 0] + setting.tolerance - truth[arm, 0]) / noise
            n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
            share = n_leader / (n + n_leader)
            of_arm = share**2 * setting.inverse_cost[arm, 0]
            of_leader = (1.0 - share) ** 2 * setting.inverse_cost[leader, 0]
            if max(lead, 0.0) ** 2 * max(of_arm, of_leader) > promise or chosen == 0:
                chosen = 0 if of_arm >= of_leader else -1
        if chosen >= 0:
            size = add_test(batch, size, arm, chosen)
        elif not leader_tested:
            size = add_test(batch, size, leader, 0)
            leader_tested = True
    if leader >= 0:
        for metric in range(1, truth.shape[1]):
            if inner.certified[leader, metric] == 0:
                size = add_test(batch, size, leader, metric)
    if size > 0:
        return size
    return conclude(leader if leader >= 0 else NONE)


def oracle_of(plan: ba.Plan) -> type[KernelPolicy]:
    """The oracle for one problem."""
    answer = plan.right_answers()[0]

    def new_memory(arms: int, metrics: int) -> Memory:
        truth = plan.true_means() * plan.normal_form().sign - true_references(plan)
        return Memory(certify.new_memory(arms, metrics), truth, np.array([-1 if answer is None else answer]))

    class Oracle(KernelPolicy):
        """Knows the means."""

        name = "oracle"
        kernels = Kernels(new_memory, update, propose)

    return Oracle


def with_costs(plan: ba.Plan, costs: Sequence[float]) -> ba.Plan:
    """The same plan, whose metrics cost so much to test."""
    parts = zip(plan.constraints, costs[1:], strict=True)
    return dataclasses.replace(
        plan,
        objective=dataclasses.replace(plan.objective, cost=costs[0]),
        constraints=tuple(dataclasses.replace(part, cost=cost) for part, cost in parts),
    )


def mean_tests(plan: ba.Plan, policy: str | type[KernelPolicy], runs: int) -> Floats:
    """[arm, metric]"""
    result = simulate(plan, policy=policy, runs=runs)
    assert result.tests_per_stream is not None
    found: Floats = result.tests_per_stream.mean(axis=0)
    return found


RATIOS = ("oracle", "oracle that ignores costs", "certify that ignores costs")


def header(first: str) -> Iterator[str]:
    cells = (first, "T\\* kl(δ, 1 − δ)", "certify", *(f"÷ {name}" for name in RATIOS))
    yield f"| {' | '.join(cells)} |"
    yield "| --- |" + " ---: |" * (len(cells) - 1)


def row(title: str, priced: ba.Plan, ignorant: Sequence[Floats], runs: int) -> str:
    """What studies cost on average, and the same divided by others: `ignorant` are tests where all cost the same."""
    informed = [mean_tests(priced, policy, runs) for policy in ("certify", oracle_of(priced))]
    ours, *others = (float((tests * priced.arm_costs).sum()) for tests in (*informed, *ignorant))
    bound = ba.analyze(priced, priced.delta).kl_bound
    figures = (f"{bound:,.0f}", f"**{ours:,.0f}**", *(f"{ours / cost:.2f}" for cost in others))
    return f"| {title} | {' | '.join(figures)} |"


def costs_table(plan: ba.Plan, runs: int) -> Iterator[str]:
    """What studies cost where tests cost 1, 3 and 10 (further metrics: 1), in every order, and where they cost 1."""
    yield from header(", ".join(plan.metrics))
    metrics = len(plan.metrics)
    plain = with_costs(plan, [1.0] * metrics)
    ignorant = [mean_tests(plain, policy, runs) for policy in (oracle_of(plain), "certify")]
    orders = itertools.permutations((1.0, 3.0, 10.0)[:metrics])
    for costs in ([1.0] * metrics, *([*order, *[1.0] * (metrics - len(order))] for order in orders)):
        yield row(", ".join(f"{cost:g}" for cost in costs), with_costs(plan, costs), ignorant, runs)


def models(accuracies: Sequence[float], harm: Sequence[float] | None) -> ba.Plan:
    """Language models: which is most accurate, or most accurate of those that rarely do harm?"""
    means = [{"accuracy": accuracy} for accuracy in accuracies]
    constraints = [] if harm is None else [ba.at_most("harm", 0.1, noise=ba.Bernoulli())]
    for mean, rate in zip(means, harm or (), strict=harm is not None):
        mean["harm"] = rate
    arms = [ba.Arm(f"model {k}", mean) for k, mean in enumerate(means, start=1)]
    return ba.Plan(arms, ba.maximize("accuracy", noise=ba.Bernoulli()), constraints, delta=0.1)


def arms_table(runs: int) -> Iterator[str]:
    """What studies cost where tests of one arm or of several cost 50 times as much."""
    accuracies = (0.9, 0.82, 0.8, 0.78, 0.6)
    scores = [ba.Arm(f"model {k}", {"score": mean}) for k, mean in enumerate((1.0, 0.7, 0.65, 0.5, 0.0), start=1)]
    problems = {
        "score, known scatter": ba.Plan(scores, ba.maximize("score", noise=ba.Gaussian(1.0)), delta=0.1),
        "accuracy": models(accuracies, None),
        "accuracy, harm at most 0.1": models((0.9, 0.95, 0.8, 0.78, 0.6), (0.05, 0.2, 0.05, 0.2, 0.02)),
        "drug-bernoulli": ba.instance("drug-bernoulli"),
    }
    yield from header("problem; arms that cost 50")
    for title, plan in problems.items():
        ignorant = [mean_tests(plan, policy, runs) for policy in (oracle_of(plan), "certify")]
        answer = plan.arm_names[plan.right_answers()[0] or 0]
        others = [name for name in plan.arm_names if name != answer]
        for words, dear in (("the answer", [answer]), (f"{others[0]}", others[:1]), ("all but the answer", others)):
            arms = [dataclasses.replace(arm, cost=50.0 if arm.name in dear else 1.0) for arm in plan.arms]
            yield row(f"{title}; {words}", dataclasses.replace(plan, arms=tuple(arms)), ignorant, runs)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1000)
    options.add_argument("--costs", metavar="INSTANCE", help="what studies of this problem cost")
    options.add_argument("--arms", action="store_true", help="what studies cost whose arms differ in cost")
    given = options.parse_args()
    runs = given.runs
    if given.arms or given.costs is not None:
        for line in arms_table(runs) if given.arms else costs_table(ba.instance(given.costs), runs):
            print(line, flush=True)
        return
    table = Table(title=f"mean tests at δ = 0.1, {runs:,} runs")
    headings = ("instance", "Theorem 1", "T* kl(δ, 1 − δ)", "certify", "÷ Theorem 1", "÷ T* kl", "oracle", "÷ T* kl")
    for heading in (*headings, "certify ÷ oracle"):
        table.add_column(heading, justify="left" if heading == "instance" else "right")
    for name in ba.instance_names():
        plan = ba.instance(name)
        theory = ba.analyze(plan, 0.1)
        bound, stronger = theory.lower_bound, theory.kl_bound
        ours, theirs = (
            simulate(plan, policy=policy, runs=runs, keep_streams=False).mean_tests
            for policy in ("certify", oracle_of(plan))
        )
        cells = (bound, stronger, ours, ours / bound, ours / stronger, theirs, theirs / stronger, ours / theirs)
        shown = [f"{x:,.0f}" if k in (0, 1, 2, 5) else f"{x:.2f}" for k, x in enumerate(cells)]
        table.add_row(name, *shown)
    Console().print(table)


if __name__ == "__main__":
    main()
