"""The mean over a finite set of values in a range, each of which a judge has scored before the first was measured.

With label y and score j of an item, both scaled to [0, 1], and a share λ of the judge that is believed,

    z = (y + λ (1 - j)) / (1 + λ)

lies in [0, 1]. The mean of all scores is known, so c, as the mean of the labels, says what the mean of z would be. So
the evidence is that of `bestarm.noises.sets.bounded` about the set of all z, for each λ. Where the judge agrees with
the labels, z scatters less than y, whatever the judge's bias. Which λ is best is not known: their evidence is mixed.
A judge that is worth nothing costs log(1 / 0.4), once.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel, large
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.bets import BET_ROUNDING, BETS, STAKE, inside, position_of
from bestarm.noises.bounded import PRIOR_TESTS, prior_variance
from bestarm.noises.sets.bounded import GONE, BoundedSet, kernels_of_set
from bestarm.noises.sets.bounded import keep as keep_labels
from bestarm.noises.sets.settled import ITEMS, is_settled
from bestarm.noises.streams import ABOVE, BELOW, TUNING, Stream, stream_of
from bestarm.validation import value

SHARES = (0.0, 0.5, 0.9, 1.0)
"""The shares λ. With the first, the judge is not believed at all: these bets are those on labels alone."""
WEIGHTS = (0.4, 0.2, 0.2, 0.2)
_LOG_WEIGHTS = tuple(math.log(weight) for weight in WEIGHTS)

_SCORE = BoundedSet.kept
"""What a stream keeps besides what it keeps of its labels: the judge's score of the next item and the mean of all
scores; the sum of the scores so far, and the sum of those sums, each divided by how many items were left; the sums of
squared deviations of labels, of scores, and of their products; and the bets for each share but the first."""
_ALL, _JUDGED, _SUM, _LABELS, _SCORES, _BOTH, _FIRST = range(_SCORE + 1, _SCORE + 8)


@kernel
def _bets_from(share: int, side: int) -> int:
    """Where the bets of a share begin."""
    if share == 0:
        return BETS if side == BELOW else 0
    return _FIRST + (2 * share - (1 if side == BELOW else 2)) * BETS


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    kept = streams.kept
    low, width = setting.low[metric], setting.width[metric]
    n = streams.counts[arm, metric]
    given = kept[arm, metric, _SCORE]
    left = setting.numbers[metric, ITEMS] - n
    if left > 0.0:
        kept[arm, metric, _SUM] += (kept[arm, metric, _JUDGED] - n * low) / width / left
    if n > 0:
        label_away = value - streams.sums[arm, metric] / n
        score_away = given - kept[arm, metric, _JUDGED] / n
        kept[arm, metric, _LABELS] += label_away * label_away * n / (n + 1.0)
        kept[arm, metric, _SCORES] += score_away * score_away * n / (n + 1.0)
        kept[arm, metric, _BOTH] += label_away * score_away * n / (n + 1.0)
    kept[arm, metric, _JUDGED] += given
    label, score = inside((value - low) / width), inside((given - low) / width)
    for share in range(1, len(SHARES)):
        z = inside((label + SHARES[share] * (1.0 - score)) / (1.0 + SHARES[share]))
        above, below = _bets_from(share, ABOVE), _bets_from(share, BELOW)
        for k in range(BETS):
            kept[arm, metric, above + k] += math.log(1.0 + STAKE[k] * z)
            kept[arm, metric, below + k] += math.log(1.0 + STAKE[k] * (1.0 - z))
    keep_labels(setting, streams, arm, metric, value)


@kernel
def expect(streams: Streams, arm: int, metric: int, score: float, mean: float) -> None:
    """Note the judge's score of the next item, and the mean of its scores of all items."""
    streams.kept[arm, metric, _SCORE] = score
    streams.kept[arm, metric, _ALL] = mean


# ----------------------------------------------------------------------------------------------------------- evidence


@kernel
def _score_of_next(s: Stream) -> float:
    """The mean over all t of the mean score of the items that were left at t, as a place in [0, 1]."""
    mean = (s.kept[s.arm, s.metric, _ALL] - s.low) / s.width
    away = mean * s.kept[s.arm, s.metric, GONE] - s.kept[s.arm, s.metric, _SUM]
    return inside(mean + away / s.n)


@kernel
def _position(s: Stream, side: int, place: float, score: float, share: int) -> float:
    """Where the mean of z lies for one share, from that of labels, both on the side's own scale."""
    rest = score if side == BELOW else 1.0 - score
    return (place + SHARES[share] * rest) / (1.0 + SHARES[share])


