"""The Monte-Carlo loop: runs of one policy in one simulated world, as a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bestarm.evidence.items import record_at
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
    signed,
    total_cost,
)
from bestarm.noises.dispatch import record
from bestarm.noises.streams import Nature
from bestarm.policies.advance import propose, update
from bestarm.policies.kernels import new_batch
from bestarm.simulation.nature import draw_part

TOO_SMALL = -9
"""Instead of an answer: the run needs more places than its world has."""


class Workspace(NamedTuple):
    """The state of one run, reused run after run. `block` holds it all; `fresh` is what it holds at the start."""

    streams: Streams
    memory: Any
    batch: Batch
    covered: Flags
    generator: Generator
    world: Floats
    """[arm, metric, place]: what every arm gives on every item; without items, it has no places."""
    places: int
    """How many places there are; all the items of a set, or more than any run needs."""
    block: Ints
    fresh: Ints


def _words(array: np.ndarray[Any, Any]) -> int:
    """How many words of 8 bytes an array takes."""
    return -(-array.nbytes // 8)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return _words(value)
    return sum(_size(part) for part in value)


def _view(value: Any, block: Ints, start: int) -> tuple[Any, int]:
    if isinstance(value, np.ndarray):
        stop = start + _words(value)
        view = block[start:stop].view(np.uint8)[: value.nbytes].view(value.dtype).reshape(value.shape)
        view[...] = value
        return view, stop
    parts = []
    for part in value:
        view, start = _view(part, block, start)
        parts.append(view)
    return (value._make(parts) if hasattr(value, "_make") else tuple(parts)), start


def in_one_block(state: Any) -> tuple[Any, Ints]:
    """The same nested named tuple of arrays, with equal contents, as views of one block, and the block."""
    block = np.zeros(_size(state), np.int64)
    view, _ = _view(state, block, 0)
    return view, block


def new_workspace(streams: Streams, memory: Any, places: int = 0) -> Workspace:
    """The workspace of runs that start with copies of `streams` and `memory`."""
    (streams, memory), block = in_one_block((streams, memory))
    shape = streams.counts.shape
    covered, generator, world = np.zeros(shape, np.int8), np.zeros(4, np.uint64), np.zeros((0, 0, 0))
    return Workspace(streams, memory, new_batch(*shape), covered, generator, world, places, block, block.copy())


class Outcomes(NamedTuple):
    """The outcome of each run of a chunk."""

    answers: Ints
    tests: Ints
    cost: Floats
    counts: Ints
    """[run, arm, metric], or empty if not wanted."""
    leaders: Ints
    """[run, checkpoint]: the arm that was recommended after so many tests, or `NONE`; empty if not wanted."""


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
def enter(setting: Setting, streams: Streams, arm: int, metric: int, place: int, value: float) -> None:
    """Enter a result into its stream. On items, the loop is compiled with `record_at` instead."""
    record(setting, streams, arm, metric, value)


@kernel
def is_on_items() -> bool:
    """Whether each run has a world of items. Where it has, the loop is compiled with `yes` instead."""
    return False


@kernel
def recommend(setting: Setting, streams: Streams, memory: Any) -> int:
    """Stands for the policy's `recommend` until the loop is compiled for one."""
    return UNFINISHED


@kernel
def has_checkpoints() -> bool:
    """Whether it is recorded who leads on the way. Where it is, the loop is compiled with `yes` instead."""
    return False


@kernel
def yes() -> bool:
    return True


ON_ITEMS: dict[str, Any] = {"enter": record_at, "is_on_items": yes}
"""What the loop is compiled with on items."""

LATER = 2**62
"""Comes after the last checkpoint, so that there is a next one at any time."""


@kernel
def note(outcomes: Outcomes, k: int, answer: int, tests: int, cost: float, streams: Streams) -> None:
    """Record the outcome of run number k."""
    outcomes.answers[k] = answer
    outcomes.tests[k] = tests
    outcomes.cost[k] = cost
    if outcomes.counts.shape[0] > 0:
        for arm in range(streams.counts.shape[0]):
            for metric in range(streams.counts.shape[1]):
                outcomes.counts[k, arm, metric] = streams.counts[arm, metric]


@kernel
def note_rest(outcomes: Outcomes, k: int, checkpoints: Ints, tests: int, leader: int) -> None:
    """Run number k has ended after `tests` tests: `leader` is what it recommends from then on."""
    for place in range(outcomes.leaders.shape[1]):
        if checkpoints[place] >= tests:
            outcomes.leaders[k, place] = leader


@kernel
def simulate_runs(
    setting: Setting,
    nature: Nature,
    workspace: Workspace,
    outcomes: Outcomes,
    trace: Trace,
    checkpoints: Ints,
    seed: int,
    first_run: int,
    max_tests: int,
    max_cost: float,
    stop: Ints,
) -> None:
    """Simulate the runs from `first_run` on that `outcomes` has room for, until `stop[0]` is set."""
    streams, memory, batch, covered, generator, world, places, block, fresh = workspace
    for k in range(outcomes.answers.shape[0]):
        seed_generator(generator, seed, first_run + k, NOISE)
        for word in range(block.shape[0]):
            block[word] = fresh[word]
        start(memory, seed, first_run + k)
        answer = UNFINISHED
        tests = 0
        due = 0
        results = 0
        cost = 0.0
        while tests < max_tests and cost < max_cost and stop[0] == 0:
            size = propose(setting, streams, memory, batch)
            if size <= 0:
                answer = concluded(size)
                break
            size = min(gather(setting, covered, batch, size), max_tests - tests)
            before = tests
            for row in range(size):
                arm = signed(batch[row, 0])
                metric = signed(batch[row, 1])
                place = 0
                if is_on_items():
                    place = streams.counts[arm, metric]
                    if place >= world.shape[2]:
                        if world.shape[2] < places:
                            answer = TOO_SMALL
                            break
                        continue
                part = metric
                drawn = 0.0
                while part >= 0:
                    if is_on_items():
                        value = world[arm, part, place]
                    else:
                        value = draw_part(nature, generator, arm, part, drawn)
                    if nature.source[part] == part:
                        drawn = value
                    if results < trace.values.shape[0]:
                        trace.streams[results, 0] = arm
                        trace.streams[results, 1] = part
                        trace.values[results] = value
                    results += 1
                    enter(setting, streams, arm, part, place, value)
                    part = setting.following[part]
                part = metric
                while part >= 0:
                    update(setting, streams, memory, arm, part)
                    part = setting.following[part]
                tests += 1
                if has_checkpoints() and tests == checkpoints[due]:
                    outcomes.leaders[k, due] = recommend(setting, streams, memory)
                    due += 1
                cost += setting.cost[metric]
                if cost >= max_cost:
                    break
            if tests == before or answer == TOO_SMALL:
                # Everything that was asked for has been measured on all items, or a larger world is needed.
                break
        if not is_on_items():
            # Rounds less than the sum. On items, counts also rise by results that waited for others.
            cost = total_cost(setting, streams)
        note(outcomes, k, answer, tests, cost, streams)
        if has_checkpoints():
            leader = recommend(setting, streams, memory) if answer == UNFINISHED else answer
            note_rest(outcomes, k, checkpoints, tests, leader)


class Chunk(NamedTuple):
    """The outcomes of consecutive runs, and the seconds they took without compiling."""

    outcomes: Outcomes
    seconds: float
    sets: Flags | None = None
    """[run, arm]: 1 for the arms of the answer; None if every answer is one arm."""
