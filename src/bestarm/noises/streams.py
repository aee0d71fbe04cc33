"""One stream of results, and the simulated world that results are drawn from, in normal form."""

from __future__ import annotations

from typing import NamedTuple

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Ziggurat
from bestarm.kernel.state import Floats, Ints, Setting, Streams

ABOVE = 1
BELOW = -1
"""The sides of c: evidence that the mean lies above c, or below it."""


class Stream(NamedTuple):
    """One stream: its noise and its sufficient statistics, in normal form and relative to the metric's reference."""

    kind: int
    """The number of its noise."""
    low: float
    high: float
    """The range of its mean; infinite where there is no limit."""
    width: float
    """The unit of its values: the width of their range, or their standard deviation."""
    inverse_sigma: float
    """1 / the sub-Gaussian scale of its values."""
    n: int
    total: float
    """The number of its results and their sum."""
    arm: int
    metric: int
    """Its place in the arrays that follow."""
    numbers: Floats
    """[metric, k]: further parameters of the noise."""
    kept: Floats
    """[arm, metric, k]: further statistics that the noise keeps."""
    mixture: Floats
    """By count: what `bestarm.noises.mixture` looks up."""


@kernel
def stream_of(setting: Setting, streams: Streams, arm: int, metric: int) -> Stream:
    """One stream as a value."""
    return Stream(
        setting.kind[metric],
        setting.low[metric],
        setting.high[metric],
        setting.width[metric],
        setting.inverse_sigma[metric],
        streams.counts[arm, metric],
        streams.sums[arm, metric],
        arm,
        metric,
        setting.numbers,
        streams.kept,
        setting.mixture,
    )


class Law(NamedTuple):
    """The noise of a metric in normal form, as a `Stream` has it."""

    low: float
    high: float
    width: float
    numbers: tuple[float, ...] = ()


TUNING = 3
"""The place in a stream's numbers from which on those stand by which its evidence is tuned."""


class Nature(NamedTuple):
    """The simulated world: true distributions in normal form, relative to the setting's `reference`.

    Entries are by metric, but `mean` is [arm, metric].
    """

    kind: Ints
    mean: Floats
    """The true mean in the noise's own terms: the mean itself, or its place in the range, from 0 to 1."""
    shift: Floats
    gain: Floats
    """A draw x in the noise's own terms is the value shift + gain * x."""
    shape: Ints
    """[arm, metric]: `OWN`, or the kind of the stream's `Shape`, where the study's `spreads` say how it scatters."""
    figures: Floats
    """[arm, metric, k]: the numbers of the `Shape`, and the least and the largest value."""
    source: Ints
    """The metric itself, or an earlier one of its bundle whose draw gives its value, too."""
    turn: Floats
    offset: Floats
    """A value that follows from the draw x of another metric is offset[arm, metric] + turn[metric] * x."""
    ziggurat: Ziggurat
