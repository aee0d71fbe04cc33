"""What the variants of `certify` for other goals share: a setting that knows how many arms to find, a memory that marks
the arms of the answer, and what a policy does with them."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting, Streams
from bestarm.policies.base import Stop
from bestarm.policies.certify import Certify
from bestarm.policies.certify import Memory as CertifyMemory
from bestarm.policies.certify import new_memory as new_certify_memory
from bestarm.policies.findings import Findings, judged
from bestarm.policies.items import PairedSetting
from bestarm.policies.open_certificates import OpenCertificate, by_evidence
from bestarm.problem import Problem

_tuple: Any = namedtuple
ListSetting = _tuple("ListSetting", (*Setting._fields, "top"))
"""A `Setting`, with how many arms the answer has at most."""
PairedListSetting = _tuple("PairedListSetting", (*PairedSetting._fields, "top"))
"""The same of a study with items."""

ListMemory = _tuple("ListMemory", (*CertifyMemory._fields, "listed", "settled", "numbers"))
"""The memory of `certify`, with, by arm: 1 where it is in the answer at hand; 1 where nothing more is to be shown of it
against that answer; and a number to choose by."""


def new_memory(arms: int, metrics: int) -> Any:
    fresh = new_certify_memory(arms, metrics)
    return ListMemory(*fresh, np.zeros(arms, np.int8), np.zeros(arms, np.int8), np.zeros(arms))


@kernel
def is_certified(memory: Any, arm: int) -> bool:
    """Whether the arm is certified feasible."""
    is_open = memory.rejected[arm] != 0
    for metric in range(1, memory.certified.shape[1]):
        is_open = is_open or memory.certified[arm, metric] == 0
    return not is_open


@kernel
def best_listed(streams: Streams, memory: Any) -> int:
    """The arm of the answer with the best mean; -1 if there is none."""
    leader = -1
    for arm in range(memory.listed.shape[0]):
        if memory.listed[arm] != 0 and (leader < 0 or streams.means[arm, 0] > streams.means[leader, 0]):
            leader = arm
    return leader


def constraints_open(policy: Certify, arm: int) -> list[OpenCertificate]:
    """The constraints of one arm that are not certified."""
    memory = policy.memory
    nobody_else = np.ones(policy.arms, np.int8)
    closed = (memory.certified, nobody_else, memory.beaten)
    return by_evidence(policy.setting, policy.streams, *closed, arm, type(policy).weighing)


class ForSets(Certify):
    """`certify` where the answer is a set of arms, which `memory.listed` marks. See the subclasses."""

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        setting = super().new_setting(problem, delta, bound, reference)
        kind = PairedListSetting if isinstance(setting, PairedSetting) else ListSetting
        return kind(*setting, problem.top)

    def _decision(self, size: int) -> list[tuple[int, int]] | Stop:
        decision = super()._decision(size)
        if not isinstance(decision, Stop) or decision.arm is None:
            return decision
        return Stop(decision.arm, tuple(np.flatnonzero(self.memory.listed).tolist()))

    def settled(self, found: Findings, stop: Stop) -> Findings:
        """The arms of the answer can be the best, or are among the best; the others cannot."""
        if stop.arm is None:
            return super().settled(found, stop)
        excluded = np.ones(self.arms, np.bool_)
        excluded[list(stop.arms)] = False
        return judged(self.setting, self.streams.counts, found._replace(excluded=found.infeasible | excluded))
