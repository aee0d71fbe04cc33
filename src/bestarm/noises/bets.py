"""Bets: the evidence about observations in [0, 1] is made from them.

Against "the mean is at most c": a stake f > 0 turns an observation x into the factor (1 + f x) / (1 + f c). If the mean
m is at most c, the factor's mean (1 + f m) / (1 + f c) is at most 1. So with weights w_k that add up to 1,

    E = sum over k of w_k exp(L_k - n log(1 + f_k c)),   L_k = sum over the observations of log(1 + f_k x),

is a test supermartingale. L_k does not depend on c, and E is log-convex in c. The stream that scatters less gains more,
if two streams have the same mean: E[log(1 + f X)] grows as the variance falls. For observations that are 0 or 1, the
stake f = e^t - 1 is the exponential tilt by t, and L_k is t_k times their sum.

To compare two streams, bets on both are multiplied. Where both are measured about equally often, the best tilts of the
two are about the same. So instead of the product of two mixtures there is one mixture of the products, in which pairs
of tilts that are alike have most of the weight: of not knowing the tilts, only about half has to be paid for.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bestarm.kernel.compile import kernel, large
from bestarm.noises.streams import ABOVE, BELOW, Stream

BETS = 22
RATIO = 1.5
TILT = tuple(0.05 * RATIO ** (k - 8) for k in range(BETS))
"""From 0.002 to 10, each half as large again as the one before."""
STAKE = tuple(math.expm1(tilt) for tilt in TILT)

BET_ROUNDING = 2e-14
"""Per observation: a bet's gain is a difference of numbers up to 10 n, each rounded to about 1e-16 of itself."""

LEAST_VARIANCE = 0.01
"""Planning assumes that rates have at least this variance."""

USUAL_GAP = 0.12
"""In standard deviations of a result: means are often about this far from what they are compared with."""
USUAL_PAIR = 0.25
"""The tilt that goes with the difference of two means."""
_FALL = 2.75
_RAREST = 0.01


def _shares(usual: float) -> list[float]:
    """Weights of the tilts that add up to 1. Up to the usual tilt their density is about even, and then it falls."""
    weights = [tilt / (1.0 + (tilt / usual) ** _FALL) for tilt in TILT]
    return [weight / sum(weights) for weight in weights]


def log_weights(position: float | None) -> tuple[float, ...]:
    """The logs of the weights of one stream's bets.

    The best tilt for a mean z standard deviations from the threshold at `position` in [0, 1] is z divided by the
    standard deviation there, so tilts for rare events are large. Without a threshold, it is as in the middle.
    """
    c = 0.5 if position is None else min(max(position, _RAREST), 1.0 - _RAREST)
    return tuple(math.log(share) for share in _shares(USUAL_GAP / math.sqrt(c * (1.0 - c))))


_FINE = 8
_EVEN_SHARES = [0.1 / _FINE if k < _FINE else 0.9 / (BETS - _FINE) for k in range(BETS)]
EVEN_LOG_WEIGHTS = tuple(math.log(share) for share in _EVEN_SHARES)
"""The logs of the weights of bets on values that may scatter less than rates do: which tilts are usual is not known
then. The finest, for gaps that take millions of tests, share a tenth."""

LIKENESS = 0.45
"""In a pair, how much less weight a bet has for each step that its tilts are apart."""


POOLED_LIKENESS = 0.2
"""The same where both streams have as many results: see `bestarm.policies.certify.challengers`."""


def _all_pairs(shares: Sequence[float], likeness: float) -> float:
    pairs = [(k, j) for k in range(BETS) for j in range(BETS)]
    return sum(math.sqrt(shares[k] * shares[j]) * likeness ** abs(k - j) for k, j in pairs)


def _roots(shares: Sequence[float], likeness: float = LIKENESS) -> tuple[float, ...]:
    all_pairs = _all_pairs(shares, likeness)
    return tuple(math.sqrt(share / all_pairs) for share in shares)


