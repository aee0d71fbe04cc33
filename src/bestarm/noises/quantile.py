"""Quantiles, such as "the 99% quantile of latency is at most 200": a limit of the share of results beyond 200.

Results are told as they are measured. Only whether each lies beyond the threshold counts. So the evidence is that of
rates, however heavy the tails are.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.noises.base import NoiseModel, StatedNumber
from bestarm.noises.bernoulli import Bernoulli
from bestarm.validation import Probability, exact, value


@value
class Quantile(NoiseModel):
    """A constraint on the quantile `q` of a metric with any distribution.

    "At most 200" means that a share of less than 1 - q of all results lies above 200; "at least 5", that a share of
    less than q lies below 5. In what is shown and simulated, the metric's mean is that share.

    >>> import bestarm as ba
    >>> ba.at_most("latency", 200, noise=ba.Quantile(0.99)).limit
    0.01
    """

    name = "quantile"
    label = "a number of which a quantile counts"
    about = "A quantile is limited, not the mean: with q = 0.99, all results but 1% must keep to the threshold."
    place = 50
    stated: ClassVar = {"q": StatedNumber("quantile q", default=0.99, above=0.0)}
    kernels = Bernoulli.kernels
    tracked_as = Bernoulli.tracked_as
    is_quadratic = False
    is_share = True
    takes_spread = False

    q: Probability

    @property
    def scale(self) -> float:
        return 0.5

    @property
    def range(self) -> tuple[float, float]:
        return (0.0, 1.0)

    @property
    def value_range(self) -> tuple[float, float]:
        return (-math.inf, math.inf)

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return Bernoulli().tuning(threshold)

    def sentence(self) -> str:
        return f"of each measurement counts whether it lies beyond the threshold (quantile {exact(self.q)})"

    def accepted_values(self) -> str:
        return "must be a finite number"

    def value_hint(self) -> str:
        return "number"

    def compared_with(self, threshold: float, is_upper: bool) -> float:
        """The share of results beyond the threshold that must not be reached."""
        return round(1.0 - self.q, 15) if is_upper else self.q

    def counted(self, values: Any, threshold: float, is_upper: bool) -> Any:
        # NaN stays NaN: there is no result.
        beyond = np.where(values > threshold, 1.0, 0.0) if is_upper else np.where(values < threshold, 1.0, 0.0)
        return np.where(np.isnan(values), np.nan, beyond)

    def divergence(self, p: Floats, q: Floats) -> Floats:
        return Bernoulli().divergence(p, q)
