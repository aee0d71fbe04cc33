"""How runs are laid out in a card's memory: in tiles of 32 runs, one run for each lane of a warp.

When all lanes read the same element of an array, they read one stretch of memory: the 32 runs' first elements lie side
by side, then their second ones, and so on. Tables that all runs share are not in tiles. Only this file and
`tile_types` know about tiles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

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
    """The tables of whole numbers in which all entries are equal. Such tables say of what kind things are."""
    named = ((type(part), name, table) for part in given for name, table in part._asdict().items())
    return tuple(
        (owner, name, int(table.flat[0]))
        for owner, name, table in named
        if isinstance(table, np.ndarray) and table.dtype == np.int64 and (table == table.flat[0]).all()
    )


# ------------------------------------------------ plain Python for the CUDA simulator, intrinsics for a card


def view(shapes: tuple[Shape, ...], simulated: bool) -> Any:
    """A function of (fresh, block, run): what one of the runs in a block of tiles keeps, shaped like `fresh`.

    It is made for arrays of these shapes, so that the compiler knows the shapes.
    """
    if simulated:
        return _view
    from bestarm.simulation.cuda.tile_types import view_for

    return view_for(shapes)


def renew(simulated: bool) -> Any:
    """A function of (state, fresh) that resets what a run keeps to what it is before the first test."""
    if simulated:
        return _renew
    from bestarm.simulation.cuda.tile_types import renew

    return renew


def tables(same: tuple[Same, ...], simulated: bool) -> Any:
    """A function that returns its argument, tables that all runs share, in a form that tells the compiler two things:
    they never change, and which number is in those that hold only one."""
    if simulated:
        return lambda given: given
    from bestarm.simulation.cuda.tile_types import tables_for

    return tables_for(same)


def _view(fresh: Any, block: npt.NDArray[np.int64], run: int) -> Any:
    """What the intrinsic does, in plain Python for the CUDA simulator."""
    tile, lane = divmod(run, LANES)
    start = tile * state_words(fresh) * LANES * WORD

    def placed(value: Any) -> Any:
        nonlocal start
        if isinstance(value, np.ndarray):
            tile_array: npt.NDArray[Any] = np.ndarray((*value.shape, LANES), value.dtype, block, start)
            start += value.nbytes * LANES
            return tile_array[..., lane]
        return value if is_shared(type(value)) else type(value)(*(placed(part) for part in value))

    return placed(fresh)


def _renew(state: Any, fresh: Any) -> None:
    if isinstance(fresh, np.ndarray):
        state[...] = fresh
    elif not is_shared(type(fresh)):
        for part, new in zip(state, fresh, strict=True):
            _renew(part, new)
