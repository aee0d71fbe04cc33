"""Heartbeats: as long as a program lives, the tests it holds are not handed to others."""

from __future__ import annotations

import contextlib
import os
import threading
import weakref
from collections.abc import Iterable
from typing import Any

from bestarm.storage.errors import StorageError
from bestarm.validation import InvalidInput

LEASE = 20.0
"""Seconds without a heartbeat after which a holder is suspected to be gone. If the silence lasts half as long again,
half a minute in all, their tests go to others."""

_EVERY = 5.0


class Holds:
    """The tests that `owner`, a study, holds in this process, renewed by a thread while there are any.

    The thread does not keep its owner alive. When a study is no longer in use, its tests are let go.
    """

    def __init__(self, owner: Any) -> None:
        self._owner = weakref.ref(owner)
        self._tests: set[int] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def add(self, tests: Iterable[int]) -> None:
        """Hold further tests."""
        with self._lock:
            if self._process != os.getpid():
                # A child process has neither the thread nor the tests of its parent.
                self._process, self._thread, self._tests = os.getpid(), None, set()
            self._tests.update(tests)
            if self._tests and self._thread is None:
                self._thread = threading.Thread(target=_beat, args=(weakref.ref(self),), daemon=True)
                self._thread.start()

    def discard(self, tests: Iterable[int]) -> None:
        """Stop holding tests."""
        with self._lock:
            self._tests.difference_update(tests)

    def beat(self) -> bool:
        """Renew what is held; returns whether to go on."""
        owner = self._owner()
        with self._lock:
            tests = sorted(self._tests)
            if owner is None or not tests or self._process != os.getpid():
                self._thread = None
                return False
        # The storage is out of reach now. It may be back before the next heartbeat.
        with contextlib.suppress(StorageError, InvalidInput):
            owner.renew(tests, LEASE)
        return True


def _beat(holds: weakref.ref[Holds]) -> None:
    pause = threading.Event()
    while not pause.wait(_EVERY):
        here = holds()
        if here is None or not here.beat():
            return
        del here
