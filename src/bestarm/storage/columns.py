"""Results measured without asking, kept column by column: a million of them in 16 MB."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

Result = tuple[int, int, float]
"""Arm, metric and value, as a storage takes them."""


class Columns(Sequence[Result]):
    """Results in order. As a sequence it yields tuples, made when they are accessed."""

    def __init__(self, results: Iterable[Result] = ()) -> None:
        self.arms, self.metrics, self.values = array("i"), array("i"), array("d")
        for result in results:
            self.append(*result)

    def append(self, arm: int, metric: int, value: float) -> None:
        self.arms.append(arm)
        self.metrics.append(metric)
        self.values.append(value)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Result]:
        return zip(self.arms, self.metrics, self.values, strict=True)

    def __getitem__(self, place: Any) -> Any:
        if isinstance(place, slice):
            return [*zip(self.arms[place], self.metrics[place], self.values[place], strict=True)]
        return self.arms[place], self.metrics[place], self.values[place]
