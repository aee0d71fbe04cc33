"""The one place where kernels tell noises apart: each function here calls that of the stream's noise.

Nothing else asks for the kind of a noise. Compiled, each function is a chain of comparisons over all known noises.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from bestarm.kernel.compile import kernel, one_of
from bestarm.kernel.random import Generator
from bestarm.kernel.state import Setting, Streams, count_result
from bestarm.noises.base import ABOVE, BELOW, Nature, NoiseKernels, Stream
from bestarm.noises.registry import numbered


def _kernels(kind: int) -> NoiseKernels:
    return numbered()[kind].kernels


def _every(choose: Callable[[NoiseKernels], Callable[..., Any]]) -> Callable[[], Sequence[Callable[..., Any]]]:
    """Each noise's kernel for an operation, in the order of the noises' numbers."""
    return lambda: [choose(noise.kernels) for noise in numbered()]


def _ceiling(kernels: NoiseKernels) -> Callable[[Stream, int, float], float]:
    return kernels.evidence if kernels.ceiling is None else kernels.ceiling


@one_of("s.kind", _every(lambda kernels: kernels.evidence))
def evidence(s: Stream, side: int, c: float) -> float:
    """Log-evidence that the mean lies on this side of c."""
    return _kernels(s.kind).evidence(s, side, c)


@one_of("s.kind", _every(lambda kernels: kernels.evidence_and_slope))
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    """`evidence` and its derivative in c, which is increasing because the evidence is log-convex."""
    return _kernels(s.kind).evidence_and_slope(s, side, c)


@one_of("s.kind", _every(_ceiling))
def ceiling(s: Stream, side: int, c: float) -> float:
    """A cheap upper bound of `evidence`."""
    return _ceiling(_kernels(s.kind))(s, side, c)


@one_of("s.kind", _every(lambda kernels: kernels.guess))
def guess(s: Stream, side: int, level: float) -> float:
    """About where the evidence that the mean lies on this side of c is `level`."""
    return _kernels(s.kind).guess(s, side, level)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.scatter))
def scatter(setting: Setting, metric: int, mean: float) -> float:
    """The standard deviation of one observation where the mean is `mean`, for planning only."""
    return _kernels(setting.kind[metric]).scatter(setting, metric, mean)


@one_of("setting.kind[metric]", _every(lambda kernels: kernels.keep))
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """Enter a result into what the noise keeps besides counts and sums."""
    _kernels(setting.kind[metric]).keep(setting, streams, arm, metric, value)


@one_of("nature.kind[metric]", _every(lambda kernels: kernels.draw))
def draw(nature: Nature, generator: Generator, arm: int, metric: int) -> float:
    """Measure a stream once in the simulated world."""
    return _kernels(nature.kind[metric]).draw(nature, generator, arm, metric)


# ------------------------------------------------------------------------------------- what is the same for every noise


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


@kernel
def record(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    """Add one observation to its stream."""
    keep(setting, streams, arm, metric, value)
    count_result(streams, arm, metric, value)


@kernel
def evidence_above(s: Stream, c: float) -> float:
    """Log-evidence against "the mean is at most c"."""
    return evidence(s, ABOVE, c)


@kernel
def evidence_below(s: Stream, c: float) -> float:
    """Log-evidence against "the mean is at least c"."""
    return evidence(s, BELOW, c)


def most_kept(setting: Setting) -> int:
    """How many statistics the streams of a setting keep besides counts and sums."""
    kinds: list[int] = setting.kind.tolist()
    return max(numbered()[kind].kept for kind in kinds)
