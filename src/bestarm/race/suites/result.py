"""What a gate on a suite of benchmarks came to."""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from typing import Literal

Verdict = Literal["certified", "refuted", "undecided", "absent", "new"]
Found = Literal["certified", "refuted", "undecided", "void"]


@dataclasses.dataclass(frozen=True)
class Standing:
    """Where one benchmark stands. It is "absent" if only the baseline has it, and "new" if only the candidate has."""

    name: str
    verdict: Verdict
    limit: float = math.nan
    """It may take that many times what the baseline takes."""
    old: tuple[float, ...] = ()
    new: tuple[float, ...] = ()
    """Seconds that the baseline and the candidate took, by pair."""
    low: float = math.nan
    high: float = math.nan
    """Between what the ratio of new to old lies; NaN where nothing is certain of it."""
    withheld: str = ""
    """Why it has no verdict, though the differences would decide."""
    paused: tuple[int, int] = (0, 0)
    """The runs of the baseline and of the candidate that paused."""
    pauses_rarer_than: int | None = None
    """N if its verdict holds except for pauses that are rarer than 1 in N; None without a verdict, and if the program
    that it favors was seen to pause, no oftener than the other."""

    @property
    def ratio(self) -> float:
        """The mean of new divided by that of old; NaN without a pair."""
        return statistics.fmean(self.new) / statistics.fmean(self.old) if self.old else math.nan


@dataclasses.dataclass(frozen=True)
class SuiteGate:
    """What a gate on a suite came to.

    `found` is "certified" if every benchmark that both programs have is within its limit, "refuted" if one is not,
    "undecided" if the budget did not tell, and "void" if the runs contradict what the guarantee rests on.
    """

    found: Found
    decided: Found
    """What `found` would be if the runs did not contradict the assumptions."""
    benchmarks: tuple[Standing, ...]
    pairs: int
    delta: float
    seed: int
    """The seed of the random order of runs. State it to repeat that order."""
    void_because: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    is_interrupted: bool = False

    def of(self, *verdicts: Verdict) -> list[Standing]:
        """The benchmarks with one of these verdicts."""
        return [one for one in self.benchmarks if one.verdict in verdicts]

    @property
    def compared(self) -> list[Standing]:
        """The benchmarks that both programs have."""
        return self.of("certified", "refuted", "undecided")

    @property
    def pauses_seen(self) -> list[Standing]:
        """Benchmarks with a verdict although the program that it favors paused, no oftener than the other."""
        return [one for one in self.of("certified", "refuted") if one.pauses_rarer_than is None]

    @property
    def geometric_mean(self) -> tuple[float, float, float]:
        """That of the ratios, and those of the lower and of the upper ends of their intervals."""
        ends = zip(*((one.ratio, one.low, one.high) for one in self.compared), strict=True)
        ratio, low, high = (_geometric_mean(column) for column in ends)
        return ratio, low, high


def _geometric_mean(values: Sequence[float]) -> float:
    """That of numbers that are not negative; NaN if one of them is NaN, and 0 if one of them is 0."""
    return math.exp(statistics.fmean(math.log(value) if value != 0.0 else -math.inf for value in values))
