"""Measuring with any program: one command per test, its result on standard output."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping, Sequence

from bestarm.noises.shares import is_share
from bestarm.parsing import read_json
from bestarm.study.intake.values import VERDICTS, Result, Value, check_names, in_words, typed
from bestarm.study.study import Test
from bestarm.study.work.failures import MeasurementFailed, MeasurementRefused, MeasurementTimedOut, NotStarted, rescue
from bestarm.study.work.reading import Reader, Unreadable
from bestarm.texts import last_lines, quoted
from bestarm.validation import InvalidInput, is_boolean

_PLACEHOLDER = re.compile(r"\{(arm|metric|test|study)\}")
_PLACEHOLDER_OR_ITEM = re.compile(r"\{(arm|metric|test|study|item)\}")
_OPERATORS = ";&|()`"
"""Where a shell begins another command."""
_EXPANSION = re.compile(r"""\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*\})(?=["']*\{)""")
"""What a shell fills in right before a placeholder, and may be empty."""
_KEPT = 2000
"""Characters of a failed command's messages that are kept in the log."""
SECRET = {"BESTARM_TOKEN", "BESTARM_DB"}
"""Variables that commands do not get."""

MOST_KEPT = 100_000
"""Bytes kept of each stream: the last, whole lines of standard output."""

_CUT = b"(the beginning is cut off)\n"

_CAN_POLL = hasattr(os, "killpg")
"""Whether pipes can be polled and groups of processes ended, as everywhere but on Windows."""
_LOOK_EVERY = 0.1
_PIECE = 1 << 16


class Command:
    """Runs a command for each test, with {arm}, {metric}, {test} and {study} in it filled in; with `items` also {item}.

    No shell is used, so an arm's name always arrives as one argument. With `shell=True` names reach the shell only as
    variables ("$BESTARM_ARM"), which it does not read as commands. So a placeholder cannot stand inside quotes. The
    command finds the variables in its environment either way. It also sees the rest of our environment, except where
    studies are kept and the token of a service.
    """

    def __init__(
        self,
        template: str,
        study: str,
        *,
        timeout: float | None = None,
        shell: bool = False,
        items: bool = False,
        readers: Mapping[str, Reader] | None = None,
        has_results: bool = True,
    ) -> None:
        """Until there are results, output that cannot be read is a mistake of the command, and no measurement."""
        self._readers = readers or {}
        self._has_results = has_results
        self._placeholder = _PLACEHOLDER_OR_ITEM if items else _PLACEHOLDER
        if timeout is not None and not timeout > 0:
            raise InvalidInput("timeout", timeout, "must be a positive number of seconds")
        words = words_in(template)
        if shell and (quoted_one := _quoted_placeholder(self._placeholder, template)):
            variable = f"write {_variable(quoted_one)} there, or take it out of the quotes"
            raise InvalidInput("command", template, f"{{{quoted_one}}} stands inside quotes; {variable}")
        self._template = template
        self._words = words
        self._exposed = exposed_placeholders(template, self._placeholder, shell=shell)
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
        for placeholder in self._exposed & names.keys():
            for name in names[placeholder]:
                if is_option(name):
                    raise InvalidInput("command", self._template, taken_for_option(name, placeholder))

    def __call__(self, test: Test) -> Result:
        """Measure once; `MeasurementFailed` says what went wrong."""
        names = {"arm": test.arm, "metric": test.metric, "test": str(test.id), "study": self._study}
        if test.item is not None:
            names["item"] = test.item
        for placeholder in self._exposed & names.keys():
            if is_option(names[placeholder]):
                raise NotStarted(taken_for_option(names[placeholder], placeholder))
        command: str | list[str]
        if self._shell:
            command = self._placeholder.sub(lambda found: _variable(found[1]), self._template)
        else:
            command = [self._placeholder.sub(lambda found: names[found[1]], word) for word in self._words]
        environment = {name: value for name, value in os.environ.items() if name not in SECRET}
        variables = names | {"metrics": "\n".join(test.metrics)}
        environment |= {f"BESTARM_{key.upper()}": name for key, name in variables.items()}
        output, errors, status = self._run(command, environment)
        if status != 0:
            how = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            # This is how a shell says that there is no such program, or that it may not be started.
            kind = NotStarted if self._shell and status in (126, 127) else MeasurementFailed
            raise kind(f"the command {how}{_end_of(errors)}")
        refused = MeasurementRefused if self._has_results else NotStarted
        try:
            found = read_output(output, test.metrics, self._readers)
        except Unreadable as error:
            raise refused(f"{error}{_end_of(errors)}{'' if self._has_results else rescue(self._study, test)}") from None
        except InvalidInput as error:
            shown = output.strip()[:200]
            why = "" if len(test.metrics) == 1 else f" ({error})"
            raise refused(
                f"the command must print {wanted(test.metrics)}, and printed {shown!r}{why}{_end_of(errors)}"
                f"{'' if self._has_results else rescue(self._study, test)}"
            ) from None
        self._has_results = True
        return found

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


def exposed_placeholders(template: str, placeholders: re.Pattern[str], *, shell: bool) -> set[str]:
    """The placeholders whose text a program would read as an option if it began with a dash: they begin a word, and no
    `--` stands right before them or before other placeholders that do. (An earlier `--` may be that of another program:
    `nice -- cut {arm}`. What a shell puts before a placeholder may be empty: `$X{arm}`.)

    >>> sorted(exposed_placeholders("sort -- {arm} {item}; cut {item} x{metric}", _PLACEHOLDER_OR_ITEM, shell=True))
    ['item']
    >>> sorted(exposed_placeholders("nice -- cut {arm} $X{metric}", _PLACEHOLDER_OR_ITEM, shell=True))
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
        elif placeholder := placeholders.match(word):
            if not is_after_options:
                found.add(placeholder[1])
        else:
            is_after_options = False
    return found


def is_option(text: str) -> bool:
    return text.startswith("-")


def taken_for_option(text: str, placeholder: str) -> str:
    return (
        f"{text!r} begins with a dash and would be taken for an option; put `--` before {{{placeholder}}}, or write "
        f"--{placeholder}={{{placeholder}}}"
    )


def _variable(placeholder: str) -> str:
    """A name quoted so that a shell reads it as one word."""
    return f'"$BESTARM_{placeholder.upper()}"'


def _quoted_placeholder(placeholders: re.Pattern[str], template: str) -> str | None:
    """The first placeholder that stands inside quotes, if any does."""
    quote, k = "", 0
    while k < len(template):
        character = template[k]
        if character == "\\" and quote != "'":
            k += 1
        elif quote and (placeholder := placeholders.match(template, k)):
            return placeholder[1]
        elif character == quote:
            quote = ""
        elif not quote and character in "'\"":
            quote = character
        k += 1
    return None


def _end_of(errors: str) -> str:
    """The end of a command's error output, as part of a reason."""
    said = last_lines(errors, 8)
    return f"; it said: {said[-_KEPT:]}" if said else ""


def read_output(text: str, metrics: Sequence[str], readers: Mapping[str, Reader] | None = None) -> Result:
    """The result of a test of `metrics` that a command printed. `InvalidInput` says what is wrong with it.

    >>> read_output("1.5\\n", ["time"])
    1.5
    >>> read_output('{"time": 1.5, "memory": 340}', ["time", "memory"])
    {'time': 1.5, 'memory': 340}
    >>> read_output("time 1.5\\nmemory 340\\n", ["time", "memory"])
    {'time': 1.5, 'memory': 340.0}
    >>> read_output("3 of 105800\\n", ["errors"])
    '3 of 105800'

    With `readers`, each metric is what its reader finds; `Unreadable` says which cannot be read.

    >>> from bestarm.study.work.reading import reader_of
    >>> read_output("took 1.5 s", ["time"], {"time": reader_of("metric", "regex:took ([0-9.]+)")})
    1.5
    """
    if readers:
        values = {metric: _found(text, metric, readers[metric]) for metric in metrics}
        return values if len(values) > 1 else next(iter(values.values()))
    is_alone = len(text.split()) == 1 or is_share(text)
    if len(metrics) == 1 and is_alone and not text.lstrip().startswith("{"):
        return typed(text, "the command's output")
    found = _object(text) if text.lstrip().startswith("{") else _lines(text)
    check_names(metrics, found)
    return found


def _found(text: str, metric: str, reader: Reader) -> Value:
    try:
        return typed(reader(text), metric)
    except (Unreadable, InvalidInput) as error:
        how = "" if isinstance(error, Unreadable) else f"{reader.text}: "
        raise Unreadable(f"{quoted(metric)} cannot be read with {how}{error}") from None


def wanted(metrics: Sequence[str]) -> str:
    """What a command must print."""
    if len(metrics) == 1:
        return "one number"
    return f"the values of {in_words(metrics)}, as a JSON object or as lines `name value`"


def _object(text: str) -> dict[str, Value]:
    data = read_json(text)
    for name, value in data.items():
        is_one = is_boolean(value) or isinstance(value, int | float) or is_share(value)
        if not is_one and value not in [*VERDICTS]:
            raise InvalidInput(quoted(name), value, "must be a number", shown=quoted(value))
    return dict(data)


def _lines(text: str) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        *words, number = line.rsplit(maxsplit=1)
        if not words:
            raise InvalidInput("line", line, "must be a name and a value", shown=quoted(line))
        [name] = words
        if name in found:
            raise InvalidInput("line", line, f"there is a value of {quoted(name)} already", shown=quoted(line))
        found[name] = typed(number, name)
    return found


def watch_process(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[str, str, int]:
    """The process's output, error output and status, as soon as it has ended.

    Processes that it started may go on and keep its streams open. They are not waited for. If it takes longer than
    `timeout` seconds, it is ended with everything it started, and `TimeoutExpired` has its error output.
    """
    if not _CAN_POLL:
        return _watch_at_its_end(process, timeout)
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
                    kept[key.fd] += data
                    # One byte more tells that some are missing.
                    del kept[key.fd][: max(0, len(kept[key.fd]) - MOST_KEPT - 1)]
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
    return _text(_last_lines(output)), _text(errors), process.returncode


def _watch_at_its_end(process: subprocess.Popen[bytes], timeout: float | None) -> tuple[str, str, int]:
    """The same where pipes cannot be polled, as on Windows. There, what a process started and left behind is waited for
    as long as it keeps the streams open, and is not ended with it."""
    try:
        output, errors = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired as error:
        process.kill()
        said = process.communicate()[1]
        raise subprocess.TimeoutExpired(error.cmd, error.timeout, stderr=_text(said[-MOST_KEPT:])) from None
    return _text(_last_lines(output)), _text(errors[-MOST_KEPT:]), process.returncode


def _last_lines(output: bytes | bytearray) -> bytes | bytearray:
    """The last lines, all of them whole: the rest of one that is cut off could be read as another number."""
    return output if len(output) <= MOST_KEPT else _CUT + output[-MOST_KEPT:].partition(b"\n")[2]


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
        if _CAN_POLL:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except (ProcessLookupError, PermissionError):
        process.kill()


def _text(data: bytes | bytearray) -> str:
    return data.decode("utf-8", "replace")
