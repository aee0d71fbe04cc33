"""The commands of a race: names, and parameters that are filled in."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shlex
from collections.abc import Mapping, Sequence

from bestarm.study.work.command import exposed_placeholders, is_option, taken_for_option, words_in
from bestarm.texts import quoted
from bestarm.validation import LONGEST_NAME, InvalidInput

MOST_COMMANDS = 1000
"""Commands of one race."""

DEFAULT_SHELL = "/bin/sh"


@dataclasses.dataclass(frozen=True)
class Contestant:
    """A command, the name that it is shown by, and the parameters that were filled in."""

    name: str
    command: str
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)


def contestants_of(commands: Sequence[str], names: Sequence[str] = (), lists: Sequence[str] = ()) -> list[Contestant]:
    """Every command with every combination of parameters filled in for {name}.

    >>> [one.command for one in contestants_of(["gzip -{level} f"], lists=["level=1,9"])]
    ['gzip -1 f', 'gzip -9 f']
    """
    parameters: dict[str, list[str]] = {}
    for text in lists:
        name, equals, values = text.partition("=")
        if not equals:
            raise InvalidInput("--parameter-list", text, "must be a name and its values: level 1,5,9")
        if not name.strip() or name in parameters:
            raise InvalidInput("--parameter-list", name, "each list needs a name of its own")
        parameters[name] = values.split(",")
        if not all(parameters[name]):
            raise InvalidInput(
                "--parameter-list", values, f"values of {name!r}, separated by commas, must not be empty"
            )
    found: list[Contestant] = []
    for command in commands:
        used = [name for name in parameters if f"{{{name}}}" in command]
        _check_values(command, {name: parameters[name] for name in used})
        for chosen in itertools.product(*(parameters[name] for name in used)):
            filled = command
            for name, value in zip(used, chosen, strict=True):
                filled = filled.replace(f"{{{name}}}", value)
            found.append(Contestant(filled, filled, dict(zip(used, chosen, strict=True))))
            if len(found) > MOST_COMMANDS:
                raise InvalidInput("--parameter-list", len(found), f"there can be at most {MOST_COMMANDS:,} commands")
    for name in parameters:
        if not any(f"{{{name}}}" in command for command in commands):
            raise InvalidInput("--parameter-list", name, f"no command has {{{name}}} to fill in")
    if names and len(names) != len(found):
        reason = f"there are {len(found)} commands; name all of them, in their order, or none"
        raise InvalidInput("--name", len(names), reason)
    named = [
        dataclasses.replace(one, name=_shown(names[place] if names else one.command)) for place, one in enumerate(found)
    ]
    for place, one in enumerate(named):
        if not one.command.strip():
            raise InvalidInput("command", one.command, "must not be empty")
        if any(one.name == other.name for other in named[:place]):
            raise InvalidInput("command", one.name, "is there twice; give each a name of its own with --name")
    return named


def _check_values(command: str, parameters: Mapping[str, Sequence[str]]) -> None:
    """A value must not turn into an option."""
    try:
        placeholders = re.compile(rf"{{({'|'.join(map(re.escape, parameters))})}}")
        exposed = exposed_placeholders(command, placeholders, shell=True)
    except ValueError:  # not all that a shell reads can be split into words
        exposed = set(parameters)
    for name in exposed & parameters.keys():
        for value in parameters[name]:
            if is_option(value):
                reason = f"{taken_for_option(value, name)}, or write the dash in the command: -{{{name}}}"
                raise InvalidInput("--parameter-list", value, reason)


def with_baseline(contestants: Sequence[Contestant], baseline: str | None) -> tuple[list[Contestant], str | None]:
    """The contestants with the baseline, which may be one of them, by name or command; and its name."""
    if baseline is None:
        return list(contestants), None
    for one in contestants:
        if baseline in (one.name, one.command):
            return list(contestants), one.name
    [first] = contestants_of([baseline])
    return [first, *contestants], first.name


def _shown(text: str) -> str:
    """A command as a name: on one line, and not too long."""
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_NAME else f"{line[: LONGEST_NAME - 1].rstrip()}…"


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
