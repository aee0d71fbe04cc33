"""What remains to be done: the study simulated from where it stands, with the means as they now seem to be."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import numpy as np

from bestarm.kernel.compile import compiled
from bestarm.kernel.layout import in_one_block
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import NONE, UNFINISHED, Floats, Ints
from bestarm.noise import Gaussian
from bestarm.plan import Plan
from bestarm.policies.base import KernelPolicy, Policy, Stop, new_batch
from bestarm.simulation.engine import Job, RunState, Workspace
from bestarm.simulation.nature import draw_batch
from bestarm.validation import InvalidInput

WORLDS = 20
MOST_TESTS = 300_000
"""No simulation goes on for longer than this: worlds that are almost ties would take for ever."""
MOST_INTERPRETED = 3_000


@dataclasses.dataclass(frozen=True)
class Outlook:
    """Tests and cost still to come: half of the simulated studies end within `median_…`, nine in ten within `p90_…`.

    Infinite if the simulation, or the budget, was at its end before that many were. `answers` has the share
    of the simulated studies that ended with each arm, or with "none".
    """

    runs: int
    median_tests: float
    p90_tests: float
    median_cost: float
    p90_cost: float
    answers: dict[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is infinite is None."""
        data = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()}


@dataclasses.dataclass(frozen=True)
class _Continued(Job):
    """Runs that start from where a study stands instead of from nothing."""

    start: Policy | None = None

    def new_workspace(self) -> Workspace:
        assert isinstance(self.start, KernelPolicy)
        state = RunState(self.start.streams, self.start.memory)
        (streams, memory), block = in_one_block(state)
        return Workspace(streams, memory, new_batch(*self.shape), np.zeros(4, np.uint64), block, block.copy())


def outlook(plan: Plan, policy: Policy, *, runs: int = 100, seed: int = 0) -> Outlook:
    """Simulate `runs` continuations, in worlds drawn from what the results say of the means."""
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= 10**6:
        raise InvalidInput(f"runs = {runs!r}: must be a whole number from 1 to 1,000,000")
    counts = policy.streams.counts
    so_far = float(counts.sum(axis=0) @ policy.setting.cost)
    left = min(MOST_TESTS, plan.max_tests - int(counts.sum()))
    answers, tests, cost = [], [], []
    for world, part in enumerate(np.array_split(np.arange(runs), min(runs, WORLDS))):
        job = _Continued(
            problem=plan.with_means(_drawn_means(plan, policy, np.random.default_rng((seed, world)))),
            policy=type(policy),
            delta=plan.delta,
            bound=plan.bound,
            seed=seed,
            max_tests=left,
            max_cost=plan.max_cost - so_far,
            start=policy,
        )
        if job.is_compiled:
            outcomes = job.simulate(int(part[0]), len(part)).outcomes
            answers += outcomes.answers.tolist()
            tests += outcomes.tests.tolist()
            cost += (outcomes.cost - so_far).tolist()
        else:
            for run in part.tolist():
                answer, made, spent = _interpret(job, run)
                answers.append(answer)
                tests.append(made)
                cost.append(spent)
    return _summary(plan, np.array(answers), np.array(tests), np.array(cost))


def _drawn_means(plan: Plan, policy: Policy, lots: np.random.Generator) -> dict[str, dict[str, float]]:
    """Means as they might be: normal around those measured, within the range of the values."""
    streams, signs = policy.streams, plan.normal_form().sign
    means = streams.means * signs
    for metric, noise in enumerate(plan.noises):
        n = streams.counts[:, metric]
        if isinstance(noise, Gaussian):
            means[:, metric] += noise.sigma / np.sqrt(n) * lots.standard_normal(len(n))
        else:
            low, high = noise.range
            # One more test on each side keeps a rate of 0 of 3 from passing for certain.
            share = ((means[:, metric] - low) / (high - low) * n + 1.0) / (n + 2.0)
            means[:, metric] = low + (high - low) * lots.beta(share * (n + 2.0), (1.0 - share) * (n + 2.0))
    rows = zip(plan.arm_names, means.tolist(), strict=True)
    return {name: dict(zip(plan.metrics, row, strict=True)) for name, row in rows}


def _interpret(job: _Continued, run: int) -> tuple[int, int, float]:
    """One run of a policy that cannot be compiled."""
    policy, generator = copy.deepcopy(job.start), np.zeros(4, np.uint64)
    assert policy is not None
    compiled(seed_generator)(generator, job.seed, run, NOISE)
    tests, cost = 0, 0.0
    while tests < min(job.max_tests, MOST_INTERPRETED) and cost < job.max_cost:
        proposal = policy.propose()
        if isinstance(proposal, Stop):
            return (NONE if proposal.arm is None else proposal.arm), tests, cost
        batch, values = np.array(proposal, np.uint32), np.zeros(len(proposal))
        compiled(draw_batch)(job.nature, generator, batch, len(batch), values)
        for (arm, metric), value in zip(proposal, values.tolist(), strict=True):
            policy.tell(arm, metric, value)
            cost += float(job.setting.cost[metric])
        tests += len(proposal)
    return UNFINISHED, tests, cost


def _summary(plan: Plan, answers: Ints, tests: Ints, cost: Floats) -> Outlook:
    ended = answers != UNFINISHED
    all_tests, all_cost = np.where(ended, tests, np.inf), np.where(ended, cost, np.inf)
    names = (*plan.arm_names, "none")
    shares = {names[k]: float((answers == k).mean()) for k in np.unique(answers[ended]).tolist()}

    def quantile(values: Floats, q: float) -> float:
        return float(np.quantile(values, q, method="higher"))

    return Outlook(
        runs=len(answers),
        median_tests=quantile(all_tests, 0.5),
        p90_tests=quantile(all_tests, 0.9),
        median_cost=quantile(all_cost, 0.5),
        p90_cost=quantile(all_cost, 0.9),
        answers=shares,
    )