@large
@kernel
def _evidence_and_slope(s: Stream, side: int, c: float) -> tuple[float, float]:
    place, score = position_of(s, side, c), _score_of_next(s)
    largest = -math.inf
    weight = 0.0
    slope = 0.0
    for share in range(len(SHARES)):
        first = _bets_from(share, side)
        position = _position(s, side, place, score, share)
        for k in range(BETS):
            growth = 1.0 + position * STAKE[k]
            prior = _LOG_WEIGHTS[share] + s.numbers[s.metric, TUNING + k]
            term = prior + s.kept[s.arm, s.metric, first + k] - s.n * math.log(growth)
            if term > largest:
                shrink = math.exp(largest - term)
                largest = term
                weight *= shrink
                slope *= shrink
            part = math.exp(term - largest)
            weight += part
            slope += part * STAKE[k] / (growth * (1.0 + SHARES[share]))
    return largest + math.log(weight), -side * s.n * (slope / weight) / s.width


@kernel
def _ceiling(s: Stream, side: int, c: float) -> float:
    """The gain of the best bet: a weighted mean is at most its largest term. Along the bets of a share, the gains rise
    up to the best one and then fall."""
    place, score = position_of(s, side, c), _score_of_next(s)
    most = 0.0
    for share in range(len(SHARES)):
        first = _bets_from(share, side)
        position = _position(s, side, place, score, share)
        left = 0
        right = BETS - 1
        while left < right:
            middle = (left + right) // 2
            here = s.kept[s.arm, s.metric, first + middle] - s.n * math.log(1.0 + position * STAKE[middle])
            after = s.kept[s.arm, s.metric, first + middle + 1] - s.n * math.log(1.0 + position * STAKE[middle + 1])
            if here < after:
                left = middle + 1
            else:
                right = middle
        gained = s.kept[s.arm, s.metric, first + left] - s.n * math.log(1.0 + position * STAKE[left])
        most = max(most, gained)
    return most + BET_ROUNDING * s.n


# ---------------------------------------------------------------------------- estimates, on which no certificate rests


@kernel
def _believed(s: Stream) -> float:
    """How much of a deviation of the scores is taken for one of the labels: their regression, between 0 and 1. A few
    items do not say it."""
    unknown = s.width * s.width
    return inside(s.kept[s.arm, s.metric, _BOTH] / (s.kept[s.arm, s.metric, _SCORES] + unknown))


@kernel
def estimate(s: Stream) -> float:
    """The mean of all labels, by those so far and the judge's scores of all items."""
    mean = s.total / s.n
    if is_settled(s):
        return mean
    ahead = s.kept[s.arm, s.metric, _JUDGED] / s.n - s.kept[s.arm, s.metric, _ALL]
    adjusted: float = mean - _believed(s) * ahead
    return min(max(adjusted, s.low), s.high)


@kernel
def unexplained(s: Stream) -> float:
    """The sum of the squared deviations of the labels from what the scores say of them."""
    share = _believed(s)
    kept: float = s.kept[s.arm, s.metric, _LABELS]
    kept += share * (share * s.kept[s.arm, s.metric, _SCORES] - 2.0 * s.kept[s.arm, s.metric, _BOTH])
    return max(kept, 0.0)


@kernel
def scatter(setting: Setting, streams: Streams, arm: int, metric: int, mean: float) -> float:
    squares = unexplained(stream_of(setting, streams, arm, metric))
    prior = prior_variance(setting, metric, mean)
    spread: float = math.sqrt((squares + PRIOR_TESTS * prior) / (streams.counts[arm, metric] + PRIOR_TESTS))
    return spread


@kernel
def _guess(s: Stream, side: int, level: float) -> float:
    """Where the interval would end for normal labels that scatter around the scores as these do."""
    spread = math.sqrt(unexplained(s) / s.n) + s.width / s.n
    end = s.total / s.n - side * spread * math.sqrt(2.0 * max(level, 1.0) / s.n)
    return min(max(end, s.low), s.high)


@value
class JudgedSet(BoundedSet):
    """The mean over a set of `items` values between `low` and `high`, each measured once, with scores of a judge."""

    name = "judged-set"
    kernels = kernels_of_set(_evidence_and_slope, _ceiling, _guess, scatter=scatter, keep=keep)
    kept = _FIRST + 2 * (len(SHARES) - 1) * BETS
