"""A tournament tree: the best of many keys, kept up to date in O(log K).

Each node holds the index of the best key among its `WIDTH` children, so the root is the best of all.
The lowest index wins ties, as in a scan. A contestant with a key of minus infinity is out of the contest.
With few keys the tree is one node, and an update is one short scan.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from bestarm.kernel.compile import kernel
from bestarm.kernel.state import signed

BITS = 3
WIDTH = 1 << BITS
NO_ARM = -1


LAST = -1e308
"""The key of a contestant that stays in although there is nothing to rank it by."""


class Tournament(NamedTuple):
    """`keys[k]` of each contestant and, level after level, the `winners` of each group."""

    keys: npt.NDArray[np.float64]
    winners: npt.NDArray[np.uint32]


def new_tournament(size: int) -> Tournament:
    """A tournament of `size` without entries."""
    winners = []
    width, level = WIDTH, -(-size // WIDTH)
    while True:
        winners.append(np.arange(level, dtype=np.uint32) * width)
        if level == 1:
            return Tournament(np.full(size, -math.inf), np.concatenate(winners))
        width, level = width * WIDTH, -(-level // WIDTH)


@kernel
def key_of(mean: float) -> float:
    """The key of a contestant with this mean. NaN or infinity must neither take it out nor let it lead."""
    return mean if -math.inf < mean < math.inf else LAST


# Written so that a compiler that knows `size` can scan a group in a loop of known length.
@kernel
def own_group(size: int, k: int) -> int:
    """The group in which contestant `k` of `size` is."""
    return k >> BITS if size > WIDTH else 0


@kernel
def group_end(size: int, first: int) -> int:
    """Where the group that starts at `first` ends."""
    return min(first + WIDTH, size) if size % WIDTH else first + WIDTH


@kernel
def enter(tournament: Tournament, k: int, key: float) -> None:
    """Give contestant `k` the key `key`; minus infinity takes it out."""
    keys, winners = tournament
    keys[k] = key
    size = keys.shape[0]
    group = own_group(size, k)
    first = group << BITS
    winner = first
    top = keys[first]
    for i in range(first + 1, group_end(size, first)):
        rival = keys[i]
        if rival > top:
            winner = i
            top = rival
    settled = winner != k and winners[group] == winner
    winners[group] = winner
    start = 0
    size = (size + WIDTH - 1) >> BITS
    # Nothing changes further up once a node keeps its winner and that winner's key has not changed.
    while size > 1 and not settled:
        group >>= BITS
        first = start + (group << BITS)
        winner = signed(winners[first])
        top = keys[winner]
        for node in range(first + 1, min(first + WIDTH, start + size)):
            rival = keys[winners[node]]
            if rival > top:
                winner = signed(winners[node])
                top = rival
        start += size
        settled = winner != k and winners[start + group] == winner
        winners[start + group] = winner
        size = (size + WIDTH - 1) >> BITS


@kernel
def best(tournament: Tournament) -> int:
    """The contestant with the largest key, or `NO_ARM`."""
    keys, winners = tournament
    winner = signed(winners[winners.shape[0] - 1])
    if keys[winner] == -math.inf:
        return NO_ARM
    return winner


@kernel
def best_except(tournament: Tournament, k: int) -> int:
    """The contestant with the largest key apart from `k`, or `NO_ARM`."""
    keys, winners = tournament
    size = keys.shape[0]
    own = own_group(size, k)
    first = own << BITS
    winner = NO_ARM
    key = -math.inf
    for i in range(first, group_end(size, first)):
        if i != k and keys[i] > key:
            winner = i
            key = keys[i]
    start = 0
    size = (size + WIDTH - 1) >> BITS
    while size > 1:
        first = (own >> BITS) << BITS
        last = min(first + WIDTH, size)
        for node in range(first, last):
            if node != own:
                rival = signed(winners[start + node])
                # On equal keys the lower index wins, wherever in the tree it was found.
                if keys[rival] > key or (keys[rival] == key and rival < winner):
                    winner = rival
                    key = keys[rival]
        start += size
        own >>= BITS
        size = (size + WIDTH - 1) >> BITS
    return winner
