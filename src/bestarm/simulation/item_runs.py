"""Simulated studies with items: one run at a time, each in a world of its own. Interpreted and compiled alike."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import numpy as np

from bestarm.evidence.items import record_at, streams_for
from bestarm.kernel.compile import clone, compiled, kernel
from bestarm.kernel.state import UNFINISHED, Batch, Flags, Floats, Ints, Setting, Streams, concluded, gather
from bestarm.kernel.words import whole
from bestarm.noises.registry import known_for
from bestarm.policies.advance import propose, update
from bestarm.policies.kernels import new_batch
from bestarm.simulation.item_worlds import ItemWorlds

CRAMPED = -9
"""Instead of an answer: the run needs more places than its world has."""
FIRST_ROOM = 512


class ItemWorkspace(NamedTuple):
    """The state of one run."""

    streams: Streams
    memory: Any
    batch: Batch
    covered: Flags
    spent: Floats
    """[0]: the number of tests; [1]: what they cost."""


@kernel
def start(memory: Any, seed: int, run: int) -> None:
    """Stands for the policy's `start` until what calls it is made for one."""


@kernel
def run_on_items(
    setting: Setting,
    world: Floats,
    workspace: ItemWorkspace,
    rows: Batch,
    values: Floats,
    seed: int,
    run: int,
    max_tests: int,
    max_cost: float,
    stop: Ints,
) -> int:
    """Run one study; returns its answer. `rows` (arm, metric) and `values` are filled with its results, as far as there
    is room."""
    streams, memory, batch, covered, spent = workspace
    start(memory, seed, run)
    tests = 0
    results = 0
    cost = 0.0
    answer = UNFINISHED
    while tests < max_tests and cost < max_cost and stop[0] == 0:
        size = propose(setting, streams, memory, batch)
        if size <= 0:
            answer = concluded(size)
            break
        size = min(gather(setting, covered, batch, size), max_tests - tests)
        before = tests
        for row in range(size):
            arm = whole(batch[row, 0])
            metric = whole(batch[row, 1])
            place = streams.counts[arm, metric]
            if place >= world.shape[2]:
                if world.shape[2] < setting.items.places:
                    return CRAMPED
                continue
            part = metric
            while part >= 0:
                if results < values.shape[0]:
                    rows[results, 0] = arm
                    rows[results, 1] = part
                    values[results] = world[arm, part, place]
                results += 1
                record_at(setting, streams, arm, part, place, world[arm, part, place])
                part = setting.following[part]
            part = metric
            while part >= 0:
                update(setting, streams, memory, arm, part)
                part = setting.following[part]
            tests += 1
            cost += setting.cost[metric]
            if cost >= max_cost:
                break
        if tests == before:
            # Everything that was asked for has been measured on all items.
            break
    spent[0] = tests
    spent[1] = cost
    return answer


class ItemRuns:
    """Runs of a job with items."""

    def __init__(self, job: Any) -> None:
        self._job = job
        self._room = FIRST_ROOM

    @functools.cached_property
    def worlds(self) -> Any:
        return ItemWorlds(self._job.problem, self._job.setting.reference)

    @functools.cached_property
    def _kernels(self) -> dict[str, Any]:
        kernels = self._job.kernels
        return {"start": kernels.start, "update": kernels.update, "propose": kernels.propose}

    def simulate(
        self, outcomes: Any, first_run: int, stop: Ints, trace: Any, sets: Flags | None, *, is_compiled: bool = True
    ) -> None:
        """Fill `outcomes` with the runs from `first_run` on, and `sets` with the arms of their answers, where these are
        sets; of the last run, fill `trace`."""
        job = self._job
        known = known_for(job.setting)
        run = compiled(run_on_items, "certify", known=known, **self._kernels) if is_compiled else self._interpreted
        for k in range(len(outcomes.answers)):
            if stop[0]:
                return
            while True:
                world = self.world(first_run + k)
                workspace = self.new_workspace(world.shape[2])
                limits = job.seed, first_run + k, job.max_tests, job.max_cost, stop
                with np.errstate(over="ignore", invalid="ignore"):
                    answer = int(run(job.setting, world, workspace, trace.streams, trace.values, *limits))
                if answer != CRAMPED:
                    break
                self._room *= 2
            outcomes.answers[k], outcomes.tests[k], outcomes.cost[k] = answer, workspace.spent[0], workspace.spent[1]
            if sets is not None and answer >= 0:
                sets[k] = workspace.memory.chosen.listed
            if len(outcomes.counts):
                outcomes.counts[k] = workspace.streams.counts

    @functools.cached_property
    def _interpreted(self) -> Any:
        root: Any = run_on_items
        return clone(root, self._kernels, root.__qualname__)

    def world(self, run: int) -> Floats:
        world: Floats = self.worlds.of(self._job.seed, run, self._room)
        return world

    def new_workspace(self, room: int) -> ItemWorkspace:
        """Where a run starts."""
        shape = self._job.shape
        streams = streams_for(self._job.setting, shape[0], shape[1], room)
        memory = self._job.kernels.new_memory(*shape)
        return ItemWorkspace(streams, memory, new_batch(*shape), np.zeros(shape, np.int8), np.zeros(2))