PAIRED_SHARES = tuple(_shares(USUAL_PAIR))
PAIRS = _all_pairs(PAIRED_SHARES, LIKENESS)
"""ROOT_WEIGHT[k]² is PAIRED_SHARES[k] / PAIRS."""
ROOT_WEIGHT = _roots(PAIRED_SHARES)
"""The bets k and j on two streams have the weight ROOT_WEIGHT[k] ROOT_WEIGHT[j] LIKENESS^|k - j|: together 1."""
POOLED_ROOT_WEIGHT = _roots(PAIRED_SHARES, POOLED_LIKENESS)
EVEN_ROOT_WEIGHT = _roots(_EVEN_SHARES)


@kernel
def inside(position: float) -> float:
    """`position` moved into [0, 1]: no mean lies outside its range."""
    return min(max(position, 0.0), 1.0)


@kernel
def position_of(s: Stream, side: int, c: float) -> float:
    """c as a place in [0, 1], of the mirror image on the side `BELOW`."""
    position = inside((c - s.low) / s.width)
    return 1.0 - position if side == BELOW else position


BestBet = Callable[[Stream, int, float], float]
PairedBets = Callable[[Stream, Stream, float, float], tuple[float, float, float]]


def bets_with(
    gain: Callable[[Stream, int, int], float], root_weight: Callable[[int], float], likeness: float = LIKENESS
) -> tuple[BestBet, PairedBets]:
    """The kernels `best_bet` and `paired_bets` of a noise. `gain(s, side, k)` is L_k of a stream, on the side `BELOW`
    of its mirror image; `root_weight(k)` is as in `ROOT_WEIGHT`."""

    @kernel
    def log_bet(s: Stream, side: int, position: float, k: int) -> float:
        """The logarithm of what one bet has become."""
        return gain(s, side, k) - s.n * math.log(1.0 + position * STAKE[k])

    @large
    @kernel
    def best_bet(s: Stream, side: int, position: float) -> float:
        """The logarithm of what the best bet has become.

        A bet gains the sum of log(1 + r (x - c)) with r = f / (1 + f c). That is concave in r, and r grows with f, so
        the gains rise along the bets up to the best one and then fall.
        """
        left = 0
        right = BETS - 1
        while left < right:
            middle = (left + right) // 2
            if log_bet(s, side, position, middle) < log_bet(s, side, position, middle + 1):
                left = middle + 1
            else:
                right = middle
        return log_bet(s, side, position, left)

    @large
    @kernel
    def paired_bets(high: Stream, low: Stream, c: float, d: float) -> tuple[float, float, float]:
        """The log-evidence that the mean of `high` lies above c and that of `low` below d, and its derivatives in both.

        The sum over all pairs of bets takes one pass: what bets before the k-th contribute falls by `likeness` with
        each step.
        """
        above, below = position_of(high, ABOVE, c), position_of(low, BELOW, d)
        most_above, most_below = best_bet(high, ABOVE, above), best_bet(low, BELOW, below)
        weight = 0.0
        fall = 0.0
        rise = 0.0
        before_above = 0.0
        before_below = 0.0
        fall_before = 0.0
        rise_before = 0.0
        for k in range(BETS):
            x = root_weight(k) * math.exp(log_bet(high, ABOVE, above, k) - most_above)
            y = root_weight(k) * math.exp(log_bet(low, BELOW, below, k) - most_below)
            x_fall = x * STAKE[k] / (1.0 + above * STAKE[k])
            y_rise = y * STAKE[k] / (1.0 + below * STAKE[k])
            before_above *= likeness
            before_below *= likeness
            fall_before *= likeness
            rise_before *= likeness
            weight += x * (y + before_below) + y * before_above
            fall += x_fall * (y + before_below) + y * fall_before
            rise += y_rise * (x + before_above) + x * rise_before
            before_above += x
            before_below += y
            fall_before += x_fall
            rise_before += y_rise
        found = most_above + most_below + math.log(weight)
        return found, -high.n * (fall / weight) / high.width, low.n * (rise / weight) / low.width

    return best_bet, paired_bets
