"""`certify` for plans with a reserve: arms may come later, and may be retired.

`docs/certify.md` says how delta is shared then, and proves that the answer is wrong with probability at most delta
whatever arms come and go, and whenever.
"""

from __future__ import annotations

import math
from collections import namedtuple
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.kernel.compile import compiled, kernel, specialized
from bestarm.kernel.state import Batch, Floats, Setting, Streams, add_test
from bestarm.kernel.tournament import NOBODY, enter
from bestarm.noises.registry import known_for
from bestarm.policies.advance import advance
from bestarm.policies.base import Kernels
from bestarm.policies.certify import Certify, Memory, new_memory, propose, start, update
from bestarm.policies.confidence import weigh
from bestarm.policies.findings import Bools, Findings
from bestarm.policies.limits import margin_of, regret_of
from bestarm.policies.open_certificates import BY_EVIDENCE, Weighing
from bestarm.policies.reasons import survey
from bestarm.policies.setting import new_setting
from bestarm.problem import Plan, Problem

_tuple: Any = namedtuple
ReservedSetting = _tuple(
    "ReservedSetting",
    (*Setting._fields, "came", "is_retired", "rarity", "is_reduced", "first_pairs", "later_pairs"),
)
"""A `Setting`, in which `level` is what certificates about one arm alone must reach. By arm, `came` is its number among
those that came later, or 0; `is_retired` is 1 if it is out; `rarity` is the log of 1 / its share. `is_reduced` is 1 if
an arm that was there from the start is retired. What pairs must reach begins at `first_pairs` for two arms that were
there from the start, if `is_reduced`, and at `later_pairs` for others."""


def shares(plan: Problem) -> Floats:
    """By arm: its share. What is reserved goes to the arms that come later, 6 / (π k)² of it to number k."""
    reserve: float = getattr(plan, "reserve", 0.0)
    came = np.array([arm.added for arm in plan.arms])
    weights = np.array([arm.weight for arm in plan.arms])
    first = (1.0 - reserve) * weights / weights[came == 0].sum()
    share: Floats = np.where(came == 0, first, reserve * 6.0 / (math.pi * np.maximum(came, 1)) ** 2)
    return share


