"""`track-and-stop-proven`: the same sampling, at the threshold that Kaufmann & Koolen (2021) prove.

    bestarm simulate PLAN --policy benchmarks/classic/kaufmann_koolen.py:ProvenTrackAndStop

A wrong answer a needs, at some time, N_a d(mean_a, μ_a) + N_1 d(mean_1, μ_1) beyond the threshold of this pair, where 1
is the best arm and μ are the true means: the likelihood ratio is the least such sum over all worlds in which a is not
better, and the true one is such a world. Each of the K - 1 pairs may do that with probability e^-x = δ / (K - 1). By
theorem 7, for any one-dimensional exponential family, the threshold

    3 log(1 + log N_a) + 3 log(1 + log N_1) + 2 T(x / 2)

sees to that, where, with h(u) = u - log u for u of at least 1,

    T(x) = 2 h̃((h⁻¹(1 + x) + log(2 ζ(2))) / 2),
    h̃(x) = min over 1 < z <= 3/2 of z (x - log log z)
          = exp(1 / h⁻¹(x)) h⁻¹(x) if x >= h(1 / log 3/2), else 3/2 (x - log log 3/2).

For Gaussians of known variance, corollary 10 proves a smaller one,

    2 log(4 + log N_a) + 2 log(4 + log N_1) + 2 C(x / 2),   C(x) = min over 1/2 < λ < 1 of (g(λ) + x) / λ,
    g(λ) = 2 λ - 2 λ log(4 λ) + log ζ(2 λ) - 1/2 log(1 - λ).

The proof of the latter is short. With S the sum of n deviations from the true mean in units of sigma, n d = S² / (2 n),
and sqrt(ρ / (n + ρ)) exp(S² / (2 (n + ρ))) is a martingale that starts at 1. With ρ = n_i (1 - λ) / λ it is at least
exp(λ n d - 2 λ) sqrt(1 - λ) for n from n_i to n_i e^4λ, since then n / (n + ρ) >= λ and ρ / (n + ρ) >= (1 - λ) e^-4λ.
Mix those of n_i = e^(4λ (i - 1)) for i = 1, 2, … with the weights i^-2λ / ζ(2λ): of the one that n belongs to, i is at
most (4 + log n) / (4 λ). So exp(λ (n d - 2 log(4 + log n)) - g(λ)) is below a martingale. Those of two arms multiply,
and Ville's inequality does the rest.
"""

from __future__ import annotations

import math
import sys
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).resolve().parents[2]))  # named as a file, it finds its neighbors, too

from benchmarks.classic.families import Classic, ignore
from benchmarks.classic.specialized import specialized
from benchmarks.classic.track_and_stop import new_memory, propose

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Floats, Setting
from bestarm.noises.bernoulli import Bernoulli
from bestarm.policies.kernels import Kernels
from bestarm.problem import Problem

_tuple: Any = namedtuple
PricedSetting = _tuple("PricedSetting", (*Setting._fields, "price", "growth", "offset"))
"""A `Setting`, with the numbers of the threshold price + growth * (log(offset + log N_a) + log(offset + log N_1))."""

_ZETA_2 = math.pi**2 / 6.0
_LARGEST_Z = 1.5
_TERMS = 30


def h_inverse(x: float) -> float:
    """The u of at least 1 with u - log u = x."""
    u = x + math.log(x) + 1.0 if x > 1.0 else 1.0
    for _ in range(100):
        # Newton's method from the right on a convex function; at u = 1 the slope is 0, and u is found.
        slope = 1.0 - 1.0 / u
        step = (u - math.log(u) - x) / slope if slope > 0.0 else 0.0
        u = max(u - step, 1.0)
        if abs(step) <= 1e-15 * u:
            break
    return u


def h_tilde(x: float) -> float:
    corner = 1.0 / math.log(_LARGEST_Z)
    if x >= corner - math.log(corner):
        u = h_inverse(x)
        return math.exp(1.0 / u) * u
    return _LARGEST_Z * (x + math.log(corner))


def price_of_family(x: float) -> float:
    """T(x), for any one-dimensional exponential family."""
    return 2.0 * h_tilde(0.5 * (h_inverse(1.0 + x) + math.log(2.0 * _ZETA_2)))


def _zeta(s: Floats) -> Floats:
    """Riemann's, for s > 1: the first terms, and the rest by the Euler-Maclaurin formula."""
    head = (np.arange(1.0, _TERMS)[:, None] ** -s).sum(axis=0)
    tail = _TERMS ** (1.0 - s) / (s - 1.0) + 0.5 * _TERMS**-s + s / 12.0 * _TERMS ** (-s - 1.0)
    rest: Floats = head + tail - s * (s + 1.0) * (s + 2.0) / 720.0 * _TERMS ** (-s - 3.0)
    return rest


def price_of_gaussian(x: float) -> float:
    """C(x). Every λ is proven, so that the best of a thousand will do."""
    part = np.linspace(0.5, 1.0, 1002)[1:-1]
    g = 2.0 * part - 2.0 * part * np.log(4.0 * part) + np.log(_zeta(2.0 * part)) - 0.5 * np.log1p(-part)
    return float(((g + x) / part).min())


def threshold_numbers(problem: Problem, delta: float) -> tuple[float, float, float]:
    """The price, growth and offset of the threshold of a pair."""
    x = 0.5 * math.log(max(len(problem.arms) - 1, 1) / delta)
    if isinstance(problem.objective.noise, Bernoulli):
        return 2.0 * price_of_family(x), 3.0, 1.0
    return 2.0 * price_of_gaussian(x), 2.0, 4.0


@kernel
def proven_threshold(setting: Any, tests: int, of_leader: int, of_rival: int) -> float:
    growth = math.log(setting.offset + math.log(of_leader)) + math.log(setting.offset + math.log(of_rival))
    return float(setting.price + setting.growth * growth)


class ProvenTrackAndStop(Classic):
    """Track-and-Stop that errs with probability at most delta: `TrackAndStop` at a threshold with a proof.

    Parameters
    ----------
    setting, arms, metrics, seed, run
        Those of every `Policy`. It makes no random choices, so `seed` and `run` change nothing.

    Reference: E. Kaufmann and W. M. Koolen, "Mixture Martingales Revisited with Applications to Sequential Tests and
    Confidence Intervals", Journal of Machine Learning Research 22 (2021).
    """

    name = "track-and-stop-proven"
    kernels = Kernels(new_memory, ignore, specialized(propose, "proven", threshold=proven_threshold))

    @classmethod
    def new_setting(cls, problem: Problem, delta: float, bound: str, reference: Floats | None = None) -> Any:
        return PricedSetting(*super().new_setting(problem, delta, bound, reference), *threshold_numbers(problem, delta))
