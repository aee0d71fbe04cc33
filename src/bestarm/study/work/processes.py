"""Runs other programs: read their output, up to a limit, and end them when they take too long."""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import time

MOST_KEPT = 100_000
"""Bytes kept of each stream: the first of standard output, the last of standard error."""

_LOOK_EVERY = 0.1
_PIECE = 1 << 16


def watch_process(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[str, str, int]:
    """The process's output, error output and status, as soon as it has ended.

    Processes that it started may go on and keep its streams open. They are not waited for. If it takes longer than
    `timeout` seconds, it is ended with everything it started, and `TimeoutExpired` has its error output.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    give_up = None if timeout is None else time.monotonic() + timeout
    kept = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    output, errors = kept.values()
    with process.stdout, process.stderr, selectors.DefaultSelector() as streams:
        for stream in kept:
            os.set_blocking(stream, False)
            streams.register(stream, selectors.EVENT_READ)
        ended = False
        while True:
            # Once it has ended, all of its output can be read at once.
            for key, _ in streams.select(0 if ended else _LOOK_EVERY):
                data = os.read(key.fd, _PIECE)
                if data:
                    _keep(kept[key.fd], data, first=key.fd == process.stdout.fileno())
                else:
                    streams.unregister(key.fd)
                ended = ended and not data
            if ended:
                break
            if not streams.get_map():
                ended = _has_ended(process, None if give_up is None else give_up - time.monotonic())
            else:
                ended = process.poll() is not None
            if not ended and give_up is not None and time.monotonic() > give_up:
                end_process(process)
                process.wait()
                assert timeout is not None
                raise subprocess.TimeoutExpired(process.args, timeout, stderr=_text(errors))
    return _text(output), _text(errors), process.returncode


def _keep(kept: bytearray, data: bytes, *, first: bool) -> None:
    kept += data[: MOST_KEPT - len(kept)] if first else data
    del kept[: max(0, len(kept) - MOST_KEPT)]


def _has_ended(process: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Wait for a process that has closed its streams."""
    try:
        process.wait(None if seconds is None else max(seconds, 0.0))
    except subprocess.TimeoutExpired:
        return False
    return True


def end_process(process: subprocess.Popen[bytes]) -> None:
    """End a process and everything it started, if it has not ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()


def _text(data: bytearray) -> str:
    return data.decode("utf-8", "replace")
