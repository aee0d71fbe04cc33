"""The mean over a finite set of normal values, measured in a random order; nothing is known of how much they scatter.

If the mean of the M values is c and the first t - 1 add up to S, the next is normal around

    c_t = (M c - S) / (M - t + 1).

So z = w (x - c_t) is symmetric, whatever the weight w that is known before x, and all of
`bestarm.noises.self_normalized` holds for it. With y = x + S / (M - t + 1) and h = M / (M - t + 1) it is w y - w h c;
a stream keeps the same sums, with w y for w x and w h for w. And x > c_t if c < y / h: these numbers take the place of
the values in the bets on signs.
"""

from __future__ import annotations

import math

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import Setting, Streams
from bestarm.noises.base import ENDLESS, NoiseModel
from bestarm.noises.exact import CERTAIN
from bestarm.noises.gaussian import gaussian_evidence
from bestarm.noises.kernels import NoiseKernels, radius_from
from bestarm.noises.self_normalized import (
    FIRST,
    KEPT,
    LEAST,
    LOG_FLAT,
    MOST,
    SKIPPED,
    SQUARES,
    TOTAL,
    WEIGHT,
    WW,
    WWX,
    WWXX,
    WX,
    add_flat,
    beyond,
    deviations_from,
    end_within,
    keep_scatter,
    squares_around,
)
from bestarm.noises.sets.settled import (
    ITEMS,
    OFFSET,
    SetNoise,
    is_certain,
    is_settled,
    keep_rounding,
    no_draw,
    no_pair,
    settled_mean,
)
from bestarm.noises.streams import BELOW, Law, Stream
from bestarm.noises.symmetric import scatter
from bestarm.validation import value

_CAUTIOUS = 10.0 / 9.0
"""What a bet on a sign gains. For what is symmetric it could be 2. But differences between two arms on an item are
often exactly 0, and where a few are not, and all on one side, such bets would be lost too seldom."""

_LOG_ODDS = OFFSET + 1
"""Where the numbers of a law have the logarithm of that."""

_ROUNDED, _NOTED = KEPT, KEPT + 1
"""Where a stream keeps what its sum has rounded, and how many values were only noted."""
_PRECISION = 1e-7

_LAST = 3.0
"""Late items tell more, in proportion to h, and get more weight; but not the last ones, which would outweigh others:
with k items left, the weight is at most the square root of k / 3. This needs the fewest tests of all variants tried."""


@kernel
def _from_first(streams: Streams, arm: int, metric: int, value: float) -> float:
    """A value that comes next, relative to the stream's first one."""
    keep_rounding(streams, arm, metric, _ROUNDED, value)
    if streams.counts[arm, metric] == 0:
        streams.kept[arm, metric, FIRST] = value
    x: float = value - streams.kept[arm, metric, FIRST]
    return x


@kernel
def note(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    x = _from_first(streams, arm, metric, value)
    streams.kept[arm, metric, _NOTED] += 1.0
    keep_scatter(streams.kept, arm, metric, streams.counts[arm, metric], x)


@kernel
def keep(setting: Setting, streams: Streams, arm: int, metric: int, value: float) -> None:
    items = setting.numbers[metric, ITEMS]
    n = streams.counts[arm, metric]
    kept = streams.kept
    x = _from_first(streams, arm, metric, value)
    left = items - n
    # The last item tells nothing that would not be known after it, when the set is settled.
    if left > 1.0:
        y = x + kept[arm, metric, TOTAL] / left
        h = items / left
        squares = kept[arm, metric, SQUARES]
        if n >= SKIPPED and squares > 0.0:
            w = min(h, math.sqrt(left / _LAST)) * math.sqrt((n - 1.0) / (squares * (1.0 + 2.0 / n)))
            kept[arm, metric, WEIGHT] += w * h
            kept[arm, metric, WX] += w * y
            kept[arm, metric, WW] += w * h * w * h
            kept[arm, metric, WWX] += w * h * w * y
            kept[arm, metric, WWXX] += w * y * w * y
        is_first = n == kept[arm, metric, _NOTED]
        kept[arm, metric, LEAST] = y / h if is_first else min(kept[arm, metric, LEAST], y / h)
        kept[arm, metric, MOST] = y / h if is_first else max(kept[arm, metric, MOST], y / h)
    keep_scatter(kept, arm, metric, n, x)


@kernel
def _bets(s: Stream) -> int:
    """How many of the values are evidence."""
    return s.n - int(s.kept[s.arm, s.metric, _NOTED])


@kernel
def evidence(s: Stream, side: int, c: float) -> float:
    if is_settled(s):
        return CERTAIN if is_certain(s, side, c, s.total, s.kept[s.arm, s.metric, _ROUNDED]) else -CERTAIN
    x = c - s.kept[s.arm, s.metric, FIRST]
    log_sn = gaussian_evidence(squares_around(s, x), deviations_from(s, side, x))
    log_rest = LOG_FLAT
    if side * (beyond(s, side) - x) > 0.0:
        log_won = _bets(s) * s.numbers[s.metric, _LOG_ODDS]
        log_rest += log_won + math.log1p(math.exp(-log_won))
    return add_flat(log_sn, log_rest)


@kernel
def end(s: Stream, side: int, level: float) -> float:
    return settled_mean(s, side) if s.n > 0 and is_settled(s) else end_within(s, _bets(s), side, level, _PRECISION)


@value
class SymmetricSet(SetNoise):
    """The mean over a set of `items` normal values, each measured once; how much they scatter is learned."""

    name = "symmetric-set"
    kernels = NoiseKernels(
        *(evidence, None, scatter, no_draw), keep=keep, pair=no_pair, end=end, radius=radius_from(end), note=note
    )
    kept = KEPT + 2
    is_quadratic = False
    is_family = False
    is_symmetric = True
    learns_scatter = True
    needs_spread = True

    items: int
    ties: int = BELOW
    odds: float = _CAUTIOUS

    def law(self, sign: float, reference: float) -> Law:
        law = super().law(sign, reference)
        return law._replace(numbers=(*law.numbers, math.log(self.odds)))

    def on_one_item(self, odds: float) -> NoiseModel:
        return SymmetricSet(self.items, self.ties, odds)

    def of_set(self, items: int, *, ties: int = BELOW) -> NoiseModel:
        return SymmetricSet(items, ties)

    def sentence(self) -> str:
        if self.items == ENDLESS:
            return "scatters as far up as down around its mean on the items, by an unknown amount"
        return f"the values of the {self.items:,} items scatter like normal ones, by an unknown amount"
