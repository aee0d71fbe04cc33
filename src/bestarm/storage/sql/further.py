"""The values of a test after its first, as the database keeps them: a JSON list of numbers, exact to the last bit."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


def written(more: Sequence[float]) -> str | None:
    return json.dumps([float(value) for value in more]) if more else None


def read(text: str | None) -> tuple[float, ...]:
    return () if text is None else read_all([text])[0]


def read_all(texts: Sequence[str | None]) -> npt.NDArray[np.object_]:
    """Those of many tests; an empty array if none has any."""
    found = np.empty(0 if texts.count(None) == len(texts) else len(texts), object)
    if len(found):
        # As one list: reading each on its own takes several times as long.
        rows = json.loads(f"[{','.join('[]' if text is None else text for text in texts)}]")
        # A damaged database can hold anything in place of numbers.
        if len(rows) != len(texts) or not all(isinstance(row, list) and {*map(type, row)} <= {float} for row in rows):
            raise ValueError("the further values of a test are not a list of numbers")
        found[:] = [tuple(row) for row in rows]
    return found
