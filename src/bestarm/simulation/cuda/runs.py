"""The Monte-Carlo loop for a card: each thread has a run, and takes the next from a queue when it ends."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import cuda, int64

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import (
    UNFINISHED,
    Batch,
    Flags,
    Floats,
    Ints,
    Setting,
    Streams,
    conclude,
    concluded,
    gather,
    signed,
    total_cost,
)
from bestarm.noises.dispatch import record
from bestarm.noises.streams import Nature
from bestarm.policies.advance import propose, update
from bestarm.simulation.loop import Outcomes, has_checkpoints, note, note_rest, recommend, start
from bestarm.simulation.nature import draw_part

IDLE = -1
"""The run number of a thread that should take a run from the queue."""
ALL_LANES = 0xFFFFFFFF
PATIENCE = 16
"""In most rounds, few threads have something long to compute, and all others of a block wait for them. So these wait
for one round in so many, and then compute at the same time."""
BURST = 8
"""How many tests of a batch a thread makes before it lets threads with smaller batches propose theirs."""


class Far(NamedTuple):
    """What a run reads only once or twice for each test, so it may lie in the card's large, slow memory."""

    streams: Streams
    batch: Batch
    covered: Flags


class Fresh(NamedTuple):
    """What a run starts with."""

    near: Any
    """The policy's memory, which is read most often."""
    far: Far


class Threads(NamedTuple):
    """The state of the threads between two launches. Entries are by thread; in `generator` that is the last axis."""

    near: Ints
    far: Ints
    """What their runs keep, in tiles."""
    queue: Ints
    """[0]: how many runs have been taken from the queue."""
    run: Ints
    tests: Ints
    cost: Floats
    size: Ints
    row: Ints
    generator: Any


def near_of(fresh: Any, block: Ints, run: int) -> Any:
    """Stands for the `view` of what is near in tiles, which is bound when the loop is compiled."""
    raise NotImplementedError


def far_of(fresh: Far, block: Ints, run: int) -> Far:
    """Stands for the `view` of what is far."""
    raise NotImplementedError


def renew(state: Any, fresh: Any) -> None:
    """Stands for `compiling.renew`."""
    raise NotImplementedError


def tables(given: Any) -> Any:
    """Stands for `compiling.tables`."""
    raise NotImplementedError


def hurried(setting: Setting, is_hurried: bool) -> Setting:
    """Stands for `compiling.hurried`."""
    raise NotImplementedError


@kernel
def opened(near: Ints, words: int) -> tuple[Ints, int]:
    """The block with the near state of this thread's run, `words` words of it, and the run's number in the block."""
    return near, cuda.grid(1)


@kernel
def closed(near: Ints, block: Ints, words: int) -> None:
    """Copy the block back to where it is kept between launches."""


@kernel
def opened_shared(near: Ints, words: int) -> tuple[Ints, int]:
    """The same in the memory that a block of threads shares, which is as fast as a cache."""
    block = cuda.shared.array(0, int64)
    first = cuda.blockIdx.x * cuda.blockDim.x * words
    for turn in range(words):
        word = turn * cuda.blockDim.x + cuda.threadIdx.x
        block[word] = near[first + word]
    cuda.syncthreads()
    return block, cuda.threadIdx.x


@kernel
def closed_shared(near: Ints, block: Ints, words: int) -> None:
    cuda.syncthreads()
    first = cuda.blockIdx.x * cuda.blockDim.x * words
    for turn in range(words):
        word = turn * cuda.blockDim.x + cuda.threadIdx.x
        near[first + word] = block[word]


@kernel
def any_goes_on(goes_on: bool) -> bool:
    """Whether this thread, or any thread that it keeps in step with, goes on."""
    return goes_on


@kernel
def any_of_warp_goes_on(goes_on: bool) -> bool:
    return bool(cuda.any_sync(ALL_LANES, goes_on))


@kernel
def any_of_block_goes_on(goes_on: bool) -> bool:
    return bool(cuda.syncthreads_or(np.int32(goes_on)) != 0)


@kernel
def pause() -> None:
    """Where threads that keep in step wait for each other."""


@kernel
def pause_block() -> None:
    cuda.syncthreads()


