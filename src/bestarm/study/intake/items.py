"""Which items an arm is measured on next, and where in the order of items a result belongs.

Each place of the order is measured once per arm and test. Without repeats, the item determines its place. With repeats
an item comes again and again. Results must then be of the items that come next in the order: choosing among items
would be choosing the answer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from bestarm.problem import Plan
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Entries, Rounds
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

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


class Taken:
    """The places that the tests of one stream have. Nearly always they are the first ones."""

    def __init__(self) -> None:
        self.first_free = 0
        self._beyond: set[int] = set()

    def add(self, place: int) -> None:
        if place >= self.first_free:
            self._beyond.add(place)
            while self.first_free in self._beyond:
                self._beyond.remove(self.first_free)
                self.first_free += 1

    def __contains__(self, place: int) -> bool:
        return place < self.first_free or place in self._beyond

    def copy(self) -> Taken:
        other = Taken()
        other.first_free, other._beyond = self.first_free, set(self._beyond)
        return other


class MeasuredItems:
    """The places of all tests of a study that have entered. A test that ended without a result leaves its place."""

    def __init__(self, plan: Plan, items_seed: int) -> None:
        assert plan.items is not None
        self.order = ItemOrder(plan.items, plan.repeats, items_seed)
        self._taken: dict[Stream, Taken] = {}

    def enter(self, entries: Entries) -> None:
        """Take in tests with their outcomes."""
        for stream, place in _measured(entries):
            self._taken.setdefault(stream, Taken()).add(place)

    def taken(
        self, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries], some: Collection[Stream] | None = None
    ) -> dict[Stream, Taken]:
        """The places that are measured or being measured, of some streams or of all, where `out` are tests without a
        result, and `late` have one that has not entered."""
        wanted = self._taken if some is None else some
        found = {stream: self._taken[stream].copy() for stream in wanted if stream in self._taken}
        for stream, place in [*out, *(pair for part in late for pair in _measured(part))]:
            if place is not None and (some is None or stream in some):
                found.setdefault(stream, Taken()).add(place)
        return found

    def planned(self, rounds: Rounds, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> Rounds:
        """The same rounds, each test with its place. Where all items are taken, there is nothing more to measure."""
        # In a study with many arms, only a few are asked for at a time.
        taken = self.taken(out, late, {(arm, metric) for tests in rounds for arm, metric, *_ in tests})
        placed: list[list[tuple[int, int] | tuple[int, int, int]]] = []
        for tests in rounds:
            placed.append([])
            for arm, metric, *_ in tests:
                of_stream = taken.setdefault((arm, metric), Taken())
                if self.order.places is None or of_stream.first_free < self.order.places:
                    placed[-1].append((arm, metric, of_stream.first_free))
                    of_stream.add(of_stream.first_free)
        return [tests for tests in placed if tests]


def _measured(entries: Entries) -> list[tuple[Stream, int]]:
    """The streams of tests that have a result, and their places."""
    columns = (entries.arms.tolist(), entries.metrics.tolist(), entries.items.tolist(), entries.values.tolist())
    return [((arm, metric), place) for arm, metric, place, value in zip(*columns, strict=True) if value == value]


class FreeItems:
    """The places of a study's order of items that new results can have. `taken` are measured, or being measured."""

    def __init__(self, plan: Plan, order: ItemOrder, taken: dict[Stream, Taken]) -> None:
        self._plan = plan
        self._order = order
        self._taken = taken

    def assign(
        self, streams: Sequence[Stream], items: Sequence[str], skipped: Counter[Stream]
    ) -> list[int | InvalidInput]:
        """The place of each result, or what is wrong with it. `skipped` counts tests among them without a result."""
        coming: dict[Stream, list[int]] = {}
        if self._order.repeats:
            for stream, count in (Counter(streams) + skipped).items():
                taken = self._taken.get(stream, Taken())
                free = (place for place in itertools.count(taken.first_free) if place not in taken)
                coming[stream] = list(itertools.islice(free, count))
        found: list[int | InvalidInput] = []
        for stream, item in zip(streams, items, strict=True):
            try:
                place = self._place(stream, item, coming.get(stream, []))
            except InvalidInput as error:
                found.append(error)
                continue
            self._taken.setdefault(stream, Taken()).add(place)
            found.append(place)
        return found

    def _place(self, stream: Stream, item: str, coming: list[int]) -> int:
        what = f"{self._plan.test_names[stream[1]]!r} of {self._plan.arm_names[stream[0]]!r}"
        if not self._order.repeats:
            place = self._order.place(item)
            if place in self._taken.get(stream, Taken()):
                raise InvalidInput("item", item, f"{what} has been measured on it already, or is being measured")
            return place
        for k, place in enumerate(coming):
            if self._order.name(place) == item:
                del coming[k]
                return place
        reason = f"is not next for {what}"
        if coming:
            reason += f": items come in the study's own order, and the next is {self._order.name(coming[0])!r}"
        raise InvalidInput("item", item, reason)
