"""The numbers of a problem as policies see it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class NormalForm(NamedTuple):
    """A problem as policies see it: larger objectives are better, constraints hold below their thresholds.

    Entries are by metric, the objective first. A user's value times `sign` is the policy's value.
    """

    sign: npt.NDArray[np.float64]
    threshold: npt.NDArray[np.float64]
    sigma: npt.NDArray[np.float64]
    cost: npt.NDArray[np.float64]
    """[arm, metric]"""
    slack: npt.NDArray[np.float64]
