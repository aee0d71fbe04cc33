"""Options that can also be set in the environment and in a TOML file. Each takes part as it is declared."""

from __future__ import annotations

import difflib
import os
from typing import Any

from bestarm.cli.app.command_line import OnceCommand, number_kind
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import quoted

_MOST_CHARACTERS = 100_000


class ConfiguredCommand(OnceCommand):
    """Reads options from the command line, else from variables `BESTARM_…`, else from the file that `--config` names.

    Typer knows this order, and where each value came from. An option that is declared with `allow_from_autoenv=False`
    stands on the command line only. The command has the options `ConfigFile` and `PrintConfig` of
    `bestarm.cli.shared.arguments`.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        super().__init__(*args, **named)
        for option in self._settings():
            option.envvar = f"BESTARM_{_key(option).replace('-', '_').upper()}"

    def _settings(self) -> list[Any]:
        return [one for one in self.params if getattr(one, "allow_from_autoenv", False)]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        # Before a file is read of which there are two.
        self._refuse_repeats(ctx, self._options(ctx), args)
        parser: Any = self.make_parser(ctx)
        given, _, _ = parser.parse_args(list(args))
        # Empty means not set, as for every variable.
        path = given.get("config") or os.environ.get("BESTARM_CONFIG")
        if not given.get("help"):
            ctx.default_map = self._read(path) if path else None
            for option in self._settings():
                text = option.resolve_envvar_value(ctx)
                if text is not None and given.get(option.name) is None:
                    _check_number(option.envvar, option, text)
        return super().parse_args(ctx, args)

    def _read(self, path: str) -> dict[str, Any]:
        """What the file sets, by the names of the parameters."""
        from bestarm.parsing import read_toml

        try:
            with open(path, encoding="utf-8") as file:
                text = file.read(_MOST_CHARACTERS + 1)
        except OSError as error:
            raise InvalidInput("--config", path, f"cannot be read: {error.strerror}") from None
        except ValueError:
            raise InvalidInput("--config", path, "is not text in UTF-8") from None
        if len(text) > _MOST_CHARACTERS:
            raise InvalidInput("--config", path, f"has more than {_MOST_CHARACTERS:,} characters")
        try:
            data = read_toml(text)
        except InvalidInput as error:
            raise InvalidInput("--config", path, str(error)) from None
        known = {_key(option): option for option in self._settings()}
        found = {}
        for key, value in data.items():
            if key not in known:
                near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(sorted(known))}"
                raise InvalidInput(key, UNSTATED, "", sentence=f"{path}: {quoted(key)}: is not an option; {hint}")
            found[known[key].name] = _checked(path, known[key], value)
        return found

    def invoke(self, ctx: Any) -> Any:
        if not ctx.params.get("print_config"):
            return super().invoke(ctx)
        for option in self._settings():
            print(_line(option, ctx.params[option.name], self._source(ctx, option)))
        return None

    def _source(self, ctx: Any, option: Any) -> str:
        source = getattr(ctx.get_parameter_source(option.name), "name", "DEFAULT")
        words = {"COMMANDLINE": "command line", "ENVIRONMENT": option.envvar, "DEFAULT_MAP": ctx.params.get("config")}
        return str(words.get(source, "default"))


def _key(option: Any) -> str:
    """Its name in a file: the option without its dashes."""
    return str(max(option.opts, key=len)).lstrip("-")


def _checked(path: str, option: Any, value: Any) -> Any:
    """The value of a key, as Typer takes it from a command line."""
    where = f"{path}: {_key(option)}"
    if option.is_flag:
        if not isinstance(value, bool):
            raise _refused(where, option, value, "must be true or false")
        return value
    texts = []
    for one in value if isinstance(value, list) and option.multiple else [value]:
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            lists = ", or a list of them" if option.multiple else ""
            raise _refused(where, option, value, f"must be a text or a number{lists}")
        texts.append(str(one))
        _check_number(where, option, one)
    return texts if option.multiple else texts[0]


def _check_number(where: str, option: Any, value: Any) -> None:
    if kind := number_kind(option):
        from bestarm.parsing import read_decimal, read_whole

        try:
            (read_whole if kind == "integer" else read_decimal)(str(value))
        except ValueError as error:
            raise _refused(where, option, value, str(error)) from None


def _refused(where: str, option: Any, value: Any, reason: str) -> InvalidInput:
    if option.hide_input:
        return InvalidInput(where, UNSTATED, reason)
    return InvalidInput(where, value, reason, shown=quoted(value))


def _line(option: Any, value: Any, source: str) -> str:
    """A line of TOML, with where it comes from as a comment. Secrets are not shown."""
    if value is None or value == ():
        return f"# {_key(option)} is not set  # {source}"
    if option.hide_input and not str(value).startswith("@"):
        value = "***"
    elif option.metavar == "URL":
        from bestarm.storage.address import shown_address

        value = shown_address(str(value))
    text = f"[{', '.join(map(_as_toml, value))}]" if isinstance(value, tuple | list) else _as_toml(value)
    return f"{_key(option)} = {text}  # {source}"


def _as_toml(value: Any) -> str:
    import tomli_w

    plain = value if isinstance(value, bool | int | float) else str(value)
    return tomli_w.dumps({"x": plain}).strip().removeprefix("x = ")
