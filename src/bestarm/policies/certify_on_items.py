"""`certify` for studies with items: the same policy, which compares arms item by item."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bestarm.kernel.compile import compiled, kernel, specialized
from bestarm.kernel.random import normal
from bestarm.kernel.state import Flags, Floats, Ints
from bestarm.kernel.tables import slot
from bestarm.noises.dispatch import scatter
from bestarm.noises.registry import known_for
from bestarm.policies.advance import UNDECIDED, advance
from bestarm.policies.base import Kernels, Stop
from bestarm.policies.certify import Certify, new_memory, propose, start, update
from bestarm.policies.confidence import weigh
from bestarm.policies.items import (
    DIFFERENCE,
    FIRST_ROOM,
    UNLIMITED,
    apart_from,
    end_of_lead_on_items,
    infeasible_on_items,
    largest_lead_on_items,
    lead_of,
    lost_on_items,
    new_paired_setting,
    new_paired_streams,
    record_at,
    rival_reaches_on_items,
    tests_worse_on_items,
    with_room,
    worse_on_items,
)
from bestarm.policies.limits import differences_from, margin_of, regret_of
from bestarm.policies.open_certificates import BY_EVIDENCE, Weighing
from bestarm.policies.reasons import survey
from bestarm.problem import Problem

_AHEAD = math.sqrt(0.5)


@kernel
def drawn_lead_on_items(setting: Any, streams: Any, memory: Any, leader: int, drawn_leader: float, arm: int) -> float:
    """A posterior draw of the leader's lead, in units that make it comparable to one between independent results: those
    differ by the root of 2 times as much as each scatters."""
    if streams.counts[leader, 0] >= setting.places and streams.counts[arm, 0] >= setting.places:
        # There is nothing more to learn about it.
        return -1.0
    lead = lead_of(setting, streams, leader, arm)
    row = arm + 1
    mean = lead.total / lead.n if lead.n > 0 else streams.means[leader, 0] - streams.means[arm, 0]
    noise = scatter(setting.differences, streams.differences, row, DIFFERENCE, mean)
    root = setting.inverse_root[slot(max(lead.n, 1))]
    drawn: float = mean + noise * normal(memory.generator, memory.ziggurat) * root + setting.tolerance
    return drawn / (noise * _AHEAD)


@kernel
def share_on_items(streams: Any, leader: int, arm: int) -> float:
    """One more item on which both are measured takes one test of whoever has been measured less, or one of each."""
    n, n_leader = streams.counts[arm, 0], streams.counts[leader, 0]
    if n == n_leader:
        return 0.5
    return _AHEAD if n < n_leader else 1.0 - _AHEAD


BY_ITEMS: dict[str, Callable[..., Any]] = {
    "infeasible_evidence": infeasible_on_items,
    "rival_reaches": rival_reaches_on_items,
    "worse_evidence": worse_on_items,
    "largest_lead": largest_lead_on_items,
    "end_of_lead": end_of_lead_on_items,
    "tests_worse": tests_worse_on_items,
    "lost_in_pair": lost_on_items,
    "drawn_lead": drawn_lead_on_items,
    "share_of_gain": share_on_items,
}


_PROPOSE = specialized(propose, "on_items", **BY_ITEMS)


@kernel
def take_in_at(setting: Any, streams: Any, tests: Ints, values: Floats, k: int) -> None:
    """Enter result number k, on the item at its place."""
    record_at(setting, streams, tests[k, 0], tests[k, 1], tests[k, 2], values[k])


advance_on_items = specialized(advance, "on_items", take_in=take_in_at)


class CertifyOnItems(Certify):
    """`certify` where arms are measured on items. Its streams are `PairedStreams`, its setting a `PairedSetting`.

    A result is told with the place of its item in the order of items: `tests` in `advance` has rows
    (arm, metric, place).
    """

    uses_items = True
    interpreted = staticmethod(specialized(advance_on_items, "certify", update=update, propose=_PROPOSE))
    kernels = Kernels(new_memory, update, _PROPOSE, start, large=True)
    weigh = staticmethod(specialized(weigh, "on_items", **BY_ITEMS))
    survey = staticmethod(specialized(survey, "on_items", **BY_ITEMS))
    regret_of = staticmethod(specialized(regret_of, "on_items", **BY_ITEMS))
    margin_of = staticmethod(specialized(margin_of, "on_items", **BY_ITEMS))
    differences_from = staticmethod(specialized(differences_from, "on_items", **BY_ITEMS))
    weighing = Weighing(*(specialized(kernel, "on_items", **BY_ITEMS) for kernel in BY_EVIDENCE))

    def __init__(self, setting: Any, arms: int, metrics: int, *, seed: int = 0, run: int = 0) -> None:
        super().__init__(setting, arms, metrics, seed=seed, run=run)
        self._places: int = setting.places
        self.streams: Any = self.streams_with_room(setting, arms, metrics, FIRST_ROOM)

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        return new_paired_setting(problem, delta, bound, reference)

    @classmethod
    def streams_with_room(cls, setting: Any, arms: int, metrics: int, room: int) -> Any:
        """Streams without results, with room for so many items."""
        return new_paired_streams(setting, arms, metrics, room)

    @property
    def places(self) -> int | None:
        return None if self._places == UNLIMITED else self._places

    def _streams_about(self, arm: int) -> Any:
        # The differences at hand are those to the leader.
        return self.streams if arm == self.leader else apart_from(self.streams, self.setting)

    def tell(self, arm: int, metric: int, value: float) -> None:
        """Take in a result on the next item of the stream."""
        place = int(self.streams.counts[arm, metric])
        self.advance(np.array([(arm, metric, place)]), np.array([value]), np.zeros(1, np.int8))

    def tell_together(self, results: Sequence[tuple[int, int, float]]) -> None:
        """Take in all the results of one test, on the next item of its streams."""
        places = [int(self.streams.counts[arm, metric]) for arm, metric, _ in results]
        tests = [(arm, metric, place) for (arm, metric, _), place in zip(results, places, strict=True)]
        self.advance(np.array(tests), np.array([value for *_, value in results]), np.zeros(len(results), np.int8))

    def imagine(self, results: Sequence[tuple[int, int, float]]) -> None:
        """Suppose results on the next items of their streams, as far as there are any."""
        for arm, metric, value in results:
            if self.streams.counts[arm, metric] < self._places:
                self.tell(arm, metric, value)

    def _compiled(self) -> Any:
        kernels = type(self).kernels
        known = known_for(self.setting)
        return compiled(advance_on_items, "certify", known=known, update=kernels.update, propose=kernels.propose)

    def advance(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        if not len(values):
            return None
        self.streams = with_room(self.streams, 1 + int(tests[:, 2].max()))
        return self._advance_compiled(tests, values, ends)

    def _advance_compiled(self, tests: Ints, values: Floats, ends: Flags) -> list[tuple[int, int]] | Stop | None:
        untested = np.array([self.untested])
        run = self._advance or type(self).interpreted
        with np.errstate(over="ignore", invalid="ignore"):
            size = run(self.setting, self.streams, self.memory, self._batch, tests, values, ends, untested)
        return None if size == UNDECIDED else self._decision(int(size))
