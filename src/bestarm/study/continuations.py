"""What remains to be done: the study simulated from where it stands, with means close to those measured."""

from __future__ import annotations

import copy
import dataclasses
import functools
import math
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from bestarm.analysis.progress_words import answers_words, to_go_words
from bestarm.kernel.compile import compiled
from bestarm.kernel.layout import in_one_block
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import NONE, UNFINISHED, Flags, Floats, Ints, Setting, Streams
from bestarm.noises.dispatch import scatter
from bestarm.noises.shapes import largest_within
from bestarm.plan import Plan
from bestarm.policies.base import KernelPolicy, Policy, Stop
from bestarm.policies.setting import laws, to_user
from bestarm.simulation.engine import Job, RunState, Workspace, in_workspace
from bestarm.simulation.item_runs import ItemRuns
from bestarm.simulation.right import named_answers
from bestarm.study.item_continuations import ContinuedRuns, with_item_spreads
from bestarm.texts import quoted, shown
from bestarm.validation import MOST, InvalidInput

WORLDS = 200
"""The most worlds to simulate, with one or more runs in each."""
SPREAD = 0.25
"""How far worlds scatter around the means measured, in standard deviations of these.

With 1, as the posterior has it, nine in ten forecasts would say "perhaps forever": the tests that remain grow with one
over the square of a gap, and some worlds are almost ties. `simulate_continuations` says how forecasts turn out.
"""
MOST_TESTS = 300_000
FORESIGHT = 50
"""No simulation goes on for longer than that, or than so many times the tests made so far: worlds that are almost ties
would take forever."""
MOST_INTERPRETED = 3_000


@dataclasses.dataclass(frozen=True)
class Outlook:
    """Tests and cost still to come: half of the simulated studies end within `median_…`, nine in ten within `p90_…`.

    Infinite if the simulation or the budget ended first. `answers` has the share of the simulated studies that ended
    with each arm, or with "none".

    >>> print(Outlook(100, 718.0, 1300.0, 718.0, 1300.0, {"150 mg": 0.98, "100 mg": 0.02}))
    about 720 tests to go (9 in 10: at most 1,300)
    98 of 100 simulated continuations end with 150 mg, 2 with 100 mg
    """

    runs: int
    median_tests: float
    p90_tests: float
    median_cost: float
    p90_cost: float
    answers: dict[str, float]

    def __str__(self) -> str:
        return shown(to_go_words(self)) + "\n" + shown(answers_words(self))

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return "".join(f"<p>{escape(line)}</p>" for line in str(self).splitlines())

    def to_dict(self) -> dict[str, Any]:
        """Plain data; what is infinite is None."""
        data = dataclasses.asdict(self)
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in data.items()}


@dataclasses.dataclass(frozen=True)
class _Continued(Job):
    """Runs that start from where a study stands instead of from nothing."""

    start: Policy | None = None

    @functools.cached_property
    def setting(self) -> Setting:
        """The study's own, since what it has measured is relative to its references."""
        assert self.start is not None
        return self.start.setting

    @functools.cached_property
    def _on_items(self) -> ItemRuns:
        return ContinuedRuns(self)

    def new_workspace(self) -> Workspace:
        assert isinstance(self.start, KernelPolicy)
        state = RunState(self.start.streams, self.start.memory)
        (streams, memory), block = in_one_block(state)
        return in_workspace(streams, memory, block)


class NotWanted(Exception):
    """Nobody is waiting for the forecast anymore."""


