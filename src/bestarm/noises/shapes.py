"""How results of simulated arms scatter, where a study's `spreads` say it: a standard deviation, or a shape with one.

A draw is base + gain * g, where g is drawn from the shape. For most shapes g has mean 0 and the gain is the standard
deviation. In a range, results are drawn from a Kumaraswamy distribution, which looks like a Beta distribution and is
drawn with two powers. A draw of another shape that lies beyond the range is cut off at its end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

from pydantic import BeforeValidator, WithJsonSchema

from bestarm.kernel.compile import kernel
from bestarm.kernel.random import Generator, Ziggurat, normal, uniform
from bestarm.validation import exact, finite_number

OWN = 0
"""Results scatter as their noise says."""
_NORMAL, _UNIFORM, _LAPLACE, _EXPONENTIAL, _LOGNORMAL, _WITHIN = range(1, 7)
SHAPES = {
    "normal": _NORMAL,
    "uniform": _UNIFORM,
    "laplace": _LAPLACE,
    "exponential": _EXPONENTIAL,
    "lognormal": _LOGNORMAL,
}
"""The shapes that a study file can name. All but the last two are symmetric around the mean."""

_LARGEST = 0.92
"""The largest standard deviation in a range, as a share of that of a distribution on its two ends."""
_FAR_INSIDE = 0.05
"""A standard deviation that is so small a share of the distance to the ends never takes a normal draw beyond them."""
_ROOT_3 = math.sqrt(3.0)
_ROOT_HALF = math.sqrt(0.5)


class Shape(NamedTuple):
    """The distribution of one stream of the simulated world, in normal form and relative to the metric's reference."""

    kind: int
    base: float
    gain: float
    first: float = 0.0
    second: float = 0.0
    """What the shape needs besides."""


@kernel
def draw_from(
    kind: int, base: float, gain: float, first: float, second: float, generator: Generator, ziggurat: Ziggurat
) -> float:
    """A draw from a `Shape`."""
    if kind == _NORMAL:
        return base + gain * normal(generator, ziggurat)
    if kind == _LOGNORMAL:
        return base + gain * (math.exp(first * normal(generator, ziggurat) - 0.5 * first * first) - 1.0)
    # Never 0, whose logarithm is infinite.
    u = 1.0 - uniform(generator)
    if kind == _UNIFORM:
        return base + gain * _ROOT_3 * (2.0 * u - 1.0)
    if kind == _EXPONENTIAL:
        return base + gain * (-math.log(u) - 1.0)
    if kind == _LAPLACE:
        return base + gain * _ROOT_HALF * (math.log(2.0 * u) if u < 0.5 else -math.log(2.0 * (1.0 - u) + 1e-300))
    return base + gain * math.pow(-math.expm1(second * math.log(u)), first)


def _log_moment(power: float, a: float, b: float) -> float:
    """log E[X^power] of a Kumaraswamy distribution: log of b B(1 + power / a, b)."""
    t = 1.0 + power / a
    # Where b is large, the difference of two logarithms of Gamma functions would have no digits left.
    ratio = -t * math.log(b + 0.5 * (t - 1.0)) if b > 1e7 else math.lgamma(b) - math.lgamma(b + t)
    return math.log(b) + math.lgamma(t) + ratio


def _second_for(a: float, mean: float) -> float:
    """log b with which the mean is as asked. The mean falls with b."""
    low, high = -700.0, 700.0
    for _ in range(55):
        middle = 0.5 * (low + high)
        if _log_moment(1.0, a, math.exp(middle)) > math.log(mean):
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


