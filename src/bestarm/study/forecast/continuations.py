"""What remains to be done: the study simulated from where it stands, in worlds that its results leave possible."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import math
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.analysis.status.outlook import Outlook
from bestarm.kernel.compile import compiled
from bestarm.kernel.layout import in_one_block
from bestarm.kernel.native.source import warn_interpreted
from bestarm.kernel.native.types import Untranslatable
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import NONE, UNFINISHED, Flags, Floats, Ints, Setting
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.problem import Plan
from bestarm.simulation.engine import Job
from bestarm.simulation.item_runs import ItemRuns
from bestarm.simulation.loop import Chunk, RunState, Workspace, in_workspace
from bestarm.simulation.right import named_answers
from bestarm.storage.errors import StorageError
from bestarm.study.forecast.drawn_worlds import drawn_world, estimated_scatters
from bestarm.study.forecast.item_continuations import ContinuedRuns, with_item_spreads
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

HALF, NINE_IN_TEN = 0.27, 0.72
"""Half of the studies, and nine in ten, end within as many tests as these shares of their simulated continuations.

Continuations take too long: the closest of many pairs decides, and it is closer in a draw than it is in truth. The
shares are those for which 300 studies of 13 problems came out right; `benchmarks/forecast.py` counts them again.
"""
FEWEST = 6
"""With fewer results than that in a stream, on average, it is too early to say. Only 75 % of such studies ended within
the limit given for nine in ten, and the likeliest answer, given 66 %, came in 57 % of them."""
MOST_TESTS = 300_000
FORESIGHT = 50
"""No simulation goes on for longer than that, or than so many times the tests made so far: worlds that are almost ties
would take forever. A set of items ends by itself."""
MOST_INTERPRETED = 3_000

_EVERY = 15.0
_LOOK_EVERY = 0.5


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
    """The forecast is no longer wanted."""


def simulate_continuations(
    plan: Plan, policy: Policy, *, runs: int = 100, seed: int = 0, is_wanted: Callable[[], bool] = lambda: True
) -> Outlook:
    """Simulate `runs` continuations from where `policy` stands, within what is left of the budget; it stays as it is.

    Each is a study in a world of its own, which `drawn_worlds` draws. How such forecasts turn out is what
    `benchmarks/forecast.py` prints.
    """
    if isinstance(runs, bool) or not isinstance(runs, int) or not 1 <= runs <= 10**6:
        raise InvalidInput("runs", runs, "must be a whole number from 1 to 1,000,000", shown=quoted(runs))
    before, so_far = policy.spent
    if is_too_early(plan, policy):
        unknown = math.nan
        return Outlook(0, unknown, unknown, unknown, unknown, {}, "too early", before, made=time.time())
    left = min(MOST_TESTS, FORESIGHT * before if policy.places is None else MOST_TESTS, plan.max_tests - before)
    scatters = [estimated_scatters(policy.setting, policy.streams, metric) for metric in range(policy.metrics)]
    if plan.items is not None:
        plan, scatters = with_item_spreads(plan, policy, scatters)
    answers, tests, cost = [], [], []
    sets: list[Flags] = []
    for run in range(runs):
        job = _Continued(
            problem=drawn_world(plan, policy, scatters, np.random.default_rng((seed, run))),
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
        chunk = _simulated(job, run)
        if chunk is not None:
            sets += [] if chunk.sets is None else [chunk.sets]
            answer, made = int(chunk.outcomes.answers[0]), int(chunk.outcomes.tests[0])
            # On items, only what a run itself spends is counted.
            spent = float(chunk.outcomes.cost[0]) - (so_far if plan.items is None else 0.0)
        else:
            answer, made, spent = _interpret(job, run)
        answers.append(answer)
        tests.append(made)
        cost.append(spent)
    names = named_answers(plan, np.array(answers), np.concatenate(sets) if sets else None)
    summary = _summary(names, np.array(tests), np.array(cost))
    return dataclasses.replace(summary, after=before, made=time.time())


def _simulated(job: _Continued, run: int) -> Chunk | None:
    """One compiled run; None for a policy that cannot be compiled."""
    if not job.is_compiled:
        return None
    try:
        return job.simulate(run, 1)
    except Untranslatable as error:
        if job.problem.items is not None:
            raise
        warn_interpreted(str(error))
        return None


def is_too_early(plan: Plan, policy: Policy) -> bool:
    """Whether there are so few results that a forecast would say nothing."""
    varying = [not noise.is_exact for noise in plan.noises]
    counts = policy.streams.counts[~plan.is_retired][:, varying]
    return bool(counts.size) and float(counts.mean()) < FEWEST


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
        median_tests=quantile(all_tests, HALF),
        p90_tests=quantile(all_tests, NINE_IN_TEN),
        median_cost=quantile(all_cost, HALF),
        p90_cost=quantile(all_cost, NINE_IN_TEN),
        answers=shares,
    )


class BackgroundForecast:
    """Simulates the rest of a study, here or on a server, again and again in a thread of its own.

    `outlook` is the latest forecast, None before the first.
    """

    def __init__(self, study: Any, *, pays: Callable[[], bool] = lambda: True, every: float = _EVERY) -> None:
        """`pays` says whether the first forecast is worth it by now: compiling what it needs takes seconds."""
        self.outlook: Outlook | None = None
        self._study = study
        self._pays = pays
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop forecasting. This waits for nothing."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_EVERY if self.outlook is None else self._every):
            if self.outlook is None and not self._pays():
                continue
            with contextlib.suppress(StorageError, NotWanted):
                # Asking and telling do not wait for a simulation.
                self.outlook = self._study._forecast(100, 0, lambda: not self._stop.is_set())
