"""Finding the commands: functions in `cli/`, and entry points of the group `bestarm.commands` elsewhere."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import pkgutil
import sys
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

from bestarm.cli.app.command_line import DashCommand, OnceCommand, quoting
from bestarm.cli.app.configured import ConfiguredCommand
from bestarm.cli.shared.command import Command, flattened
from bestarm.cli.shared.show import complain

if TYPE_CHECKING:
    from bestarm.plugins import Plugin

GROUP = "bestarm.commands"
_PACKAGE = "bestarm.cli"


def own_commands() -> dict[str, Command[...]]:
    """The commands of this package by name, in the order in which they are listed."""
    folder = importlib.import_module(_PACKAGE).__path__
    files = [importlib.import_module(f"{_PACKAGE}.{one.name}") for one in pkgutil.iter_modules(folder) if not one.ispkg]
    found = [item for file in files for item in vars(file).values() if isinstance(item, Command)]
    found.sort(key=lambda one: one.place)
    return {one.body.__name__.rstrip("_").replace("_", "-"): one for one in found}


def _may_be_installed() -> bool:
    """Whether some installed package may add a command. Only `importlib.metadata` knows for certain, but loading it
    takes a fifth of the time of `bestarm --help`, and such packages are rare."""
    for folder in sys.path:
        try:
            with os.scandir(folder or ".") as entries:
                about = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
        except NotADirectoryError:
            return True  # an archive
        except OSError:
            continue
        for path in about:
            with contextlib.suppress(OSError), open(os.path.join(path, "entry_points.txt"), encoding="utf-8") as file:
                if GROUP in file.read():
                    return True
    return False


def command_plugins() -> dict[str, Plugin]:
    """The commands of installed packages, broken ones too."""
    from bestarm.plugins import plugins

    return plugins(GROUP, _complaint)


def _complaint(loaded: Any) -> None:
    """Raises what Typer has against a command."""
    _build("command", loaded)


def _build(name: str, loaded: Any) -> Any:
    command = loaded if isinstance(loaded, Command) else Command(loaded)
    reader = DashCommand if command.takes_names else OnceCommand
    if command.configured:
        reader = ConfiguredCommand
    if command.instead is not None:
        reader = quoting(command.instead)
    program = typer.Typer()
    program.command(name, cls=reader, rich_help_panel=command.panel)(flattened(command.body))
    built: Any = typer.main.get_group(program)
    return built.commands[name]


class Commands(TyperGroup):
    """The program's commands. One of our own is built with its options when it is called; a list needs only its name
    and text. Those of other packages are looked for only if the command is not one of our own."""

    _has_looked = False
    _is_listing = False

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        self._own = own_commands()
        """Those that are not yet built."""
        for name, command in self._own.items():
            text = inspect.getdoc(command.body)
            self.commands[name] = TyperCommand(name, help=text, rich_help_panel=command.panel)

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._is_listing = True
        super().format_help(ctx, formatter)
        self._is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        self._look_for_installed()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._look_for_installed()
        if cmd_name in self._own and not self._is_listing:
            self.commands[cmd_name] = _build(cmd_name, self._own.pop(cmd_name))
        return super().get_command(ctx, cmd_name)

    def _look_for_installed(self) -> None:
        """One that does not load does not affect the others."""
        if self._has_looked:
            return
        self._has_looked = True
        for name, plugin in sorted(command_plugins().items()) if _may_be_installed() else ():
            fault = plugin.error or ("there is one of that name" if name in self.commands else "")
            if fault:
                package = plugin.entry.dist.name if plugin.entry.dist is not None else plugin.entry.module
                complain(f"the command {name!r} of the package {package!r} is left out: {fault}", "warning")
            else:
                self.commands[name] = _build(name, plugin.load())
