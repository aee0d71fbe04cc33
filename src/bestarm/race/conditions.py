"""How the commands of a race are run."""

from __future__ import annotations

import dataclasses
import math

from bestarm.race.runs import USUAL_STREAMS, Streams

DEFAULT_MINUTES = 5.0


@dataclasses.dataclass(frozen=True)
class Conditions:
    """How commands are run."""

    shell: str = "default"
    warmup: int | None = None
    """Runs of each command before the first that counts, but never fewer than it takes to learn something from them:
    two to know pauses, or one for a timeout."""
    timeout: float | None = None
    minutes: float | None = None
    """The most minutes: five, unless it is stated, and more if the least runs take longer."""
    ignores_failures: bool = False
    seed: int | None = None
    """The seed of the random order of runs. Drawn for each new race unless stated."""
    on: tuple[str, ...] = ()
    """The machines on which commands are run; this one unless stated."""
    runs_per_machine: int | None = None
    """If stated, each machine makes as many runs of each command, and no more, and is one block."""
    least_runs: int = 0
    """Runs of each command that are made even if the answer is known before."""
    most_runs: float = math.inf
    """The most runs of each command."""
    streams: Streams = USUAL_STREAMS
