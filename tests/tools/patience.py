"""Waiting in tests for something that must happen, however busy the machine is."""

from __future__ import annotations

import time
from collections.abc import Callable

PATIENCE = 300.0
"""Seconds after which a test gives up: far more than anything takes, so that only a test that hangs fails."""


def wait_until(true: Callable[[], object], otherwise: str = "it never came true") -> None:
    """Wait until `true()` is true. After `PATIENCE`, fail with the message `otherwise`."""
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise AssertionError(otherwise)
        time.sleep(0.02)
