"""Runs of a program of benchmarks: each yields the time of every benchmark."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from bestarm.race.contestants import words_of
from bestarm.race.suites.readers import OUTPUT, Suite, Times, read
from bestarm.study.work.command import SECRET, end_process
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.texts import last_lines
from bestarm.validation import InvalidInput

_SHOWN = 2000
"""The last characters of what a program that failed said, of which the last lines are shown."""


class Program:
    """A command that runs benchmarks and writes what they took. A run that fails ends the gate."""

    def __init__(self, command: str, suite: Suite, *, shell: str = "default", prepare: str | None = None) -> None:
        self.command = command
        self._suite = suite
        self._shell = shell
        self._prepare = prepare
        words_of(command, shell)
        if prepare is not None:
            words_of(prepare, shell)

    def run(self, timeout: float) -> Times:
        """Run it once, for so many seconds at most."""
        with tempfile.TemporaryDirectory(prefix="bestarm-") as folder:
            if self._prepare is not None:
                self._start(self._prepare, Path(folder), timeout, {})
            output = Path(folder) / "output"
            if self._suite.is_folder:
                output.mkdir()
            command = self.command.replace(OUTPUT, str(output))
            is_told = command != self.command
            variables = {} if is_told else self._variables(output)
            printed = self._start(command, Path(folder), timeout, variables)
            written = output if is_told or variables else printed
            if not written.exists():
                told = ", ".join(variables) or f"{OUTPUT} in the command"
                raise MeasurementFailed(
                    f"{self.command!r} wrote no results of the suite {self._suite.name} where {told} says. Write "
                    f"{OUTPUT} in the command where it takes the name of the file"
                )
            try:
                return read(self._suite, written)
            except InvalidInput as error:
                raise MeasurementFailed(f"{self.command!r}: {error}") from None

    def _variables(self, output: Path) -> dict[str, str]:
        filled = {name: value.replace(OUTPUT, str(output)) for name, value in self._suite.variables.items()}
        if not self._suite.is_added:
            return filled
        return {name: f"{os.environ.get(name, '')} {value}".strip() for name, value in filled.items()}

    def _start(self, command: str, folder: Path, timeout: float, variables: Mapping[str, str]) -> Path:
        """Run a command to its end. Returns the file with what it printed."""
        printed, said = folder / "printed", folder / "said"
        environment = {name: value for name, value in os.environ.items() if name not in SECRET}
        environment.update(variables)
        with printed.open("wb") as output, said.open("wb") as errors:
            try:
                # In a session of its own, so that all of it can be ended, and Ctrl-C is ours to handle.
                process = subprocess.Popen(
                    words_of(command, self._shell),
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise NotStarted(f"{command!r} cannot be started: {getattr(error, 'strerror', error)}") from None
            try:
                status = process.wait(timeout)
            except subprocess.TimeoutExpired:
                raise MeasurementFailed(f"{command!r} took longer than {timeout:.3g} s and was stopped") from None
            finally:
                if process.poll() is None:
                    end_process(process)
                    process.wait()
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            texts = (path.read_text(encoding="utf-8", errors="replace")[-_SHOWN:] for path in (said, printed))
            why = next(filter(None, map(last_lines, texts)), "")
            raise MeasurementFailed(f"{command!r} {how}{f': {why}' if why else ''}")
        return printed
