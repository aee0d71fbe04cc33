"""Where what a run keeps lies in a card's memory: in tiles of 32 runs, one run for each lane of a warp.

Lanes that all read the same element of an array should read one stretch of memory: so the 32 runs' first elements lie
side by side, then their second ones, and so on. Where lanes scan different parts of large arrays, it is better that a
few elements of the same run, a *grain*, lie together. Tables that are the same for every run stay where they are.
Nothing outside this file and `tiles_cuda` knows of tiles.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from bestarm.kernel.layout import WORD
from bestarm.kernel.random import Ziggurat

Shape = tuple[int, ...]

LANES = 32


def is_shared(kind: type) -> bool:
    """Whether the arrays in a tuple of this kind are the same for every run."""
    return issubclass(kind, Ziggurat)


def padded(size: int, grain: int) -> int:
    """How many elements an array of `size` takes in a tile."""
    return -(-size // grain) * grain


def array_words(size: int, itemsize: int, grain: int) -> int:
    """How many words of 8 bytes an array takes in a tile, for each run."""
    return -(-padded(size, grain) * itemsize // WORD)


def state_words(fresh: Any, grain: int) -> int:
    """How many words of 8 bytes a run's arrays take in a tile."""
    if isinstance(fresh, np.ndarray):
        return array_words(fresh.size, fresh.itemsize, grain)
    return 0 if is_shared(type(fresh)) else sum(state_words(part, grain) for part in fresh)


def state_shapes(fresh: Any) -> tuple[Shape, ...]:
    """The shapes of a run's arrays, in order."""
    if isinstance(fresh, np.ndarray):
        return (fresh.shape,)
    return () if is_shared(type(fresh)) else tuple(shape for part in fresh for shape in state_shapes(part))


def view(shapes: tuple[Shape, ...], grain: int, simulated: bool) -> Any:
    """A function of (fresh, block, run): what one of the runs in a block of tiles keeps, shaped like `fresh`.

    It is made for arrays of these shapes, so that the compiler knows them.
    """
    if simulated:
        return functools.partial(_view, grain)
    from bestarm.kernel.tiles_cuda import view_for

    return view_for(shapes, grain)


def renew(simulated: bool) -> Any:
    """A function of (state, fresh) that makes what a run keeps what it is before the first test."""
    if simulated:
        return _renew
    from bestarm.kernel.tiles_cuda import renew

    return renew


class GrainedArray:
    """As much of an array in a tile as kernel code uses, for the simulator of CUDA."""

    def __init__(self, shape: Shape, elements: npt.NDArray[Any]) -> None:
        self.shape = shape
        self._elements = elements

    def _place(self, index: Any) -> tuple[Any, Any]:
        place = np.ravel_multi_index(index if isinstance(index, tuple) else (index,), self.shape)
        grain = self._elements.shape[1]
        return place // grain, place % grain

    def __getitem__(self, index: Any) -> Any:
        return self._elements[self._place(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        self._elements[self._place(index)] = value

    def renew(self, fresh: npt.NDArray[Any]) -> None:
        for index in np.ndindex(*self.shape):
            self[index] = fresh[index]


def _view(grain: int, fresh: Any, block: npt.NDArray[np.int64], run: int) -> Any:
    """What the intrinsic does, as plain Python."""
    tile, lane = divmod(run, LANES)
    start = tile * state_words(fresh, grain) * LANES * WORD

    def placed(value: Any) -> Any:
        nonlocal start
        if isinstance(value, np.ndarray):
            shape = (padded(value.size, grain) // grain, LANES, grain)
            whole: npt.NDArray[Any] = np.ndarray(shape, value.dtype, block, start)
            start += array_words(value.size, value.itemsize, grain) * LANES * WORD
            return GrainedArray(value.shape, whole[:, lane])
        return value if is_shared(type(value)) else type(value)(*(placed(part) for part in value))

    return placed(fresh)


def _renew(state: Any, fresh: Any) -> None:
    if isinstance(fresh, np.ndarray):
        state.renew(fresh)
    elif not is_shared(type(fresh)):
        for part, new in zip(state, fresh, strict=True):
            _renew(part, new)
