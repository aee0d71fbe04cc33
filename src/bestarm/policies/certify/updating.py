"""Taking in a result, as the goals of `certify` do: certifying a constraint, and seeing which arms may lead."""

from __future__ import annotations

import math
from collections.abc import Callable

from bestarm.evidence.claims import looks_fine
from bestarm.evidence.reaching import holding_reaches
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import FIXED, RELATIVE, Setting, Streams
from bestarm.kernel.tournament import enter, key_of
from bestarm.policies.certify.memory import Memory


@kernel
def _if_it_still_holds(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> int:
    """A certificate could be kept for good. But if its constraint is tested again it must still hold: otherwise one
    that was closed by luck could cost many tests."""
    return holding_reaches(setting, streams, arm, metric, setting.level[arm])


def updating(
    is_suspicious: Callable[[Setting, Streams, int, int], bool],
    certificate: Callable[[Setting, Streams, Memory, int, int], int] = _if_it_still_holds,
) -> Callable[..., None]:
    """The kernel that takes in a result. An arm is no candidate while one of its constraints `is_suspicious` and not
    certified, as `certificate` has it."""

    @kernel
    def judge(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        """Certify a constraint if it can be, and see whether the arm is a candidate."""
        if metric > 0:
            memory.certified[arm, metric] = certificate(setting, streams, memory, arm, metric)
            suspicious = memory.certified[arm, metric] == 0 and is_suspicious(setting, streams, arm, metric)
            memory.suspects[arm] += suspicious - memory.suspect[arm, metric]
            memory.suspect[arm, metric] = suspicious
        is_candidate = memory.suspects[arm] == 0 and not memory.rejected[arm] and streams.counts[arm, 0] > 0
        enter(memory.candidates, arm, key_of(streams.means[arm, 0]) if is_candidate else -math.inf)

    @kernel
    def judge_compared(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        """A result of the baseline says something about every arm that is compared with it."""
        is_limit = setting.relative.factor[metric] != 0.0 and arm == setting.relative.baseline
        first, last = (0, streams.counts.shape[0]) if is_limit else (arm, arm + 1)
        for concerned in range(first, last):
            judge(setting, streams, memory, concerned, metric)

    judge_all = choice("setting.limits", {FIXED: judge, RELATIVE: judge_compared}, unknown="")

    @kernel
    def update(setting: Setting, streams: Streams, memory: Memory, arm: int, metric: int) -> None:
        memory.told[0] += 1
        judge_all(setting, streams, memory, arm, metric)

    return update


@kernel
def looks_violated(setting: Setting, streams: Streams, arm: int, metric: int) -> bool:
    """Whether a constraint's mean is on the wrong side."""
    return not looks_fine(setting, streams, arm, metric)


update = updating(looks_violated)
"""Certify the constraint that was just tested if it can be, and see whether the arm looks feasible."""