def simulate_continuations(
    plan: Plan, policy: Policy, *, runs: int = 100, seed: int = 0, is_wanted: Callable[[], bool] = lambda: True
) -> Outlook:
    """Simulate `runs` continuations from where `policy` stands, within what is left of the budget; it stays as it is.

    How such forecasts turned out halfway through simulated studies with `certify`: of 120 studies of `exp1-c` 91 %
    ended within `p90_tests` and 77 % within `median_tests`; of 40 of `drug-bernoulli` 98 % and 75 %. So the median errs
    on the long side (typically by a factor of two), and `p90_tests` is typically three to six times what it takes.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= 10**6:
        raise InvalidInput("runs", runs, "must be a whole number from 1 to 1,000,000", shown=quoted(runs))
    before, so_far = policy.spent
    left = min(MOST_TESTS, FORESIGHT * before, plan.max_tests - before)
    scatters = [estimated_scatters(policy.setting, policy.streams, metric) for metric in range(policy.metrics)]
    if plan.items is not None:
        plan, scatters = with_item_spreads(plan, policy, scatters)
    answers, tests, cost = [], [], []
    sets: list[Flags] = []
    for world, part in enumerate(np.array_split(np.arange(runs), min(runs, WORLDS))):
        means = _drawn_means(plan, policy, scatters, np.random.default_rng((seed, world)))
        job = _Continued(
            problem=plan.with_means(means).with_spreads(_learned_spreads(plan, scatters, means)),
            policy=type(policy),
            delta=plan.delta,
            bound=plan.bound,
            seed=seed,
            max_tests=left,
            max_cost=plan.max_cost - so_far,
            start=policy,
        )
        if not is_wanted():
            raise NotWanted
        if job.is_compiled:
            chunk = job.simulate(int(part[0]), len(part))
            outcomes = chunk.outcomes
            sets += [] if chunk.sets is None else [chunk.sets]
            answers += outcomes.answers.tolist()
            tests += outcomes.tests.tolist()
            cost += (outcomes.cost - so_far).tolist()
        else:
            for run in part.tolist():
                answer, made, spent = _interpret(job, run)
                answers.append(answer)
                tests.append(made)
                cost.append(spent)
    names = named_answers(plan, np.array(answers), np.concatenate(sets) if sets else None)
    return _summary(names, np.array(tests), np.array(cost))


def estimated_scatters(setting: Setting, streams: Streams, metric: int) -> Floats:
    """By arm: the standard deviation of single results, as far as it is known."""
    means, counts = streams.means[:, metric].tolist(), streams.counts[:, metric].tolist()
    known = [scatter(setting, streams, arm, metric, means[arm]) if n else 1.0 for arm, n in enumerate(counts)]
    return np.array(known)


def _learned_spreads(
    plan: Plan, scatters: list[Floats], means: dict[str, dict[str, float]]
) -> dict[str, dict[str, float]]:
    """How results scatter, by arm and metric, where that is not stated but learned."""
    spreads: dict[str, dict[str, float]] = {name: {} for name in plan.arm_names}
    for metric, part in enumerate(plan.parts):
        is_known = part.noise.learns_scatter or part.title in (plan.item_spreads or {})
        if is_known and plan.metrics[metric] == part.title:
            low, high = part.noise.range
            for name, spread in zip(plan.arm_names, scatters[metric].tolist(), strict=True):
                mean = means[name][part.title]
                spreads[name][part.title] = largest_within(min(spread, MOST), mean, low, high)
    return spreads


def _drawn_means(
    plan: Plan, policy: Policy, scatters: list[Floats], random: np.random.Generator
) -> dict[str, dict[str, float]]:
    """Possible means: near those measured, within the range of the values."""
    streams, setting = policy.streams, policy.setting
    known = laws(plan, setting.reference)
    means: Floats = np.zeros(streams.counts.shape)
    for metric, noise in enumerate(plan.noises):
        # An arm that is retired may have no result, and is not simulated.
        counts, measured = np.maximum(streams.counts[:, metric], 1), streams.means[:, metric]
        drawn = noise.drawn_means(known[metric], counts, measured, scatters[metric], SPREAD, random)
        # Rounding must not carry a mean out of its range, nor an old record's out of what is accepted.
        low, high = noise.range
        user = np.nan_to_num(to_user(plan, setting, metric, drawn))
        means[:, metric] = np.clip(user, max(low, -MOST), min(high, MOST))
    rows = zip(plan.arm_names, means.tolist(), strict=True)
    return {name: plan.by_part(row) for name, row in rows}


def _interpret(job: _Continued, run: int) -> tuple[int, int, float]:
    """One run of a policy that cannot be compiled."""
    assert job.start is not None
    # The tables in the setting are large and never change.
    policy = copy.deepcopy(job.start, {id(job.start.setting): job.start.setting})
    # Each run draws its own random numbers.
    policy._seed = (job.seed, run)
    policy.__dict__.pop("random", None)
    generator = np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, job.seed, run, NOISE)
    tests, cost, most = 0, 0.0, min(job.max_tests, MOST_INTERPRETED)
    while tests < most and cost < job.max_cost:
        proposal = policy.decide()
        if isinstance(proposal, Stop):
            return (NONE if proposal.arm is None else proposal.arm), tests, cost
        for made in job.measured(generator, proposal[: most - tests]):
            if cost < job.max_cost:
                policy.tell_together(made)
                cost += float(job.setting.cost[made[0][1]])
                tests += 1
    return UNFINISHED, tests, cost


def _summary(names: list[str | None], tests: Ints, cost: Floats) -> Outlook:
    ended = np.array([name is not None for name in names])
    all_tests, all_cost = np.where(ended, tests, np.inf), np.where(ended, cost, np.inf)
    shares = {name: names.count(name) / len(names) for name in dict.fromkeys(names) if name is not None}

    def quantile(values: Floats, q: float) -> float:
        return float(np.quantile(values, q, method="higher"))

    return Outlook(
        runs=len(names),
        median_tests=quantile(all_tests, 0.5),
        p90_tests=quantile(all_tests, 0.9),
        median_cost=quantile(all_cost, 0.5),
        p90_cost=quantile(all_cost, 0.9),
        answers=shares,
    )
