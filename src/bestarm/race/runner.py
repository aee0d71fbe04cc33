"""Runs commands one after the other and measures them: a small process of its own, which knows nothing of bestarm.

A request is a line of JSON on standard input, and so is a reply on standard output. When the input ends, whatever runs
is ended.

Linux counts the memory of the process that was forked as part of the peak memory of the program that it becomes. Python
needs more than 10 MB, so small programs would all seem to need as much. So where it can, this process does not fork
itself. A shell, which needs less than 1 MB, forks a copy of itself and is then ended. The copy becomes our child,
because we asked the system for orphans (`PR_SET_CHILD_SUBREAPER`). When it is told to, it becomes the command. The
clock starts at that moment, so the time of the shell does not count.
"""

from __future__ import annotations

import functools
import json
import os
import re
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

_KEPT = 2000
"""Bytes of error messages that are reported."""
_PIECE = 1 << 18
_LOOK_EVERY = 0.001
"""Seconds between polls where the system cannot notify us of the end of a process."""
_UNIT = 1 if sys.platform == "darwin" else 1024
"""Bytes in which the system counts peak memory."""
_SHELL = "/bin/sh"
_COPY = '(echo >&3; read -r bestarm_go <&3 && exec "$@" 3<&-); :'
"""What the shell does: its copy says that it is there, waits for a line, and becomes the command."""
_PLAIN_NAME = re.compile("[A-Za-z_][A-Za-z0-9_]*")
_SET_CHILD_SUBREAPER = 36
_LEAST_FLOOR = 2e6


class Abandoned(Exception):
    """The process that asked for the run is gone."""


def run(
    words: list[str],
    timeout: float | None,
    keep: int = 0,
    source: str = "null",
    to: str = "pipe",
    inherited: int | None = None,
) -> dict[str, Any]:
    """Run a program once, with its input from this file and its output to that one; `null` is no file. Output into the
    pipe is counted and thrown away, but for the last bytes that are to be kept. If a stream is `inherited`, output goes
    there, and errors to where ours go."""
    _reap()
    opened: list[int] = []
    try:
        opened.append(_open(source, os.O_RDONLY))
        opened.append(_open("null" if to == "pipe" else to, os.O_WRONLY | os.O_CREAT | os.O_TRUNC))
    except OSError as error:
        for end in opened:
            os.close(end)
        return {"error": f"{error.filename}: {error.strerror}"}
    output, out_end = os.pipe()
    errors, err_end = os.pipe()
    streams = [opened[0], out_end if to == "pipe" else opened[1], err_end]
    if inherited is not None:
        os.set_inheritable(inherited, False)
        streams[1:] = [inherited, sys.stderr.fileno()]
    try:
        started = _start(words, streams)
    except (OSError, ValueError) as error:
        for end in (output, errors):
            os.close(end)
        return {"error": f"{words[0]!r} cannot be started: {getattr(error, 'strerror', None) or error}"}
    finally:
        for end in (*opened, out_end, err_end):
            os.close(end)
    try:
        seen = _watch(started, output, errors, timeout, keep)
    except Abandoned:
        started.end()
        os.wait4(started.process, 0)
        raise
    finally:
        os.close(output)
        os.close(errors)
    # What the copy of the shell used counts in both, in the proportion in which the system divides their sum.
    used = seen.used.ru_utime + seen.used.ru_stime
    own = max(0.0, 1.0 - started.used / used) if used else 1.0
    return {
        "time": timeout if seen.timed_out else seen.ended - started.at,
        "user": own * seen.used.ru_utime,
        "system": own * seen.used.ru_stime,
        "memory": seen.used.ru_maxrss * _UNIT,
        "output": seen.output,
        "status": os.waitstatus_to_exitcode(seen.status),
        "timed_out": seen.timed_out,
        "errors": seen.errors.decode("utf-8", "replace"),
        "printed": seen.printed[-keep:].decode("utf-8", "replace") if keep else "",
    }


def _open(name: str, how: int) -> int:
    return os.open(os.devnull if name == "null" else name, how, 0o666)


def floor() -> dict[str, Any]:
    """Bytes of memory below which programs cannot be told apart: what the smallest seems to need, rounded up to a power
    of two of megabytes, so that it is the same each time."""
    least = _LEAST_FLOOR
    for _ in range(3):
        reply = run(["true"], None)
        if "error" in reply:
            return reply
        while reply["memory"] >= least:
            least *= 2.0
    return {"floor": least}


class Started:
    """A command that has started: its process and the group of all that it starts, when it began, and the seconds that
    the process had used before."""

    def __init__(self, process: int, group: int, at: float, used: float = 0.0) -> None:
        self.process = process
        self.at = at
        self.used = used
        self._group = group

    def end(self) -> None:
        """End the process and everything that it started."""
        try:
            os.killpg(self._group, signal.SIGKILL)
        except ProcessLookupError:
            os.kill(self.process, signal.SIGKILL)


def _start(words: list[str], streams: list[int]) -> Started:
    """Start a program with these streams as standard input, output and errors."""
    # Only posix_spawn can say why a program cannot be started.
    if _can_start_from_shell() and _is_program(words[0]):
        return _start_from_shell(words, streams)
    at = time.perf_counter()
    process = _spawn(os.posix_spawnp, words[0], words, streams)
    return Started(process, process, at)


