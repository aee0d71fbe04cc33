"""Rates, with evidence that no grid of tilts limits: the usual bets, mixed with a likelihood ratio.

Let KT(s, n) be the probability of s ones and n - s zeros, in their order, under a Beta(1/2, 1/2) prior of the rate
(Krichevsky and Trofimov 1981), and L(p) the same for the rate p. Against "the rate is at most c":

    R = KT(s, n) / (the largest L(p) over p <= c).

If the true rate is p <= c, R is at most KT / L(p), which is a test martingale: R is evidence. With m = s / n,

    log R = n kl(m, c) - regret   if m > c,   and -regret if not,

which falls with c and is convex in c, as the comparison of two arms needs. The regret log(L(m) / KT) is between
log(pi n / 2) / 2 and that plus log 2 + 1 / (12 n). So R loses log n / 2 once, where the best of 22 tilts loses up to 4%
of the evidence; but at usual deltas the tilts are better. A mixture of both has what is better of each.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel, large
from bestarm.noises.bernoulli import (
    Bernoulli,
    divergence_ceiling,
    in_unit,
    rate_ceiling,
    rate_divergence,
    rate_evidence_and_slope,
)
from bestarm.noises.bernoulli import product as product_of_bets
from bestarm.noises.bernoulli import product_ceiling as ceiling_of_bets
from bestarm.noises.mixture import add_logs
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.validation import value

RATIO = 0.25
"""The weight of the likelihood ratio; the bets have the rest."""
_LOG_RATIO, _LOG_BETS = math.log(RATIO), math.log1p(-RATIO)
_LOG_HALF_PI = math.log(0.5 * math.pi)
_HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
_LEAST = 1e-300

_FEW = 16


def _stirling_gap(k: int, half: float) -> float:
    """By how much log Gamma(k + 1 - half) exceeds (k + 1/2 - half) log k - k + log(2 pi) / 2, where 0 log 0 = 0."""
    return math.lgamma(k + 1.0 - half) - ((k + 0.5 - half) * math.log(max(k, 1)) - k + _HALF_LOG_2_PI)


_AT_HALF = tuple(_stirling_gap(k, 0.5) for k in range(_FEW))
_AT_WHOLE = tuple(_stirling_gap(k, 0.0) for k in range(_FEW))


@kernel
def _gap_at_half(k: int) -> float:
    if k < _FEW:
        return _AT_HALF[k]
    y = 1.0 / (k * k)
    return -(1.0 / 24.0 - y * (7.0 / 2880.0 - y * (31.0 / 40320.0))) / k


@kernel
def _gap_at_whole(k: int) -> float:
    if k < _FEW:
        return _AT_WHOLE[k]
    y = 1.0 / (k * k)
    return (1.0 / 12.0 - y * (1.0 / 360.0 - y * (1.0 / 1260.0))) / k


@kernel
def regret(n: int, total: float) -> float:
    """log of L(m) / KT(s, n): what it costs not to know the rate."""
    ones = int(total + 0.5)
    return 0.5 * (math.log(n) + _LOG_HALF_PI) - (_gap_at_half(ones) + _gap_at_half(n - ones)) + _gap_at_whole(n)


@large
@kernel
def log_ratio(n: int, total: float, c: float) -> tuple[float, float]:
    """log R, and its derivative in c."""
    if n == 0:
        return 0.0, 0.0
    mean = total / n
    if not mean > c:
        return -regret(n, total), 0.0
    # No rate is 0 where a one was seen: the evidence is large, but must be finite to count.
    c = max(c, _LEAST)
    return n * rate_divergence(mean, c) - regret(n, total), -n * ((mean - c) / (c * (1.0 - c)))


@large
@kernel
def _mixed(n: int, total: float, c: float, s: Stream) -> tuple[float, float]:
    bets, slope_of_bets = rate_evidence_and_slope(n, total, c, s.numbers, s.metric)
    ratio, slope_of_ratio = log_ratio(n, total, c)
    mixed = add_logs(_LOG_BETS + bets, _LOG_RATIO + ratio)
    share = math.exp(_LOG_RATIO + ratio - mixed)
    return mixed, (1.0 - share) * slope_of_bets + share * slope_of_ratio


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    total, position = in_unit(s, side, c)
    return _mixed(s.n, total, position, s)[0]


@kernel
def evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    total, position = in_unit(s, side, c)
    log_evidence, slope = _mixed(s.n, total, position, s)
    slope = slope / s.width
    return log_evidence, -slope if side == BELOW else slope


@kernel
def _ratio_ceiling(n: int, total: float, c: float) -> float:
    """The least regret is log(pi n / 2) / 2."""
    if n == 0:
        return 0.0
    mean = total / n
    gained = n * divergence_ceiling(mean, max(c, _LEAST)) if mean > c else 0.0
    return gained - 0.5 * (math.log(n) + _LOG_HALF_PI)


@kernel
def ceiling(s: Stream, side: int, c: float) -> float:
    total, position = in_unit(s, side, c)
    bets = rate_ceiling(s.n, total, position, s.numbers, s.metric)
    return add_logs(_LOG_BETS + bets, _LOG_RATIO + _ratio_ceiling(s.n, total, position))


@large
@kernel
def product(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
    bets, fall, rise = product_of_bets(high, low, c, d)
    total_above, above = in_unit(high, ABOVE, c)
    total_below, below = in_unit(low, BELOW, d)
    one, fall_of_ratio = log_ratio(high.n, total_above, above)
    other, rise_of_ratio = log_ratio(low.n, total_below, below)
    ratio = _LOG_RATIO + one + other
    mixed = add_logs(_LOG_BETS + bets, ratio)
    share = math.exp(ratio - mixed)
    rest = 1.0 - share
    return mixed, rest * fall + share * fall_of_ratio / high.width, rest * rise - share * rise_of_ratio / low.width


@kernel
def product_ceiling(high: Stream, low: Stream, c: float, d: float) -> float:
    total_above, above = in_unit(high, ABOVE, c)
    total_below, below = in_unit(low, BELOW, d)
    ratio = _ratio_ceiling(high.n, total_above, above) + _ratio_ceiling(low.n, total_below, below)
    return add_logs(_LOG_BETS + ceiling_of_bets(high, low, c, d), _LOG_RATIO + ratio)


@value
class TrackedRates(Bernoulli):
    """Observations are 0 or 1; the evidence is asymptotically that of a known alternative."""

    name = "tracked-rates"
    kernels = Bernoulli.kernels._replace(
        evidence=evidence,
        evidence_and_slope=evidence_and_slope,
        ceiling=ceiling,
        product=product,
        product_ceiling=product_ceiling,
    )
