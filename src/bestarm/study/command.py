"""Measuring with any program: one command a test, one number on its standard output."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import threading

from bestarm.study.failures import MeasurementFailed, MeasurementRefused, MeasurementTimedOut, NotStarted
from bestarm.study.study import Test
from bestarm.study.values import read_number
from bestarm.validation import InvalidInput

_PLACE = re.compile(r"\{(arm|metric|test|study)\}")
_KEPT = 2000
"""Characters of a failed command's messages that are kept in the log."""


class Command:
    """Runs a command for each test, with {arm}, {metric}, {test} and {study} in it filled in.

    Without a shell, so that whatever an arm's name holds arrives as one argument; with `shell=True` the names are
    quoted. The command also finds them in the environment, as BESTARM_ARM and so on.
    """

    def __init__(self, template: str, study: str, *, timeout: float | None = None, shell: bool = False) -> None:
        if timeout is not None and not timeout > 0:
            raise InvalidInput(f"timeout = {timeout!r}: must be a positive number of seconds")
        try:
            words = shlex.split(template)
        except ValueError as error:
            raise InvalidInput(f"command = {template!r}: cannot be split into words: {error}") from None
        if not words:
            raise InvalidInput(f"command = {template!r}: must not be empty")
        self._template = template
        self._words = words
        self._study = study
        self._timeout = timeout
        self._shell = shell
        self._running: set[subprocess.Popen[str]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def __call__(self, test: Test) -> float:
        """Measure once; `MeasurementFailed` says what went wrong."""
        names = {"arm": test.arm, "metric": test.metric, "test": str(test.id), "study": self._study}

        def filled(text: str, *, quote: bool) -> str:
            return _PLACE.sub(lambda place: shlex.quote(names[place[1]]) if quote else names[place[1]], text)

        command: str | list[str]
        if self._shell:
            command = filled(self._template, quote=True)
        else:
            command = [filled(word, quote=False) for word in self._words]
        environment = os.environ | {f"BESTARM_{key.upper()}": name for key, name in names.items()}
        output, errors, status = self._run(command, environment)
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            # So a shell says that there is no such program, or that it may not be started.
            kind = NotStarted if self._shell and status in (126, 127) else MeasurementFailed
            raise kind(f"the command {how}{_end_of(errors)}")
        if len(output.split()) != 1:
            shown = output.strip()[:200]
            raise MeasurementRefused(f"the command must print one number, and printed {shown!r}{_end_of(errors)}")
        try:
            return read_number(output, "the command's output")
        except InvalidInput as error:
            raise MeasurementRefused(f"{error}{_end_of(errors)}") from None

    def _run(self, command: str | list[str], environment: dict[str, str]) -> tuple[str, str, int]:
        with self._lock:
            if self._stopped:
                raise NotStarted("stopped before it began")
            try:
                # A session of its own: a time-out ends everything it started, and Ctrl-C is ours to handle.
                process = subprocess.Popen(
                    command,
                    shell=self._shell,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise NotStarted(f"the command cannot be started: {reason}") from None
            self._running.add(process)
        try:
            output, errors = process.communicate(timeout=self._timeout)
        except subprocess.TimeoutExpired:
            _end(process)
            _, errors = process.communicate()
            raise MeasurementTimedOut(
                f"the command took longer than {self._timeout:g} s and was stopped{_end_of(errors)}"
            ) from None
        finally:
            with self._lock:
                self._running.discard(process)
        return output, errors, process.returncode

    def stop(self) -> None:
        """End all commands that are running, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError, AttributeError):
        process.kill()


def _end_of(errors: str) -> str:
    """The end of what a command complained, as part of a reason."""
    said = errors.strip()
    return f"; it said: {said[-_KEPT:]}" if said else ""
