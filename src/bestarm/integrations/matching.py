"""Matches the tests that a study asks for with the samples that evaluations are about to run.

The study asks in a thread of its own. Evaluations run in an event loop, where each sample waits here until the study
wants it, or until it is known that it will not. Whichever comes first waits for the other.
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import importlib
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from bestarm.study.intake.names import Test
from bestarm.study.work.failures import NotStarted

Key = tuple[str, str]
"""An arm and an item."""


@dataclasses.dataclass
class _Waiting:
    """A sample that occupies a slot and has not begun."""

    place: int
    wake: Callable[[], object]
    reason: str | None = None
    """Why it is not run; None if it is."""


def _waker(event: Any) -> Callable[[], object]:
    """Sets an event of this event loop from any thread."""
    try:
        call: Callable[..., object] = asyncio.get_running_loop().call_soon_threadsafe
    except RuntimeError:
        call = importlib.import_module("trio").lowlevel.current_trio_token().run_sync_soon
    return functools.partial(call, event.set)


class Matching:
    """Tests that are wanted, samples that wait, and tests that are being made, of one study.

    At most `slots` samples of an arm wait or run at a time. `place` says where in the study's order an item stands.
    """

    def __init__(self, slots: int, place: Callable[[str], int]) -> None:
        self._slots = slots
        self._place = place
        self._lock = threading.Lock()
        self._wanted: dict[Key, Future[Any]] = {}
        self._running: dict[Key, Future[Any]] = {}
        self._waiting: dict[Key, _Waiting] = {}
        self._left: dict[str, set[str]] = {}
        """For each arm that is being evaluated: the items that wait, or that the evaluation has not reached."""
        self._decided: dict[str, str] = {}
        self._over: str | None = None
        self._closed: str | None = None

    def submit(self, test: Test, tries: int) -> Future[Any]:
        """What `drive` calls: the values of this test, once a sample has given them."""
        future: Future[Any] = Future()
        with self._lock:
            if self._closed is not None:
                future.set_exception(NotStarted(self._closed))
            else:
                self._wanted[test.arm, str(test.item)] = future
                self._settle()
        return future

    def decide(self, arms: Mapping[str, str]) -> None:
        """These arms need no more tests than are wanted now, for these reasons: their evaluations can end."""
        with self._lock:
            self._decided = dict(arms)
            self._settle()

    def close(self, reason: str) -> None:
        """Nothing more will be wanted: every evaluation ends. Tests that were not made are given back."""
        with self._lock:
            self._closed = reason
            unmade = [*self._wanted.values(), *self._running.values()]
            self._wanted.clear()
            self._running.clear()
            self._settle()
        for future in unmade:
            if not future.done():
                future.set_exception(NotStarted(reason))

    def wanted_arms(self) -> set[str]:
        """The arms with a wanted sample that has not begun."""
        with self._lock:
            return {arm for arm, _ in self._wanted}

    def check_open(self) -> None:
        """Raise an error if nothing more can be measured. A study that waits for others would not notice."""
        if self._closed is not None:
            raise NotStarted(self._closed)

    def begin(self, left: Mapping[str, set[str]]) -> None:
        """A round of evaluations begins: of these arms, with these items."""
        with self._lock:
            self._left = {arm: set(items) for arm, items in left.items()}
            self._over = None
            self._settle()

    async def admit(self, arm: str, item: str) -> str | None:
        """Wait until the sample is wanted. Returns why it will not run, or None if it should run now."""
        anyio = importlib.import_module("anyio")
        event = anyio.Event()
        waiting = _Waiting(self._place(item), _waker(event))
        with self._lock:
            self._waiting[arm, item] = waiting
            self._settle()
        try:
            await event.wait()
        except BaseException:
            with self._lock:
                # If it was just let in, its test is given back: the evaluation is being cancelled.
                self._waiting.pop((arm, item), None)
                future = self._running.pop((arm, item), None)
            if future is not None:
                future.set_exception(NotStarted("the evaluation was cancelled"))
            raise
        return waiting.reason

    def finish(self, arm: str, item: str, values: Mapping[str, float] | Exception) -> None:
        """A sample has ended: with its values, or without."""
        with self._lock:
            future = self._running.pop((arm, item), None)
        if future is None or future.done():
            return
        if isinstance(values, Exception):
            future.set_exception(values)
        else:
            future.set_result(values)

    def end(self, arm: str, reason: str) -> None:
        """The evaluation of an arm has ended. What it began and did not finish has failed."""
        with self._lock:
            self._left.pop(arm, None)
            lost = [item for name, item in self._running if name == arm]
            self._settle()
        for item in lost:
            self.finish(arm, item, RuntimeError(reason))

    def _settle(self) -> None:
        """Let wanted samples in, and send away those that will not be needed."""
        if any(item not in self._left.get(arm, ()) for arm, item in self._wanted):
            # The evaluation is past it, or has ended. Another round begins when this one is over.
            self._over = "the study asks for a sample of another evaluation first"
        for arm, item in list(self._waiting):
            is_wanted = (arm, item) in self._wanted
            # A test that was handed out before its arm was decided is still made: later results wait for it.
            reason = self._closed or self._over or (None if is_wanted else self._decided.get(arm))
            if reason is None and is_wanted:
                self._running[arm, item] = self._wanted.pop((arm, item))
            if reason is not None or is_wanted:
                self._end_waiting((arm, item), reason)
        for arm in {arm for arm, _ in self._wanted}:
            self._make_room(arm)

    def _make_room(self, arm: str) -> None:
        """If unwanted samples keep a wanted one from starting, send one away: the first of those before it, because
        another process measures that; else the last."""
        here = {key: row.place for key, row in self._waiting.items() if key[0] == arm}
        under_way = len(here) + sum(name == arm for name, _ in self._running)
        if not here or under_way < self._slots:
            return
        wanted = min(self._place(item) for name, item in self._wanted if name == arm)
        first, last = min(here, key=lambda key: here[key]), max(here, key=lambda key: here[key])
        self._end_waiting(first if here[first] < wanted else last, "another sample is wanted first")

    def _end_waiting(self, key: Key, reason: str | None) -> None:
        """Let a sample run, or send it away for a reason."""
        waiting = self._waiting.pop(key)
        waiting.reason = reason
        self._left.get(key[0], set()).discard(key[1])
        waiting.wake()
