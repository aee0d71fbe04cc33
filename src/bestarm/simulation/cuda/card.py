"""Simulates runs on a CUDA card: plans its memory, launches the kernel again and again, and hands out what has ended.

A launch takes a fraction of a second, so that progress is shown and Ctrl-C works. Threads keep their runs from one
launch to the next.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import cuda

from bestarm.evidence.items import streams_for
from bestarm.kernel.compile import Variant, variant_of
from bestarm.kernel.state import EMPTY, Ints, Setting
from bestarm.noises.registry import known_for
from bestarm.noises.streams import Nature
from bestarm.policies.kernels import Kernels, new_batch
from bestarm.simulation.cuda.compiling import SIMULATED, compiled_for_card, hurried, prepare, renew, tables, view
from bestarm.simulation.cuda.runs import (
    IDLE,
    Far,
    Fresh,
    Threads,
    any_of_block_goes_on,
    any_of_warp_goes_on,
    closed_shared,
    continue_runs,
    leaves_most_for_later,
    leaves_most_unless_all_wait,
    may_start_with_warp,
    opened_shared,
    pause_block,
)
from bestarm.simulation.cuda.tiles import LANES, Same, Shape, same_throughout, state_shapes, state_words
from bestarm.simulation.engine import Job
from bestarm.simulation.loop import LATER, Chunk, Outcomes, yes
from bestarm.simulation.schedule import Done, Piece, Span
from bestarm.validation import InvalidInput

PENDING = EMPTY - 1
"""The answer of a run that has not ended."""

LAUNCH_SECONDS = 0.5
FIRST_ROUNDS = 1024
MOST_RUNS = 1 << 22
"""The most runs in one batch. Their results stay on the card until they have ended."""
SHARE_OF_MEMORY = 0.7
THREADS_PER_MULTIPROCESSOR = 256
"""If runs lie in the card's memory: with more threads, what they read would not fit into its caches."""
LEAST_SHARED_WARPS = 6
"""Shared memory pays if it holds the runs of at least this many warps. Fewer do not keep a multiprocessor busy."""
MOST_SHARED_WARPS = 24
PARTS = 4
"""A multiprocessor's warps and registers are divided among this many parts."""
REGISTERS = 16384
"""Registers of each part."""
MOST_REGISTERS = 128
"""The most registers that a thread can use."""


class Card(NamedTuple):
    """What a card has. Memory is in bytes; shared memory is that of one thread block."""

    multiprocessors: int
    free: int
    shared: int
    block: int = 128
    """Threads in a block whose runs do not lie in shared memory."""


class Layout(NamedTuple):
    """How a job is laid out on a card."""

    blocks: int
    block: int
    """Threads in a block."""
    shared: int
    """Bytes of shared memory for each block; 0 if states of runs lie in the card's memory."""
    batch: int
    """Runs to start in one go."""
    registers: int = MOST_REGISTERS
    """For each thread: as many as fit when a multiprocessor holds the threads planned for it."""

    @property
    def threads(self) -> int:
        return self.blocks * self.block


class Given(NamedTuple):
    """What a launch reads and never writes."""

    setting: Setting
    nature: Nature
    fresh: Fresh
    checkpoints: Ints


def this_card() -> Card:
    if SIMULATED:
        return Card(multiprocessors=2, free=1 << 30, shared=0, block=4)
    device = cuda.get_current_device()
    free = cuda.current_context().get_memory_info().free
    return Card(device.MULTIPROCESSOR_COUNT, int(free), device.MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)


def new_fresh(job: Job) -> Fresh:
    """What a run of a job starts with. Counts are narrower than on a CPU if that is enough."""
    # If metrics are measured one by one, `gather` needs nothing.
    covered = np.zeros(job.shape if job.setting.is_bundled else (1, 1), np.int8)
    streams = streams_for(job.setting, *job.shape)
    fresh = Fresh(job.kernels.new_memory(*job.shape), Far(streams, new_batch(*job.shape), covered))
    return narrowed(fresh) if job.max_tests < 2**31 else fresh


def narrowed(state: Any) -> Any:
    """A state whose `Ints`, which count tests or name arms, take half a word each."""
    if isinstance(state, np.ndarray):
        return state.astype(np.int32) if state.dtype == np.int64 else state
    return type(state)(*map(narrowed, state))


