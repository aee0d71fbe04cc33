"""How runs are laid out in a card's memory: in tiles of 32 runs, one run for each lane of a warp.

When all lanes read the same element of an array, they read one stretch of memory: the 32 runs' first elements lie side
by side, then their second ones, and so on. Tables that all runs share are not in tiles. Only this file,
`tile_types` and the end of `compiling` know about tiles.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bestarm.kernel.random import Ziggurat

Shape = tuple[int, ...]
Same = tuple[type, str, int | float | None]
"""A named tuple, a field of it that is a table, and the number that is in every entry of the table, or None: each entry
is the number of its place."""

LANES = 32
WORD = 8
"""Bytes."""


def is_shared(kind: type) -> bool:
    """Whether the arrays in a tuple of this kind are the same for every run."""
    return issubclass(kind, Ziggurat)


def state_bytes(fresh: Any) -> int:
    if isinstance(fresh, np.ndarray):
        return fresh.nbytes
    return 0 if is_shared(type(fresh)) else sum(state_bytes(part) for part in fresh)


def state_words(fresh: Any) -> int:
    """How many words of 8 bytes a run's arrays take in a tile."""
    return -(-state_bytes(fresh) // WORD)


def state_shapes(fresh: Any) -> tuple[Shape, ...]:
    """The shapes of a run's arrays, in order."""
    if isinstance(fresh, np.ndarray):
        return (fresh.shape,)
    return () if is_shared(type(fresh)) else tuple(shape for part in fresh for shape in state_shapes(part))


def same_throughout(*given: Any) -> tuple[Same, ...]:
    """The tables in which a compiler can know every entry, in settings within a setting, too: whole numbers that are
    all equal, which say of what kind things are, or that count the entries; and floats that are all 0 or all 1, as
    units and costs often are. Other floats would mean another program for each problem."""
    found: dict[tuple[type, str], set[int | float | None]] = {}
    for owner, name, table in _tables(given):
        found.setdefault((owner, name), set()).add(_known(table))
    known = {table: next(iter(numbers)) for table, numbers in found.items() if len(numbers) == 1}
    return tuple((*table, number) for table, number in known.items() if number is None or number == number)


def _known(table: Any) -> int | float | None:
    """What is in every entry of a table, None if each is the number of its place, or NaN if neither is known."""
    first = table.flat[0] if table.size else math.nan
    if table.dtype == np.int64:
        if table.ndim == 1 and table.size > 1 and (table == np.arange(table.size)).all():
            return None
        return int(first) if (table == first).all() else math.nan
    is_plain = first in (0.0, 1.0) and (table == first).all() and not np.signbit(table).any()
    return float(first) if is_plain else math.nan


def _tables(parts: Iterable[Any]) -> Iterator[tuple[type, str, Any]]:
    for part in parts:
        if hasattr(part, "_asdict"):
            for name, table in part._asdict().items():
                if isinstance(table, np.ndarray) and table.dtype in (np.int64, np.float64):
                    yield type(part), name, table
            yield from _tables(part)
