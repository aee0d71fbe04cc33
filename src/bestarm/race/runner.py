"""Runs commands one after the other and measures them: a small process of its own, which knows nothing of bestarm.

The peak memory that the system reports of a process is at least that of whoever started it. So commands are started
from here, `python -I -S runner.py`, and not from a process with numpy in it. A request is a line of JSON on standard
input, and so is a reply on standard output. When the input ends, whatever runs is ended.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from typing import Any

_KEPT = 2000
"""Bytes of error messages that are reported."""
_PIECE = 1 << 18
_LOOK_EVERY = 0.001
"""Seconds between two looks where the system cannot tell us that a process has ended."""
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts peak memory."""


class Abandoned(Exception):
    """Whoever asked for the run is gone."""


def run(words: list[str], timeout: float | None) -> dict[str, Any]:
    """Run a program once. Its output is counted and thrown away."""
    output, out_end = os.pipe()
    errors, err_end = os.pipe()
    nothing = os.open(os.devnull, os.O_RDONLY)
    actions = [(os.POSIX_SPAWN_DUP2, end, to) for to, end in enumerate((nothing, out_end, err_end))]
    started = time.perf_counter()
    try:
        process = os.posix_spawnp(words[0], words, os.environ, file_actions=actions, setpgroup=0)
    except (OSError, ValueError) as error:
        for end in (output, errors):
            os.close(end)
        return {"error": f"{words[0]!r} cannot be started: {getattr(error, 'strerror', None) or error}"}
    finally:
        for end in (nothing, out_end, err_end):
            os.close(end)
    try:
        seen = _watch(process, output, errors, started, timeout)
    except Abandoned:
        _end(process)
        os.wait4(process, 0)
        raise
    finally:
        os.close(output)
        os.close(errors)
    return {
        "time": timeout if seen.timed_out else seen.ended - started,
        "user": seen.used.ru_utime,
        "system": seen.used.ru_stime,
        "memory": seen.used.ru_maxrss * _UNIT,
        "output": seen.output,
        "status": os.waitstatus_to_exitcode(seen.status),
        "timed_out": seen.timed_out,
        "errors": seen.errors.decode("utf-8", "replace"),
    }


class Seen:
    """What was seen of a process."""

    def __init__(self) -> None:
        self.output = 0
        self.errors = b""
        self.timed_out = False
        self.ended = 0.0
        self.status = 0
        self.used: Any = None


def _watch(process: int, output: int, errors: int, started: float, timeout: float | None) -> Seen:
    """Read what a process writes until it ends, or end it when it takes too long.

    Processes that it started may go on and keep its streams open. Nobody waits for them.
    """
    seen = Seen()
    handle = os.pidfd_open(process) if hasattr(os, "pidfd_open") else None
    waiting = select.poll()
    for end in (output, errors):
        os.set_blocking(end, False)
        waiting.register(end, select.POLLIN)
    waiting.register(sys.stdin.fileno(), 0)  # reports only that the other side is gone
    if handle is not None:
        waiting.register(handle, select.POLLIN)
    try:
        while True:
            pause = 3600.0 if handle is not None else _LOOK_EVERY
            if timeout is not None and not seen.timed_out:
                pause = max(0.0, min(pause, started + timeout - time.perf_counter()))
            ready = {end for end, _ in waiting.poll(1000.0 * pause)}
            seen.ended = time.perf_counter()
            has_ended = 0
            if handle is None or handle in ready:
                has_ended, seen.status, seen.used = os.wait4(process, os.WNOHANG)
            if sys.stdin.fileno() in ready:
                raise Abandoned
            for end in {output, errors} if has_ended else ready & {output, errors}:
                if _take(seen, end, is_output=end == output, everything=bool(has_ended)):
                    waiting.unregister(end)
            if has_ended:
                return seen
            if timeout is not None and not seen.timed_out and seen.ended - started >= timeout:
                seen.timed_out = True
                _end(process)
    finally:
        if handle is not None:
            os.close(handle)


def _take(seen: Seen, end: int, *, is_output: bool, everything: bool) -> bool:
    """Read what there is, once or to the end. Whether nothing will ever come."""
    while True:
        data = _read(end)
        if not data:
            return data is not None and not everything
        if is_output:
            seen.output += len(data)
        else:
            seen.errors = (seen.errors + data)[-_KEPT:]
        if not everything:
            return False


def _read(end: int) -> bytes | None:
    """What there is to read: empty if nothing will ever come, None if nothing is there now."""
    try:
        return os.read(end, _PIECE)
    except BlockingIOError:
        return None


def _end(process: int) -> None:
    """End a process and everything that it started."""
    try:
        os.killpg(process, signal.SIGKILL)
    except ProcessLookupError:
        os.kill(process, signal.SIGKILL)


def main() -> None:
    pending = b""
    while True:
        # Read without Python's buffer, so that `poll` sees whether the other side is still there.
        while b"\n" not in pending:
            data = os.read(sys.stdin.fileno(), 65536)
            if not data:
                return
            pending += data
        line, _, pending = pending.partition(b"\n")
        request = json.loads(line)
        try:
            reply = run(request["words"], request["timeout"])
        except Abandoned:
            return
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
