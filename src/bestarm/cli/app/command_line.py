"""How command lines are read: no option twice. A value may be negative, and a name may begin with a dash."""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from typer.core import TyperCommand

from bestarm.cli.shared.command import PAIR
from bestarm.texts import listed, quoted, shown

_NEAR = 0.8
"""How alike an unknown option and a known one are, from 0 to 1, if the first may be a slip of the second."""


def number_kind(option: Any) -> str:
    """ "integer" or "float" if the option takes one or more such numbers, else an empty text."""
    # Releases of Typer differ in where they keep the type.
    known = getattr(getattr(option, "type", None), "name", "")
    annotation = getattr(getattr(option, "type_descriptor", None), "annotation", None)
    words = {known, *re.findall(r"\w+", getattr(annotation, "__name__", "") + " " + str(annotation))}
    return "integer" if words & {"integer", "int"} else "float" if "float" in words else ""


def pairs_joined(args: Sequence[str], names: Collection[str]) -> list[str]:
    """The words, with the two after such an option made one.

    >>> pairs_joined(["-L", "level", "1,9", "-L", "a=b", "x"], {"-L"})
    ['-L', 'level=1,9', '-L', 'a=b', 'x']
    """
    joined: list[str] = []
    left = list(reversed(args))
    while left:
        joined.append(left.pop())
        if joined[-1] == "--":
            break
        if joined[-1] in names and len(left) > 1 and "=" not in left[-1]:
            joined.append(f"{left.pop()}={left.pop()}")
    return [*joined, *reversed(left)]


class OnceCommand(TyperCommand):
    """A command that refuses an option given twice. Otherwise the last would silently win.

    Options declared as lists may be repeated. So may a flag, but not together with its opposite. Numbers are read by
    the same rules as everywhere else.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        options = self._options(ctx)
        # Typer knows no option of pairs that repeats, so the metavar says which options take a name and a value.
        args = pairs_joined(args, {name for one in options if one.metavar == PAIR for name in one.opts})
        self._refuse_repeats(ctx, options, args)
        return super().parse_args(ctx, args)

    def _options(self, ctx: Any) -> list[Any]:
        return [param for param in self.get_params(ctx) if param.param_type_name == "option"]

    def _refuse_repeats(self, ctx: Any, options: Sequence[Any], args: Sequence[str]) -> None:
        parser: Any = self.make_parser(ctx)
        for option in options:
            # Declare the same options again, but keep every value, and for a flag the name that was used.
            if not option.is_flag and not option.count and not option.multiple:
                parser.add_option(obj=option, opts=option.opts, dest=option.name, action="append", nargs=option.nargs)
            elif option.secondary_opts:
                for name in (*option.opts, *option.secondary_opts):
                    parser.add_option(obj=option, opts=[name], dest=option.name, action="append_const", const=name)
        given, _, _ = parser.parse_args(list(args))
        if given.get("help"):
            return
        for option in options:
            values = given.get(option.name)
            name = next((name for name in option.opts if name.startswith("--")), option.opts[0])
            if not isinstance(values, list) or len(values) == 1 or option.multiple:
                if kind := number_kind(option):
                    self._check_numbers(ctx, name, kind, values if isinstance(values, list) else [values])
                continue
            if not option.is_flag:
                values = [" ".join(value) if isinstance(value, tuple | list) else value for value in values]
                # An address may hold a password.
                is_secret = option.hide_input or any("://" in str(value) or "@" in str(value) for value in values)
                shown = "" if is_secret else f": {listed(map(repr, values))}"
                times = "twice" if len(values) == 2 else f"{len(values)} times"
                ctx.fail(f"{name} is given {times}{shown}. It takes one value.")
            elif {value in option.opts for value in values} == {True, False}:
                ctx.fail(f"{listed(dict.fromkeys(values))} are given together. Choose one.")

    def _check_numbers(self, ctx: Any, name: str, kind: str, values: Sequence[Any]) -> None:
        from bestarm.parsing import read_decimal, read_whole

        for value in values:
            try:
                if isinstance(value, str):
                    (read_whole if kind == "integer" else read_decimal)(value)
            except ValueError as error:
                ctx.fail(f"Invalid value for {name!r}: {quoted(value)}: {error}.")


def quoting(instead: Mapping[str, str]) -> type[OnceCommand]:
    """A command whose arguments are commands, in quotes. An option that it does not have may be one of theirs, or of
    another program: then it says what to type `instead`."""

    class QuotingCommand(OnceCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            try:
                return super().parse_args(ctx, list(args))
            except Exception as error:
                # Typer raises an error class of its own or of click.
                if type(error).__name__ != "NoSuchOption":
                    raise
                option = str(getattr(error, "option_name", ""))
                known = [name for one in self._options(ctx) for name in one.opts if name.startswith("--")]
                near = difflib.get_close_matches(option, known, 1, _NEAR)
                advice = f"Instead: {instead.get(option) or _quote_it(option, args)}"
                if near and option not in instead:
                    advice = f"Did you mean {near[0]}? If it belongs to a command, put that in quotes"
                ctx.fail(f"No such option: {shown(option)}. {advice}.")
                raise

    return QuotingCommand


def _quote_it(option: str, args: Sequence[str]) -> str:
    program = next((word for word in args if not word.startswith("-")), "program")
    example = f"'{program.split()[0] if program.split() else program} {option} …'"
    return f"put each command in quotes if this belongs to one, as in {shown(example)}"


class DashCommand(OnceCommand):
    """A command whose own options may stand anywhere. Anything else is an argument, even if it begins with a dash.

    After `--` everything is an argument.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        takes_value: dict[str, bool] = {}
        for option in self._options(ctx):
            takes = not (getattr(option, "is_flag", False) or getattr(option, "count", False))
            takes_value |= dict.fromkeys((*option.opts, *option.secondary_opts), takes)
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
