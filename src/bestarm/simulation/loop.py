"""The Monte-Carlo loop: runs of one policy in one simulated world, as a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import (
    UNFINISHED,
    Batch,
    Flags,
    Floats,
    Ints,
    Setting,
    Streams,
    concluded,
    gather,
    total_cost,
)
from bestarm.kernel.words import whole
from bestarm.noises.dispatch import record
from bestarm.noises.streams import Nature
from bestarm.policies.advance import propose, update
from bestarm.policies.kernels import new_batch
from bestarm.simulation.nature import draw_part


class Workspace(NamedTuple):
    """The state of one run, reused run after run. `block` holds it all; `fresh` is what it holds at the start."""

    streams: Streams
    memory: Any
    batch: Batch
    covered: Flags
    generator: Generator
    block: Ints
    fresh: Ints


class Outcomes(NamedTuple):
    """The outcome of each run of a chunk."""

    answers: Ints
    tests: Ints
    cost: Floats
    counts: Ints
    """[run, arm, metric], or empty if not wanted."""


class Trace(NamedTuple):
    """The results of a run in order, or empty if not wanted."""

    streams: Batch
    values: Floats

    def filled(self) -> Trace:
        """Without unused space."""
        results = int((~np.isnan(self.values)).sum())
        return Trace(self.streams[:results], self.values[:results])


@kernel
def start(memory: Any, seed: int, run: int) -> None:
    """Stands for the policy's `start` until the loop is compiled for one."""


@kernel
def note(outcomes: Outcomes, k: int, answer: int, tests: int, setting: Setting, streams: Streams) -> None:
    """Record the outcome of run number k."""
    outcomes.answers[k] = answer
    outcomes.tests[k] = tests
    outcomes.cost[k] = total_cost(setting, streams)
    if outcomes.counts.shape[0] > 0:
        for arm in range(streams.counts.shape[0]):
            for metric in range(streams.counts.shape[1]):
                outcomes.counts[k, arm, metric] = streams.counts[arm, metric]


@kernel
def simulate_runs(
    setting: Setting,
    nature: Nature,
    workspace: Workspace,
    outcomes: Outcomes,
    trace: Trace,
    seed: int,
    first_run: int,
    max_tests: int,
    max_cost: float,
    stop: Ints,
) -> None:
    """Simulate the runs from `first_run` on that `outcomes` has room for, until `stop[0]` is set."""
    streams, memory, batch, covered, generator, block, fresh = workspace
    for k in range(outcomes.answers.shape[0]):
        seed_generator(generator, seed, first_run + k, NOISE)
        for word in range(block.shape[0]):
            block[word] = fresh[word]
        start(memory, seed, first_run + k)
        answer = UNFINISHED
        tests = 0
        results = 0
        cost = 0.0
        while tests < max_tests and cost < max_cost and stop[0] == 0:
            size = propose(setting, streams, memory, batch)
            if size <= 0:
                answer = concluded(size)
                break
            size = min(gather(setting, covered, batch, size), max_tests - tests)
            for row in range(size):
                arm = whole(batch[row, 0])
                metric = whole(batch[row, 1])
                part = metric
                drawn = 0.0
                while part >= 0:
                    value = draw_part(nature, generator, arm, part, drawn)
                    if nature.source[part] == part:
                        drawn = value
                    if results < trace.values.shape[0]:
                        trace.streams[results, 0] = arm
                        trace.streams[results, 1] = part
                        trace.values[results] = value
                    results += 1
                    record(setting, streams, arm, part, value)
                    part = setting.following[part]
                part = metric
                while part >= 0:
                    update(setting, streams, memory, arm, part)
                    part = setting.following[part]
                tests += 1
                cost += setting.cost[metric]
                if cost >= max_cost:
                    break
        note(outcomes, k, answer, tests, setting, streams)


def in_workspace(streams: Streams, memory: Any, block: Ints) -> Workspace:
    """The workspace of runs whose state is `streams` and `memory`, which lie in a block."""
    shape = streams.counts.shape
    covered = np.zeros(shape, np.int8)
    return Workspace(streams, memory, new_batch(*shape), covered, np.zeros(4, np.uint64), block, block.copy())


class RunState(NamedTuple):
    """What a run changes."""

    streams: Streams
    memory: Any


class Chunk(NamedTuple):
    """The outcomes of consecutive runs, and the seconds they took without compiling."""

    outcomes: Outcomes
    seconds: float
    sets: Flags | None = None
    """[run, arm]: 1 for the arms of the answer; None if every answer is one arm."""
