"""Whether evidence reaches its level, computed only as far as it takes to tell.

Every question here is one inequality, "evidence >= level". A ceiling of the evidence often settles it at a fraction of
the cost. If not, a closer ceiling is tried, and in the end the evidence itself. NaN fails each of these comparisons. No
answer depends on how close a ceiling is.
"""

from __future__ import annotations

from typing import NamedTuple

from bestarm.evidence.ceilings import infeasible_ceiling, pair_ceiling, rival_ceiling
from bestarm.evidence.combine import apart_evidence, infeasible_evidence, rival_evidence, suffices
from bestarm.evidence.pairs import evidence_between, pair_evidence
from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.base import BELOW, Stream, stream_of
from bestarm.noises.dispatch import ceiling, evidence_below
from bestarm.noises.mixture import ROUNDING


@kernel
def below_reaches(s: Stream, limit: float, level: float) -> bool:
    """Whether the evidence that a mean lies below `limit` reaches the level."""
    return ceiling(s, BELOW, limit) >= level and suffices(evidence_below(s, limit), level)


class Infeasibility(NamedTuple):
    """Log-evidence that an arm is infeasible: the evidence itself, or a ceiling of it that settled the question."""

    evidence: float
    is_exact: bool


@kernel
def infeasibility_up_to(setting: Setting, streams: Streams, arm: int, level: float) -> Infeasibility:
    """The evidence that an arm is infeasible if it may reach the level, else a ceiling of it."""
    limit = infeasible_ceiling(setting, streams, arm)
    if limit >= level:
        return Infeasibility(infeasible_evidence(setting, streams, arm), True)
    return Infeasibility(limit, False)


@kernel
def infeasibility_reaches(found: Infeasibility, level: float) -> bool:
    """Whether the evidence that an arm is infeasible reaches the level up to which it was found."""
    return found.is_exact and suffices(found.evidence, level)


@kernel
def rival_reaches(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    """Whether the evidence that `arm` is infeasible or worse than the leader reaches the level."""
    worse_limit = pair_ceiling(setting, streams, leader, arm)
    if not rival_ceiling(setting, found.evidence, worse_limit) >= level:
        return False
    ahead, behind = stream_of(setting, streams, leader, 0), stream_of(setting, streams, arm, 0)
    worse_limit = evidence_between(ahead, behind, setting.tolerance) + ROUNDING
    if not rival_ceiling(setting, found.evidence, worse_limit) >= level:
        return False
    infeasible = found.evidence if found.is_exact else infeasible_evidence(setting, streams, arm)
    if not rival_ceiling(setting, infeasible, worse_limit) >= level:
        return False
    apart = apart_evidence(setting, streams, arm, infeasible)
    worse = pair_evidence(ahead, behind, setting.tolerance)
    return suffices(rival_evidence(setting, apart, worse), level)
