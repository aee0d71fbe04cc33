"""The Monte-Carlo loop: runs of one policy in one simulated world, as a kernel."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bestarm.evidence.items import next_item, place_of_next, places_so_far, record_at
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
    capacity: int
    """How many tests a block has: as many places of the world belong to each. 0 without blocks."""
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


def new_workspace(streams: Streams, memory: Any, places: int = 0, capacity: int = 0) -> Workspace:
    """The workspace of runs that start with copies of `streams` and `memory`."""
    (streams, memory), block = in_one_block((streams, memory))
    shape = streams.counts.shape
    covered, generator, world = np.zeros(shape, np.int8), np.zeros(4, np.uint64), np.zeros((0, 0, 0))
    state = streams, memory, new_batch(*shape), covered, generator, world
    return Workspace(*state, places, capacity, block, block.copy())


class Outcomes(NamedTuple):
    """The outcome of each run of a chunk."""

    answers: Ints
    tests: Ints
    cost: Floats
    counts: Ints
    """[run, arm, metric], or empty if not wanted."""
    leaders: Ints
    """[run, checkpoint]: the arm that was recommended after so many tests, or `NONE`; empty if not wanted."""


def one_by_one(outcomes: Outcomes) -> list[tuple[int, Outcomes]]:
    """Each run's number, and room for it alone."""
    columns: Any = outcomes
    return [(k, Outcomes(*(column[k : k + 1] for column in columns))) for k in range(len(outcomes.answers))]


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
def place_of(setting: Setting, streams: Streams, arm: int, metric: int) -> int:
    """The place of the item of an arm's next test. With slices, the loop is compiled with `next_item` instead."""
    place: int = place_of_next(setting, streams, arm, metric)
    return place


@kernel
def rank_at(setting: Setting, part: int, place: int) -> int:
    """Where a part has its result on the item at a place. With slices, the loop is compiled with `rank_in_slice`."""
    return place


@kernel
def rank_in_slice(setting: Setting, part: int, place: int) -> int:
    """The rank of the item at a place among those that count for a part, or -1."""
    rank: int = setting.items.slices.ranks[part, place]
    return rank


@kernel
def next_place(streams: Streams) -> int:
    """Where the places of the next block begin. On items, the loop is compiled with `places_so_far` instead."""
    return 0


@kernel
def look_up(
    setting: Setting, streams: Streams, world: Floats, arm: int, part: int, place: int, block: int, times: int
) -> float:
    """What an arm gives at a place, or so many times in a block. On items, the loop is compiled with `look_up_in`."""
    return 0.0


@kernel
def look_up_in(
    setting: Setting, streams: Streams, world: Floats, arm: int, part: int, place: int, block: int, times: int
) -> float:
    """What an arm gives on an item. In a block, the values of the places that begin with `place` are filled in, and the
    mean of what the arm gives there so many times is returned."""
    capacity, values = setting.items.capacity, streams.items.values
    if capacity == 0:
        value: float = world[arm, part, place]
        return value
    total = 0.0
    for k in range(times):
        total += world[arm, part, block * capacity + k]
        if setting.items.is_each_compared:
            values[arm, part, place + k] = world[arm, part, block * capacity + k]
    if not setting.items.is_each_compared:
        values[arm, part, place] = total / times
    return total / times


@kernel
def one_more(setting: Setting, row: int, left: int) -> int:
    """Where blocks have so many wells left, 1 if a test is made once more. On items, the loop is compiled with
    `one_of_the_rest` instead."""
    return 0


@kernel
def one_of_the_rest(setting: Setting, row: int, left: int) -> int:
    """As `bestarm.problem.blocks.replicates` says."""
    return 1 if setting.items.is_each_compared and row < left else 0


@kernel
def end_of(setting: Setting, place: int, times: int) -> int:
    """Where a result enters. On items, the loop is compiled with `end_of_places` instead."""
    return place


@kernel
def end_of_places(setting: Setting, place: int, times: int) -> int:
    """Where a result enters: at its place, or after the places that its block has from there on."""
    if setting.items.capacity == 0:
        return place
    return place + (times if setting.items.is_each_compared else 1)


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


ON_ITEMS: dict[str, Any] = {
    "enter": record_at,
    "is_on_items": yes,
    "next_place": places_so_far,
    "look_up": look_up_in,
    "end_of": end_of_places,
    "one_more": one_of_the_rest,
}
"""What the loop is compiled with on items."""

IN_SLICES: dict[str, Any] = {"place_of": next_item, "rank_at": rank_in_slice}
"""What it is compiled with besides where there are slices."""

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
    streams, memory, batch, covered, generator, world, places, capacity, block, fresh = workspace
    for k in range(outcomes.answers.shape[0]):
        seed_generator(generator, seed, first_run + k, NOISE)
        for word in range(block.shape[0]):
            block[word] = fresh[word]
        start(memory, seed, first_run + k)
        answer = UNFINISHED
        tests = 0
        due = 0
        results = 0
        blocks = 0
        cost = 0.0
        while tests < max_tests and cost < max_cost and stop[0] == 0:
            size = propose(setting, streams, memory, batch)
            if size <= 0:
                answer = concluded(size)
                break
            wells = min(capacity, max_tests - tests) if capacity > 0 else max_tests - tests
            size = min(gather(setting, covered, batch, size), wells)
            begin = next_place(streams)
            before = tests
            for row in range(size):
                arm = signed(batch[row, 0])
                metric = signed(batch[row, 1])
                place = 0
                times = 1
                if is_on_items():
                    place = place_of(setting, streams, arm, metric)
                    last = place
                    if capacity > 0:
                        place = begin
                        times = wells // size + one_more(setting, row, wells % size)
                        last = (blocks + 1) * capacity - 1
                    if last >= world.shape[2]:
                        if world.shape[2] < places:
                            answer = TOO_SMALL
                            break
                        continue
                part = setting.lead[metric]
                drawn = 0.0
                while part >= 0:
                    if is_on_items():
                        value = look_up(setting, streams, world, arm, part, place, blocks, times)
                    else:
                        value = draw_part(nature, generator, arm, part, drawn)
                    if nature.source[part] == part:
                        drawn = value
                    rank = rank_at(setting, part, place)
                    if rank >= 0:
                        if results < trace.values.shape[0]:
                            trace.streams[results, 0] = arm
                            trace.streams[results, 1] = part
                            trace.values[results] = value
                        results += 1
                        enter(setting, streams, arm, part, end_of(setting, rank, times), value)
                    part = setting.following[part]
                part = setting.lead[metric]
                while part >= 0:
                    if rank_at(setting, part, place) >= 0:
                        update(setting, streams, memory, arm, part)
                    part = setting.following[part]
                tests += times
                if has_checkpoints():
                    while tests >= checkpoints[due]:
                        outcomes.leaders[k, due] = recommend(setting, streams, memory)
                        due += 1
                cost += times * setting.cost[arm, setting.lead[metric]]
                if cost >= max_cost:
                    break
            blocks += 1
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
    """[run, arm]: 1 for the arms of the answer; None if every answer is one arm. Where every feasible arm is asked for,
    -1 for those that are rejected, and the same in a run that did not end."""
