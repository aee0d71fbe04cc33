"""A gate on a suite of benchmarks: old and new programs run in pairs until each benchmark has its verdict."""

from __future__ import annotations

import dataclasses
import math
import random
import secrets
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

from bestarm.noises.self_normalized import fewest
from bestarm.race.limits import Limit
from bestarm.race.pauses import Pauses, cutoffs_of, rarer_than
from bestarm.race.runs import Run
from bestarm.race.suites.evidence import Evidence
from bestarm.race.suites.readers import Times
from bestarm.race.suites.result import Found, Standing, SuiteGate
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.texts import first_ten
from bestarm.validation import InvalidInput

BASELINE, CANDIDATE = "baseline", "candidate"

AT_MOST = 1.05
"""A benchmark may take that many times what it takes in the baseline, unless it is stated."""
FIRST_RUNS = 2
"""Runs of each program that do not count. They show what a pause is, and how long a run takes."""
_SHARE_OF_PAUSES = 0.05
"""The share of delta that what is said of pauses may use."""
_DEVIATIONS = 2.0
"""A benchmark may pause more often in one program than in the other by so many standard deviations. Where there are
several, by so many more that any of them exceeds it no more often by chance."""
_TIMES_SLOWEST, _LEAST_TIMEOUT = 10.0, 60.0
"""Without a stated timeout, a run may take that many times the slowest first run, and so many seconds at least: one
that takes longer ends the gate."""

Measure = Callable[[float], Times]
"""Runs a program once, for so many seconds at most. Returns what each benchmark took."""

First = Mapping[str, Sequence[Times]]
"""The runs of each program that do not count."""


