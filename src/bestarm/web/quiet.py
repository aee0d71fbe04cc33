"""A log that cannot be flooded: a line is written once a minute, with the number of times it was left out."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict

EVERY = 60.0
_MOST_KNOWN = 100


class OnceAMinute(logging.Filter):
    """Keeps a logger from repeating itself."""

    def __init__(self) -> None:
        super().__init__()
        self._said: OrderedDict[tuple[object, ...], tuple[float, int]] = OrderedDict()

    def filter(self, record: logging.LogRecord) -> bool:
        line = _what_it_says(record)
        now = time.monotonic()
        then, left_out = self._said.pop(line, (-EVERY, 0))
        if now - then < EVERY:
            self._said[line] = then, left_out + 1
            return False
        self._said[line] = now, 0
        if len(self._said) > _MOST_KNOWN:
            self._said.popitem(last=False)
        if left_out:
            record.msg = f"{record.getMessage()} (and {left_out:,} more like it since then)"
            record.args = ()
        return True


def _what_it_says(record: logging.LogRecord) -> tuple[object, ...]:
    """The message without its numbers: of a storm of errors each may name another descriptor, or another client."""
    error = record.exc_info[1] if record.exc_info else None
    place = None
    if error is not None and error.__traceback__ is not None:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        place = last.tb_frame.f_code, last.tb_lineno
    return record.name, record.levelno, record.msg, type(error), place


_quiet = OnceAMinute()


def quieten() -> None:
    """Keep the loggers of the service and of what it is built on from repeating themselves."""
    for name in ("uvicorn.error", "asyncio", "bestarm.web"):
        logging.getLogger(name).addFilter(_quiet)
