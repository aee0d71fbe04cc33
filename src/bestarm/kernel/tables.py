"""Functions of a sample count, looked up instead of computed.

A table is exact up to `DENSE` and beyond that keeps the leading 13 bits of n, rounded down: for a
confidence radius, which falls with n, rounding n down is rounding to the safe side (by less than 0.02%).
So every engine reads the same number, and it does not matter how costly a radius is to compute.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel, large

DENSE = 65536
_OCTAVES = 24
_PER_OCTAVE = 4096
_PART = 8192

LARGEST = DENSE << _OCTAVES
"""No study has this many tests (10^12)."""


@kernel
def slot(n: int) -> int:
    """The place of the value for `n` in a table."""
    return n if n < DENSE else _sparse_slot(n)


@large
@kernel
def _sparse_slot(n: int) -> int:
    octave = 0
    while (n >> octave) >= 2 * DENSE:
        octave += 1
    return DENSE + octave * _PER_OCTAVE + (n >> (octave + 4)) - _PER_OCTAVE


def table_arguments() -> npt.NDArray[np.float64]:
    """The n for which each slot of a table holds the value. Slot 0 is unused and counts as n = 1."""
    dense = np.arange(DENSE, dtype=np.float64)
    dense[0] = 1.0
    leading = np.arange(_PER_OCTAVE, 2 * _PER_OCTAVE, dtype=np.float64)
    return np.concatenate([dense, *(leading * 2.0 ** (octave + 4) for octave in range(_OCTAVES))])


def tabulate(function: Callable[[npt.NDArray[np.float64]], npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """The table of a function of n. Part by part, so that what it computes on the way fits into a processor's cache."""
    arguments = table_arguments()
    parts = [function(arguments[first : first + _PART]) for first in range(0, len(arguments), _PART)]
    return np.concatenate(parts, dtype=np.float64)