class Comparison:
    """What is known of old and new. `enter` takes in a pair of runs, and `result` says what they came to.

    `limits` are those of single benchmarks, by name.
    """

    def __init__(
        self,
        first: First,
        *,
        at_most: float = AT_MOST,
        limits: Mapping[str, float] | None = None,
        delta: float = 0.05,
        seed: int = 0,
    ) -> None:
        self._delta, self._seed = delta, seed
        self._all = {program: [*runs[0]] for program, runs in first.items()}
        for program, runs in first.items():
            for run in runs:
                self._check(program, run)
        self._names = [name for name in self._all[BASELINE] if name in first[CANDIDATE][0]]
        if not self._names:
            reason = f"has no benchmark in common with the baseline, which has {first_ten(self._all[BASELINE])}"
            raise InvalidInput(CANDIDATE, first_ten(self._all[CANDIDATE]), reason)
        own = limits or {}
        if unknown := [name for name in own if name not in self._names]:
            reason = f"no such benchmark in both programs; there are {first_ten(self._names)}"
            raise InvalidInput("--at-most", unknown[0], reason)
        self._limits = [own.get(name, at_most) for name in self._names]
        scales = [min(run[name] for run in first[BASELINE]) for name in self._names]
        self._cutoffs = [
            _cutoffs(first, name, scale, limit)
            for name, scale, limit in zip(self._names, scales, self._limits, strict=True)
        ]
        half = _half(delta)
        self._evidence = Evidence(self._names, self._limits, scales, delta_of_names=half, delta_of_all=half, seed=seed)
        normal = statistics.NormalDist()
        self._deviations = -normal.inv_cdf(normal.cdf(-_DEVIATIONS) / len(self._names))

    def _check(self, program: str, run: Times) -> None:
        """What counts must not depend on how a run went."""
        known = set(self._all[program])
        for what, names in (("lacks", known - run.keys()), ("has, unlike the first,", run.keys() - known)):
            if names:
                reason = f"a run of the {program} {what} the benchmark {first_ten(sorted(names))}"
                raise MeasurementFailed(f"{reason}. Each run must yield the same benchmarks")

    @property
    def pairs(self) -> int:
        return self._evidence.pairs

    @property
    def compared(self) -> int:
        """How many benchmarks both programs have."""
        return len(self._names)

    @property
    def decided(self) -> int:
        """How many of them have a verdict."""
        return sum(one.verdict != "undecided" for one in self._standings())

    def enter(self, old: Times, new: Times) -> None:
        """Take in a run of each program."""
        self._check(BASELINE, old)
        self._check(CANDIDATE, new)
        self._evidence.enter([old[name] for name in self._names], [new[name] for name in self._names])

    def _standings(self) -> list[Standing]:
        """The verdicts on the benchmarks that both programs have."""
        if not self.pairs:
            return [Standing(name, "undecided", limit) for name, limit in zip(self._names, self._limits, strict=True)]
        pauses = self._pauses()
        rows = zip(self._names, self._limits, pauses, strict=True)
        # A benchmark is refuted by what the baseline took less, and certified by what the candidate took less.
        refuted = [_decided(name, "refuted", limit, old, new, self._deviations) for name, limit, (old, new) in rows]
        rows = zip(self._names, self._limits, pauses, strict=True)
        within = [_decided(name, "certified", limit, new, old, self._deviations) for name, limit, (old, new) in rows]
        is_out, is_in = self._evidence.refuted.tolist(), self._evidence.certified.tolist()
        if self._evidence.all_within and not any(one.withheld for one in within):
            is_in = [True for _ in self._names]
        return [
            refuted[place] if is_out[place] else within[place] if is_in[place] else Standing(name, "undecided", limit)
            for place, (name, limit) in enumerate(zip(self._names, self._limits, strict=True))
        ]

    def _pauses(self) -> list[tuple[Pauses, Pauses]]:
        """Those of each benchmark in the baseline and in the candidate."""
        found = []
        for place, cutoffs in enumerate(self._cutoffs):
            columns = self._evidence.old[:, place], self._evidence.new[:, place]
            of_old, of_new = (
                Pauses(self.pairs, int((column > cutoff).sum()), "", float(column.max() / cutoff))
                for column, cutoff in zip(columns, cutoffs, strict=True)
            )
            found.append((of_old, of_new))
        return found

    def result(self, *, is_interrupted: bool = False) -> SuiteGate:
        """What the gate has come to so far."""
        standings = self._standings()
        decided = _found([one.verdict for one in standings])
        alone = [Standing(name, "absent") for name in self._all[BASELINE] if name not in self._names]
        alone += [Standing(name, "new") for name in self._all[CANDIDATE] if name not in self._names]
        if not self.pairs:
            return SuiteGate(decided, decided, (*standings, *alone), 0, self._delta, self._seed)
        status = self._evidence.status()
        is_void = status.guarantee == "void"
        return SuiteGate(
            "void" if is_void else decided,
            decided,
            (*self._with_figures(standings, is_void=is_void), *alone),
            self.pairs,
            self._delta,
            self._seed,
            tuple(status.void_because),
            tuple(status.health.warnings),
            is_interrupted,
        )

    def _with_figures(self, standings: Sequence[Standing], *, is_void: bool) -> Iterator[Standing]:
        columns = zip(self._evidence.old.T.tolist(), self._evidence.new.T.tolist(), strict=True)
        rarest = rarer_than(self.pairs, _SHARE_OF_PAUSES * self._delta / len(self._names))
        favored = {"refuted": 0, "certified": 1}
        rows = zip(standings, columns, self._evidence.intervals(), self._pauses(), strict=True)
        for one, (old, new), (low, high), of_one in rows:
            paused = of_one[0].count, of_one[1].count
            is_rare = one.verdict in favored and not paused[favored[one.verdict]]
            # An interval rests on what the verdict rests on. What was certified of all stays so.
            if is_void or one.withheld:
                low, high = math.nan, math.nan
            elif one.verdict == "certified":
                high = min(high, one.limit)
            shown = dataclasses.replace(one, old=tuple(old), new=tuple(new), low=low, high=high)
            yield dataclasses.replace(shown, paused=paused, pauses_rarer_than=rarest if is_rare else None)


def _half(delta: float) -> float:
    """The part of delta for verdicts on single benchmarks, and the one for all of them together."""
    return 0.5 * (1.0 - _SHARE_OF_PAUSES) * delta


def fewest_pairs(delta: float) -> int:
    """How many pairs of runs it takes before a verdict can be certain.

    >>> fewest_pairs(0.05)
    10
    """
    return fewest(-math.log(_half(delta)))


def _found(verdicts: Sequence[str]) -> Found:
    if "refuted" in verdicts:
        return "refuted"
    return "undecided" if "undecided" in verdicts else "certified"