@functools.lru_cache(maxsize=4096)
def within(mean: float, deviation: float) -> tuple[float, float]:
    """1 / a and 1 / b of the Kumaraswamy distribution on [0, 1] with this mean and standard deviation.

    It is the distribution of (1 - U^(1/b))^(1/a) for a uniform U. With the mean held, it scatters less as a grows.
    """
    low, high = -12.0, 5.0
    for _ in range(45):
        middle = 0.5 * (low + high)
        a = math.exp(middle)
        log_b = _second_for(a, mean)
        variance = math.exp(_log_moment(2.0, a, math.exp(log_b))) - mean * mean
        if variance > deviation * deviation:
            low = middle
        else:
            high = middle
    a = math.exp(0.5 * (low + high))
    return 1.0 / a, math.exp(-_second_for(a, mean))


def largest_within(deviation: float, mean: float, low: float, high: float) -> float:
    """The deviation, or the largest that values between the limits can have around the mean, if that is less."""
    if not math.isfinite(high - low):
        return deviation
    return min(deviation, 0.99 * _LARGEST * math.sqrt(max(mean - low, 0.0) * max(high - mean, 0.0)))


def shape_of(
    spread: float | Mapping[str, float], mean: float, limits: tuple[float, float], sign: float, reference: float
) -> Shape:
    """The shape of a stream with this true mean and spread, in the user's terms, and values within the `limits`.

    Raises `ValueError` with what is accepted.
    """
    low, high = limits
    kind, deviation = "", spread
    if isinstance(spread, Mapping):
        [(kind, deviation)] = spread.items()
    assert isinstance(deviation, float)
    base = sign * mean - reference
    if deviation == 0.0:
        return Shape(_NORMAL, base, 0.0)
    if math.isfinite(high - low) and not kind:
        width = high - low
        most = math.sqrt(max(mean - low, 0.0) * max(high - mean, 0.0))
        if not deviation < _LARGEST * most:
            raise ValueError(
                f"must be less than {_LARGEST * most:.6g}, for values between {exact(low)} and {exact(high)} with a "
                f"mean of {exact(mean)}"
            )
        if deviation < _FAR_INSIDE * min(mean - low, high - mean):
            return Shape(_NORMAL, base, sign * deviation)
        first, second = within((mean - low) / width, deviation / width)
        return Shape(_WITHIN, sign * low - reference, sign * width, first, second)
    if kind == "lognormal":
        if not mean > 0.0:
            raise ValueError(f"must be another shape: only a positive mean can be lognormal, not {exact(mean)}")
        return Shape(_LOGNORMAL, base, sign * mean, math.sqrt(math.log1p((deviation / mean) ** 2)))
    return Shape(SHAPES[kind or "normal"], base, sign * deviation)


def _read(data: object) -> object:
    accepted = f"must be a standard deviation, or {{ SHAPE = DEVIATION }} with one of the shapes {', '.join(SHAPES)}"
    if isinstance(data, Mapping):
        if len(data) != 1 or next(iter(data)) not in SHAPES:
            raise ValueError(accepted)
        return {kind: _deviation(deviation, accepted) for kind, deviation in data.items()}
    return _deviation(data, accepted)


def _deviation(data: object, accepted: str) -> float:
    try:
        number = finite_number(data)
    except ValueError:
        raise ValueError(accepted) from None
    if not (number == 0.0 or 1e-50 <= number <= 1e50):
        raise ValueError("must be 0, or lie between 1e-50 and 1e+50")
    return number


_SIZE = {"type": "number", "minimum": 0}
_SHAPED = {
    "type": "object",
    "properties": dict.fromkeys(SHAPES, _SIZE),
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
Spread = Annotated[
    float | dict[str, float], BeforeValidator(_read), WithJsonSchema({"title": "Spread", "anyOf": [_SIZE, _SHAPED]})
]
"""How results of a simulated arm scatter: a standard deviation, or a shape with one."""


def is_normal(spread: float | Mapping[str, float]) -> bool:
    """Whether results are normal, unless a range forbids it."""
    return not isinstance(spread, Mapping) or "normal" in spread


def plain(spread: Any) -> float:
    """The standard deviation."""
    return float(next(iter(spread.values()))) if isinstance(spread, Mapping) else float(spread)
