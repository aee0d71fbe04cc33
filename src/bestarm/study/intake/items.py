"""Which items an arm is measured on next, and where in the order of items a result belongs.

Each place of the order is measured once per arm and test. Without repeats, the item determines its place. With repeats
an item comes again and again. Results must then be of the items that come next in the order: choosing among items
would be choosing the answer.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

import numpy as np

from bestarm.kernel.state import ABSENT, Ints, Slices
from bestarm.policies.slices import slices_of
from bestarm.problem import Plan
from bestarm.problem.blocks import BlockOrder
from bestarm.problem.changing import first_places
from bestarm.problem.items import ItemOrder
from bestarm.storage.base import Entries, ResultRow, Rounds
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


def items_of(plan: Plan, seed: int = 0) -> ItemOrder | BlockOrder | None:
    """The items of a plan, by number and name, or its blocks. A study's `items_seed` gives the order of items."""
    if plan.blocks is not None:
        return BlockOrder(plan.blocks)
    return None if plan.items is None else ItemOrder(plan.items, plan.repeats, seed)


class Taken:
    """The places that the tests of one stream have. Nearly always they are the first ones from `first` on."""

    def __init__(self, first: int = 0) -> None:
        self.first_free = first
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
        self.slices: Slices = ABSENT if plan.inside is None else slices_of(plan, self.order.numbers)
        """Where the items of slices stand in this order."""
        self._leads = plan.leads
        self._plan = plan
        self._taken: dict[Stream, Taken] = {}
        self._met = 0
        self._ahead: list[ResultRow] = []
        """Results on items before which an item has none yet."""
        # Scores of judges count together, once all are there.
        self._counting = {bundle[0]: bundle for bundle in plan.bundles}

    def enter(self, entries: Entries) -> None:
        """Take in tests with their outcomes."""
        self._met = max(self._met, _after(entries))
        rows = [row for row in entries.results() if row.item is not None]
        for row in rows:
            assert row.item is not None
            stream = row.arm, row.metric
            self._taken.setdefault(stream, _untaken(self._plan, stream)).add(row.item)
        rows = [row for row in rows if row.metric in self._counting]
        self._ahead = [row for row in (*self._ahead, *rows) if (row.item or 0) > self._first_free(row)]

    def _first_free(self, row: ResultRow) -> int:
        """The first place without a result of the same test of the same arm."""
        stream = row.arm, row.metric
        return self._taken.get(stream, _untaken(self._plan, stream)).first_free

    def held(self, reached: Ints) -> list[ResultRow]:
        """Results that do not count yet, because items before theirs have none, where the evidence about each part has
        `reached` so many items: one that counts for a slice is not among them."""
        if self.slices == ABSENT:
            return self._ahead
        return [row for row in self._ahead if self._counts_nowhere(row, reached)]

    def _counts_nowhere(self, row: ResultRow, reached: Ints) -> bool:
        ahead = self._ranks_ahead(row, reached)
        return bool(ahead) and min(ahead.values()) >= 0

    def _ranks_ahead(self, row: ResultRow, reached: Ints) -> dict[int, int]:
        """By part that a result's item counts for: how many items of the part come before it and have no result."""
        assert row.item is not None
        ranks = {part: int(self.slices.ranks[part, row.item]) for part in self._counting[row.metric]}
        return {part: rank - int(reached[row.arm, part]) for part, rank in ranks.items() if rank >= 0}

    def waits_for(self, row: ResultRow, reached: Ints) -> int:
        """The place whose result lets one that is held count, or brings it closest to that."""
        if self.slices == ABSENT:
            return self._first_free(row)
        ahead = self._ranks_ahead(row, reached)
        part = min(ahead, key=lambda part: ahead[part])
        return int(self.slices.places[part, reached[row.arm, part]])

    def met(self, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> int:
        """How many places of the order may be known to those who work on the study: up to the last one that a test has
        or had, where `out` are tests without a result, and `late` have one that has not entered."""
        places = [1 + place for _, place in out if place is not None]
        return max(self._met, *places, *map(_after, late), 0)

    def taken(
        self, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries], some: Collection[Stream] | None = None
    ) -> dict[Stream, Taken]:
        """The places that are measured or being measured, of some streams or of all, where `out` are tests without a
        result, and `late` have one that has not entered."""
        wanted = self._taken if some is None else some
        found = {stream: self._taken[stream].copy() for stream in wanted if stream in self._taken}
        for stream, place in [*out, *(pair for part in late for pair in _measured(part))]:
            if place is not None and (some is None or stream in some):
                found.setdefault(stream, _untaken(self._plan, stream)).add(place)
        return found

    def left(self, arm: int, late: Iterable[Entries], leads: Iterable[int]) -> list[str]:
        """The items on which some of these tests of the arm have no result, where `late` have not entered. None if
        items are drawn again and again."""
        if self.order.places is None:
            return []
        taken = self.taken([], late, [(arm, lead) for lead in leads])
        has_all = (
            all((arm, lead) in taken and place in taken[arm, lead] for lead in leads)
            for place in range(self.order.count)
        )
        return [self.order.name(place) for place, is_done in enumerate(has_all) if not is_done]

    def planned(self, rounds: Rounds, out: Iterable[tuple[Stream, int | None]], late: Iterable[Entries]) -> Rounds:
        """The same rounds, each test with its place. Where all items are taken, there is nothing more to measure."""
        # In a study with many arms, only a few are asked for at a time.
        taken = self.taken(out, late, {(arm, self._lead(metric)) for tests in rounds for arm, metric, *_ in tests})
        placed: list[list[tuple[int, int] | tuple[int, int, int]]] = []
        for tests in rounds:
            placed.append([])
            for arm, metric, *_ in tests:
                lead = self._lead(metric)
                of_stream = taken.setdefault((arm, lead), _untaken(self._plan, (arm, lead)))
                place = self._next(of_stream, metric)
                if place is not None:
                    placed[-1].append((arm, lead, place))
                    of_stream.add(place)
        return [tests for tests in placed if tests]

    def _lead(self, metric: int) -> int:
        """What the record calls a test, whose item may be the next of a slice."""
        return metric if self.slices == ABSENT else self._leads[metric]

    def _next(self, taken: Taken, metric: int) -> int | None:
        """The first place that is free, of those that count for a metric; None if there is none."""
        if self.slices == ABSENT:
            is_left = self.order.places is None or taken.first_free < self.order.places
            return taken.first_free if is_left else None
        of_slice = self.slices.places[metric, : self.slices.sizes[metric]]
        later = of_slice[np.searchsorted(of_slice, taken.first_free) :].tolist()
        return next((place for place in later if place not in taken), None)


def _untaken(plan: Plan, stream: Stream) -> Taken:
    """The places of a stream without tests."""
    return Taken(int(first_places(plan)[stream[0]]))


def _after(entries: Entries) -> int:
    """Where the places of tests end."""
    return 1 + int(entries.items.max(initial=-1))


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
                taken = self._taken.get(stream, _untaken(self._plan, stream))
                free = (place for place in itertools.count(taken.first_free) if place not in taken)
                coming[stream] = list(itertools.islice(free, count))
        found: list[int | InvalidInput] = []
        for stream, item in zip(streams, items, strict=True):
            try:
                place = self._place(stream, item, coming.get(stream, []))
            except InvalidInput as error:
                found.append(error)
                continue
            self._taken.setdefault(stream, _untaken(self._plan, stream)).add(place)
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
