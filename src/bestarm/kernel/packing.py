"""Several trials of one test as one number: k successes of n, n from 2 to 2^25 - 1.

Every other value is at most `bestarm.validation.MOST` in size. A packed one is larger: (2^26 n + k) 2^200, which a
floating-point number holds exactly. So it can be kept, sent and told wherever a value can, and `count_result` takes it
apart. In normal form, the sum of the n values takes the place of k. It lies between -n and n.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

MOST_TRIALS = 2**25 - 1

SCALE = 2.0**200
BASE = 2.0**26
EACH = SCALE * BASE
"""What one trial adds to a packed number."""
PACKED = 1e55
MOST_PACKED = 2.0**26 * EACH
"""A value between these is packed. Old records may have larger ones, which are not."""

Floats = npt.NDArray[np.float64]


def pack(k: int, n: int) -> float:
    """A result of n trials. That of a single one is 0 or 1, as ever.

    >>> pack(1, 1), pack(3, 105800) > PACKED, unpack(pack(3, 105800))
    (1.0, True, (3, 105800))
    """
    return float(k) if n == 1 else (BASE * n + k) * SCALE


def unpack(value: float) -> tuple[int, int]:
    """Successes and trials of a packed number."""
    n = int(value / EACH + 0.5)
    return int(value / SCALE - BASE * n), n


def is_packed(values: Any) -> Any:
    """Whether a recorded number stands for several trials, or which of many do."""
    return (values > PACKED) & (values < MOST_PACKED)


def trials(values: Floats) -> npt.NDArray[np.int64]:
    """How many trials each value stands for."""
    counts: npt.NDArray[np.int64] = np.where(is_packed(values), values / EACH + 0.5, 1.0).astype(np.int64)
    return counts


def in_normal_form(values: Floats, normal: Floats, signs: Floats, references: Floats) -> Floats:
    """`normal`, but where `values` are packed, these with the sum of sign * value - reference over their trials."""
    packed = is_packed(values)
    if not np.any(packed):
        return normal
    counts = np.where(packed, np.floor(values / EACH + 0.5), 0.0)
    successes = np.where(packed, values / SCALE - BASE * counts, 0.0)
    sums = signs * successes - counts * references
    found: Floats = np.where(packed, (BASE * counts + sums) * SCALE, normal)[()]
    return found