def new_reserved_setting(plan: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
    """The setting of a plan with a reserve."""
    setting = new_setting(plan, delta, bound, reference)
    reserve: float = getattr(plan, "reserve", 0.0)
    came = np.array([arm.added for arm in plan.arms])
    share, is_reduced = shares(plan), any(arm.retired and not arm.added for arm in plan.arms)
    # Of the reserve, a half is for arms that come later and a half for what retiring one of the first brings. Of each
    # half, one half is for certificates about one arm and one for those about two.
    alone = np.where(came == 0, share, 0.25 * share)
    if is_reduced:
        again = 0.25 * reserve * share / (1.0 - reserve)
        alone = np.where(came == 0, np.minimum(share, again), alone)
    return ReservedSetting(
        *setting._replace(level=-np.log(delta * alone), rejecting=-np.log(delta * alone)),
        came=came,
        is_retired=plan.is_retired.astype(np.int8),
        rarity=-np.log(share),
        is_reduced=int(is_reduced),
        first_pairs=-math.log(0.5 * delta * reserve) + 2.0 * math.log1p(-reserve),
        later_pairs=-math.log(delta / 8.0),
    )


@kernel
def pair_level_with_reserve(setting: Any, leader: int, arm: int) -> float:
    """What the evidence that `arm` is infeasible or worse than the leader must reach."""
    if setting.came[leader] == 0 and setting.came[arm] == 0:
        if setting.is_reduced == 0:
            level: float = setting.level[leader]
            return level
        return setting.first_pairs + setting.rarity[leader] + setting.rarity[arm]  # type: ignore[no-any-return]
    return setting.later_pairs + setting.rarity[leader] + setting.rarity[arm]  # type: ignore[no-any-return]


@kernel
def never_untouched(streams: Streams) -> bool:
    """The first round is made elsewhere."""
    return False


@kernel
def untested_streams(setting: Any, streams: Streams, batch: Batch) -> int:
    """One test of every stream that has none, of arms that are not retired."""
    size = 0
    for arm in range(streams.counts.shape[0]):
        for metric in range(streams.counts.shape[1]):
            if setting.is_retired[arm] == 0 and streams.counts[arm, metric] == 0:
                size = add_test(batch, size, arm, metric)
    return size


@kernel
def leave_out_retired(setting: Any, memory: Memory) -> None:
    """Retired arms are no candidates, and nothing has to be shown of them."""
    for arm in range(memory.rejected.shape[0]):
        if setting.is_retired[arm] != 0 and memory.rejected[arm] == 0:
            memory.rejected[arm] = 1
            enter(memory.candidates, arm, -math.inf)


@kernel
def propose_with_reserve(setting: Any, streams: Streams, memory: Memory, batch: Batch) -> int:
    size = untested_streams(setting, streams, batch)
    if size > 0:
        return size
    leave_out_retired(setting, memory)
    return propose(setting, streams, memory, batch)


@kernel
def unless_retired(setting: Any, arm: int) -> bool:
    return bool(setting.is_retired[arm] == 0)


RESERVED: dict[str, Callable[..., Any]] = {
    "pair_level": pair_level_with_reserve,
    "is_untouched": never_untouched,
    "must_be_tested": unless_retired,
}
_advance = specialized(advance, "with_reserve", **RESERVED)


class CertifyWithReserve(Certify):
    """`certify` where a share of delta is kept for arms that come later or are retired."""

    uses_reserve = True
    kernels = Kernels(
        new_memory, update, specialized(propose_with_reserve, "with_reserve", **RESERVED), start, large=True
    )
    weigh = staticmethod(specialized(weigh, "with_reserve", **RESERVED))
    survey = staticmethod(specialized(survey, "with_reserve", **RESERVED))
    regret_of = staticmethod(specialized(regret_of, "with_reserve", **RESERVED))
    margin_of = staticmethod(specialized(margin_of, "with_reserve", **RESERVED))
    weighing = Weighing(*(specialized(kernel, "with_reserve", **RESERVED) for kernel in BY_EVIDENCE))

    def __init__(self, setting: Any, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        super().__init__(setting, arms, metrics, seed=seed, run=run)
        leave_out_retired(setting, self.memory)

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        return new_reserved_setting(problem, delta, bound, reference)

    @property
    def is_retired(self) -> Bools:
        setting: Any = self.setting
        retired: Bools = setting.is_retired != 0
        return retired

    def must_be_tested(self, arm: int) -> bool:
        return not self.is_retired[arm]

    def arms_to_go_on_with(self) -> list[int]:
        # The others may have many results already.
        arms: list[int] = np.flatnonzero(self.is_untested.any(axis=1)).tolist()
        return arms

    @property
    def is_untested(self) -> Bools:
        return super().is_untested & ~self.is_retired[:, np.newaxis]

    def _compiled(self) -> Any:
        kernels = type(self).kernels
        known = known_for(self.setting)
        return compiled(_advance, "certify", known=known, update=kernels.update, propose=kernels.propose)

    def findings(self) -> Findings:
        """What is certified. Of a retired arm, nothing is said."""
        found, retired = super().findings(), self.is_retired
        return found._replace(
            infeasible=found.infeasible & ~retired,
            excluded=found.excluded | retired,
            tested=found.tested & ~retired,
            beaten_by=np.where(retired, NOBODY, found.beaten_by),
        )

    def _levels_of_differences(self, arm: int) -> tuple[Floats, Floats]:
        """1 / (delta w_i w_j) for the ordered pair (i, j), where w are the shares of the arms."""
        setting: Any = self.setting
        level: Floats = setting.rarity + setting.rarity[arm] - math.log(setting.delta)
        return level, level

    @classmethod
    def note_on_intervals(cls, plan: Plan, *, brief: bool = False) -> str:
        note = super().note_on_intervals(plan, brief=True)
        return note if brief else f"{note} Arms that come later have a smaller share of delta, and wider intervals."
