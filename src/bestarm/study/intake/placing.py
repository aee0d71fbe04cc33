"""Where in the order of items a result belongs that is given by the name of its item.

Each place of the order is measured once per arm and test. Without repeats, the item determines its place. With repeats
an item comes again and again. Results must then be of the items that come next in the order: choosing among items
would be choosing the answer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence

from bestarm.problem import Plan
from bestarm.problem.items import ItemOrder
from bestarm.study.intake.places import Taken
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput

Stream = tuple[int, int]
"""An arm and a test of it, by number."""


def item_name(item: object) -> str:
    """The name of an item, which may be given as its number."""
    if isinstance(item, int) and not isinstance(item, bool):
        return str(item)
    if not isinstance(item, str):
        raise InvalidInput("item", item, "must be the name or the number of an item", shown=quoted(item))
    return item


def items_of(plan: Plan) -> ItemOrder | None:
    """The items of a plan, by number and name. A study's `items_seed` gives their order."""
    return None if plan.items is None else ItemOrder(plan.items, plan.repeats, 0)


def check_item(has_items: bool, item: object) -> None:
    """Complain of an item where there are none, and of none where results are of items."""
    if not has_items and item is not None:
        raise InvalidInput("item", item, "this study has no items", shown=quoted(item))
    if has_items and item is None:
        raise InvalidInput("item", UNSTATED, "is missing; results of this study are of an item each")


class Placing:
    """The places of a study's order of items, as results are put in. `taken` are measured, or being measured."""

    def __init__(self, plan: Plan, order: ItemOrder, taken: dict[Stream, Taken]) -> None:
        self._plan = plan
        self._order = order
        self._taken = taken

    def assign(
        self, streams: Sequence[Stream], items: Sequence[str], skipped: Counter[Stream] | None = None
    ) -> list[int | InvalidInput]:
        """The place of each result, or what is wrong with it. `skipped` counts tests among them without a result."""
        next_ones: dict[Stream, list[int]] = {}
        if self._order.repeats:
            counts = Counter(streams) + (skipped or Counter())
            next_ones = {stream: self._next(stream, count) for stream, count in counts.items()}
        found: list[int | InvalidInput] = []
        for stream, item in zip(streams, items, strict=True):
            try:
                place = self._place(stream, item, next_ones.get(stream, []))
            except InvalidInput as error:
                found.append(error)
                continue
            self._taken.setdefault(stream, Taken()).add(place)
            found.append(place)
        return found

    def _next(self, stream: Stream, count: int) -> list[int]:
        """The next places of a stream."""
        taken = self._taken.get(stream, Taken())
        free = (place for place in itertools.count(taken.first_free) if place not in taken)
        return list(itertools.islice(free, count))

    def _place(self, stream: Stream, item: str, next_ones: list[int]) -> int:
        what = f"{self._plan.test_names[stream[1]]!r} of {self._plan.arm_names[stream[0]]!r}"
        if not self._order.repeats:
            place = self._order.place(item)
            if place in self._taken.get(stream, Taken()):
                raise InvalidInput("item", item, f"{what} has been measured on it already, or is being measured")
            return place
        for k, place in enumerate(next_ones):
            if self._order.name(place) == item:
                del next_ones[k]
                return place
        if not next_ones:
            raise InvalidInput("item", item, f"is not next for {what}")
        coming = self._order.name(next_ones[0])
        raise InvalidInput(
            "item", item, f"is not next for {what}: items come in the study's own order, and the next is {coming!r}"
        )
