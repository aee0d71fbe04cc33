"""Measuring with any program: one command per test, its result on standard output."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import threading
from collections.abc import Iterable, Sequence

from bestarm.parsing import read_json, read_number
from bestarm.study.intake.values import Result, check_names, in_words
from bestarm.study.study import Test
from bestarm.study.work.failures import MeasurementFailed, MeasurementRefused, MeasurementTimedOut, NotStarted
from bestarm.study.work.processes import end_process, watch_process
from bestarm.texts import quoted
from bestarm.validation import InvalidInput, is_boolean

_PLACE = re.compile(r"\{(arm|metric|test|study)\}")
_PLACE_OR_ITEM = re.compile(r"\{(arm|metric|test|study|item)\}")
_OPERATORS = ";&|()`"
"""Where a shell begins another command."""
_EXPANSION = re.compile(r"""\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})(?=["']*\{)""")
"""What a shell fills in right before a placeholder, and may be empty."""
_KEPT = 2000
"""Characters of a failed command's messages that are kept in the log."""
SECRET = {"BESTARM_TOKEN", "BESTARM_DB"}
"""Variables that commands do not get."""


class Command:
    """Runs a command for each test, with {arm}, {metric}, {test} and {study} in it filled in; with `items` also {item}.

    No shell is used, so an arm's name always arrives as one argument. With `shell=True` names reach the shell only as
    variables ("$BESTARM_ARM"), which it does not read as commands. So a placeholder cannot stand inside quotes. The
    command finds the variables in its environment either way. It also sees the rest of our environment, except where
    studies are kept and the token of a service.
    """

    def __init__(
        self, template: str, study: str, *, timeout: float | None = None, shell: bool = False, items: bool = False
    ) -> None:
        self._place = _PLACE_OR_ITEM if items else _PLACE
        if timeout is not None and not timeout > 0:
            raise InvalidInput("timeout", timeout, "must be a positive number of seconds")
        words = words_in(template)
        if shell and (place := _quoted_place(self._place, template)):
            raise InvalidInput(
                "command",
                template,
                f"{{{place}}} stands inside quotes; write {_variable(place)} there, or take it out of the quotes",
            )
        self._template = template
        self._words = words
        self._exposed = exposed_places(template, self._place, shell=shell)
        self._study = study
        self._timeout = timeout
        self._shell = shell
        self._running: set[subprocess.Popen[bytes]] = set()
        self._lock = threading.Lock()
        self._stopped = False

    def check_names(self, arms: Iterable[str], metrics: Iterable[str], items: Iterable[str] = ()) -> None:
        """Raise `InvalidInput` for names that the command would take for options. Names may be added later, so each
        test is checked again."""
        names = {"arm": arms, "metric": metrics, "study": [self._study], "item": items}
        for place in self._exposed & names.keys():
            for name in names[place]:
                if is_option(name):
                    raise InvalidInput("command", self._template, taken_for_option(name, place))

    def __call__(self, test: Test) -> Result:
        """Measure once; `MeasurementFailed` says what went wrong."""
        names = {"arm": test.arm, "metric": test.metric, "test": str(test.id), "study": self._study}
        if test.item is not None:
            names["item"] = test.item
        for place in self._exposed & names.keys():
            if is_option(names[place]):
                raise NotStarted(taken_for_option(names[place], place))
        command: str | list[str]
        if self._shell:
            command = self._place.sub(lambda place: _variable(place[1]), self._template)
        else:
            command = [self._place.sub(lambda place: names[place[1]], word) for word in self._words]
        environment = {name: value for name, value in os.environ.items() if name not in SECRET}
        variables = names | {"metrics": "\n".join(test.metrics)}
        environment |= {f"BESTARM_{key.upper()}": name for key, name in variables.items()}
        output, errors, status = self._run(command, environment)
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            # This is how a shell says that there is no such program, or that it may not be started.
            kind = NotStarted if self._shell and status in (126, 127) else MeasurementFailed
            raise kind(f"the command {how}{_end_of(errors)}")
        try:
            return read_output(output, test.metrics)
        except InvalidInput as error:
            shown = output.strip()[:200]
            why = "" if len(test.metrics) == 1 else f" ({error})"
            raise MeasurementRefused(
                f"the command must print {wanted(test.metrics)}, and printed {shown!r}{why}{_end_of(errors)}"
            ) from None

    def _run(self, command: str | list[str], environment: dict[str, str]) -> tuple[str, str, int]:
        with self._lock:
            if self._stopped:
                raise NotStarted("stopped before it began")
            try:
                # In its own session, so that a time-out ends everything it started, and Ctrl-C is ours to handle.
                process = subprocess.Popen(
                    command,
                    shell=self._shell,
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                raise NotStarted(f"the command cannot be started: {reason}") from None
            self._running.add(process)
        try:
            return watch_process(process, self._timeout)
        except subprocess.TimeoutExpired as error:
            raise MeasurementTimedOut(
                f"the command took longer than {self._timeout:g} s and was stopped{_end_of(str(error.stderr))}"
            ) from None
        finally:
            with self._lock:
                self._running.discard(process)

    def stop(self) -> None:
        """End all commands that are running, and start no more."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            end_process(process)


def words_in(command: str) -> list[str]:
    """A command as the program and its arguments, without a shell."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise InvalidInput("command", command, f"cannot be split into words: {error}") from None
    if not words:
        raise InvalidInput("command", command, "must not be empty")
    return words


def exposed_places(template: str, places: re.Pattern[str], *, shell: bool) -> set[str]:
    """The placeholders whose text a program would read as an option if it began with a dash: they begin a word, and no
    `--` stands right before them or before other placeholders that do. (An earlier `--` may be that of another program:
    `nice -- cut {arm}`. What a shell puts before a placeholder may be empty: `$X{arm}`.)

    >>> sorted(exposed_places("sort -- {arm} {item}; cut {item} x{metric}", _PLACE_OR_ITEM, shell=True))
    ['item']
    >>> sorted(exposed_places("nice -- cut {arm} $X{metric}", _PLACE_OR_ITEM, shell=True))
    ['arm', 'metric']
    """
    if shell:
        # A backslash at the end of a line continues it; otherwise another command begins.
        template = _EXPANSION.sub("", template.replace("\\\n", "").replace("\n", ";"))
    words = shlex.shlex(template, posix=True, punctuation_chars=_OPERATORS if shell else False)
    words.whitespace_split, words.commenters = True, ""
    found, is_after_options = set(), False
    for word in words:
        if word == "--":
            is_after_options = True
        elif shell and set(word) <= set(_OPERATORS):
            is_after_options = False  # another command begins
        elif place := places.match(word):
            if not is_after_options:
                found.add(place[1])
        else:
            is_after_options = False
    return found


def is_option(text: str) -> bool:
    return text.startswith("-")


def taken_for_option(text: str, place: str) -> str:
    return (
        f"{text!r} begins with a dash and would be taken for an option; put `--` before {{{place}}}, or write "
        f"--{place}={{{place}}}"
    )


def _variable(place: str) -> str:
    """A name quoted so that a shell reads it as one word."""
    return f'"$BESTARM_{place.upper()}"'


def _quoted_place(places: re.Pattern[str], template: str) -> str | None:
    """The first placeholder that stands inside quotes, if any does."""
    quote, k = "", 0
    while k < len(template):
        character = template[k]
        if character == "\\" and quote != "'":
            k += 1
        elif quote and (place := places.match(template, k)):
            return place[1]
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        k += 1
    return None


def _end_of(errors: str) -> str:
    """The end of a command's error output, as part of a reason."""
    said = errors.strip()
    return f"; it said: {said[-_KEPT:]}" if said else ""


def read_output(text: str, metrics: Sequence[str]) -> Result:
    """The result of a test of `metrics` that a command printed. `InvalidInput` says what is wrong with it.

    >>> read_output("1.5\\n", ["time"])
    1.5
    >>> read_output('{"time": 1.5, "memory": 340}', ["time", "memory"])
    {'time': 1.5, 'memory': 340}
    >>> read_output("time 1.5\\nmemory 340\\n", ["time", "memory"])
    {'time': 1.5, 'memory': 340.0}
    """
    if len(metrics) == 1 and len(text.split()) == 1 and not text.lstrip().startswith("{"):
        return read_number(text, "the command's output")
    found = _object(text) if text.lstrip().startswith("{") else _lines(text)
    check_names(metrics, found)
    return found


def wanted(metrics: Sequence[str]) -> str:
    """What a command must print."""
    if len(metrics) == 1:
        return "one number"
    return f"the values of {in_words(metrics)}, as a JSON object or as lines `name value`"


def _object(text: str) -> dict[str, float]:
    data = read_json(text)
    for name, value in data.items():
        if not is_boolean(value) and not isinstance(value, int | float):
            raise InvalidInput(quoted(name), value, "must be a number", shown=quoted(value))
    return dict(data)


def _lines(text: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        *words, number = line.rsplit(maxsplit=1)
        if not words:
            raise InvalidInput("line", line, "must be a name and a value", shown=quoted(line))
        [name] = words
        if name in found:
            raise InvalidInput("line", line, f"there is a value of {quoted(name)} already", shown=quoted(line))
        found[name] = read_number(number, name)
    return found