def planned(job: Job, runs: int, card: Card) -> Layout:
    """The layout for `runs` runs of a job within the memory that is free."""
    fresh = new_fresh(job)
    memory = SHARE_OF_MEMORY * card.free
    near = 8 * state_words(fresh.near)
    thread = 8 * (state_words(fresh) + len(Threads._fields) + 3)
    outcome = 8 * (3 + len(job.checkpoints) + (fresh.far.streams.counts.size if job.keep_counts else 0))
    together = min(runs, MOST_RUNS, int(memory / 2 / outcome))
    most = min(together, int(memory / 2 / thread))
    if most < 1:
        raise InvalidInput(
            "device",
            "cuda",
            f"a run of {job.label} takes {thread + outcome:,} bytes of the card's memory, "
            f"which has {memory:,.0f} to spare",
        )
    warps = min(card.shared // (LANES * near), MOST_SHARED_WARPS)
    if warps * LANES * MOST_REGISTERS > PARTS * REGISTERS:
        warps -= warps % PARTS  # an extra warp in one part would cost the threads of all parts registers
    shared = warps >= LEAST_SHARED_WARPS
    block = warps * LANES if shared else card.block
    together_on_one = block if shared else THREADS_PER_MULTIPROCESSOR
    full = card.multiprocessors * (together_on_one // block)
    blocks = max(1, min(full, -(-most // block)))
    in_one_part = -(-together_on_one // LANES // PARTS) * LANES
    registers = min(MOST_REGISTERS, REGISTERS // in_one_part // 8 * 8)
    return Layout(blocks, block, block * near if shared else 0, together, registers)


@functools.cache
def _kernel(
    name: str,
    kernels: Kernels,
    has_checkpoints: bool,
    shapes: tuple[tuple[Shape, ...], ...],
    same: tuple[Same, ...],
    shared: bool,
    registers: int,
    variant: Variant,
) -> Any:
    """The loop compiled for a policy, for states of these shapes and for tables with a single value."""
    replaced: dict[str, Any] = {"start": kernels.start, "update": kernels.update, "propose": kernels.propose}
    if kernels.patient:
        replaced |= {"leaves_for_later": leaves_most_for_later if SIMULATED else leaves_most_unless_all_wait}
    if has_checkpoints:
        replaced |= {"recommend": kernels.recommend, "has_checkpoints": yes}
    if shared:
        replaced |= {"opened": opened_shared, "closed": closed_shared}
    if not SIMULATED:
        if not shared:
            # Runs that started together work on the same arms for longest, and read the same stretches of memory.
            replaced |= {"may_start": may_start_with_warp}
        in_step = {"any_goes_on": any_of_block_goes_on, "pause": pause_block}
        replaced |= in_step if kernels.large else {"any_goes_on": any_of_warp_goes_on}
    bound = {name: view(part) for name, part in zip(("near_of", "far_of"), shapes, strict=True)}
    bound |= {"renew": renew(), "tables": tables(same), "hurried": hurried()}
    label = f"{name} {shapes} {same} {shared}"
    options: dict[str, Any] = {"registers": registers, "in_parts": kernels.large, "known": variant.known}
    return compiled_for_card(continue_runs, label, replaced, bound, **options)


def on_card(value: Any) -> Any:
    """A nested tuple of arrays and numbers with its arrays copied to the card."""
    if isinstance(value, np.ndarray):
        return value.copy() if SIMULATED else cuda.to_device(value)
    if isinstance(value, tuple):
        return type(value)(*(on_card(part) for part in value))
    return value


def room_on_card(shape: int | tuple[int, ...], dtype: type) -> Any:
    """An uninitialized array on the card."""
    return np.empty(shape, dtype) if SIMULATED else cuda.device_array(shape, dtype)


def on_host(array: Any) -> Any:
    return array.copy() if SIMULATED else array.copy_to_host()


class CardJob:
    """One job on the card."""

    def __init__(self, job: Job, layout: Layout) -> None:
        self.job = job
        self.layout = layout
        fresh = new_fresh(job)
        self._words = [state_words(part) for part in fresh]
        self._given = on_card(Given(job.setting, job.nature, fresh, np.array([*job.checkpoints, LATER])))
        self._rounds = FIRST_ROUNDS
        shapes = tuple(map(state_shapes, fresh))
        same = same_throughout(job.setting, job.nature)
        variant = variant_of(known_for(job.setting, job.nature))
        of_policy = (job.policy.name, job.kernels, bool(job.checkpoints))
        self.kernel = _kernel(*of_policy, shapes, same, layout.shared > 0, layout.registers, variant)
        prepare(self.kernel, self._arguments(self._new_threads(LANES), self._new_outcomes(1), 0, 0), layout.shared)

    def _arguments(self, threads: Threads, outcomes: Outcomes, first_run: int, rounds: int) -> tuple[Any, ...]:
        job = self.job
        return (
            *(*self._given, self._words[0], threads, outcomes),
            *(job.seed, first_run, job.max_tests, job.max_cost, rounds),
        )

    def _new_threads(self, count: int) -> Threads:
        # Every tile is complete, even if the last is not full. Its contents are written when a run starts.
        near, far = (room_on_card(-(-count // LANES) * LANES * words, np.int64) for words in self._words)
        tests, cost, size, row = (room_on_card(count, dtype) for dtype in (np.int64, np.float64, np.int64, np.int64))
        queue, run = on_card(np.zeros(1, np.int64)), on_card(np.full(count, IDLE))
        return Threads(near, far, queue, run, tests, cost, size, row, room_on_card((4, count), np.uint64))

    def _new_outcomes(self, runs: int) -> Outcomes:
        counts = room_on_card((runs if self.job.keep_counts else 0, *self.job.shape), np.int64)
        answers = on_card(np.full(runs, PENDING))
        checkpoints = len(self.job.checkpoints)
        leaders = room_on_card((runs if checkpoints else 0, checkpoints), np.int64)
        return Outcomes(answers, room_on_card(runs, np.int64), room_on_card(runs, np.float64), counts, leaders)

    def simulate(self, first_run: int, runs: int) -> Iterator[tuple[int, Chunk]]:
        """Runs from `first_run` on, at most `layout.batch`: chunks of consecutive runs as they end, in order."""
        threads, outcomes = self._new_threads(self.layout.threads), self._new_outcomes(runs)
        kernel = self.kernel[self.layout.blocks, self.layout.block, 0, self.layout.shared]
        done = 0
        last = time.perf_counter()
        while done < runs:
            launched = time.perf_counter()
            kernel(*self._arguments(threads, outcomes, first_run, self._rounds))
            cuda.synchronize()
            took = max(time.perf_counter() - launched, 1e-6)
            self._rounds = max(1, min(8 * self._rounds, round(self._rounds * LAUNCH_SECONDS / took)))
            ended = self._ended(outcomes.answers[done : min(int(on_host(threads.queue)[0]), runs)])
            if ended:
                part = slice(done, done + ended)
                arrays = (array[part] if array.shape[0] else array for array in outcomes)
                now = time.perf_counter()
                yield first_run + done, Chunk(self.job.checked(Outcomes(*map(on_host, arrays))), now - last)
                done += ended
                last = now

    @staticmethod
    def _ended(answers: Any) -> int:
        """How many of the first runs have all ended."""
        pending = on_host(answers) == PENDING
        return int(pending.argmax()) if pending.any() else len(pending)


class CardSchedule:
    """The same as `Schedule`, with a card instead of workers: job after job, batch after batch."""

    def __init__(self, jobs: Sequence[Job], missing: Sequence[Sequence[Span]]) -> None:
        self._work = [(index, job, span) for index, job in enumerate(jobs) for span in missing[index]]
        self._left = sum(last - first for _, _, (first, last) in self._work)
        self._seconds_per_run: float | None = None

    def compile(self) -> None:
        """Compile what will be needed, or load what was compiled earlier."""
        for _, job, (first, last) in self._work:
            CardJob(job, planned(job, last - first, this_card()))

    def seconds_left(self) -> float | None:
        return None if self._seconds_per_run is None else self._left * self._seconds_per_run

    def __iter__(self) -> Iterator[Done]:
        done, seconds = 0, 0.0
        for index, job, (first, last) in self._work:
            layout = planned(job, last - first, this_card())
            card = CardJob(job, layout)
            for start in range(first, last, layout.batch):
                for run, chunk in card.simulate(start, min(layout.batch, last - start)):
                    ended = len(chunk.outcomes.answers)
                    done, seconds, self._left = done + ended, seconds + chunk.seconds, self._left - ended
                    self._seconds_per_run = seconds / done
                    yield Done(Piece(index, run, ended), chunk)
