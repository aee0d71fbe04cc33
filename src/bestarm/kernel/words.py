"""Numbers as kernels can calculate with them."""

from __future__ import annotations

from typing import Any

import numpy as np

from bestarm.kernel.compile import kernel


@kernel
def whole(word: Any) -> int:
    """An unsigned number as one with a sign. numba makes a float of their sum, which is no index."""
    return int(np.int64(word))
