"""Outcomes of tests as they are read from a storage, column by column."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

_NONE: npt.NDArray[np.object_] = np.empty(0, object)
_NO_ITEMS: npt.NDArray[np.int64] = np.empty(0, np.int64)
_NO_TIMES: npt.NDArray[np.float64] = np.empty(0)


class Entries(NamedTuple):
    """Consecutive tests that have an outcome, column by column; a dropped test's value is NaN."""

    ids: npt.NDArray[np.int64]
    arms: npt.NDArray[np.int64]
    metrics: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    ends: npt.NDArray[np.int8]
    """1 at the last test of a round, where the policy decides."""
    told: npt.NDArray[np.float64]
    """When the outcome was told, in seconds since 1970."""
    arrivals: npt.NDArray[np.int64]
    """In a study by arrival: numbers that grow in the order in which outcomes were told; else 0."""
    holders: npt.NDArray[np.object_] = _NONE
    """Who told the outcome; empty if the storage does not say."""
    more: npt.NDArray[np.object_] = _NONE
    """The values after the first, as tuples; empty if no test here has any."""
    items: npt.NDArray[np.int64] = _NO_ITEMS
    """The items' places, -1 where there is none; empty if no test here has one."""
    issued: npt.NDArray[np.float64] = _NO_TIMES
    """When the test was issued, in seconds since 1970, which is the same for all tests of one request; empty if the
    storage does not say."""

    def before(self, row: int) -> Entries:
        """Those above a row."""
        columns: list[Any] = [column[:row] for column in self]
        return Entries(*columns)
