"""A gate for Python functions: is it certain that the new one takes at most a given multiple of the old one's time?"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import math
import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from bestarm.race.conclusions import conclusion_of
from bestarm.race.contestants import Contestant
from bestarm.race.limits import Limit
from bestarm.race.limits_found import limits_found
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import Found
from bestarm.race.runs import Run, Runner
from bestarm.race.summary import limit_lines, verdict
from bestarm.validation import InvalidInput

Function = Callable[[], Any]

BATCH = 0.005
"""Seconds that a measurement of the slowest function takes at least: quicker functions are called many times for it."""
_MOST_CALLS = 10**7
_TURNS = 8
"""How many times functions take turns within one measurement, if they are called often enough."""
_TRIES = 3
"""Trials to find how long a call takes. The quickest counts, since other programs may disturb one of them."""
_CUT = 4.0
"""Times above this multiple of a limit in seconds count as this multiple."""

_OLD, _NEW = "baseline", "candidate"


@dataclasses.dataclass(frozen=True)
class Gate:
    """What a gate came to: `found` is "certified", "refuted" or "undecided", or "void" if the measurements contradict
    what the guarantee rests on."""

    found: Found
    sentence: str
    runs: int
    mean: float
    """Seconds that a call of the candidate took."""
    decided: Found
    """What `found` would be if the results did not contradict the assumptions."""
    void_because: tuple[str, ...] = ()
    """The contradicted assumption, if the gate is void."""
    pauses_rarer_than: int | None = None
    """N if `found` holds except for pauses that are rarer than 1 in N measurements."""
    seed: int | None = None
    """The seed of the random order of measurements. State it to repeat that order."""
    at_most: float = math.nan
    """The limit, so many times the baseline."""
    ratio: float | None = None
    """The candidate's mean, so many times the baseline's."""
    low: float | None = None
    high: float | None = None
    """Between what the ratio lies: each end holds with probability 1 - delta at any number of measurements."""
    times: tuple[float, ...] = ()
    """Seconds of a call of the candidate in each measurement."""
    conclusion: Mapping[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """What `bestarm gate --export-json` says of a gate, by the same names."""
        return dict(self.conclusion)


class FunctionRunner(Runner):
    """Calls functions instead of running commands. A run is the mean of a batch of calls.

    All functions are called equally often, in turns, so that whatever else the machine does disturbs them alike. So one
    measurement yields a run of each. Runs not asked for yet are kept until they are: the runs of two functions at
    the same place in the order come from the same measurement.
    """

    def __init__(self, functions: dict[str, Function], seed: int | None = None) -> None:
        super().__init__()
        self._functions = functions
        with undisturbed():
            calls = min(_calls(function) for function in functions.values())
        self._turns = min(_TURNS, calls)
        self._calls = -(-calls // self._turns)
        self._order = random.Random(seed)
        self._kept: dict[str, deque[float]] = {name: deque() for name in functions}

    def run(self, words: list[str], timeout: float | None) -> Run:
        name = words[-1]
        if not self._kept[name]:
            self._measure()
        seconds = self._kept[name].popleft()
        cut = seconds if timeout is None else min(seconds, timeout)
        return Run(cut, 0.0, 0.0, 0.0, 0, 0, False, "")

    def _measure(self) -> None:
        took = dict.fromkeys(self._functions, 0.0)
        names = list(self._functions)
        self._order.shuffle(names)
        with undisturbed():
            for _ in range(self._turns):
                for name in names:
                    took[name] += seconds_for(self._functions[name], self._calls)
                # Neither is always the first of a turn.
                names.reverse()
        for name, seconds in took.items():
            self._kept[name].append(seconds / (self._turns * self._calls))

    def floor(self) -> float:
        return 0.0


def _calls(function: Function) -> int:
    """How many calls take long enough. This also warms up what needs it."""
    calls = 1
    while calls < _MOST_CALLS:
        quickest = min(seconds_for(function, calls) for _ in range(_TRIES))
        if quickest >= BATCH:
            break
        wanted = int(1.2 * calls * BATCH / quickest) if quickest > 0 else 10 * calls
        calls = min(_MOST_CALLS, max(2 * calls, wanted))
    return calls


def seconds_for(function: Function, calls: int) -> float:
    """Seconds that this number of calls in a row takes."""
    started = time.perf_counter()
    for _ in range(calls):
        function()
    return time.perf_counter() - started


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Garbage is collected before and not during this."""
    gc.collect(0)
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def gate(
    candidate: Function,
    baseline: Function | float,
    *,
    at_most: float,
    delta: float = 0.05,
    runs: int = 1000,
    seconds: float = 60.0,
    seed: int | None = None,
) -> Gate:
    """Call `candidate` until it is certain whether a call takes at most `at_most` times as long as one of `baseline`.

    The baseline is a function, which is called in turns with the candidate, or the seconds that a call may be compared
    with, as they were measured another time. `runs` and `seconds` are the budget. `seed` is that of the random order of
    measurements, drawn at random unless it is stated.

    >>> import time
    >>> gate(lambda: None, lambda: time.sleep(0.01), at_most=1.1).found
    'certified'
    """
    if not (isinstance(at_most, int | float) and at_most > 0):
        raise InvalidInput("at_most", at_most, "must be a positive number: that many times the baseline")
    if not seconds > 0:
        raise InvalidInput("seconds", seconds, "must be a positive number")
    if callable(baseline):
        functions = {_OLD: baseline, _NEW: candidate}
        limit, timeout = Limit("time", float(at_most), is_relative=True), 1e9
        question = Question(CANDIDATE, (limit,), _OLD, delta=delta, runs=runs)
    else:
        functions = {_NEW: candidate}
        limit = Limit("time", at_most * baseline)
        timeout = _CUT * limit.value
        question = Question(CANDIDATE, (limit,), delta=delta, runs=runs)
    conditions = Conditions(shell="none", timeout=timeout, minutes=seconds / 60.0, seed=seed)
    contestants = [Contestant(name, name) for name in functions]
    result = Race(contestants, question, conditions, runners=[FunctionRunner(functions, seed)]).run()
    times = tuple(run.time for run in result.run_log.of(_NEW))
    sentence = " ".join([verdict(result), *(f"{line}." for line in limit_lines(result))])
    status = result.status
    [found] = limits_found(result)
    # Stored seconds count as exact.
    stored = 1.0 if callable(baseline) else float(baseline)
    ratio, low, high = (
        None if figure is None else figure / stored
        for figure in (found.ratio if callable(baseline) else found.candidate, found.low, found.high)
    )
    return Gate(
        result.found,
        sentence,
        status.tests,
        sum(times) / len(times) if times else math.nan,
        result.conclusion.found,
        status.void_because,
        result.conclusion.pauses_rarer_than,
        status.seed,
        float(at_most),
        *(ratio, low, high),
        times,
        conclusion_of(result),
    )
