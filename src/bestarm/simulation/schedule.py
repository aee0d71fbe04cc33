"""Cuts jobs into chunks of runs, keeps every worker busy, and hands out the chunks as they finish."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Future, wait
from typing import NamedTuple

from bestarm.simulation.engine import Job
from bestarm.simulation.executors import Workers, is_lost_worker
from bestarm.simulation.loop import Chunk

TRIES = 3

Span = tuple[int, int]
"""Runs from the first number up to, not including, the second."""


class Piece(NamedTuple):
    """Some runs of one job."""

    job: int
    first: int
    runs: int


class Done(NamedTuple):
    """A piece and its result."""

    piece: Piece
    chunk: Chunk


class LostWorkers(RuntimeError):
    """A chunk was given to several workers in turn, and all of them died."""


class _Queue:
    """The runs of one job that are still to be handed out, and how long one run takes."""

    def __init__(self, missing: Sequence[Span]) -> None:
        self._spans = deque(missing)
        self._size = 1
        self.seconds_per_run: float | None = None

    @property
    def left(self) -> int:
        return sum(last - first for first, last in self._spans)

    def take(self, most: int) -> Span | None:
        if not self._spans:
            return None
        first, last = self._spans.popleft()
        cut = min(last, first + min(self._size, max(1, most)))
        if cut < last:
            self._spans.appendleft((cut, last))
        return first, cut

    def learn(self, chunk: Chunk, chunk_seconds: float) -> None:
        self.seconds_per_run = max(chunk.seconds, 1e-9) / len(chunk.outcomes.answers)
        # At most four times as long as the last chunk: the first runs may not be typical.
        self._size = max(1, min(4 * self._size, round(chunk_seconds / self.seconds_per_run)))


class Schedule:
    """The chunks of `jobs`: for each job, the runs in `missing` (a list of spans per job) are computed.

    One run of every job comes first, so that the remaining time can soon be estimated.
    """

    def __init__(
        self, jobs: Sequence[Job], missing: Sequence[Sequence[Span]], workers: Workers, chunk_seconds: float
    ) -> None:
        self._jobs = jobs
        self._queues = [_Queue(spans) for spans in missing]
        self._workers = workers
        self._chunk_seconds = chunk_seconds
        self._turn = deque(index for index, queue in enumerate(self._queues) if queue.left)
        self._pending: dict[Future[Chunk], Piece] = {}
        self._again: deque[Piece] = deque()
        self._tries: dict[Piece, int] = {}

    def compile(self) -> None:
        """Compile in this process what will be needed, or load what was compiled earlier."""
        for job, queue in zip(self._jobs, self._queues, strict=True):
            if queue.left:
                job.simulate(0, 0)

    def seconds_left(self) -> float | None:
        """An estimate of the remaining wall time, once there is something to estimate it from."""
        known = [queue.seconds_per_run for queue in self._queues if queue.seconds_per_run is not None]
        if not known:
            return None
        typical = sum(known) / len(known)
        work = sum(queue.left * (queue.seconds_per_run or typical) for queue in self._queues)
        work += sum(
            piece.runs * (self._queues[piece.job].seconds_per_run or typical) / 2 for piece in self._pending.values()
        )
        return work / self._workers.count

    def _next_piece(self) -> Piece | None:
        if self._again:
            return self._again.popleft()
        while self._turn:
            index = self._turn.popleft()
            queue = self._queues[index]
            span = queue.take(most=queue.left // (2 * self._workers.count))
            if span is not None:
                self._turn.append(index)
                return Piece(index, span[0], span[1] - span[0])
        return None

    def _fill(self) -> None:
        while len(self._pending) < 2 * self._workers.count and (piece := self._next_piece()) is not None:
            try:
                future = self._workers.submit(self._jobs[piece.job], piece.first, piece.runs)
            except BrokenExecutor:
                self._again.append(piece)
                raise
            self._pending[future] = piece

    def _lost(self, error: BaseException, piece: Piece) -> None:
        """Do a lost worker's piece again, unless that has happened too often."""
        self._tries[piece] = self._tries.get(piece, 0) + 1
        if self._tries[piece] >= TRIES:
            what = f"runs {piece.first} to {piece.first + piece.runs - 1} of {self._jobs[piece.job].label}"
            raise LostWorkers(f"{what} lost their worker {TRIES} times: {error}") from error
        self._again.append(piece)

    def _recover(self, error: BaseException) -> None:
        """Recover from a broken executor: its other chunks are lost, too, and are not to blame."""
        if not self._workers.replace_broken():
            raise LostWorkers(f"the executor's workers died: {error}") from error
        self._again.extend(self._pending.values())
        self._pending.clear()

    def __iter__(self) -> Iterator[Done]:
        try:
            while True:
                try:
                    self._fill()
                except BrokenExecutor as error:
                    self._recover(error)
                    continue
                if not self._pending:
                    return
                finished, _ = wait(self._pending, return_when=FIRST_COMPLETED)
                broken: BaseException | None = None
                for future in finished:
                    piece = self._pending.pop(future)
                    try:
                        chunk = future.result()
                    except Exception as error:
                        if not is_lost_worker(error):
                            raise
                        broken = error if isinstance(error, BrokenExecutor) else broken
                        self._lost(error, piece)
                        continue
                    self._queues[piece.job].learn(chunk, self._chunk_seconds)
                    yield Done(piece, chunk)
                if broken is not None:
                    self._recover(broken)
        finally:
            for future in self._pending:
                future.cancel()