def _cutoffs(first: First, name: str, scale: float, limit: float) -> tuple[float, float]:
    """Above what a run of a benchmark pauses, in the baseline and in the candidate."""
    runs = {
        program: [Run(run[name] / scale, 0.0, 0.0, 0.0, 0, 0, False, "") for run in first[program]]
        for program in (BASELINE, CANDIDATE)
    }
    found = cutoffs_of(runs, {"time"}, [Limit("time", limit, is_relative=True)])
    return scale * found[BASELINE]["time"], scale * found[CANDIDATE]["time"]


def _decided(name: str, verdict: Found, limit: float, favored: Pauses, other: Pauses, deviations: float) -> Standing:
    """A verdict, unless the program that it favors was seen to pause more than the other by more than chance."""
    assert verdict in ("certified", "refuted")
    if favored.can_scatter_like(other, deviations):
        return Standing(name, verdict, limit)
    program, rest = (CANDIDATE, BASELINE) if verdict == "certified" else (BASELINE, CANDIDATE)
    why = f"the {program} pauses in {favored.words}, the {rest} in {other.words}, so symmetry cannot be assumed"
    return Standing(name, "undecided", limit, withheld=why)


def gate_suite(
    baseline: Measure,
    candidate: Measure,
    *,
    at_most: float = AT_MOST,
    limits: Mapping[str, float] | None = None,
    delta: float = 0.05,
    minutes: float = 5.0,
    pairs: int | None = None,
    timeout: float | None = None,
    warmup: int = FIRST_RUNS,
    seed: int | None = None,
    watch: Callable[[Comparison], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> SuiteGate:
    """Run two programs in pairs, in random order, until it is certain of each benchmark whether it takes at most
    `at_most` times as long as in the baseline, or the budget is spent: `minutes`, or a number of `pairs`.

    No pair begins that would not end in time, if it takes as long as those before. A program that fails, takes longer
    than `timeout` seconds or yields other benchmarks than before raises `MeasurementFailed`. After Ctrl-C the result is
    that of the pairs until then.

    >>> quick, slow = {"sort": 0.010, "sum": 0.003}, {"sort": 0.013, "sum": 0.003}
    >>> [one.verdict for one in gate_suite(lambda _: quick, lambda _: slow, seed=1).benchmarks]
    ['refuted', 'certified']
    """
    for name, limit in {"at_most": at_most, **(limits or {})}.items():
        if not 0.0 < limit < 1e6:
            raise InvalidInput(name, limit, "must be a positive number: that many times the baseline")
    if not 0.0 < delta < 1.0:
        raise InvalidInput("delta", delta, "must lie strictly between 0 and 1")
    seed = secrets.randbelow(2**32) if seed is None else seed
    programs, rng = {BASELINE: baseline, CANDIDATE: candidate}, random.Random(seed)
    began = clock()
    deadline, slowest = began + 60.0 * minutes, 0.0
    first: dict[str, list[Times]] = {BASELINE: [], CANDIDATE: []}
    for _ in range(max(warmup, FIRST_RUNS)):
        for program, measure in programs.items():
            start = clock()
            if start >= deadline:
                raise NotStarted(f"the first runs alone take {minutes:g} minutes; state more --minutes")
            first[program].append(measure(timeout or max(deadline - start, _LEAST_TIMEOUT)))
            slowest = max(slowest, clock() - start)
    timeout = timeout or max(_TIMES_SLOWEST * slowest, _LEAST_TIMEOUT)
    found, of_one = Comparison(first, at_most=at_most, limits=limits, delta=delta, seed=seed), 2.0 * slowest
    started = clock()
    try:
        while (
            found.decided < found.compared and clock() + of_one <= deadline and (pairs is None or found.pairs < pairs)
        ):
            order = [*programs]
            rng.shuffle(order)
            run = {program: programs[program](timeout) for program in order}
            found.enter(run[BASELINE], run[CANDIDATE])
            of_one = (clock() - started) / found.pairs
            if watch is not None:
                watch(found)
    except KeyboardInterrupt:
        if not found.pairs:
            raise
        return found.result(is_interrupted=True)
    if not found.pairs:
        raise NotStarted(f"a pair of runs takes {of_one:.3g} s, which does not fit into the budget; state --minutes")
    return found.result()
