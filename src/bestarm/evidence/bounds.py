"""Confidence bounds that hold at all times at once, chosen by name.

A bound is a function of n and alpha: the half-width r such that, for observations that are sub-Gaussian
with scale 1 around their mean mu, the probability that |mean of n - mu| >= r(n) for *any* n is at most alpha.
Other scales multiply r. To add a bound, write such a function and put `@bound("name")` above it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from bestarm.kernel.elementary import exp, log
from bestarm.validation import InvalidInput

Floats = npt.NDArray[np.float64]
Bound = Callable[[Floats, float], Floats]

_BOUNDS: dict[str, Bound] = {}
_FAR = 3.0
"""From here on, the normal distribution is computed from its tail."""


def bound(name: str) -> Callable[[Bound], Bound]:
    """Let a bound be chosen by `name`."""

    def register(function: Bound) -> Bound:
        _BOUNDS[name] = function
        return function

    return register


def bound_names() -> list[str]:
    return sorted(_BOUNDS)


def find_bound(name: str) -> Bound:
    if name not in _BOUNDS:
        raise InvalidInput(
            "bound", name, f"no such confidence bound; there are {', '.join(bound_names())}", bound_names()
        )
    return _BOUNDS[name]


@bound("paper")
def union_bound(n: Floats, alpha: float) -> Floats:
    """The paper's D(n, alpha) = sqrt(2 log(4 n^4 / alpha) / n): Hoeffding at each n, and a union over n."""
    width: Floats = np.sqrt(2.0 / n * (math.log(4.0 / alpha) + 4.0 * log(n)))
    return width


@bound("lil")
def iterated_logarithm(n: Floats, alpha: float, *, epsilon: float = 0.01) -> Floats:
    """The finite law of the iterated logarithm of Jamieson, Malloy, Nowak & Bubeck (2014), Lemma 1.

    With U(n, d) = (1 + sqrt(e)) sqrt(2 (1 + e) log(log((1 + e) n) / d) / n), one side fails with probability at most
    (2 + e) / e * (d / log(1 + e))^(1 + e); d is chosen so that both sides together fail with alpha. e = 0.01 as in
    the experiments there.
    """
    e = epsilon
    d = math.log1p(e) * (alpha / 2.0 * e / (2.0 + e)) ** (1.0 / (1.0 + e))
    width: Floats = (1.0 + math.sqrt(e)) * np.sqrt(2.0 * (1.0 + e) * log(log((1.0 + e) * n) / d) / n)
    return width


def _normal(x: Floats) -> tuple[Floats, Floats]:
    """The density and the distribution function Phi of the standard normal distribution, at positive numbers."""
    density = exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi)
    # (Phi - ½) / density = x + x³ / 3 + x⁵ / (3 · 5) + …
    near = np.minimum(x, _FAR)
    term, series = near, near
    for k in range(3, 81, 2):
        term = term * (near * near / k)
        series = series + term
    # density / (1 - Phi) = x + 1 / (x + 2 / (x + 3 / …))
    far = np.maximum(x, _FAR)
    fraction = far
    for k in range(30, 0, -1):
        fraction = far + k / fraction
    return density, np.where(x < _FAR, 0.5 + density * series, 1.0 - density / fraction)


@bound("mixture")
def normal_mixture(n: Floats, alpha: float, *, rho: float = 20.0) -> Floats:
    """The one-sided normal mixture of Howard, Ramdas, McAuliffe & Sekhon (2021), alpha / 2 on each side.

    With S the sum of n deviations and x = S / sqrt(n + rho), the mixture of the likelihood ratios over positive
    effects is E = 2 sqrt(rho / (n + rho)) exp(x² / 2) Phi(x): a test supermartingale, so it ever reaches 2 / alpha with
    probability at most alpha / 2. The half-width is where E = 2 / alpha. `rho` is the sample size it is tuned for.
    """
    target = math.log(2.0 / alpha) - 0.5 * log(4.0 * rho / (n + rho))
    # log E is increasing and convex in x here, so Newton from the right comes down to the root and never below it:
    # stopped at any step it errs to the safe side.
    x = np.sqrt(2.0 * (target + math.log(2.0)))
    for _ in range(8):
        density, phi = _normal(x)
        slope = x + density / phi
        step = (0.5 * x * x + log(phi) - target) / slope
        x = x - step
        if np.max(step) < 1e-12:
            break
    width: Floats = x * np.sqrt(n + rho) / n
    return width
