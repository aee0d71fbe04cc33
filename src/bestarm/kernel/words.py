"""Conversions of numbers that compiled kernels need."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.kernel.compile import kernel


@kernel
def whole(word: Any) -> int:
    """An unsigned number as a signed one. The two kinds do not mix: numba, which compiles for
    cards, adds them to a float, which cannot be an index."""
    return int(np.int64(word))
