"""Whether evidence reaches its level, computed only as far as it takes to tell.

Every question here is one inequality, "evidence >= level". A ceiling of the evidence often settles it at a fraction of
the cost. If not, a closer ceiling is tried, and in the end the evidence itself. NaN fails each of these comparisons. No
answer depends on how close a ceiling is.
"""

from __future__ import annotations

from typing import NamedTuple

from bestarm.evidence.ceilings import infeasible_ceiling, pair_ceiling, rival_ceiling
from bestarm.evidence.claims import holding_ceiling, holding_evidence, suffices
from bestarm.evidence.combine import apart_evidence, infeasible_evidence, rival_evidence
from bestarm.evidence.items import lead_of
from bestarm.evidence.pairs import evidence_between, pair_evidence
from bestarm.kernel.compile import choice, kernel
from bestarm.kernel.state import ON_ITEMS, SEPARATE, Setting, Streams
from bestarm.noises.dispatch import ceiling, evidence_above
from bestarm.noises.mixture import ROUNDING
from bestarm.noises.streams import ABOVE, stream_of

HOLDS = 1
HOLDS_BEYOND_LUCK = 2
BEYOND_LUCK = 1e5
"""A constraint that is certified by so much evidence was not certified by luck."""


@kernel
def holding_reaches(setting: Setting, streams: Streams, arm: int, metric: int, level: float) -> int:
    """`HOLDS` if the evidence that a constraint holds reaches the level, `HOLDS_BEYOND_LUCK` if it may be beyond luck,
    else 0."""
    limit = holding_ceiling(setting, streams, arm, metric)
    if not (limit >= level and suffices(holding_evidence(setting, streams, arm, metric), level)):
        return 0
    return HOLDS_BEYOND_LUCK if limit >= BEYOND_LUCK else HOLDS


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
def _rival_reaches(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
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


@kernel
def _reaches_on_items(
    setting: Setting, streams: Streams, leader: int, arm: int, found: Infeasibility, level: float
) -> bool:
    """That the arm is infeasible counts by itself."""
    lead = lead_of(setting, streams, leader, arm)
    if lead.n == 0 or not ceiling(lead, ABOVE, -setting.tolerance) >= level:
        return False
    return suffices(evidence_above(lead, -setting.tolerance), level)


rival_reaches = choice("setting.pairing", {SEPARATE: _rival_reaches, ON_ITEMS: _reaches_on_items}, unknown="False")
"""Whether the evidence that `arm` is infeasible or worse than the leader reaches the level."""
