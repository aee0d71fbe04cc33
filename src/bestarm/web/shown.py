"""Tests and events as the service shows them.

What only studies with items, or with tests of several metrics, need is left out of the others. So clients that know
nothing of it can use those as before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bestarm.storage.base import Event, Pending
from bestarm.study.intake.names import Test
from bestarm.study.study import Study


class Shown:
    """How tests and events of one study are shown."""

    def __init__(self, study: Study) -> None:
        self._study = study
        self._has_several = any(len(metrics) > 1 for metrics in study.plan.yields.values())
        self._has_items = study.plan.items is not None

    def tests(self, tests: Iterable[Test]) -> list[dict[str, Any]]:
        """Tests to make."""
        return [self._test(test) for test in tests]

    def pending(self, rows: Iterable[tuple[Test, Pending]]) -> list[dict[str, Any]]:
        """Tests that are out, and who holds them."""
        shown = []
        for test, row in rows:
            data = row._asdict()
            del data["item"]
            shown.append(data | self._test(test) | self._place(row.item))
        return shown

    def events(self, events: Iterable[Event]) -> list[dict[str, Any]]:
        """Lines of the log."""
        return [self._event(event) for event in events]

    def _event(self, event: Event) -> dict[str, Any]:
        plan, data = self._study.plan, event._asdict()
        del data["more"], data["item"]
        data["arm"] = None if event.arm is None else plan.arm_names[event.arm]
        data["metric"] = None if event.metric is None else plan.test_names[event.metric]
        metrics = () if event.metric is None else plan.yields[event.metric]
        if self._has_several:
            told = None if event.value is None else dict(zip(metrics, (event.value, *event.more), strict=True))
            data |= {"value": event.value if len(metrics) < 2 else None, "values": told}
        return data | self._more(metrics, self._study.item_name(event.item)) | self._place(event.item)

    def _test(self, test: Test) -> dict[str, Any]:
        return {"id": test.id, "arm": test.arm, "metric": test.metric} | self._more(test.metrics, test.item)

    def _more(self, metrics: Sequence[str], item: str | None) -> dict[str, Any]:
        several = {"metrics": list(metrics)} if self._has_several else {}
        return several | ({"item": item} if self._has_items else {})

    def _place(self, place: int | None) -> dict[str, Any]:
        return {"place": place} if self._has_items else {}
