"""What one run keeps, found in a block of tiles: plain Python for the simulator of CUDA, intrinsics for a card."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bestarm.kernel.layout import WORD
from bestarm.simulation.cuda.tiles import LANES, Same, Shape, is_shared, state_words


def view(shapes: tuple[Shape, ...], simulated: bool) -> Any:
    """A function of (fresh, block, run): what one of the runs in a block of tiles keeps, shaped like `fresh`.

    It is made for arrays of these shapes, so that the compiler knows them.
    """
    if simulated:
        return _view
    from bestarm.simulation.cuda.tile_types import view_for

    return view_for(shapes)


def renew(simulated: bool) -> Any:
    """A function of (state, fresh) that makes what a run keeps what it is before the first test."""
    if simulated:
        return _renew
    from bestarm.simulation.cuda.tile_types import renew

    return renew


def tables(same: tuple[Same, ...], simulated: bool) -> Any:
    """A function of what is the same for every run: the same, for the compiler to know that it never changes, and what
    is in those tables that are the same throughout."""
    if simulated:
        return lambda given: given
    from bestarm.simulation.cuda.tile_types import tables_for

    return tables_for(same)


def _view(fresh: Any, block: npt.NDArray[np.int64], run: int) -> Any:
    """What the intrinsic does, as plain Python for the simulator of CUDA."""
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
