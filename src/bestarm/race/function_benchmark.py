"""A function measured by itself, as tests written for pytest-benchmark ask for it: figures, and no claim."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bestarm.race.functions import FunctionRunner, seconds_for, undisturbed
from bestarm.validation import InvalidInput

SECONDS = 1.0
"""Measuring goes on until this many seconds have passed …"""
LEAST, MOST = 5, 1000
"""… with at least and at most so many measurements."""


class FunctionBenchmark:
    """Call it as `benchmark(function, *args, **kwargs)`. It returns what the function does, and reports its figures."""

    def __init__(self, report: Callable[[Mapping[str, Any]], None]) -> None:
        self._report = report
        self.extra_info: dict[str, Any] = {}
        self.group: str | None = None
        self.stats: dict[str, float] = {}

    def __call__(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        runner, times = FunctionRunner({"": lambda: function(*args, **kwargs)}), list[float]()
        until = time.perf_counter() + SECONDS
        while len(times) < LEAST or (time.perf_counter() < until and len(times) < MOST):
            times.append(runner.run([""], None).time)
        self._take(times)
        return result

    def pedantic(
        self,
        target: Callable[..., Any],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        setup: Callable[[], Any] | None = None,
        rounds: int = 1,
        warmup_rounds: int = 0,
        iterations: int = 1,
    ) -> Any:
        """Exactly so many rounds of so many calls. `setup` is called before each round, unmeasured, and may return the
        arguments."""
        for name, number, least in (("rounds", rounds, 1), ("warmup_rounds", warmup_rounds, 0)):
            if not (isinstance(number, int) and number >= least):
                raise InvalidInput(name, number, f"must be a whole number, {least} or more")
        if not (isinstance(iterations, int) and iterations >= 1):
            raise InvalidInput("iterations", iterations, "must be a whole number, 1 or more")
        if setup is not None and iterations > 1:
            raise InvalidInput("iterations", iterations, "must be 1 with a setup, which is called before each round")
        result, times = None, []
        for place in range(warmup_rounds + rounds):
            given, named = args, dict(kwargs or {})
            made = None if setup is None else setup()
            if made is not None:
                given, named = made

            def call(given: Sequence[Any] = given, named: Mapping[str, Any] = named) -> None:
                nonlocal result
                result = target(*given, **named)

            with undisturbed():
                seconds = seconds_for(call, iterations) / iterations
            if place >= warmup_rounds:
                times.append(seconds)
        self._take(times)
        return result

    def _take(self, times: Sequence[float]) -> None:
        self.stats = figures_of_times(times)
        self._report(self.stats)


def figures_of_times(times: Sequence[float]) -> dict[str, float]:
    """Seconds of a call in figures, by the names that pytest-benchmark has for them."""
    return {
        "min": min(times),
        "max": max(times),
        "mean": statistics.fmean(times),
        "stddev": statistics.stdev(times) if len(times) > 1 else 0.0,
        "median": statistics.median(times),
        "rounds": len(times),
    }
