"""Runs of commands, measured by a small process beside this one."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import shlex
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bestarm.noises.shares import Share
from bestarm.race import runner
from bestarm.study.work.command import SECRET
from bestarm.study.work.failures import NotStarted
from bestarm.texts import last_lines

BUILT_IN = ("time", "user", "system", "memory", "output", "failures")
MOST_KEPT = 1_000_000
"""Bytes of a run's standard output that are kept, its last ones, where metrics are read from it."""
_READY = "bestarm is ready"
_PATIENCE = 60.0
"""Seconds that a machine may take to answer, beside those that a run may take."""


class MachineLost(NotStarted):
    """A machine cannot be reached, or not any more."""


def check_can_measure(machines: Sequence[str] = ()) -> None:
    """Raise an error where commands cannot be measured on this machine, unless others are named."""
    if not machines and not all(hasattr(os, name) for name in ("posix_spawn", "wait4", "killpg")):
        raise NotStarted(
            "this system cannot measure commands; Linux and macOS can, as can WSL, or another machine: --on HOST"
        )


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of a command: times in seconds, sizes in bytes."""

    time: float
    user: float
    system: float
    memory: float
    output: int
    status: int
    """The exit status; below 0 the number of the signal that ended it."""
    timed_out: bool
    errors: str
    """The end of what it wrote to standard error."""
    on: str = ""
    """The machine, if it was named."""
    own: Mapping[str, float | Share] = dataclasses.field(default_factory=dict)
    """By name: the metrics of the user's own that it printed."""
    unread: str = ""
    """Why one of them could not be read."""
    printed: str = ""
    """The end of what it wrote to standard output, as long as metrics are read from it."""

    @property
    def failed(self) -> bool:
        return self.timed_out or self.status != 0

    @property
    def how(self) -> str:
        """How it ended, in words."""
        where = f" on {self.on}" if self.on else ""
        if self.timed_out:
            return f"took longer than {self.time:g} s{where} and was stopped"
        how = f"ended with status {self.status}" if self.status >= 0 else f"was ended by signal {-self.status}"
        how += where
        said = last_lines(self.errors[-500:])
        return f"{how}: {said}" if said else how

    def value(self, metric: str) -> float:
        """The value of a metric in this run; NaN if the run did not print a metric of the user's own."""
        if metric in BUILT_IN:
            return float(self.failed) if metric == "failures" else float(getattr(self, metric))
        own = self.own.get(metric, math.nan)
        return own.mean if isinstance(own, Share) else own


@dataclasses.dataclass(frozen=True)
class Streams:
    """Where commands read from and write to: files, or `null`. What goes through a pipe is counted and thrown away."""

    source: str = "null"
    to: str = "pipe"
    is_inherited: bool = False
    """Output and errors go where ours go."""


USUAL_STREAMS = Streams()


class Runner:
    """Measures commands, one at a time. Use it as a context: at its end whatever runs is ended.

    On another machine, `reached_by` are the words of a command that runs a shell there, if `sh` is written after them.
    That shell becomes a Python that measures. Nothing is installed there, and the way there takes no measured time.
    """

    def __init__(self, on: str = "", reached_by: Sequence[str] = ()) -> None:
        self.on = on
        self.keeps = 0
        """How many bytes of standard output a run keeps, its last ones."""
        self._reached_by = reached_by
        self._process: subprocess.Popen[str] | None = None
        self._errors: Any = None
        self._floor: float | None = None
        self._is_closed = False
        self._streams = USUAL_STREAMS
        self._output: int | None = None
        """The number that our standard output has there, if commands inherit it."""

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def connect(self, streams: Streams) -> None:
        """Say where commands read from and write to, before the first run."""
        self._streams = streams

    def run(self, words: list[str], timeout: float | None) -> Run:
        """Make a measured run."""
        about = {"source": self._streams.source, "to": self._streams.to, "keep": self.keeps}
        return Run(**self._reply({"words": words, "timeout": timeout, **about}))

    def run_aside(self, words: list[str]) -> Run:
        """Run what is not measured, such as what prepares a run."""
        return Run(**self._reply({"words": words, "timeout": None}))

    def floor(self) -> float:
        """Bytes of memory below which programs cannot be told apart."""
        if self._floor is None:
            self._floor = float(self._reply({})["floor"])
        return self._floor

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        if self._is_closed:
            raise MachineLost("the race has ended")
        if self._process is None:
            self._start()
        if "words" in request:
            request["inherited"] = self._output
        limit = request.get("timeout", 0.0)
        reply: dict[str, Any] = json.loads(self._answer(json.dumps(request), limit))
        if "error" in reply:
            raise NotStarted(f"{reply['error']}{f' on {self.on}' if self.on else ''}")
        return reply

    def _start(self) -> None:
        if not self._reached_by:
            check_can_measure()
        here = [sys.executable, "-I", "-S", str(Path(runner.__file__))]
        # Its own standard output is for replies.
        self._output = os.dup(1) if self._streams.is_inherited else None
        # Where ssh says what is wrong.
        self._errors = tempfile.TemporaryFile() if self._reached_by else None  # noqa: SIM115
        try:
            # In a session of its own: Ctrl-C is ours to handle. Commands need not know where studies are kept.
            self._process = subprocess.Popen(
                [*self._reached_by, "sh"] if self._reached_by else here,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                env={name: value for name, value in os.environ.items() if name not in SECRET},
                start_new_session=True,
                pass_fds=() if self._output is None else (self._output,),
            )
        except OSError as error:
            if self._errors is None:
                raise
            self._errors.close()
            raise MachineLost(f"{self.on} cannot be reached: {self._reached_by[0]}: {error.strerror}") from None
        finally:
            if self._output is not None:
                os.close(self._output)
        if self._reached_by:
            source = shlex.quote(Path(runner.__file__).read_text(encoding="utf-8"))
            # Some shells read ahead, so the first request waits until this one has become Python.
            line = self._answer(f"echo {_READY}; exec python3 -I -S -c {source}", 0.0)
            while line.strip() != _READY:
                line = self._answer("", 0.0)  # a greeting

    def _answer(self, line: str, limit: float | None) -> str:
        """Send a line and wait for one. A machine that takes longer than a run may does not answer any more."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        started, patience = time.monotonic(), _PATIENCE + (limit or 0.0)
        late = threading.Timer(patience, process.kill)
        if self._reached_by and limit is not None:
            late.start()
        try:
            if line:
                process.stdin.write(line + "\n")
                process.stdin.flush()
            found = process.stdout.readline()
        except BrokenPipeError:
            found = ""
        finally:
            late.cancel()
        if not found:
            waited = f"gave no answer for {patience:g} s" if time.monotonic() - started >= patience else ""
            raise MachineLost(self._why_lost(process, waited))
        return found

    def _why_lost(self, process: subprocess.Popen[str], waited: str) -> str:
        if not self._reached_by:
            return "the process that measures commands has ended"
        status = process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()[-500:]
        unsaid = f"ended with status {status}" if status else "ended; does it need -i, as docker exec does?"
        return f"{self.on}: {waited or said or unsaid}"

    def reopen(self) -> None:
        """Let runs begin again after `close`."""
        self._is_closed = False

    def close(self) -> None:
        """End whatever runs, for good: another thread may be about to begin a run."""
        self._is_closed = True
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        # The end of its input ends the command that runs, and then itself.
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(None if not self._reached_by else 5.0)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        if self._errors is not None:
            self._errors.close()
