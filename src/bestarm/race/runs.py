"""Runs of commands, measured by a small process beside this one."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from bestarm.race import runner
from bestarm.study.work.command import SECRET
from bestarm.study.work.failures import NotStarted


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

    @property
    def failed(self) -> bool:
        return self.timed_out or self.status != 0

    @property
    def how(self) -> str:
        """How it ended, in words."""
        if self.timed_out:
            return f"took longer than {self.time:g} s and was stopped"
        how = f"ended with status {self.status}" if self.status >= 0 else f"was ended by signal {-self.status}"
        said = self.errors.strip()
        return f"{how}: {said[-500:]}" if said else how

    def value(self, metric: str) -> float:
        """The value of a metric in this run."""
        return float(self.failed) if metric == "failures" else float(getattr(self, metric))


class Runner:
    """Measures commands, one at a time. Use it as a context: at its end whatever runs is ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None
        self._floor: float | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, words: list[str], timeout: float | None) -> Run:
        return Run(**self._reply({"words": words, "timeout": timeout}))

    def floor(self) -> float:
        """Bytes of memory below which programs cannot be told apart."""
        if self._floor is None:
            self._floor = float(self._reply({})["floor"])
        return self._floor

    def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        if not hasattr(os, "posix_spawn"):
            raise NotStarted("this system cannot measure commands; Linux and macOS can")
        if self._process is None:
            # In a session of its own: Ctrl-C is ours to handle. Commands need not know where studies are kept.
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(runner.__file__))],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={name: value for name, value in os.environ.items() if name not in SECRET},
                start_new_session=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            raise NotStarted("the process that measures commands has ended")
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise NotStarted(reply["error"])
        return reply

    def close(self) -> None:
        """End whatever runs."""
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        # The end of its input ends the command that runs, and then itself.
        process.stdin.close()
        process.wait()
        process.stdout.close()
