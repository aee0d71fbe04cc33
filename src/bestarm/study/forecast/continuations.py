"""What remains to be done: the study simulated from where it stands, in worlds that its results leave possible."""

from __future__ import annotations

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
from bestarm.evidence.items import at_places, places_so_far, with_room
from bestarm.kernel.native.source import warn_interpreted
from bestarm.kernel.native.types import Untranslatable
from bestarm.kernel.state import ABSENT, Flags, Floats, Ints, Setting, Slices, Streams
from bestarm.policies.base import Policy
from bestarm.policies.kernels import KernelPolicy
from bestarm.problem import Plan
from bestarm.simulation.answers import named_answers
from bestarm.simulation.engine import Job
from bestarm.simulation.item_worlds import ItemWorlds, groups_of, same_values
from bestarm.simulation.loop import Chunk
from bestarm.storage.errors import StorageError
from bestarm.study.forecast.drawn_worlds import (
    continued_world,
    drawn_world,
    estimated_scatters,
    follow_judge,
    with_item_spreads,
)
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

HALF, NINE_IN_TEN = 0.27, 0.72
"""Half of the studies, and nine in ten, end within as many tests as these shares of their simulated continuations.

Continuations take too long: the closest of many pairs decides, and it is closer in a draw than it is in truth. The
shares are those for which 300 studies of 13 problems came out right; `benchmarks/forecast.py` counts them again.
"""
FEWEST = 6
"""With fewer results than that in a stream, on average, it is too early to say. Only 75% of such studies ended within
the limit given for nine in ten, and the likeliest answer, given 66%, came in 57% of them."""
MOST_TESTS = 300_000
FORESIGHT = 50
"""A simulation ends after this many tests, or this many times the tests made so far: worlds that are almost ties would
take forever. A set of items ends by itself."""
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
    def worlds(self) -> ItemWorlds | None:
        worlds = super().worlds
        if worlds is not None and self.problem.blocks is None:
            assert self.start is not None
            worlds.room = max(worlds.room, 2 * self.start.streams.items.values.shape[2])
        return worlds

    def slices(self, run: int) -> Slices:
        return super().slices(run) if self.problem.inside is None else self.setting.items.slices

    def world(self, run: int, room: int) -> Floats:
        assert self.start is not None
        drawn = super().world(run, room)
        # A block that has entered is not met again.
        if self.problem.blocks is not None:
            return drawn
        slices = self.setting.items.slices
        values = at_places(slices, self.start.streams.items.values)
        world = continued_world(self.problem, drawn, values, groups_of(slices))
        if slices != ABSENT:
            same_values(self.nature, world)
        for k, part in enumerate(self.problem.parts):
            if part.judge is not None:
                random = np.random.default_rng((self.seed, run, k))
                follow_judge(world[:, k], values[:, k], self.setting.items.judge.scores[:, k], random)
        return world

    def start_of_run(self, room: int) -> tuple[Streams, Any]:
        assert isinstance(self.start, KernelPolicy)
        streams = self.start.streams
        if self.problem.blocks is not None:
            # A block that has entered is not met again.
            room += int(places_so_far(streams))
        return (streams if self.worlds is None else with_room(streams, room)), self.start.memory

    def new_policy(self, run: int) -> Policy:
        assert self.start is not None
        # The tables in the setting are large and never change.
        policy = copy.deepcopy(self.start, {id(self.start.setting): self.start.setting})
        # Each run draws its own random numbers.
        policy._seed = (self.seed, run)
        policy.__dict__.pop("random", None)
        return policy


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
    affordable = plan.max_tests - before
    left = min(MOST_TESTS, FORESIGHT * before if policy.places_of() is None else MOST_TESTS, affordable)
    scatters = [estimated_scatters(policy.setting, policy.streams, metric) for metric in range(policy.metrics)]
    if plan.items is not None:
        plan, scatters = with_item_spreads(plan, policy, scatters)
    answers, tests, cost, is_given_up = [], [], [], []
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
            max_blocks=plan.max_blocks - policy.blocks_made,
            start=policy,
        )
        if not is_wanted():
            raise NotWanted
        chunk, most = _simulated(job, run)
        sets += [] if chunk.sets is None else [chunk.sets]
        answers.append(int(chunk.outcomes.answers[0]))
        tests.append(int(chunk.outcomes.tests[0]))
        is_given_up.append(plan.budget is None or most <= tests[-1] < affordable)
        # On items and in blocks, only what a run itself spends is counted.
        cost.append(max(float(chunk.outcomes.cost[0]) - (so_far if job.worlds is None else 0.0), 0.0))
    names = named_answers(plan, np.array(answers), np.concatenate(sets) if sets else None)
    summary = _summary(names, np.array(tests), np.array(cost), np.array(is_given_up))
    return dataclasses.replace(summary, after=before, made=time.time())


def _simulated(job: _Continued, run: int) -> tuple[Chunk, int]:
    """One run, interpreted if the policy cannot be compiled, and how many tests it could make."""
    try:
        if job.is_compiled:
            return job.simulate(run, 1), job.max_tests
    except Untranslatable as error:
        warn_interpreted(str(error))
    most = min(job.max_tests, MOST_INTERPRETED)
    return dataclasses.replace(job, max_tests=most).interpret(run, 1), most


def is_too_early(plan: Plan, policy: Policy) -> bool:
    """Whether there are so few results that a forecast would say nothing."""
    varying = [not noise.is_exact for noise in plan.noises]
    counts = policy.streams.counts[~plan.is_retired][:, varying]
    return bool(counts.size) and float(counts.mean()) < FEWEST


def _summary(names: list[str | None], tests: Ints, cost: Floats, is_given_up: Flags) -> Outlook:
    """Where the simulation gave none up, what has no answer was ended by the budget."""
    ended = np.array([name is not None for name in names])
    all_tests, all_cost = np.where(ended, tests, np.inf), np.where(ended, cost, np.inf)
    at_budget = float((~ended & ~is_given_up).mean())
    shares = {name: names.count(name) / len(names) for name in dict.fromkeys(names) if name is not None}

    def quantile(values: Floats, q: float, beyond: float) -> float:
        # What is said must not deny what share of the continuations the budget ended.
        return math.inf if at_budget > beyond else float(np.quantile(values, q, method="higher"))

    return Outlook(
        runs=len(names),
        median_tests=quantile(all_tests, HALF, 0.5),
        p90_tests=quantile(all_tests, NINE_IN_TEN, 0.1),
        median_cost=quantile(all_cost, HALF, 0.5),
        p90_cost=quantile(all_cost, NINE_IN_TEN, 0.1),
        answers=shares,
        at_budget=at_budget,
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
            try:
                # Asking and telling do not wait for a simulation.
                self.outlook = self._study._forecast(100, 0, lambda: not self._stop.is_set())
            except (StorageError, NotWanted):
                pass
            except RuntimeError:
                # What it asks may be closed once it is stopped.
                if not self._stop.is_set():
                    raise
