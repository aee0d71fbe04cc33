"""Finds what one run keeps in a block of tiles: plain Python for the CUDA simulator, intrinsics for a card."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bestarm.kernel.layout import WORD
from bestarm.simulation.cuda.tiles import LANES, Same, Shape, is_shared, state_words


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
