"""Pauses: runs of a command that take far longer than its first runs did, and what a verdict says of them.

Two commands are compared by the difference of their runs, which is taken to scatter as far up as down. That cannot be
known of what has not been seen: if a command pauses for long in 1 of 100 runs, its first 20 runs mostly look as if it
never did. So a verdict by symmetry is about runs without a pause, and a second statement bounds how rare pauses are.
`docs/certify.md` has the proofs ("Pauses in a race").
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set

from bestarm.race.limits import METRICS, Limit
from bestarm.race.runs import Run

Cutoffs = Mapping[str, Mapping[str, float]]
"""The cutoff of each command and metric. A run above it pauses."""

_SIZES = {"memory", "output"}
_CUTOFF = 1.25
_CUTOFF_OF_SIZES = 1.1
"""How many times its first run a run must exceed to be a pause; less for sizes, which hardly vary."""
_ROOMS = 5.0
"""Where a limit is relative to the baseline, a pause exceeds the first run by no more than this many times the room
that the limit leaves. Then something slower that is no pause breaks the limit only if it occurs in more than one run of
five, and 12 runs miss that with a probability of 0.8^12 = 7% at most."""
_LONG = 1.5
"""A pause of more than this many times its cutoff is long."""
_LEAST = 1e-3
"""The smallest cutoff: a first run may have used too little processor time to measure."""


def cutoffs_of(
    first: Mapping[str, Sequence[Run]], watched: Set[str], limits: Sequence[Limit] = ()
) -> dict[str, dict[str, float]]:
    """What a pause is of each command: a quarter more than the least of its first runs (a tenth for sizes), or than
    that of its closest rival if that is more. What a quick command takes longer matters only where others are as quick.

    The least counts, because the very first run may have found caches cold. A lower cutoff is always the safe side.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in first} if watched else {}
    for metric in sorted(watched):
        factors = [1.0 + _ROOMS * abs(limit.value - 1.0) for limit in limits if limit.is_relative]
        factor = min([_CUTOFF_OF_SIZES if metric in _SIZES else _CUTOFF, *(one for one in factors if one > 1.0)])
        least = {name: min(run.value(metric) for run in runs) for name, runs in first.items()}
        for name, own in least.items():
            closest = min((other for rival, other in least.items() if rival != name), default=own)
            found[name][metric] = max(factor * max(own, closest), _LEAST)
    return found


def is_pause(run: Run, cutoffs: Mapping[str, float]) -> bool:
    return run.timed_out or any(run.value(metric) > cutoff for metric, cutoff in cutoffs.items())


def rarer_than(runs: int, alpha: float) -> int:
    """N such that pauses are rarer than 1 in N, after this number of runs without a pause.

    Whatever share of runs pause, the probability that this claim is ever false, at any number of runs, is at most
    alpha.

    >>> rarer_than(22, 0.0125), rarer_than(1000, 0.0125), rarer_than(3, 0.0125)
    (5, 228, 1)
    """
    # (1 - 1/N) ** runs <= alpha
    return math.floor(-1.0 / math.expm1(math.log(alpha) / runs) + 1e-9) if runs else 0


@dataclasses.dataclass(frozen=True)
class Pauses:
    """The pauses of one command."""

    runs: int
    count: int
    longest: str
    """The largest value of those that paused, in words."""
    times_cutoff: float = 0.0
    """How many times its cutoff that is."""

    @property
    def words(self) -> str:
        return f"{self.count:,} of {self.runs:,} runs"

    def can_scatter_like(self, other: Pauses) -> bool:
        """Whether pauses may be taken to strike this command no more often than another: there are no more of them than
        chance allows, two standard deviations, and none is long if the other never paused."""
        if not other.runs or (self.times_cutoff > _LONG and not other.count):
            return not self.count
        times = self.runs / other.runs
        return self.count - times * other.count <= 2.0 * math.sqrt(self.count + times * times * other.count)


def pauses_of(runs: Sequence[Run], cutoffs: Mapping[str, float]) -> Pauses:
    paused = [run for run in runs if is_pause(run, cutoffs)]
    # Which metric stands out most?
    times, worst = max(
        ((max(run.value(metric) for run in paused) / cutoff, metric) for metric, cutoff in cutoffs.items() if paused),
        default=(0.0, "time"),
    )
    longest = METRICS[worst].words(max((run.value(worst) for run in paused), default=0.0))
    return Pauses(len(runs), len(paused), longest, times)


def pooled(several: Sequence[Pauses]) -> Pauses:
    """The pauses of several commands together."""
    return Pauses(sum(one.runs for one in several), sum(one.count for one in several), "")


def noun_for_pauses(watched: Set[str]) -> str:
    """What pauses are called, where they may be those of memory or output."""
    if not watched & _SIZES:
        return "pauses"
    return "spikes" if watched <= _SIZES else "pauses or spikes"
