"""Races whose runs are drawn, not made: for what must not depend on how busy the machine is."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from bestarm.race.contestants import Around, contestants_of
from bestarm.race.limits import read_limits
from bestarm.race.plans import CANDIDATE, Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.runs import Run, Runner

Draw = Callable[[str, random.Random], Run]


def a_run(time: float, *, memory: float = 2e7, status: int = 0, timed_out: bool = False) -> Run:
    return Run(time, 0.8 * time, 0.1 * time, memory, 100, status, timed_out, "")


class Drawn(Runner):
    """Draws a run instead of making it."""

    def __init__(self, draw: Draw, seed: int = 0) -> None:
        super().__init__()
        self._draw = draw
        self._rng = random.Random(seed)
        self.made: list[str] = []

    def floor(self) -> float:
        return 2e6

    def run(self, words: list[str], timeout: float | None) -> Run:
        self.made.append(words[-1])
        run = self._draw(words[-1], self._rng)
        if timeout is not None and run.time > timeout:
            return a_run(timeout, status=-9, timed_out=True)
        return run

    def run_aside(self, words: list[str]) -> Run:
        return self.run(words, None)


def skewed(means: dict[str, float], scatter: float = 0.03) -> Draw:
    """Times with a long tail to the right, of these means."""
    return lambda command, rng: a_run(means[command] + rng.expovariate(1.0 / scatter) - scatter)


def race(
    draw: Draw,
    commands: Sequence[str],
    at_most: Sequence[str] = (),
    *,
    seed: int = 0,
    db: str | None = None,
    baseline: str | None = None,
    is_gate: bool = False,
    runner: Runner | None = None,
    conditions: Conditions | None = None,
    around: Around | None = None,
    **question: object,
) -> RaceResult:
    objective = CANDIDATE if is_gate else "time"
    asked = Question(objective, tuple(read_limits(at_most, baseline)), baseline, **question)  # type: ignore[arg-type]
    return Race(
        contestants_of(commands, around=around),
        asked,
        conditions or Conditions(timeout=10.0),
        db=db,
        runners=[runner or Drawn(draw, seed)],
    ).run()
