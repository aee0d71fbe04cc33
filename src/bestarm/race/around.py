"""Runs of commands, and what is run around them, unmeasured: setup, prepare, conclude, cleanup.

`prepare` and `conclude` are run before and after each run. `setup` is run once, before all runs, if it is the same for
all commands. If parameters make it differ, one setup may undo what another did, and commands take turns. So it is then
run before each run, and `cleanup` after each.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence

from bestarm.race.contestants import AROUND, Contestant, words_of
from bestarm.race.limits import Metric
from bestarm.race.machines import Machines
from bestarm.race.own_metrics import measured
from bestarm.race.runs import Run, Runner
from bestarm.study.work.failures import NotStarted

_NO_SUCH_PROGRAM = (126, 127)
"""How a shell says that there is no such program, or that it may not be started."""


class Commands:
    """The commands of a race, with what is run around them."""

    def __init__(self, contestants: Sequence[Contestant], shell: str, own: Sequence[Metric] = ()) -> None:
        self._own = own
        self._commands = {one.name: one.command for one in contestants}
        self._shell = shell
        self._measured = {one.name: words_of(one.command, shell) for one in contestants}
        self._texts = {
            kind: {one.name: one.around[kind] for one in contestants if kind in one.around} for kind in AROUND
        }
        self._words = {text: words_of(text, shell) for texts in self._texts.values() for text in texts.values()}
        self._sets_up_each_run = len({*self._texts["setup"].values()}) > 1

    @property
    def words(self) -> list[list[str]]:
        """All that is run, as programs with their arguments."""
        return [*self._measured.values(), *self._words.values()]

    @property
    def about(self) -> dict[str, str | Mapping[str, str] | None]:
        """What is run, as a race's record has it."""
        around = {
            kind: next(iter(texts.values()), None) if len({*texts.values()}) <= 1 else texts
            for kind, texts in self._texts.items()
        }
        return {"commands": self._commands, "shell": self._shell, **around}

    def check_program(self, name: str, run: Run) -> None:
        """Raise an error if a shell did not find the program of a command. A command of several words without quotes
        is several commands."""
        if self._shell == "none" or run.status not in _NO_SUCH_PROGRAM:
            return
        commands = self._commands.values()
        is_unquoted = len(commands) > 1 and not any(len(one.split()) > 1 for one in commands)
        advice = f". Commands of several words are put in quotes: {' '.join(commands)!r}" if is_unquoted else ""
        raise NotStarted(f"{name!r} {run.how}{advice}")

    @contextlib.contextmanager
    def around_all(self, machines: Machines) -> Iterator[None]:
        """What comes before all runs on each machine and, also if they are interrupted, after them."""
        machines.each(functools.partial(self._once, "setup"))
        clean_up = functools.partial(self._once, "cleanup")
        try:
            yield
        except BaseException:
            machines.restart()
            with contextlib.suppress(NotStarted):
                machines.each(clean_up)
            raise
        machines.each(clean_up)

    def run(self, name: str, timeout: float | None, runner: Runner) -> Run:
        """Run a command, and what comes before and after that."""
        for kind in ("setup", "prepare") if self._sets_up_each_run else ("prepare",):
            self._run(kind, self._texts[kind].get(name), runner)
        run = dataclasses.replace(runner.run(self._measured[name], timeout), on=runner.on)
        for kind in ("conclude", "cleanup") if self._sets_up_each_run else ("conclude",):
            self._run(kind, self._texts[kind].get(name), runner)
        return measured(run, self._own)

    def _once(self, kind: str, runner: Runner) -> None:
        for text in dict.fromkeys(self._texts[kind].values()) if not self._sets_up_each_run else ():
            self._run(kind, text, runner)

    def _run(self, kind: str, text: str | None, runner: Runner) -> None:
        if text is None:
            return
        ended = runner.run_aside(self._words[text])
        if ended.failed:
            raise NotStarted(f"--{kind} {text!r} {dataclasses.replace(ended, on=runner.on).how}")
