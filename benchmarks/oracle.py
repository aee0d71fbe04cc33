"""How far `certify` is from an oracle that knows the means and tests each certificate's best stream until it is met.

    python benchmarks/oracle.py --runs 1000

Both use the same evidence and the same levels; the oracle only spares itself the search.
"""

from __future__ import annotations

import argparse
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
from bestarm.policies.certify.choosing import update as _inner_update
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
            gain = max(excess, 0.0) ** 2 / setting.cost[metric]
            if gain > promise:
                promise = gain
                chosen = metric
        if leader >= 0:
            noise = scatter(setting, streams, leader, 0, truth[leader, 0])
            lead = (truth[leader, 0] + setting.tolerance - truth[arm, 0]) / noise
            n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
            share = n_leader / (n + n_leader)
            gain = max(lead, 0.0) ** 2 * max(share, 1.0 - share) ** 2 / setting.cost[0]
            if gain > promise or chosen == 0:
                chosen = 0 if n <= n_leader else -1
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


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=1000)
    runs = options.parse_args().runs
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
