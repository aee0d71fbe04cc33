"""All arrays of one run in one block of memory, so that starting a run is copying a fresh block."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T")

WORD = 8
"""Bytes."""


def _words(array: npt.NDArray[Any]) -> int:
    """How many words of the block an array takes."""
    return -(-array.nbytes // WORD)


def _size(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return _words(value)
    return sum(_size(part) for part in value)


def _view(value: Any, block: npt.NDArray[np.int64], start: int) -> tuple[Any, int]:
    if isinstance(value, np.ndarray):
        stop = start + _words(value)
        view = block[start:stop].view(np.uint8)[: value.nbytes].view(value.dtype).reshape(value.shape)
        view[...] = value
        return view, stop
    parts = []
    for part in value:
        view, start = _view(part, block, start)
        parts.append(view)
    return (value._make(parts) if hasattr(value, "_make") else tuple(parts)), start


def in_one_block(state: T) -> tuple[T, npt.NDArray[np.int64]]:
    """The same nested named tuple of arrays, with equal contents, as views of one block, and the block."""
    block = np.zeros(_size(state), np.int64)
    view, _ = _view(state, block, 0)
    return view, block
