"""The machines of a race: this one, or several that make their runs at the same time.

On several machines, a block is a round of runs on each of them (`bestarm.problem.blocks`). Every machine makes the same
runs of every command, so what a machine adds to all of them cancels, and what it adds to one command alone is part of
the mean over these machines, which is compared. If each machine is used only once, it is a block of its own.
"""

from __future__ import annotations

import logging
import random
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

from bestarm.race.runs import MachineLost, Runner
from bestarm.study import Test
from bestarm.study.work.failures import NotStarted
from bestarm.validation import InvalidInput

HERE = "localhost"
_SSH = ("ssh", "-T", "-oBatchMode=yes", "-oConnectTimeout=10", "-oServerAliveInterval=5")
"""How a host is reached: nothing is asked, and a connection that is broken is noticed."""

_log = logging.getLogger("bestarm")

T = TypeVar("T")


def runners_on(names: Sequence[str]) -> Iterator[Runner]:
    """What measures on each machine: a host that ssh reaches, or a command that runs what is written after it.

    >>> [runner.on for runner in runners_on(["ann@north", "docker exec -i box"])]
    ['ann@north', 'docker exec -i box']
    """
    for place, name in enumerate(names):
        try:
            words = shlex.split(name)
        except ValueError as error:
            raise InvalidInput("--on", name, f"is no command: {error}") from None
        if not words or words[0].startswith("-"):
            raise InvalidInput(
                "--on", name, "must be a host such as ann@north, or a command such as docker exec -i box"
            )
        if name in names[:place]:
            raise InvalidInput("--on", name, "is there twice; runs at the same time would disturb each other")
        yield Runner(name, () if name == HERE else words if len(words) > 1 else (*_SSH, *words))


class Machines:
    """The machines that are left, each with what measures there. A context: at its end whatever runs is ended."""

    def __init__(self, runners: Sequence[Runner]) -> None:
        self._runners = list(runners)
        self._pool = ThreadPoolExecutor(len(runners))
        self.lost: dict[str, str] = {}
        """By name: why a machine was left out."""

    def __enter__(self) -> Machines:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> None:
        for runner in self._runners:
            runner.close()
        self._pool.shutdown()

    def restart(self) -> None:
        """End whatever runs, also what was about to begin."""
        self._end()
        self._pool = ThreadPoolExecutor(len(self._runners))
        for runner in self._runners:
            runner.reopen()

    @property
    def left(self) -> list[str]:
        return [runner.on for runner in self._runners if runner.on not in self.lost]

    def each(self, act: Callable[[Runner], T]) -> dict[str, T]:
        """What this comes to on each machine, at the same time. A machine that cannot be reached is left out."""
        if len(self._runners) == 1:
            [alone] = self._runners
            return {alone.on: act(alone)}
        futures = {runner.on: self._pool.submit(act, runner) for runner in self._runners if runner.on in self.left}
        wait(futures.values())
        found: dict[str, T] = {}
        for name, future in futures.items():
            try:
                found[name] = future.result()
            except MachineLost as error:
                self.lost[name] = str(error)
                _log.warning("Left out: %s", error)
        if not self.left:
            raise NotStarted(f"no machine is left: {'; '.join(self.lost.values())}")
        return found


def shuffled(tests: Sequence[Test], rng: random.Random) -> list[Test]:
    """The tests in random order, except that those of one command stay in theirs."""
    order = [test.arm for test in tests]
    rng.shuffle(order)
    waiting = {arm: iter([test for test in tests if test.arm == arm]) for arm in order}
    return [next(waiting[arm]) for arm in order]


def shares_of(tests: Sequence[Test], machines: Sequence[str]) -> tuple[dict[str, list[Test]], list[Test]]:
    """Which tests of a block each machine makes, and which are left over.

    The first run of every command is made on the first machine, the second on the second, and so on, then from the
    first on. So each machine makes equally many of every command. What some commands have more of than others, because
    a budget ends within the block, is left over.
    """
    least = min(Counter(test.arm for test in tests).values(), default=0)
    seen: Counter[str] = Counter()
    shares: dict[str, list[Test]] = {name: [] for name in machines}
    left_over: list[Test] = []
    for test in tests:
        share = left_over if seen[test.arm] >= least else shares[machines[seen[test.arm] % len(machines)]]
        share.append(test)
        seen[test.arm] += 1
    return shares, left_over
