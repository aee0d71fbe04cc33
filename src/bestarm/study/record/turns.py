"""Results in the order in which they count, where a study goes to items of a slice before their turn among all."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.state import ABSENT, Floats, Slices
from bestarm.policies.base import Policy
from bestarm.storage.base import Entries
from bestarm.study.intake.blocks import joined, some_of


class InTurn:
    """Passes results on once they count. What is shown and checked of a stream is then what its evidence rests on."""

    def __init__(self, slices: Slices) -> None:
        self._has_slices = slices != ABSENT
        self._waiting: tuple[Entries, Floats] | None = None

    def of(self, results: Entries, shown: Floats, policy: Policy) -> tuple[Entries, Floats]:
        """The results that count by now and did not before, of one stream in the order of its items. Rows of parts that
        an item does not count for are left out."""
        if not self._has_slices:
            return results, shown
        kept = np.flatnonzero((results.items >= 0) & ~np.isnan(results.values))
        results, shown = some_of(results, kept), shown[kept]
        if self._waiting is not None:
            results, shown = joined(self._waiting[0], results), np.concatenate([self._waiting[1], shown])
        counts = results.items < policy.streams.items.reached[results.arms, results.metrics]
        in_order = np.argsort(results.items, kind="stable")
        now, later = in_order[counts[in_order]], np.flatnonzero(~counts)
        self._waiting = some_of(results, later), shown[later]
        return some_of(results, now), shown[now]
