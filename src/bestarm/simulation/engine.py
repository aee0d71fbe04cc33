"""Runs of simulated studies, compiled for policies written as kernels and interpreted for any other.

A run is seeded by (seed, run number) alone, so neither the number of workers nor the size of chunks changes a result.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from bestarm.evidence.items import next_item, places_so_far, streams_for, tests_on_items, with_room
from bestarm.kernel.compile import compiled, is_kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import (
    EMPTY,
    NONE,
    UNFINISHED,
    Flags,
    Floats,
    Ints,
    Setting,
    Slices,
    Streams,
    total_cost,
)
from bestarm.kernel.tournament import NO_ARM
from bestarm.noises.registry import known_for
from bestarm.noises.streams import Nature
from bestarm.policies import policy_for, setting_for
from bestarm.policies.base import Policy
from bestarm.policies.decisions import EmptyProposal, Stop
from bestarm.policies.from_file import received, sent
from bestarm.policies.kernels import KernelPolicy, Kernels
from bestarm.policies.setting import true_references
from bestarm.policies.slices import in_order, shuffled
from bestarm.problem import Plan, Problem
from bestarm.problem.blocks import replicates
from bestarm.problem.goals import answers_sets
from bestarm.simulation.item_worlds import ItemWorlds
from bestarm.simulation.loop import (
    IN_SLICES,
    LATER,
    ON_ITEMS,
    TOO_SMALL,
    Chunk,
    Outcomes,
    Trace,
    Workspace,
    end_of_places,
    look_up_in,
    new_workspace,
    note_rest,
    one_by_one,
    place_of,
    rank_at,
    rank_in_slice,
    simulate_runs,
    yes,
)
from bestarm.simulation.nature import draw_batch, new_nature
from bestarm.validation import MOST_TESTS, InvalidInput

Answered = tuple[Outcomes, Flags | None]
"""Outcomes and, where answers are sets, the arms of each: as in `Chunk`."""
Results = list[tuple[int, int, float]]
"""What one test gives: (arm, metric, value)."""
Made = tuple[Results, int, list[int] | None]
"""What a test gives, or in a block the mean of several; how many there were; and where that enters, if not next."""


@dataclasses.dataclass(frozen=True)
class Job:
    """Everything that the outcome of run number r depends on, apart from r. It can be sent to another process."""

    problem: Problem
    policy: type[Policy]
    delta: float
    bound: str
    seed: int
    max_tests: int
    keep_counts: bool = False
    max_cost: float = math.inf
    max_blocks: int = MOST_TESTS
    """After how many blocks of its own a run ends."""
    checkpoints: tuple[int, ...] = ()
    """After how many tests to record which arm leads, in rising order."""

    @functools.cached_property
    def setting(self) -> Setting:
        return setting_for(self.problem, self.policy, self.delta, self.bound, true_references(self.problem))

    @functools.cached_property
    def nature(self) -> Nature:
        return new_nature(self.problem, self.setting.reference)

    @classmethod
    def of(cls, plan: Plan, policy: type[Policy], *, max_tests: int, **fields: Any) -> Job:
        """The job of a plan, within its budget. Raises errors about the plan here, not in a worker."""
        if plan.judged:
            reason = (
                "cannot be simulated before there are labels: it is not known yet how it agrees with them. Leave it "
                "out to see what it takes without; a study that has labels forecasts the rest with its judge"
            )
            raise InvalidInput("judge", next(iter(plan.judged)), reason)
        job = cls(
            problem=plan,
            policy=policy_for(plan, policy),
            delta=plan.delta,
            bound=plan.bound,
            max_tests=min(max_tests, plan.max_tests),
            max_cost=plan.max_cost,
            max_blocks=plan.max_blocks,
            **fields,
        )
        for part in ("setting", "nature"):
            getattr(job, part)
        return job

    @property
    def label(self) -> str:
        """What to call this job in messages."""
        return f"{getattr(self.problem, 'name', 'the problem')} with {self.policy.name}"

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.problem.arms), len(self.problem.metrics)

    @property
    def is_compiled(self) -> bool:
        return issubclass(self.policy, KernelPolicy) and all(
            map(is_kernel, (self.kernels.update, self.kernels.propose))
        )

    @property
    def kernels(self) -> Kernels:
        assert issubclass(self.policy, KernelPolicy)
        return self.policy.kernels_in(self.setting)

    @property
    def _form(self) -> dict[str, Any]:
        """Which form of the loop is compiled."""
        kernels = self.kernels
        # On items, nothing is drawn while a run goes on.
        parts = (self.setting, self.nature) if self.worlds is None else (self.setting,)
        return {
            "label": self.policy.name.replace("-", "_"),
            "known": known_for(*parts),
            "start": kernels.start,
            "update": kernels.update,
            "propose": kernels.propose,
            **({} if self.worlds is None else ON_ITEMS),
            **({} if self.problem.inside is None else IN_SLICES),
            **self.checkpointing,
        }

    @property
    def checkpointing(self) -> dict[str, Any]:
        """What the loop is compiled with where it is recorded who leads."""
        return {"recommend": self.kernels.recommend, "has_checkpoints": yes} if self.checkpoints else {}

    def __getstate__(self) -> dict[str, Any]:
        """What to send. Tables are left out and made again by the receiver."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return fields | {"policy": sent(self.policy)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state | {"policy": received(state["policy"])})

    def simulate(self, first_run: int, runs: int, stop: Ints | None = None) -> Chunk:
        """Runs `first_run`, `first_run + 1`, … of this job."""
        if not self.is_compiled:
            return self.interpret(first_run, runs, stop)
        self._compiled(first_run, 0, stop)  # compiles, or loads what was compiled earlier
        return self._measured(self._compiled, first_run, runs, stop)

    def interpret(self, first_run: int, runs: int, stop: Ints | None = None) -> Chunk:
        """The same runs, with the policy as plain Python."""
        return self._measured(self._interpret, first_run, runs, stop)

    def trace(self, run: int) -> tuple[Chunk, Trace]:
        """One run with all its tests in order. Values are in normal form."""
        trace = self._new_trace(self.simulate(run, 1).outcomes)
        simulate = self._compiled if self.is_compiled else self._interpret
        return self._measured(simulate, run, 1, None, trace), trace.filled()

    def interpreted_trace(self, run: int) -> tuple[Chunk, Trace]:
        """The same as `trace`, with the same source run as plain Python."""
        trace = self._new_trace(self._interpret(run, 1, None)[0])
        return self._measured(self._interpret, run, 1, None, trace), trace.filled()

    def _new_trace(self, outcomes: Outcomes) -> Trace:
        """Room for all results of one run."""
        most = int(outcomes.tests[0]) * max(map(len, self.problem.bundles))
        return Trace(np.zeros((most, 2), np.uint32), np.full(most, np.nan))

    def _measured(self, simulate: Any, *arguments: Any) -> Chunk:
        start = time.perf_counter()
        outcomes, arms = simulate(*arguments)
        return Chunk(self.checked(outcomes), time.perf_counter() - start, arms)

    def checked(self, outcomes: Outcomes) -> Outcomes:
        """The same outcomes. Raises `EmptyProposal` if a run ended with an empty batch, which a kernel cannot do."""
        if (outcomes.answers == EMPTY).any():
            raise EmptyProposal(self.policy.name)
        return outcomes

    def measured(self, generator: Generator, tests: Sequence[tuple[int, int]]) -> Iterator[Results]:
        """Make tests in the simulated world: for each, its results (arm, metric, value)."""
        batch = np.array(tests, np.uint32)
        most = len(tests) * max(map(len, self.problem.bundles))
        rows, values = np.zeros((most, 2), np.uint32), np.zeros(most)
        # What is not compiled anyway may also draw from a noise whose kernels cannot be compiled.
        measure = compiled(draw_batch, known=known_for(self.nature)).interpreted_until_ready(draw_batch, wait=True)
        measure(self.setting, self.nature, generator, batch, len(batch), rows, values)
        results = zip(*rows.T.tolist(), values.tolist(), strict=True)
        sizes = {bundle[0]: len(bundle) for bundle in self.problem.bundles}
        for _, lead in tests:
            yield list(itertools.islice(results, sizes[lead]))

    def _room_for(self, runs: int) -> Answered:
        """Room for the outcomes of runs and, where answers are sets, for their arms."""
        counts = np.zeros((runs if self.keep_counts else 0, *self.shape), np.int64)
        sets = np.zeros((runs, self.shape[0]), np.int8) if answers_sets(self.problem.asks) else None
        leaders = np.full((runs if self.checkpoints else 0, len(self.checkpoints)), UNFINISHED)
        return Outcomes(np.full(runs, UNFINISHED), np.zeros(runs, np.int64), np.zeros(runs), counts, leaders), sets

    @functools.cached_property
    def worlds(self) -> ItemWorlds | None:
        """Where runs with items get their values from."""
        return None if self.problem.items is None else ItemWorlds(self.problem, self.setting.reference)

    @property
    def _places(self) -> int:
        """At how many places a run can make tests. A run that has used them all ends."""
        items = self.setting.items
        return min(items.places, self.max_blocks * items.capacity) if items.capacity else items.places

    def world(self, run: int, room: int) -> Floats:
        """What every arm gives on every item in a run: [arm, metric, place], with this much room if it can be used."""
        assert self.worlds is not None
        return self.worlds.of(self.seed, run, min(room, self._places), self.slices(run))

    def slices(self, run: int) -> Slices:
        """Where the items of slices stand in a run: each has an order of its own."""
        return shuffled(self.problem, self.seed, run)

    def start_of_run(self, room: int) -> tuple[Streams, Any]:
        """The streams and the policy's memory that a compiled run starts with a copy of."""
        return streams_for(self.setting, *self.shape, room), self.kernels.new_memory(*self.shape)

    def new_policy(self, run: int) -> Policy:
        """The policy that an interpreted run starts with."""
        return self.policy(in_order(self.setting, self.slices(run)), *self.shape, seed=self.seed, run=run)

    def _new_workspace(self, world: Floats | None = None) -> Workspace:
        if world is None:
            return new_workspace(*self.start_of_run(0))
        items = self.setting.items
        room = world.shape[2] // (1 if items.is_each_compared else max(items.capacity, 1))
        return new_workspace(*self.start_of_run(room), self._places, items.capacity)._replace(world=world)

    def _compiled(self, first_run: int, runs: int, stop: Ints | None, trace: Trace | None = None) -> Answered:
        loop = compiled(simulate_runs, **self._form)
        outcomes, sets = self._room_for(runs)
        workspace = self._new_workspace()
        stop = _GO if stop is None else stop
        limits = self.max_tests, self.max_cost, stop
        checkpoints = np.array([*self.checkpoints, LATER])
        # The arms of an answer are in the memory at the end of a run, and on items each run has a world of its own.
        is_alone = runs > 0 and (sets is not None or self.worlds is not None)
        for first, part in one_by_one(outcomes) if is_alone else [(0, outcomes)]:
            run, is_done = first_run + first, False
            while not is_done and not stop[0]:
                if self.worlds is not None and runs:
                    world = self.world(run, self.worlds.room)
                    workspace = self._new_workspace(world)
                given = (
                    setting := in_order(self.setting, self.slices(run)),
                    self.nature,
                    workspace,
                    part,
                    trace or _NO_TRACE,
                    checkpoints,
                )
                loop(*given, self.seed, run, *limits)
                is_done = not (part.answers == TOO_SMALL).any()
                if self.worlds is not None and not is_done:
                    self.worlds.room = max(self.worlds.room, 2 * world.shape[2])
            if self.problem.inside is not None and len(part.counts):
                part.counts[0] = tests_on_items(setting, workspace.streams)
            if sets is not None and runs and part.answers[0] >= 0:
                sets[first] = workspace.memory.chosen.listed
            if sets is not None and runs and self.problem.asks == "every feasible":
                sets[first] = self._decided(workspace.memory)
        return outcomes, sets

    def _decided(self, memory: Any) -> Flags:
        """By arm, where every feasible arm is asked for: 1 if it is certified feasible, -1 if it is rejected."""
        verdicts: Flags = memory.chosen.listed - memory.rejected
        if self.setting.aside != NO_ARM:
            verdicts[self.setting.aside] = 0
        return verdicts

    def _measuring(self, policy: Policy, run: int) -> Callable[[Sequence[tuple[int, int]], int], Iterator[Made]]:
        """What makes the tests of an interpreted run, of which so many are left; on items, each on the next item of its
        stream, if one is left; in blocks, each as often as fits."""
        if self.worlds is None:
            generator = np.zeros(4, np.uint64)
            compiled(seed_generator)(generator, self.seed, run, NOISE)
            return lambda tests, left: ((made, 1, None) for made in self.measured(generator, tests[:left]))
        world = self.world(run, self.worlds.room)
        capacity, places = self.setting.items.capacity, self._places

        numbers, has_slices = itertools.count(), self.problem.inside is not None
        find, rank_of = (next_item, rank_in_slice) if has_slices else (place_of, rank_at)

        def measured_on_items(tests: Sequence[tuple[int, int]], left: int) -> Iterator[Made]:
            nonlocal world
            blocks = self.problem.blocks
            often = [1] * min(len(tests), left)
            if blocks is not None:
                often = replicates(len(tests), blocks, min(capacity, left))
            begin, block = int(places_so_far(policy.streams)), next(numbers)
            for (arm, metric), times in zip(tests, often, strict=False):
                place = begin if capacity else int(find(policy.setting, policy.streams, arm, metric))
                last = (block + 1) * capacity - 1 if capacity else place
                while last >= world.shape[2] < places:
                    world = self.world(run, 2 * world.shape[2])
                if last < world.shape[2]:
                    policy.streams = with_room(policy.streams, place + times)
                    made, entering = [], []
                    part = int(self.setting.lead[metric])
                    while part >= 0:
                        rank = rank_of(policy.setting, part, place)
                        if rank >= 0:
                            at = self.setting, policy.streams, world, arm, part, place, block, times
                            made.append((arm, part, float(look_up_in(*at))))
                            entering.append(end_of_places(self.setting, rank, times))
                        part = int(self.setting.following[part])
                    yield made, times, entering if capacity or has_slices else None

        return measured_on_items

    def _interpret(self, first_run: int, runs: int, stop: Ints | None, trace: Trace | None = None) -> Answered:
        outcomes, sets = self._room_for(runs)
        for k in range(runs):
            policy = self.new_policy(first_run + k)
            measured = self._measuring(policy, first_run + k)
            tests, results, cost, before = 0, 0, 0.0, -1
            while before < tests < self.max_tests and cost < self.max_cost and (stop is None or stop[0] == 0):
                proposal = policy.decide()
                if isinstance(proposal, Stop):
                    outcomes.answers[k] = _number(proposal.arm)
                    if sets is not None:
                        sets[k, list(proposal.arms)] = 1
                    break
                before = tests
                for made, times, places in measured(proposal, self.max_tests - tests):
                    if trace is not None:
                        end = results + len(made)
                        trace.streams[results:end] = [(arm, metric) for arm, metric, _ in made]
                        trace.values[results:end] = [value for _, _, value in made]
                        results = end
                    policy.tell_together(made, places)
                    tests += times
                    for due, checkpoint in enumerate(self.checkpoints):
                        if tests - times < checkpoint <= tests:
                            outcomes.leaders[k, due] = _number(policy.recommend())
                    cost += times * float(self.setting.cost[made[0][0], self.setting.lead[made[0][1]]])
                    if cost >= self.max_cost:
                        break
            if sets is not None and self.problem.asks == "every feasible":
                assert isinstance(policy, KernelPolicy)
                sets[k] = self._decided(policy.memory)
            if self.checkpoints:
                answer = int(outcomes.answers[k])
                leader = _number(policy.recommend()) if answer == UNFINISHED else answer
                note_rest(outcomes, k, np.array(self.checkpoints), tests, leader)
            outcomes.tests[k] = tests
            outcomes.cost[k] = total_cost(self.setting, policy.streams) if self.worlds is None else cost
            if self.keep_counts:
                outcomes.counts[k] = policy.tests
        return outcomes, sets


def _number(arm: int | None) -> int:
    """An answer as kernels write it."""
    return NONE if arm is None else arm


_GO: Ints = np.zeros(1, np.int64)
_NO_TRACE = Trace(np.zeros((0, 2), np.uint32), np.zeros(0))
