"""Command lines on which a value may be negative and a name may begin with a dash."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from typer.core import TyperCommand


class DashCommand(TyperCommand):
    """A command whose own options are options, wherever they stand; anything else is an argument, dash or not.

    After `--` everything is an argument.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes_value: dict[str, bool] = {}
        param: Any
        for param in self.get_params(ctx):
            if param.param_type_name == "option":
                takes = not (getattr(param, "is_flag", False) or getattr(param, "count", False))
                takes_value |= dict.fromkeys((*param.opts, *param.secondary_opts), takes)
        return super().parse_args(ctx, options_first(args, takes_value))


def options_first(args: Sequence[str], takes_value: Mapping[str, bool]) -> list[str]:
    """The known options with their values, then `--` and everything else, in the order given.

    >>> options_first(["-x", "--json", "-3.5", "-n5"], {"--json": False, "-n": True})
    ['--json', '-n5', '--', '-x', '-3.5']
    """
    options: list[str] = []
    arguments: list[str] = []
    left = list(reversed(args))
    while left:
        word = left.pop()
        name, equals, _ = word.partition("=")
        if word == "--":
            arguments += reversed(left)
            break
        if word in takes_value:
            options.append(word)
            if takes_value[word] and left:
                options.append(left.pop())
        elif takes_value.get(name if equals and word.startswith("--") else ""):
            options.append(word)
        elif takes_value.get(word[:2]) and word[2:].isdecimal():
            # As in -n5. Any other word, such as -north, is a name.
            options.append(word)
        else:
            arguments.append(word)
    return [*options, "--", *arguments]
