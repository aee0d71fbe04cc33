"""A policy's record, replayed: it leads to the same decision in any engine and however it is cut into pieces."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import compiled
from bestarm.kernel.random import NOISE, seed_generator
from bestarm.kernel.state import Flags, Floats, Ints
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.simulation.engine import Job

_SEED = 5
PIECES = (10**9, 1, 7)
"""How many results are in one piece: all, one, and a number that no round is a multiple of."""

Decision = list[tuple[int, int]] | Stop | None


class Recorded(NamedTuple):
    """The results of a study in order, (arm, metric) and value in normal form, the ends of rounds, and the decision."""

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
    made = 0
    while isinstance(decision, list) and made < job.max_tests:
        first, may_lose = len(tests), policy.untested == 0 and lost
        for results in job.measured(generator, decision):
            is_lost = may_lose and made % lost == 0
            tests += [(arm, metric) for arm, metric, _ in results]
            values += [math.nan if is_lost else value for _, _, value in results]
            made += 1
        ends += [0] * (len(tests) - first - 1) + [1]
        columns = np.array(tests[first:]), np.array(values[first:]), np.array(ends[first:], np.int8)
        decision = policy.advance(*columns)
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
