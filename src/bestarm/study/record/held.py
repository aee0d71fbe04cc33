"""Results on items whose turn has not come, and the item that they wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from bestarm.analysis.status.waiting import HeldResults
from bestarm.kernel.state import Ints
from bestarm.storage.base import Issued, Pending
from bestarm.study.intake.items import MeasuredItems
from bestarm.study.intake.names import Test


def about_held(
    items: MeasuredItems, reached: Ints, named: Callable[[Issued], Test], pending: Iterable[Pending]
) -> HeldResults | None:
    """What is said of the results that `items` holds back, where the evidence has `reached` so many of them; None if
    there are none."""
    rows = items.held(reached)
    if not rows:
        return None
    wanted = rows[0].arm, rows[0].metric, items.waits_for(rows[0], reached)
    test = next((row.id for row in pending if (row.arm, row.metric, row.item) == wanted), None)
    missing = named(Issued(0, *wanted))
    return HeldResults.of(len(rows), f"{missing.metric} of {missing.arm} on {missing.item}", test)
