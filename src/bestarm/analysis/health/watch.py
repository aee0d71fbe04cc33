"""Watches the results of a study as they come, and says what they contradict."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Sequence
from typing import Any

from bestarm.analysis.health.notes import Health
from bestarm.analysis.health.reading import notes_of
from bestarm.analysis.health.seen import Seen
from bestarm.analysis.health.stream import Stream
from bestarm.kernel.state import Floats, Ints
from bestarm.problem import Problem

FALSE_ALARMS = 0.001
"""In how many studies, at most, the checks find something although everything is as stated."""

MOST_PARTS = 256
"""So many small pieces of the record are kept at most until somebody looks: each takes more room than its results."""

_PROCESS = re.compile(r"/\d+-\d+$")


class Watch:
    """The checks of one study. `extend` takes results in the order in which they count, `health` says what is seen.

    What is seen depends on the results in their order, not on when it is asked for, and evidence only grows: what was
    found once is found again.
    """

    def __init__(self, problem: Problem, *, false_alarms: float = FALSE_ALARMS) -> None:
        self._problem = problem
        self._seen = Seen(problem, false_alarms)
        self._streams: dict[tuple[int, int], Stream] = {}
        self._workers: dict[str, int] = {}
        self._new: list[tuple[Ints, Ints, Ints, Floats, list[int]]] = []
        self._health: Health | None = None
        # The same numbers every time, so that a study that is opened again is seen as before.
        self._luck = random.Random(17).random

    def extend(self, tests: Ints, arms: Ints, metrics: Ints, values: Floats, holders: Sequence[Any] = ()) -> None:
        """Further results: the test's number, its arm and metric by number, its value and who measured it, if known.

        They are only kept until somebody looks: those who ask and tell do not wait for the checks. A result without a
        value (NaN) does not count.
        """
        self._new.append((tests, arms, metrics, values, [self._worker(holder) for holder in holders]))
        if len(self._new) > MOST_PARTS:
            self._catch_up()

    def _worker(self, holder: object) -> int:
        name = str(holder)
        number = self._workers.get(name)
        if number is None:
            # A process that is started anew is the same worker.
            number = self._workers[name] = self._seen.worker(_PROCESS.sub("", name))
        return number

    def health(self) -> Health:
        """What the results say."""
        self._catch_up()
        if self._health is None:
            self._health = Health(self._seen.checks, notes_of(self._problem, self._seen))
        return self._health

    def _catch_up(self) -> None:
        new, self._new = self._new, []
        for part in new:
            self._health = None
            self._take_in(*part)

    def _take_in(self, tests: Ints, arms: Ints, metrics: Ints, values: Floats, workers: list[int]) -> None:
        columns = (tests.tolist(), arms.tolist(), metrics.tolist(), values.tolist())
        for test, arm, metric, value, worker in zip(*columns, workers or itertools.repeat(0), strict=False):
            if value == value:
                stream = self._streams.get((arm, metric))
                if stream is None:
                    stream = self._streams[arm, metric] = Stream(self._seen, arm, metric)
                stream.enter(test, value, worker, self._luck)
