"""Forecasts made by a thread while work on a study goes on."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Protocol

from bestarm.analysis.status.outlook import Outlook
from bestarm.storage.errors import StorageError
from bestarm.study.forecast.continuations import NotWanted

_EVERY = 15.0
_LOOK_EVERY = 0.5


class Foreseeable(Protocol):
    """A study, here or on a server, whose rest can be simulated."""

    def _forecast(self, runs: int, seed: int, is_wanted: Callable[[], bool]) -> Outlook | None: ...


class Foreseer:
    """Simulates the rest of a study again and again. `outlook` is the latest forecast, None before the first."""

    def __init__(self, study: Foreseeable, *, pays: Callable[[], bool] = lambda: True, every: float = _EVERY) -> None:
        """`pays` says whether the first forecast is worth it by now: compiling what it needs takes seconds."""
        self.outlook: Outlook | None = None
        self._study = study
        self._pays = pays
        self._every = every
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop forecasting. This waits for nothing."""
        self._stop.set()

    def _work(self) -> None:
        while not self._stop.wait(_LOOK_EVERY if self.outlook is None else self._every):
            if self.outlook is None and not self._pays():
                continue
            with contextlib.suppress(StorageError, NotWanted):
                # Asking and telling do not wait for a simulation.
                self.outlook = self._study._forecast(100, 0, lambda: not self._stop.is_set())