@kernel
def leaves_for_later(turn: int, waits: bool) -> bool:
    """Whether long computations are left for a later round, where this thread waits for one or has nothing to do."""
    return False


@kernel
def leaves_most_for_later(turn: int, waits: bool) -> bool:
    return turn % PATIENCE != 0


@kernel
def leaves_most_unless_all_wait(turn: int, waits: bool) -> bool:
    return turn % PATIENCE != 0 and bool(cuda.syncthreads_or(np.int32(not waits)) != 0)


@kernel
def may_start(is_free: bool) -> bool:
    """Whether a thread that is free may start its next run."""
    return is_free


@kernel
def may_start_with_warp(is_free: bool) -> bool:
    return bool(cuda.all_sync(ALL_LANES, is_free))


@kernel
def continue_runs(
    setting: Setting,
    nature: Nature,
    fresh: Fresh,
    checkpoints: Ints,
    words: int,
    threads: Threads,
    outcomes: Outcomes,
    seed: int,
    first_run: int,
    max_tests: int,
    max_cost: float,
    rounds: int,
) -> None:
    """Advance every thread's run by `rounds` rounds. A run that ends makes room for the next in the queue."""
    setting, nature = tables(setting), tables(nature)
    thread = cuda.grid(1)
    run = threads.run[thread]
    tests = threads.tests[thread]
    cost = threads.cost[thread]
    size = threads.size[thread]
    row = threads.row[thread]
    generator = cuda.local.array(4, np.uint64)
    for i in range(4):
        generator[i] = threads.generator[i, thread]
    block, place = opened(threads.near, words)
    memory = near_of(fresh.near, block, place)
    far = far_of(fresh.far, threads.far, thread)
    streams, batch, covered = far
    runs = outcomes.answers.shape[0]
    due = 0
    if has_checkpoints():
        while checkpoints[due] <= tests:
            due += 1
    waits = False
    for turn in range(rounds):
        if not any_goes_on(run < runs):
            break
        is_hurried = leaves_for_later(turn, waits or run >= runs)
        starts = may_start(run == IDLE or run >= runs)
        if run == IDLE and starts:
            run = cuda.atomic.add(threads.queue, 0, 1)
            if run < runs:
                renew(memory, fresh.near)
                renew(far, fresh.far)
                seed_generator(generator, seed, first_run + run, NOISE)
                start(memory, seed, first_run + run)
                tests = 0
                due = 0
                cost = 0.0
                size = 0
                row = 0
        runs_on = 0 <= run < runs
        answer = UNFINISHED
        ended = False
        if runs_on and row == size:
            row = 0
            size = propose(hurried(setting, is_hurried), streams, memory, batch)
            waits = size == conclude(UNFINISHED)
            if size <= 0:
                answer = concluded(size)
                ended = not waits
                size = 0
            else:
                size = gather(setting, covered, batch, size)
            size = min(size, max_tests - tests)
        pause()
        if runs_on:
            last = min(size, row + BURST)
            while row < last:
                arm = signed(batch[row, 0])
                metric = signed(batch[row, 1])
                part = metric
                drawn = 0.0
                while part >= 0:
                    value = draw_part(nature, generator, arm, part, drawn)
                    if nature.source[part] == part:
                        drawn = value
                    record(setting, streams, arm, part, value)
                    part = setting.following[part]
                part = metric
                while part >= 0:
                    update(setting, streams, memory, arm, part)
                    part = setting.following[part]
                row += 1
                tests += 1
                if has_checkpoints() and tests == checkpoints[due]:
                    outcomes.leaders[run, due] = recommend(setting, streams, memory)
                    due += 1
                cost += setting.cost[arm, metric]
                if cost >= max_cost:
                    ended = True
                    break
            if ended or tests >= max_tests:
                note(outcomes, run, answer, tests, total_cost(setting, streams), streams)
                if has_checkpoints():
                    leader = recommend(setting, streams, memory) if answer == UNFINISHED else answer
                    note_rest(outcomes, run, checkpoints, tests, leader)
                run = IDLE
    closed(threads.near, block, words)
    threads.run[thread] = run
    threads.tests[thread] = tests
    threads.cost[thread] = cost
    threads.size[thread] = size
    threads.row[thread] = row
    for i in range(4):
        threads.generator[i, thread] = generator[i]
