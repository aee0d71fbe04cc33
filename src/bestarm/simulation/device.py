"""Where a simulation runs: on this machine's cores and other workers, or on a CUDA card."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from typing import TYPE_CHECKING

from bestarm.simulation.engine import Job
from bestarm.simulation.executors import open_workers
from bestarm.simulation.schedule import Schedule, Span
from bestarm.validation import InvalidInput

if TYPE_CHECKING:
    from bestarm.simulation.cuda.card import CardSchedule

DEVICES = ("cpu", "cuda", "auto")

RUNS_THAT_PAY = 20_000
"""With fewer runs of each job, most of a large card would be idle, and a CPU is done before the card has started."""


def why_no_card() -> str | None:
    """Why a CUDA card cannot be used here, or None if it can."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "it needs numba-cuda: pip install 'bestarm[cuda]'"
    try:
        from numba import cuda
    except Exception as error:  # versions of packages that do not fit together can raise anything
        return f"numba-cuda cannot be loaded: {str(error).partition(chr(10))[0]}"
    if not cuda.is_available():
        return "no CUDA card, or no driver for it, was found"
    return None


def _why_not_on_a_card(job: Job) -> str | None:
    """Why a card cannot run this job, or None if it can."""
    problem = job.problem
    if problem.items is not None:
        return f"{job.label}: studies with items cannot be simulated on a card"
    if problem.asks != "best":
        return f"{job.label}: a card finds the best arm, not {problem.asks!r}"
    if getattr(problem, "reserve", 0.0):
        return f"{job.label}: studies with a reserve cannot be simulated on a card"
    if problem.relative:
        return f"{job.label}: constraints relative to a baseline cannot be simulated on a card"
    if not job.is_compiled:
        return f"policy {job.policy.name!r} is written in plain Python; only policies written as kernels run on a card"
    return None


def chosen_device(device: str, jobs: Sequence[Job], missing: Sequence[Sequence[Span]], elsewhere: bool) -> str:
    """ "cpu" or "cuda". `elsewhere` says that an executor or a number of workers was asked for.

    "auto" is the card if there is one and the jobs are large enough to pay.
    """
    if device not in DEVICES:
        raise InvalidInput("device", device, f"must be {', '.join(DEVICES[:-1])} or {DEVICES[-1]}", DEVICES)
    refused = next(filter(None, map(_why_not_on_a_card, jobs)), None)
    if device == "auto":
        runs = [sum(last - first for first, last in spans) for spans in missing]
        pays = bool(runs) and sum(runs) >= RUNS_THAT_PAY * sum(count > 0 for count in runs) > 0
        return "cuda" if pays and not elsewhere and refused is None and why_no_card() is None else "cpu"
    if device == "cuda":
        if elsewhere:
            raise InvalidInput("device", "cuda", "runs go to the card, not to an executor or workers; name one of them")
        if refused is not None:
            raise InvalidInput("device", "cuda", refused)
        if reason := why_no_card():
            raise InvalidInput("device", "cuda", reason)
    return device


@contextlib.contextmanager
def open_schedule(
    jobs: Sequence[Job],
    missing: Sequence[Sequence[Span]],
    *,
    device: str,
    executor: str | Executor | None,
    workers: int | None,
    chunk_seconds: float,
) -> Iterator[Schedule | CardSchedule]:
    """The chunks of `jobs`, computed on the chosen device: for each job, the runs in `missing`."""
    elsewhere = executor is not None or workers is not None
    if chosen_device(device, jobs, missing, elsewhere) == "cuda":
        from bestarm.simulation.cuda.card import CardSchedule

        yield CardSchedule(jobs, missing)
        return
    with contextlib.closing(open_workers(executor, workers)) as pool:
        yield Schedule(jobs, missing, pool, chunk_seconds)
