"""What a goal of `certify` consists of: its kernels, and what is shown of a study with that goal.

Everything shown is computed from the evidence that decides, in the setting that decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import UNFINISHED, Batch, Setting, Streams, conclude
from bestarm.kernel.tournament import NO_ARM, best
from bestarm.policies.certify.blocks import add_leader, finishing, is_leader, rank_within_blocks
from bestarm.policies.certify.choosing import first_tests
from bestarm.policies.certify.memory import Memory, new_memory, start
from bestarm.policies.certify.updating import update
from bestarm.policies.confidence import PresentAnswer, confidence_of
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import Findings, judged
from bestarm.policies.kernels import Kernels
from bestarm.policies.open_certificates import OpenCertificate, open_by_evidence


class Goal(NamedTuple):
    """One goal. The functions take (setting, streams, memory), and what their comment adds."""

    kernels: Kernels
    present_answer: Callable[[Setting, Streams, Memory], PresentAnswer]
    """The likeliest answer and how sure we are of it. Certificates that are closed count as closed."""
    open_certificates: Callable[[Setting, Streams, Memory, int | None, Findings], list[OpenCertificate]]
    """(leader, found): what is lacking for the answer `leader`, or that no arm is feasible."""
    settled: Callable[[Setting, Streams, Memory, Findings, Stop], Findings]
    """(found, stop): what is known once the study has stopped with an arm."""


@kernel
def leader_of(setting: Setting, streams: Streams, memory: Memory) -> int:
    """The arm to answer with if no more tests could be made, or `NO_ARM`: none is a candidate."""
    return best(memory.candidates)


def kernels_of(
    tests: Callable[[Setting, Streams, Memory, Batch], int],
    memory_of: Callable[[int, int], Memory] = new_memory,
    update: Callable[..., None] = update,
    *,
    add_rivals: Callable[[Setting, Memory, Batch, int], int] = add_leader,
    is_rival: Callable[[Memory, int], bool] = is_leader,
    patient: bool = False,
) -> Kernels:
    """The kernels of a goal. `tests` proposes what to test, or concludes, once every stream has a result; `update`
    follows each result. `add_rivals` adds to a block the arms that the others are compared with, for which `is_rival`
    is true. They are `patient` if
    `tests`, asked again, does what it would have done with nothing put off."""
    finish = finishing(add_rivals, is_rival)

    @kernel
    def propose(setting: Setting, streams: Streams, memory: Memory, batch: Batch) -> int:
        rank_within_blocks(setting, streams, memory)
        size = first_tests(setting, streams, memory, batch)
        if size == 0:
            size = tests(setting, streams, memory, batch)
        if memory.put_off[0] != 0:
            memory.put_off[0] = 0
            return conclude(UNFINISHED)
        return finish(setting, streams, memory, batch, size)

    return Kernels(memory_of, update, propose, start, large=True, recommend=leader_of, patient=patient)


def answer_of(setting: Setting, leader: int, evidence: float) -> PresentAnswer:
    """The answer `leader`. While certificates are open, the confidence is at most 1 - delta."""
    return PresentAnswer(None if leader == NO_ARM else leader, min(confidence_of(evidence), 1.0 - setting.delta))


def open_constraints(setting: Setting, streams: Streams, memory: Memory, arm: int) -> list[OpenCertificate]:
    """The constraints of one arm that are not certified."""
    no_other_arm = np.ones(len(memory.rejected), np.int8)
    return open_by_evidence(setting, streams, memory.certified, no_other_arm, memory.beaten, arm)


def settled_set(setting: Setting, streams: Streams, memory: Memory, found: Findings, stop: Stop) -> Findings:
    """The arms of the answer can be the best, or are among the best; the others cannot."""
    excluded = np.ones(len(streams.counts), np.bool_)
    excluded[list(stop.arms)] = False
    return judged(setting, streams.counts, found._replace(excluded=found.infeasible | excluded))
