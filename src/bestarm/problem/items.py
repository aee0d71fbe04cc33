"""Items: what arms are measured on, such as questions or inputs, in one random order that is the same for all arms.

The n-th measurement of every arm is of the same item, so arms can be compared item by item. The order follows from the
study's `items_seed` alone. Unless items can be measured again, it is a random permutation of them. If they can
(`repeats`), each place of the order has an item drawn at random from all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from numbers import Integral
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import BeforeValidator

from bestarm.texts import first_ten
from bestarm.validation import InvalidInput, Name, described, parse_name

MOST_ITEMS = 1_000_000
"""The most items of a set without repeats, whose order is kept in memory."""
MOST_REPEATED = 10**12

Words = npt.NDArray[np.uint64]


def _read_items(data: object) -> object:
    """The number of items, or their names. Whole numbers are names too, as they are in tables."""
    if isinstance(data, bool) or not isinstance(data, int | list | tuple):
        raise ValueError('must be the number of items, or a list of their names such as ["first", "second"]')
    if isinstance(data, int):
        if data < 1:
            raise ValueError("must be at least 1")
        return data
    if not data:
        raise ValueError("must name at least one item")
    seen: dict[str, None] = {}
    for place, name in enumerate(data):
        try:
            if isinstance(name, bool) or not isinstance(name, str | Integral):
                raise ValueError("must be text or a whole number")
            name = parse_name(str(name))
        except ValueError as error:
            raise InvalidInput(f"[{place}]", name, str(error)) from None
        if name in seen:
            raise InvalidInput(f"[{place}]", name, "another item has this name already")
        seen[name] = None
    return tuple(seen)


ItemList = Annotated[
    Annotated[int, described(minimum=1)] | Annotated[tuple[Name, ...], described(minItems=1, uniqueItems=True)],
    BeforeValidator(_read_items),
]
"""How many items there are, or their names."""


def count_of(items: int | Sequence[str]) -> int:
    return items if isinstance(items, int) else len(items)


def random_order(seed: int, salt: int, count: int) -> list[int]:
    """The numbers from 0 to `count` - 1 in an order that depends on nothing but the seed and the salt."""
    order: list[int] = np.argsort(_keys(seed, salt * count + np.arange(count)), kind="stable").tolist()
    return order


def _mixed(words: Words) -> Words:
    """The finalizer of splitmix64, for many words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def _keys(seed: int, places: Any) -> Words:
    """A random word for each place, which depends on nothing but the seed and the place, on every machine."""
    with np.errstate(over="ignore"):
        start = _mixed(np.asarray(seed, np.uint64) + np.uint64(0xD1B54A32D192ED03))
        return _mixed(start ^ _mixed(np.asarray(places, np.uint64) + np.uint64(0x9E3779B97F4A7C15)))


class ItemOrder:
    """In which order the arms of a study meet the items."""

    def __init__(self, items: int | Sequence[str], repeats: bool, seed: int) -> None:
        self._names = None if isinstance(items, int) else tuple(items)
        self.count = count_of(items)
        self.repeats = repeats
        self._seed = seed

    @property
    def places(self) -> int | None:
        """How many measurements of an arm there can be; None if there is no limit."""
        return None if self.repeats else self.count

    @functools.cached_property
    def _order(self) -> npt.NDArray[np.int64]:
        return np.argsort(_keys(self._seed, np.arange(self.count)), kind="stable")

    @functools.cached_property
    def _places(self) -> npt.NDArray[np.int64]:
        return np.argsort(self._order, kind="stable")

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: k for k, name in enumerate(self._names or ())}

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The numbers of the items in this order, of a set without repeats."""
        return self._order

    def item(self, place: int) -> int:
        """The number of the item at a place of the order, both from 0."""
        if self.repeats:
            return int(_keys(self._seed, place)) % self.count
        return int(self._order[place])

    def name(self, place: int) -> str:
        """The name of the item at a place of the order. Items without names are numbered from 1."""
        number = self.item(place)
        return str(number + 1) if self._names is None else self._names[number]

    def place(self, name: str) -> int:
        """Where in the order an item stands, of a set without repeats."""
        return int(self._places[self.number(name)])

    def number(self, name: str) -> int:
        """The number of the item of that name."""
        if self._names is not None:
            if name not in self._numbers:
                raise InvalidInput("item", name, f"no such item; there are {first_ten(self._names)}")
            return self._numbers[name]
        if not (name.isascii() and name.isdecimal() and len(name) <= 15 and 1 <= int(name) <= self.count):
            raise InvalidInput("item", name, f"no such item; items are numbered from 1 to {self.count:,}")
        return int(name) - 1
