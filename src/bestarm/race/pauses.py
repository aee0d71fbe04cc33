"""Pauses: runs of a command that take far longer than its first runs did, and what a verdict says of them.

Two commands are compared by the difference of their runs, which is taken to scatter as far up as down. That cannot be
known of what has not been seen: if a command pauses for long in 1 of 100 runs, its first 20 runs mostly look as if it
never did. So a verdict by symmetry is about runs without a pause, and a second statement bounds how rare pauses are.
`docs/certificates/races.md` has the proofs: Propositions R.1 and R.2, and Theorem R.3.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence, Set

from bestarm.race.limits import METRICS, Limit, Metrics
from bestarm.race.runs import Run
from bestarm.study.work.failures import NotStarted

Cutoffs = Mapping[str, Mapping[str, float]]
"""The cutoff of each command, on each machine if they are named, and metric. A run above it pauses."""


def command_on(command: str, machine: str) -> str:
    """A command on a machine.

    >>> command_on("gzip f", "north"), command_on("gzip f", "")
    ('gzip f on north', 'gzip f')
    """
    return f"{command} on {machine}" if machine else command


_SIZES = {"memory", "output"}
_TIMES = {"time", "user", "system"}
_DIP = "least "
"""Before a metric of which more is better: the cutoff below which a run pauses."""
_CUTOFF = 1.25
_CUTOFF_OF_SIZES = 1.1
"""How many times its first run a run must exceed to be a pause; less for sizes, which hardly vary."""
_ROOMS = 5.0
"""Where a limit is relative to the baseline, a pause exceeds the first run by no more than this many times the room
that the limit leaves. Then something slower that is no pause breaks the limit only if it occurs in more than one run of
five, and 12 runs miss that with a probability of 0.8^12 = 7% at most."""
_LONG = 1.5
"""A pause of more than this many times its cutoff is long."""
_LEAST_RUNS = 6
"""Fewer runs do not say what is usual."""
_LEAST = 1e-3
"""The smallest cutoff: a first run may have used too little processor time to measure."""


def cutoffs_of(
    first: Mapping[str, Sequence[Run]],
    watched: Set[str],
    limits: Sequence[Limit] = (),
    enlarged: Set[str] = frozenset(),
) -> dict[str, dict[str, float]]:
    """What a pause is of each command: a quarter more than the least of its first runs (a tenth for sizes), or than
    that of its closest rival if that is more. What a quick command takes longer matters only where others are as quick.

    The least counts, because the very first run may have found caches cold. A lower cutoff is always the safe side.

    For metrics of which more is better, which are `enlarged`, the most counts. A run pauses if it yields as many times
    less, or as many times more: no range keeps rare values from being so large that they change which mean is larger.
    """
    found: dict[str, dict[str, float]] = {name: {} for name in first} if watched else {}
    for metric in sorted(watched):
        best = max if metric in enlarged else min
        least = {name: best(_values(name, metric, runs)) for name, runs in first.items()}
        most = max([*least.values(), _LEAST])
        rooms = [abs(limit.value - 1.0) for limit in limits if limit.is_relative and not limit.margin]
        rooms += [abs(limit.margin) / most for limit in limits if limit.margin and limit.metric == metric]
        factors = [1.0 + _ROOMS * room for room in rooms]
        factor = min([_CUTOFF_OF_SIZES if metric in _SIZES else _CUTOFF, *(one for one in factors if one > 1.0)])
        for name, own in least.items():
            if metric in enlarged:
                rivals = [other for rival, other in least.items() if rival != name]
                found[name][metric] = max(factor * own, _LEAST)
                found[name][_DIP + metric] = min(own, max(rivals, default=own)) / factor
                continue
            closest = min((other for rival, other in least.items() if rival != name), default=own)
            found[name][metric] = max(factor * max(own, closest), _LEAST)
    return found


def _values(name: str, metric: str, runs: Sequence[Run]) -> list[float]:
    found = [value for run in runs if not math.isnan(value := run.value(metric))]
    if not found:
        raise NotStarted(f"the first runs of {name!r} failed, and none printed its {metric}: {runs[-1].how}")
    return found


def is_pause(run: Run, cutoffs: Mapping[str, float]) -> bool:
    """A run that failed without printing what is watched is one, too."""
    return run.timed_out or not all(excess(run, cutoff, limit) <= 1.0 for cutoff, limit in cutoffs.items())


def excess(run: Run, cutoff: str, limit: float) -> float:
    """How many times its cutoff a run is beyond it: more than 1 for a pause, NaN if it did not print the metric."""
    value = run.value(cutoff.removeprefix(_DIP))
    if not cutoff.startswith(_DIP):
        return value / limit
    return limit / value if value > 0.0 else 1.0 if value == limit else math.nan if math.isnan(value) else math.inf


def cutoff_words(cutoff: str) -> tuple[str, str]:
    """The metric that a cutoff is of, and which side of it is a pause."""
    return (cutoff.removeprefix(_DIP), "less") if cutoff.startswith(_DIP) else (cutoff, "more")


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

    @property
    def are_usual(self) -> bool:
        """Whether most runs are above the cutoff, of enough to tell. Then it is no pause to be there."""
        return 2 * self.count > self.runs >= _LEAST_RUNS

    def can_scatter_like(self, other: Pauses, deviations: float = 2.0) -> bool:
        """Whether pauses may be taken to strike this command no more often than another: there are no more of them than
        chance allows, two standard deviations, and none is long if the other never paused."""
        if not other.runs or (self.times_cutoff > _LONG and not other.count):
            return not self.count
        times = self.runs / other.runs
        return self.count - times * other.count <= deviations * math.sqrt(self.count + times * times * other.count)


def pauses_of(runs: Sequence[Run], cutoffs: Mapping[str, float], known: Metrics = METRICS) -> Pauses:
    paused = [run for run in runs if is_pause(run, cutoffs)]
    # Which run stands out most, and in which metric?
    found = [(excess(run, name, limit), name, run) for name, limit in cutoffs.items() for run in paused]
    times, worst, run = max(
        (one for one in found if not math.isnan(one[0])), key=lambda one: one[0], default=(0.0, "time", None)
    )
    metric, _ = cutoff_words(worst)
    return Pauses(len(runs), len(paused), known[metric].words(0.0 if run is None else run.value(metric)), times)


def pooled(several: Sequence[Pauses]) -> Pauses:
    """The pauses of several commands or machines together."""
    longest = max(several, key=lambda one: one.times_cutoff)
    counts = sum(one.runs for one in several), sum(one.count for one in several)
    return Pauses(*counts, longest.longest, longest.times_cutoff)


def beyond_cutoff(nouns: str) -> str:
    """What to call it where most runs are beyond the cutoff."""
    return f"beyond the cutoff for {nouns}"


def noun_for_pauses(watched: Set[str]) -> str:
    """What pauses are called, where they may be those of memory or output, or of a metric of the user's own."""
    nouns = [("pauses", watched & _TIMES), ("spikes", watched & _SIZES), ("outliers", watched - _TIMES - _SIZES)]
    return " or ".join(noun for noun, metrics in nouns if metrics) or "pauses"
