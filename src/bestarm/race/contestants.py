"""The commands of a race: names, parameters that are filled in, and what is run before and after them."""

from __future__ import annotations

import dataclasses
import itertools
import math
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation

from bestarm.study.work.command import words_in
from bestarm.texts import quoted
from bestarm.validation import LONGEST_NAME, InvalidInput

MOST_COMMANDS = 1000
"""Commands of one race."""

DEFAULT_SHELL = "/bin/sh"

AROUND = ("setup", "prepare", "conclude", "cleanup")
"""What can be run around the measured runs, unmeasured: before and after all of them, or before and after each."""

Around = Mapping[str, Sequence[str]]
"""By name of `AROUND`: one text for all commands, or one for each."""


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A command, the name that it is shown by, the parameters that were filled in, and what is run around it."""

    name: str
    command: str
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    around: Mapping[str, str] = dataclasses.field(default_factory=dict)
    is_named: bool = False
    """Whether the name was stated."""


def contestants_of(
    commands: Sequence[str],
    names: Sequence[str] = (),
    lists: Sequence[str] = (),
    *,
    scan: tuple[str, str, str] | None = None,
    step: str | None = None,
    around: Around | None = None,
) -> list[Contestant]:
    """Every command with every combination of parameters filled in for {name}, in hyperfine's order: the commands with
    the first values come first. `scan` is a parameter with its first and last number.

    >>> [one.command for one in contestants_of(["gzip -{level} f"], lists=["level=1,9"])]
    ['gzip -1 f', 'gzip -9 f']
    >>> [one.command for one in contestants_of(["make -j {n}"], scan=("n", "1", "3"))]
    ['make -j 1', 'make -j 2', 'make -j 3']
    """
    around = around or {}
    parameters = _parameters(lists, scan, step)
    # A text for each command before parameters are filled in, or one for all.
    templates = [
        {kind: texts[place % len(texts)] for kind, texts in around.items() if len(texts) in (1, len(commands))}
        for place in range(len(commands))
    ]
    filled: list[tuple[tuple[tuple[int, ...], int], Contestant]] = []
    unused = set(parameters)
    for place, command in enumerate(commands):
        texts = [command, *templates[place].values()]
        used = [name for name in parameters if any(f"{{{name}}}" in text for text in texts)]
        unused -= {*used}
        if math.prod(len(parameters[name]) for name in used) + len(filled) > MOST_COMMANDS:
            raise InvalidInput("command", command, f"there can be at most {MOST_COMMANDS:,} commands")
        for choice in itertools.product(*(enumerate(parameters[name]) for name in used)):
            values = {name: value for name, (_, value) in zip(used, choice, strict=True)}
            chosen = {name: number for name, (number, _) in zip(used, choice, strict=True)}
            key = tuple(chosen.get(name, 0) for name in reversed(parameters)), place
            one = Contestant(_unnamed(command, values), _filled(command, values), values)
            with_texts = {kind: _filled(text, values) for kind, text in templates[place].items()}
            filled.append((key, dataclasses.replace(one, around=with_texts)))
    if unused:
        name = next(name for name in parameters if name in unused)
        raise InvalidInput("parameter", name, f"no command has {{{name}}} to fill in")
    found = [one for _, one in sorted(filled, key=lambda one: one[0])]
    return _checked(_named(_with_texts_of_their_own(found, around, len(commands)), names))


def _with_texts_of_their_own(found: Sequence[Contestant], around: Around, commands: int) -> list[Contestant]:
    """Take in texts of which there is one for each command with its parameters filled in."""
    for kind, texts in around.items():
        if len(texts) not in (1, commands, len(found)):
            counts = " or ".join(f"{count:,}" for count in sorted({commands, len(found)}))
            raise InvalidInput(f"--{kind}", len(texts), f"state it once, or once for each of the {counts} commands")
    return [
        dataclasses.replace(
            one,
            around={
                kind: one.around[kind] if kind in one.around else _filled(texts[place], one.parameters)
                for kind, texts in around.items()
            },
        )
        for place, one in enumerate(found)
    ]


def _named(found: Sequence[Contestant], names: Sequence[str]) -> list[Contestant]:
    """Names belong to the first commands. The others are called by their command. One name with a parameter in it is
    that of all commands."""
    if len(names) == 1 and _filled(names[0], found[0].parameters) != names[0]:
        names = [names[0]] * len(found)
    if len(names) > len(found):
        reason = f"there {'is 1 command' if len(found) == 1 else f'are {len(found)} commands'}, and no more names"
        raise InvalidInput("--command-name", len(names), reason)
    stated = [*names, *[""] * (len(found) - len(names))]
    return [
        dataclasses.replace(one, name=_shown(_filled(name, one.parameters) or one.name), is_named=bool(name))
        for name, one in zip(stated, found, strict=True)
    ]


def _checked(found: Sequence[Contestant]) -> list[Contestant]:
    """Commands with a name each. Those that differ only in white space, or after the end of a name, get a number."""
    checked: dict[str, Contestant] = {}
    for one in found:
        if not one.command.strip():
            raise InvalidInput("command", one.command, "must not be empty")
        name, number = one.name, 1
        while name in checked:
            other = checked[name]
            if one.is_named or other.is_named or one.command == other.command:
                reason = "is there twice; give each a name of its own with --command-name"
                raise InvalidInput("command", one.name, reason)
            number += 1
            name = f"{one.name[: LONGEST_NAME - 10]} ({number})"
        checked[name] = dataclasses.replace(one, name=name)
    return [*checked.values()]


def _parameters(lists: Sequence[str], scan: tuple[str, str, str] | None, step: str | None) -> dict[str, Sequence[str]]:
    """The values of each parameter."""
    if step is not None and scan is None:
        raise InvalidInput("--parameter-step-size", step, "goes with --parameter-scan NAME FIRST LAST")
    parameters: dict[str, Sequence[str]] = {}
    if scan is not None:
        parameters[scan[0]] = list(_scanned(scan, step))
    for text in lists:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput("--parameter-list", text, "must be a name and its values: level 1,5,9")
        if not name.strip() or name in parameters:
            raise InvalidInput("--parameter-list", name, "each list needs a name of its own")
        # A comma after a backslash is part of a value.
        parameters[name] = [value.replace("\\,", ",") for value in re.split(r"(?<!\\),", values)]
        if not all(parameters[name]):
            reason = f"values of {name!r}, separated by commas, must not be empty"
            raise InvalidInput("--parameter-list", values, reason)
    return parameters


def _scanned(scan: tuple[str, str, str], step: str | None) -> Iterator[str]:
    """Every number from the first to the last.

    >>> list(_scanned(("delay", "0.3", "0.7"), "0.2"))
    ['0.3', '0.5', '0.7']
    """
    field, shown = "--parameter-scan", " ".join(scan)
    try:
        first, last, by = (Decimal(text) for text in (*scan[1:], step or "1"))
    except InvalidOperation:
        raise InvalidInput(field, shown, "must be a name and two numbers: threads 1 8") from None
    if not (first.is_finite() and last.is_finite() and by.is_finite() and by > 0):
        raise InvalidInput("--parameter-step-size", step or shown, "must be a positive number")
    if step is None and not all(end == end.to_integral_value() for end in (first, last)):
        raise InvalidInput(field, shown, "needs --parameter-step-size, since an end is not a whole number")
    if not first <= last:
        raise InvalidInput(field, shown, "the first number must not be larger than the last")
    if (last - first) / by >= MOST_COMMANDS:
        raise InvalidInput(field, shown, f"there can be at most {MOST_COMMANDS:,} commands")
    while first <= last:
        yield f"{first:f}"
        first += by


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text


def _unnamed(command: str, values: Mapping[str, str]) -> str:
    """What a command is called without a name: by itself, and by parameters that only what is run around it has."""
    others = [f"{name} = {value}" for name, value in values.items() if f"{{{name}}}" not in command]
    return f"{_filled(command, values)} ({', '.join(others)})" if others else _filled(command, values)


def with_another(
    contestants: Sequence[Contestant], command: str | None, option: str, around: Around | None = None
) -> tuple[list[Contestant], str | None]:
    """The contestants with the command of an option such as --baseline, which may be one of them, by name or command;
    and its name."""
    if command is None:
        return list(contestants), None
    same = [one for one in contestants if command == one.command] or [one for one in contestants if command == one.name]
    if same:
        return list(contestants), same[0].name
    for kind, texts in (around or {}).items():
        if len(texts) > 1:
            reason = f"is one more command, for which there is no --{kind}; put it among the commands, too"
            raise InvalidInput(option, command, reason)
    *others, first = _checked([*contestants, *contestants_of([command], around=around)])
    return [first, *others], first.name


def _shown(text: str) -> str:
    """A command as a name: on one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1].rstrip()}…"


def study_name(commands: Sequence[str]) -> str:
    """What the study of a race is called, unless that is stated."""
    name = " vs ".join(map(_shown, commands))
    return name if len(name) <= 100 else f"{name[:99].rstrip()}…"


def words_of(command: str, shell: str) -> list[str]:
    """What is started for a command: a shell that reads it or, with the shell `none`, the program itself."""
    if shell == "none":
        return words_in(command)
    program = shlex.split(DEFAULT_SHELL if shell == "default" else shell)
    if not program:
        raise InvalidInput("--shell", shell, "must be default, none or a shell such as bash", ("default", "none"))
    if "\0" in command:
        raise InvalidInput("command", command, "must not contain a null character", shown=quoted(command))
    return [*program, "-c", command]
