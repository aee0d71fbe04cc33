"""The one place where kernels tell noises apart: each function here calls that of the stream's noise.

Nothing else asks for the kind of a noise. Compiled, each function is a chain of comparisons over all known noises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from bestarm.kernel.compile import kernel, one_of
from bestarm.kernel.random import Generator
from bestarm.kernel.state import Setting, Streams, count_result, rounding_error
from bestarm.noises.kernels import NoiseKernels, no_slope, tabulated_radius
from bestarm.noises.registry import numbered
from bestarm.noises.shapes import OWN, draw_from
from bestarm.noises.streams import Nature, Stream

F = TypeVar("F", bound=Callable[..., Any])


def _kernels(kind: int) -> NoiseKernels:
    return numbered()[kind].kernels


def _every(choose: Callable[[NoiseKernels], F]) -> Callable[[], Sequence[F]]:
    """Each noise's kernel for an operation, in the order of the noises' numbers."""
    return lambda: [choose(noise.kernels) for noise in numbered()]


def _ceiling(kernels: NoiseKernels) -> Callable[[Stream, int, float], float]:
    return kernels.evidence if kernels.ceiling is None else kernels.ceiling


@one_of("s.kind", _every(lambda kernels: kernels.evidence))
def evidence(s: Stream, side: int, c: float) -> float:
    """Log-evidence that the mean lies on this side of c."""
    return _kernels(s.kind).evidence(s, side, c)


@one_of("s.kind", _every(lambda kernels: kernels.evidence_and_slope or no_slope), "(math.nan, math.nan)")
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    """`evidence` and its derivative in c, which is increasing where the evidence is log-convex; else NaN."""
    return (_kernels(s.kind).evidence_and_slope or no_slope)(s, side, c)


@one_of("s.kind", _every(_ceiling))
def ceiling(s: Stream, side: int, c: float) -> float:
    """A cheap upper bound of `evidence`."""
    return _ceiling(_kernels(s.kind))(s, side, c)


@one_of("s.kind", _every(lambda kernels: kernels.guess))
def guess(s: Stream, side: int, level: float) -> float:
    """About where the evidence that the mean lies on this side of c is `level`."""
    return _kernels(s.kind).guess(s, side, level)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.scatter))
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    """The standard deviation of one observation of a stream whose mean is about `mean`, for planning only."""
    return _kernels(setting.kind[metric]).scatter(setting, streams, arm, metric, mean)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.radius or tabulated_radius))
def radius(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    """The half-width of the confidence interval around a stream's mean, in units of the noise's scale."""
    return (_kernels(setting.kind[metric]).radius or tabulated_radius)(setting, streams, arm, metric)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.keep), unknown="")
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """Enter a result into what the noise keeps besides counts and sums."""
    _kernels(setting.kind[metric]).keep(setting, streams, arm, metric, value)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.note or kernels.keep), unknown="")
def note(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """The same for a value of a set that is known and is no evidence."""
    kernels = _kernels(setting.kind[metric])
    (kernels.note or kernels.keep)(setting, streams, arm, metric, value)


@one_of("nature.kind[metric]", _every(lambda kernels: kernels.draw))
def draw_own(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    """Measure a stream once in the simulated world, where it scatters as its noise says."""
    return _kernels(nature.kind[metric]).draw(nature, generator, arm, metric)


def by_kind(
    choose: Callable[[NoiseKernels], F],
) -> tuple[Callable[[], Sequence[F]], Callable[[int], F]]:
    """For kernels elsewhere that a noise may bring itself: each noise's, for `one_of`, and the one of a kind."""
    return _every(choose), lambda kind: choose(_kernels(kind))


# ------------------------------------------------------------------------------------- what is the same for every noise


@kernel
def half_width(setting: Setting, streams: Streams, arm: int, metric: int) -> float:
    """Half-width of a stream's confidence interval: the bounds are the mean plus or minus this.

    It is never less than the mean's rounding error: an interval that rounds to a point would decide by rounding.
    """
    width: float = setting.sigma[metric] * radius(setting, streams, arm, metric)
    least: float = rounding_error(streams.counts[arm, metric], streams.means[arm, metric])
    return least if least > width else width


@kernel
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    """Measure a stream once in the simulated world."""
    kind = nature.shape[arm, metric]
    if kind == OWN:
        return draw_own(nature, generator, arm, metric)
    base, gain = nature.figures[arm, metric, 0], nature.figures[arm, metric, 1]
    first, second = nature.figures[arm, metric, 2], nature.figures[arm, metric, 3]
    value: float = draw_from(kind, base, gain, first, second, generator, nature.ziggurat)
    # A result beyond the range of its metric is cut off there, as by a timeout.
    least: float = nature.figures[arm, metric, 4]
    most: float = nature.figures[arm, metric, 5]
    return min(max(value, least), most)


@kernel
def record(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """Add one observation to its stream."""
    keep(setting, streams, arm, metric, value)
    count_result(streams, arm, metric, value)


@kernel
def take_note(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """Add one value to its stream that counts in the mean of its set and is no evidence of the others."""
    note(setting, streams, arm, metric, value)
    count_result(streams, arm, metric, value)


def most_kept(setting: Setting) -> int:
    """How many statistics the streams of a setting keep besides counts and sums."""
    kinds: list[int] = setting.kind.tolist()
    return max(numbered()[kind].kept for kind in kinds)
