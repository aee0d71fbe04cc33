"""How much a test of a bounded metric tells: the KL infimum, for results whose distribution is known.

K(F, c) is the least divergence of F from the distributions on the same range whose mean lies beyond c. No procedure
that is right for all of them learns faster from results that are distributed as F (Honda & Takemura 2010). For values
in [0, 1] and a mean below c,

    K(F, c) = max over 0 <= r <= 1 / (1 - c) of E log(1 - r (X - c)),

which is concave in r. The expectation is a sum over nodes, by the trapezoidal rule in a variable in which it converges
fast.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.noises.shapes import SHAPES, Shape, shape_of

_NODES = 801
_HALVINGS = 50
_AT_ONCE = 64
_OUTSIDE = 1e-12
"""The share of results outside of their range that counts as none."""

Nodes = tuple[Floats, Floats]


def _normal_nodes() -> Nodes:
    z = np.linspace(-9.0, 9.0, _NODES)
    weights = np.exp(-0.5 * z * z)
    return z, weights / weights.sum()


def _uniform_nodes() -> tuple[Floats, Floats, Floats]:
    """u, 1 - u and weights for a uniform u, dense at both ends."""
    y = np.linspace(-36.0, 36.0, _NODES)
    u, rest = 1.0 / (1.0 + np.exp(-y)), 1.0 / (1.0 + np.exp(y))
    weights = u * rest
    return u, rest, weights / weights.sum()


def power_nodes(mean: float) -> Nodes:
    """The results of a simulation in which nothing but the range and the mean is stated, scaled to [0, 1]."""
    u, _, weights = _uniform_nodes()
    if mean <= 0.5:
        return -np.expm1(mean / (1.0 - mean) * np.log(u)), weights
    return np.exp((1.0 - mean) / mean * np.log(u)), weights


def _shape_nodes(shape: Shape) -> Nodes:
    if shape.kind == SHAPES["normal"]:
        z, weights = _normal_nodes()
        return shape.base + shape.gain * z, weights
    if shape.kind == SHAPES["lognormal"]:
        z, weights = _normal_nodes()
        return shape.base + shape.gain * np.expm1(shape.first * z - 0.5 * shape.first**2), weights
    u, rest, weights = _uniform_nodes()
    if shape.kind == SHAPES["uniform"]:
        drawn = math.sqrt(3.0) * (u - rest)
    elif shape.kind == SHAPES["exponential"]:
        drawn = -np.log(u) - 1.0
    elif shape.kind == SHAPES["laplace"]:
        drawn = math.sqrt(0.5) * np.where(u < 0.5, np.log(2.0 * u), -np.log(2.0 * rest))
    else:
        drawn = np.power(-np.expm1(shape.second * np.log(u)), shape.first)
    return shape.base + shape.gain * drawn, weights


def nodes_of(mean: float, spread: float | Mapping[str, float] | None, limits: tuple[float, float]) -> Nodes | None:
    """A stream's results scaled to [0, 1], as nodes and weights. None if they do not stay within their limits."""
    low, high = limits
    if spread is None:
        return power_nodes((mean - low) / (high - low))
    values, weights = _shape_nodes(shape_of(spread, mean, limits, 1.0, 0.0))
    values = (values - low) / (high - low)
    if weights[(values < -1e-12) | (values > 1.0 + 1e-12)].sum() > _OUTSIDE:
        return None
    return np.clip(values, 0.0, 1.0), weights


def _infimum_below(nodes: Nodes, c: Floats) -> Floats:
    """K(F, c) for numbers c above the mean of F."""
    values, weights = nodes
    away = values - c[:, np.newaxis]
    with np.errstate(all="ignore"):
        low, high = np.zeros(len(c)), np.ones(len(c)) / (1.0 - c)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            rises = (weights * (-away / (1.0 - middle[:, np.newaxis] * away))).sum(axis=1) > 0.0
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)
        growth: Floats = (weights * np.log1p(-low[:, np.newaxis] * away)).sum(axis=1)
    return np.maximum(growth, 0.0)


def kl_infimum(nodes: Nodes, mean: float, c: Floats) -> Floats:
    """K(F, c) for results in [0, 1] with this mean, on whichever side of it c lies.

    >>> K = kl_infimum((np.array([0.0, 1.0]), np.array([0.7, 0.3])), 0.3, np.array([0.5, 0.3, 0.1]))
    >>> K.round(6).tolist()  # for 0 and 1, the divergence between rates
    [0.082283, 0.0, 0.153664]
    """
    values, weights = nodes
    found = np.zeros(len(c))
    for side, of, at in ((c > mean, nodes, c), (c < mean, (1.0 - values, weights), 1.0 - c)):
        places = np.flatnonzero(side)
        # In parts, so that the tables stay small.
        for first in range(0, len(places), _AT_ONCE):
            part = places[first : first + _AT_ONCE]
            found[part] = _infimum_below(of, at[part])
    return found