@functools.cache
def _can_start_from_shell() -> bool:
    """Whether this system has what `_start_from_shell` needs."""
    try:
        import ctypes

        if ctypes.CDLL(None).prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            return False
        os.waitpid(_start_from_shell(["true"], []).process, 0)
    except (ImportError, AttributeError, OSError):
        return False
    return True


def _start_from_shell(words: list[str], streams: list[int]) -> Started:
    """The same from a copy of a shell."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        # Some shells do not pass on variables whose names they could not use themselves.
        odd = [f"{name}={value}" for name, value in os.environ.items() if not _PLAIN_NAME.fullmatch(name)]
        command = [_SHELL, "-c", _COPY, "sh", *(["env", *odd] if odd else []), *words]
        shell = _spawn(os.posix_spawn, _SHELL, command, streams, theirs.fileno())
        theirs.close()
        # The system says which process wrote the line.
        _, about, _, _ = ours.recvmsg(1, socket.CMSG_SPACE(struct.calcsize("3i")))
        os.kill(shell, signal.SIGKILL)
        os.waitpid(shell, 0)
        if not about:
            raise OSError(f"{_SHELL} did not fork")
        [copy, _, _] = struct.unpack("3i", about[0][2])
        used = _used_by(copy)
        at = time.perf_counter()
        ours.send(b"\n")
        return Started(copy, shell, at, used)


def _spawn(spawn: Any, program: str, words: list[str], streams: list[int], line: int | None = None) -> int:
    """Start a program in a process group of its own, with these standard streams and `line` as number 3."""
    ends = dict(enumerate(streams)) | ({} if line is None else {3: line})
    actions = [(os.POSIX_SPAWN_DUP2, end, to) for to, end in ends.items()]
    # Python ignores these signals, and programs would go on doing so.
    process: int = spawn(
        program, words, os.environ, file_actions=actions, setpgroup=0, setsigdef=[signal.SIGPIPE, signal.SIGXFSZ]
    )
    return process


def _used_by(process: int) -> float:
    """Seconds of processor time."""
    try:
        return time.clock_gettime(~process << 3 | 2)  # as clock_getcpuclockid(3) has it
    except OSError:
        return 0.0


def _is_program(name: str) -> bool:
    folders = [""] if "/" in name else os.get_exec_path()
    paths = [os.path.join(folder, name) for folder in folders]
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)


def _reap() -> None:
    """Take note of the end of processes that commands left behind and that became our children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


class Observation:
    """What was seen of a process."""

    def __init__(self, keep: int) -> None:
        self.output = 0
        self.keep = keep
        self.printed = bytearray()
        self.errors = b""
        self.timed_out = False
        self.ended = 0.0
        self.status = 0
        self.used: Any = None


def _watch(started: Started, output: int, errors: int, timeout: float | None, keep: int) -> Observation:
    """Read what a process writes until it ends, or end it when it takes too long.

    Processes that it started may go on and keep its streams open. They are not waited for.
    """
    seen = Observation(keep)
    handle = os.pidfd_open(started.process) if hasattr(os, "pidfd_open") else None
    waiting = select.poll()
    for end in (output, errors):
        os.set_blocking(end, False)
        waiting.register(end, select.POLLIN)
    # Only whether the other side is gone is of interest. A socket says so if it is asked.
    waiting.register(sys.stdin.fileno(), getattr(select, "POLLRDHUP", 0))
    if handle is not None:
        waiting.register(handle, select.POLLIN)
    try:
        while True:
            pause = 3600.0 if handle is not None else _LOOK_EVERY
            if timeout is not None and not seen.timed_out:
                pause = max(0.0, min(pause, started.at + timeout - time.perf_counter()))
            ready = {end for end, _ in waiting.poll(1000.0 * pause)}
            seen.ended = time.perf_counter()
            has_ended = 0
            if handle is None or handle in ready:
                has_ended, seen.status, seen.used = os.wait4(started.process, os.WNOHANG)
            if sys.stdin.fileno() in ready:
                raise Abandoned
            for end in {output, errors} if has_ended else ready & {output, errors}:
                if _take(seen, end, is_output=end == output, everything=bool(has_ended)):
                    waiting.unregister(end)
            if has_ended:
                return seen
            if timeout is not None and not seen.timed_out and seen.ended - started.at >= timeout:
                seen.timed_out = True
                started.end()
    finally:
        if handle is not None:
            os.close(handle)


def _take(seen: Observation, end: int, *, is_output: bool, everything: bool) -> bool:
    """Read what is available, once or to the end. True at the end of the file."""
    while True:
        try:
            data = os.read(end, _PIECE)
        except BlockingIOError:
            return False
        if not data:
            return not everything
        if is_output:
            seen.output += len(data)
            if seen.keep:
                seen.printed += data
                if len(seen.printed) > 2 * seen.keep:
                    del seen.printed[: -seen.keep]
        else:
            seen.errors = (seen.errors + data)[-_KEPT:]
        if not everything:
            return False


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
            reply = floor() if "words" not in request else run(**request)
        except Abandoned:
            return
        sys.stdout.write(json.dumps(reply) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
