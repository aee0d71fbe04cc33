"""A policy's record, replayed: it leads to the same decision in any engine and however it is cut into pieces."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import compiled
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import Flags, Floats, Ints
from bestarm.policies.base import KernelPolicy, Policy, Stop
from bestarm.simulation.engine import Job
from bestarm.simulation.nature import draw_batch

_SEED = 5
PIECES = (10**9, 1, 7)
"""How many results are in one piece: all, one, and a number that no round is a multiple of."""

Decision = list[tuple[int, int]] | Stop | None


class Recorded(NamedTuple):
    """The tests of a study in order, with their values (in normal form), the ends of rounds, and the decision."""

    tests: Ints
    values: Floats
    ends: Flags
    decision: Decision


def new_policy(job: Job) -> Policy:
    return job.policy(job.setting, *job.shape, seed=_SEED)


def record_study(job: Job, *, lost: int = 0) -> Recorded:
    """Run a study by hand, until the policy stops or `job.max_tests` are made. Every `lost`-th test has no result."""
    policy = new_policy(job)
    generator = np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, job.seed, 0, NOISE)
    tests: list[tuple[int, int]] = []
    values: list[float] = []
    ends: list[int] = []
    decision: Decision = policy.decide()
    while isinstance(decision, list) and len(tests) < job.max_tests:
        batch, drawn = np.array(decision, np.uint32), np.zeros(len(decision))
        compiled(draw_batch)(job.nature, generator, batch, len(batch), drawn)
        if policy.untested == 0 and lost:
            drawn[np.arange(len(tests), len(tests) + len(batch)) % lost == 0] = np.nan
        tests += decision
        values += drawn.tolist()
        ends += [0] * (len(batch) - 1) + [1]
        decision = policy.advance(np.array(decision), drawn, np.array(ends[-len(batch) :], np.int8))
    return Recorded(np.array(tests), np.array(values), np.array(ends, np.int8), decision)


def assert_replays(job: Job, recorded: Recorded) -> None:
    """Interpreted or compiled, in one piece or in many, the record leads to the same decision."""
    for size in PIECES:
        for engine in ("interpreted", "compiled") if issubclass(job.policy, KernelPolicy) else ("interpreted",):
            policy = new_policy(job)
            if engine == "compiled":
                assert isinstance(policy, KernelPolicy)
                policy.compile()
            decision: Decision = None
            entered = 0
            while entered < len(recorded.values) and not isinstance(decision, Stop):
                part = slice(entered, entered + size)
                decision = policy.advance(recorded.tests[part], recorded.values[part], recorded.ends[part])
                entered = min(entered + size, len(recorded.values))
            how = f"{engine}, {size} results at a time"
            assert entered == len(recorded.values), f"{how}: stopped after {entered} of {len(recorded.values)} results"
            assert decision == recorded.decision, f"{how}: decided {decision}, not {recorded.decision}"
            assert policy.propose() == recorded.decision, f"{how}: decides something else when asked again"
            assert policy.advance(recorded.tests[:0], recorded.values[:0], recorded.ends[:0]) is None, how
