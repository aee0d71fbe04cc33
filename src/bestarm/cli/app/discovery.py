"""Finding the commands: a file each in `cli/`, and entry points of the group `bestarm.commands` elsewhere."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from typing import Any

import typer
from typer.core import TyperGroup

from bestarm.cli.app.command_line import DashCommand, OnceCommand
from bestarm.cli.shared.command import Command
from bestarm.cli.shared.show import complain

GROUP = "bestarm.commands"
_PACKAGE = "bestarm.cli"


def own_commands() -> dict[str, Command[...]]:
    """The commands of this package by name, in the order in which they are listed."""
    folder = importlib.import_module(_PACKAGE).__path__
    names = [info.name for info in pkgutil.iter_modules(folder) if not info.ispkg]
    return _in_order({name.rstrip("_").replace("_", "-"): _in_file(name) for name in names})


def _in_file(name: str) -> Command[...]:
    found = [item for item in vars(importlib.import_module(f"{_PACKAGE}.{name}")).values() if isinstance(item, Command)]
    assert len(found) == 1, f"cli/{name}.py must hold one command"
    return found[0]


def _in_order(commands: dict[str, Command[...]]) -> dict[str, Command[...]]:
    return dict(sorted(commands.items(), key=lambda item: item[1].place))


def add_command(program: typer.Typer, name: str, command: Command[...]) -> None:
    """Make the command one of the program's."""
    reader = DashCommand if command.takes_names else OnceCommand
    program.command(name, cls=reader, rich_help_panel=command.panel)(command.body)


@dataclasses.dataclass(frozen=True)
class Installed:
    """A command of another package: as Typer has built it, or why it cannot be."""

    name: str
    package: str
    built: Any = None
    fault: str = ""


def installed_commands() -> list[Installed]:
    """What other packages add. One that does not load keeps nobody from using the others."""
    # It takes a tenth of the time of `bestarm --help`.
    from importlib.metadata import entry_points

    found = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        package = entry.dist.name if entry.dist is not None else entry.module
        try:
            found.append(Installed(entry.name, package, built=_build(entry.name, entry.load())))
        except Exception as error:  # whatever a package of somebody else's raises
            found.append(Installed(entry.name, package, fault=f"{type(error).__name__}: {error}"))
    return found


def _build(name: str, loaded: Any) -> Any:
    command = loaded if isinstance(loaded, Command) else Command(loaded)
    program = typer.Typer()
    add_command(program, name, command)
    built: Any = typer.main.get_group(program)
    return built.commands[name]


class Commands(TyperGroup):
    """The program's commands. Those of other packages are looked for only if the command is not one of our own."""

    _has_looked = False

    def list_commands(self, ctx: Any) -> list[str]:
        self._look_for_installed()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands:
            self._look_for_installed()
        return super().get_command(ctx, cmd_name)

    def _look_for_installed(self) -> None:
        if self._has_looked:
            return
        self._has_looked = True
        for found in installed_commands():
            fault = found.fault or ("there is one of that name" if found.name in self.commands else "")
            if fault:
                complain(f"the command {found.name!r} of the package {found.package!r} is left out: {fault}", "warning")
            else:
                self.commands[found.name] = found.built
