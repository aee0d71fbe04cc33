"""A gate for Python functions: is the new one certainly no slower than so many times the old one?"""

from __future__ import annotations

import dataclasses
import gc
import time
from collections.abc import Callable
from typing import Any

from bestarm.race.contestants import Contestant
from bestarm.race.limits import Limit
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Outcome, Race
from bestarm.race.runs import Run, Runner
from bestarm.race.summary import Found, decided_by, found_by, limit_lines, verdict
from bestarm.validation import InvalidInput

Function = Callable[[], Any]

BATCH = 0.005
"""Seconds that one measurement takes at least: a quicker function is called so many times in a row."""
_MOST_CALLS = 10**7
_CUT = 4.0
"""A call of more than so many times a limit in seconds counts as that."""

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
    """`found`, if it did not matter that results contradict what the guarantee rests on."""
    void_because: tuple[str, ...] = ()
    """What they contradict, if it is void."""


class Called(Runner):
    """Calls functions instead of running commands. A run is the mean of a batch of calls."""

    def __init__(self, functions: dict[str, Function]) -> None:
        super().__init__()
        self._functions = functions
        self._calls = {name: _calls(function) for name, function in functions.items()}

    def run(self, words: list[str], timeout: float | None) -> Run:
        seconds = batch(self._functions[words[-1]], self._calls[words[-1]])
        cut = seconds if timeout is None else min(seconds, timeout)
        return Run(cut, 0.0, 0.0, 0.0, 0, 0, False, "")


def _calls(function: Function) -> int:
    """How many calls make a batch. This also warms up what needs it."""
    calls = 1
    while calls < _MOST_CALLS:
        took = calls * batch(function, calls)
        if took >= BATCH:
            break
        calls = min(_MOST_CALLS, max(2 * calls, int(1.2 * calls * BATCH / max(took, 1e-9))) if took > 0 else 10 * calls)
    return calls


def batch(function: Function, calls: int) -> float:
    """Seconds for each of so many calls in a row. Garbage is collected before and not during them."""
    gc.collect(0)
    was_on = gc.isenabled()
    gc.disable()
    try:
        started = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - started) / calls
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
    seed: int = 0,
) -> Gate:
    """Call `candidate` until it is certain whether a call takes at most so many times as long as one of `baseline`.

    The baseline is a function, which is called alternately, or the seconds that a call may be compared with, as they
    were measured another time. `runs` and `seconds` are the budget.

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
    outcome = Race(contestants, question, conditions, runner=Called(functions)).go()
    return _summed_up(outcome)


def _summed_up(outcome: Outcome) -> Gate:
    runs = outcome.records.of(_NEW)
    mean = sum(run.time for run in runs) / len(runs) if runs else float("nan")
    sentence = " ".join([verdict(outcome), *(f"{line}." for line in limit_lines(outcome))])
    status = outcome.status
    return Gate(found_by(outcome), sentence, status.tests, mean, decided_by(outcome), status.void_because)
