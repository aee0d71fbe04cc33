"""Results measured without asking, kept column by column: a million of them in 16 MB."""

from __future__ import annotations

import copy
from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Result = tuple[int, int, float]
"""Arm, metric and value."""

Given = Result | tuple[int, int, float, Sequence[float]] | tuple[int, int, float, Sequence[float], int | None]
"""A result as a storage takes it: then the values after the first, if there are any, and the item's place."""

NO_ITEM = -1


class Columns(Sequence[Given]):
    """Results in order. As a sequence it yields tuples, made when they are accessed.

    They are (arm, metric, value), or (arm, metric, value, more, item) as soon as one of them has any of the last two.
    """

    def __init__(self, results: Iterable[Given] = ()) -> None:
        self.arms, self.metrics, self.values = array("i"), array("i"), array("d")
        self.extra_values, self.bounds = array("d"), array("q")
        """The values after the first, one result after the other, and where each result's end. Or nothing."""
        self.items = array("q")
        """The items' places, -1 where there is none; empty if there are none at all."""
        for result in results:
            self.append(*result)

    def append(self, arm: int, metric: int, value: float, more: Sequence[float] = (), item: int | None = None) -> None:
        if more and not self.bounds:
            self.bounds.extend([0] * len(self))
        if item is not None and not self.items:
            self.items.extend([NO_ITEM] * len(self))
        if more or self.bounds:
            self.extra_values.extend(more)
            self.bounds.append(len(self.extra_values))
        if item is not None or self.items:
            self.items.append(NO_ITEM if item is None else item)
        self.arms.append(arm)
        self.metrics.append(metric)
        self.values.append(value)

    def more(self, place: int) -> tuple[float, ...]:
        """The values of a result after its first."""
        if not self.bounds:
            return ()
        place = range(len(self))[place]
        return tuple(self.extra_values[self.bounds[place - 1] if place else 0 : self.bounds[place]])

    def item(self, place: int) -> int | None:
        """The place of a result's item."""
        return None if not self.items or self.items[place] == NO_ITEM else self.items[place]

    def placed(self, places: Sequence[int]) -> Columns:
        """The same results, with other places of their items."""
        other = copy.copy(self)
        other.items = array("q", places)
        return other

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Given]:
        if not self.bounds and not self.items:
            return zip(self.arms, self.metrics, self.values, strict=True)
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            if not self.bounds and not self.items:
                return [*zip(self.arms[place], self.metrics[place], self.values[place], strict=True)]
            return [self[k] for k in range(len(self))[place]]
        row = self.arms[place], self.metrics[place], self.values[place]
        return (*row, self.more(place), self.item(place)) if self.bounds or self.items else row
