"""How runs are laid out in a card's memory: in tiles of 32 runs, one run for each lane of a warp.

When all lanes read the same element of an array, they read one stretch of memory: the 32 runs' first elements lie side
by side, then their second ones, and so on. Tables that all runs share are not in tiles. Only this file,
`tile_types` and the end of `compiling` know about tiles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bestarm.kernel.random import Ziggurat

Shape = tuple[int, ...]
Same = tuple[type, str, int]
"""A named tuple, a field of it that is a table, and the number that is in every entry of the table."""

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
    """The tables of whole numbers in which all entries are equal, in settings within a setting, too. Such tables say of
    what kind things are."""
    entries: dict[tuple[type, str], set[int]] = {}
    for owner, name, table in _tables(given):
        entries.setdefault((owner, name), set()).update(table.flat)
    return tuple((*table, int(min(numbers))) for table, numbers in entries.items() if len(numbers) == 1)


def _tables(parts: Iterable[Any]) -> Iterator[tuple[type, str, Any]]:
    for part in parts:
        if hasattr(part, "_asdict"):
            for name, table in part._asdict().items():
                if isinstance(table, np.ndarray) and table.dtype == np.int64:
                    yield type(part), name, table
            yield from _tables(part)
