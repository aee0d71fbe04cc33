"""How soon the next calls may begin: so many in a minute at most, and later if a service asks for patience."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

from bestarm.texts import quoted
from bestarm.validation import InvalidInput

Transient = int | type[Exception]
"""An HTTP status, or a class of exceptions."""

TRANSIENT: tuple[Transient, ...] = (429, 500, 502, 503, 504, 529, ConnectionError)
"""What a service answers when it has not done what was asked: too many requests, errors of the server, an overload, and
connections that break. Time-outs are not among them: a long answer may be a bad one."""

_FIRST_PAUSE, _GROWTH, _LONGEST_PAUSE = 0.1, 4.0, 60.0
_MOST_PATIENCE = 600.0
"""The longest pause, in seconds, that a service is granted on its word."""

_BURST = 600
"""Above so many calls a minute, calls of a tenth of a second may begin at once."""


class Pace:
    """When calls may begin. `per_minute` calls begin in any minute at most, spread evenly. After a transient error none
    begins for a while: for as long as the service says, or for longer each time until a call succeeds again."""

    def __init__(self, per_minute: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        if per_minute is not None:
            is_number = isinstance(per_minute, int | float) and not isinstance(per_minute, bool)
            if not is_number or not 0.0 < per_minute < math.inf:
                reason = "must be a positive number: how many calls may begin in a minute"
                raise InvalidInput("per_minute", per_minute, reason, shown=quoted(per_minute))
        self._clock = clock
        at_once = 0 if per_minute is None else per_minute // _BURST
        self._gap = 0.0 if per_minute is None else 60.0 / (per_minute - at_once)
        self._credit = at_once * self._gap
        self._next = -math.inf
        """When the next call may begin, if calls are spread evenly."""
        self._resume = -math.inf
        self._strikes = 0

    def room(self, wanted: int) -> int:
        """How many of so many calls may begin now."""
        now = self._clock()
        if now < self._resume:
            return 0
        if not self._gap:
            return wanted
        self._next = max(self._next, now - self._credit)
        return min(wanted, max(0, math.floor((now - self._next) / self._gap) + 1))

    def begin(self, count: int) -> None:
        """So many calls begin now."""
        self._next += count * self._gap

    def seconds(self, most: float) -> float:
        """How long to wait before the next call, at most so many seconds."""
        return min(most, max(0.0, max(self._next, self._resume) - self._clock()))

    def pause(self, error: BaseException) -> None:
        """A service was not at its service: begin nothing for a while."""
        now = self._clock()
        if now >= self._resume:  # those that began before the pause say nothing new
            length = min(_LONGEST_PAUSE, _FIRST_PAUSE * _GROWTH**self._strikes)
            self._strikes += 1
            self._resume = now + length
        self._resume = max(self._resume, now + min(_MOST_PATIENCE, retry_after(error)))

    def go_on(self) -> None:
        """A call has succeeded."""
        self._strikes = 0


def check_transient(retry_on: Sequence[Transient] | None, retries: int) -> tuple[Transient, ...] | None:
    """The errors after which a call is tried again, if any."""
    if retry_on is None:
        return None
    accepted = "must be a list of HTTP statuses and classes of exceptions, such as [429, 503, ConnectionError]"
    if not isinstance(retry_on, Sequence) or isinstance(retry_on, str):
        raise InvalidInput("retry_on", retry_on, accepted, shown=quoted(retry_on))
    for one in retry_on:
        is_status = isinstance(one, int) and not isinstance(one, bool) and 100 <= one <= 599
        if not is_status and not (isinstance(one, type) and issubclass(one, Exception)):
            raise InvalidInput("retry_on", one, accepted, shown=quoted(one))
    if not retries:
        raise InvalidInput("retries", retries, "must be at least 1 beside retry_on: how often a call is tried again")
    return tuple(retry_on)


def is_transient(error: BaseException, among: Sequence[Transient]) -> bool:
    """Whether the error is one of these."""
    kinds = tuple(one for one in among if isinstance(one, type))
    return isinstance(error, kinds) or http_status(error) in among


def http_status(error: BaseException) -> int | None:
    """The status of a response that an HTTP library raised as an error, wherever that library keeps it."""
    response = getattr(error, "response", None)
    for holder, name in ((error, "status_code"), (response, "status_code"), (error, "status"), (error, "code")):
        found = getattr(holder, name, None)
        if isinstance(found, int) and 100 <= found <= 599:
            return int(found)
    return None


def retry_after(error: BaseException) -> float:
    """For how many seconds a response asks for patience; 0 if it does not."""
    headers: Any = getattr(getattr(error, "response", None), "headers", None) or getattr(error, "headers", None)
    said: Any = headers.get("Retry-After", headers.get("retry-after")) if hasattr(headers, "get") else None
    try:
        return max(0.0, float(said))
    except (TypeError, ValueError):
        pass
    try:
        return max(0.0, parsedate_to_datetime(str(said)).timestamp() - time.time())
    except (TypeError, ValueError):
        return 0.0
