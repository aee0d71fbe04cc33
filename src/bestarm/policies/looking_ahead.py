"""Looking ahead: planning further rounds while results are still out, as if each came out at its stream's mean.

This affects only which tests are proposed. Conclusions rest on results in the order of issue.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np

from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy

Result = tuple[int, int, float]


def rounds_ahead(
    policy: KernelPolicy, count: int, pending: Sequence[tuple[int, int]], waiting: Sequence[Result]
) -> list[list[tuple[int, int]]]:
    """Rounds with `count` tests or more in all, while the tests `pending` are out and the results `waiting` are known
    but have not entered yet. The policy does not change."""
    imagined = copy.copy(policy)
    imagined.streams, imagined.memory = _copied(policy.streams), _copied(policy.memory)
    imagined._batch = policy._batch.copy()
    imagined.imagine(waiting)
    if imagined.untested:
        # There is nothing to plan with yet: test each stream once more.
        leads = np.unique(policy.setting.lead).tolist()
        again = [(arm, metric) for arm in imagined.arms_to_go_on_with() for metric in leads]
        return [again] * -(-count // len(again))
    now = imagined.propose()
    if isinstance(now, Stop):
        return []
    imagined.imagine(_at_their_means(imagined, pending))
    rounds: list[list[tuple[int, int]]] = []
    while sum(map(len, rounds)) < count:
        proposal = imagined.propose() if pending or rounds else now
        if isinstance(proposal, Stop):
            # The outstanding results would settle everything. Further tests go where they are most useful now.
            proposal = now
        rounds.append(proposal)
        imagined.imagine(_at_their_means(imagined, proposal))
    return rounds


def _at_their_means(policy: KernelPolicy, tests: Sequence[tuple[int, int]]) -> list[Result]:
    """What the tests would give if each result came out at its stream's mean."""
    return [(arm, part, policy.mean(arm, part)) for test in tests for arm, part in policy.results_of(*test)]


def _copied(memory: Any) -> Any:
    """A copy of a nested named tuple of arrays."""
    if isinstance(memory, np.ndarray):
        return memory.copy()
    return type(memory)(*(_copied(part) for part in memory))
