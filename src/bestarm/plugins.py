"""Plug-ins: what installed packages add to bestarm, found through their entry points.

A package names what it adds in its `pyproject.toml`, in one of the `GROUPS`:

    [project.entry-points."bestarm.policies"]
    my-policy = "my_package.my_policy:MyPolicy"

`plugins` lists a group without loading anything, and never raises. A plug-in is loaded when somebody asks for it by
name, so a broken one is in nobody else's way:

    def find_color(name: str) -> Color:
        if name in BUILT_IN:  # found without a look at any plug-in
            return BUILT_IN[name]
        color = load_plugin("bestarm.colors", name)  # InvalidInput if it is broken, None if there is none
        if color is None:
            raise InvalidInput(f"color = {name!r}: no such color; there are {', '.join([*BUILT_IN, *all_colors()])}")
        return color

    def all_colors() -> dict[str, Color]:
        return BUILT_IN | {name: it.load() for name, it in plugins("bestarm.colors").items() if it.error is None}

This module imports little, because the command line reads it before every command.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

GROUPS = {
    "bestarm.policies": "policy",
    "bestarm.storages": "storage",
    "bestarm.noises": "noise",
    "bestarm.commands": "command",
}
"""The groups of entry points, and what one plug-in of each is called."""

Check = Callable[[Any], str | None]
"""What is wrong with a loaded plug-in, in words that follow its name; None if nothing is."""


@dataclasses.dataclass(frozen=True)
class Plugin:
    """One entry point of an installed package. It is not loaded before somebody asks."""

    group: str
    name: str
    entry: EntryPoint
    check: Check | None = None

    def load(self) -> Any:
        """What the entry point names. Raises `InvalidInput`, which says what is wrong, if it is broken."""
        loaded, error = self._tried()
        if error is None:
            return loaded
        # Imported here: it is slow, and all is well most of the time.
        from bestarm.validation import InvalidInput

        field = GROUPS.get(self.group, self.group)
        raise InvalidInput(f"{field} = {self.name!r}: the plug-in {self.source} is broken: {error}")

    @property
    def error(self) -> str | None:
        """Why it cannot be used, on one line; None if it can. Loads it to find out."""
        return self._tried()[1]

    @property
    def source(self) -> str:
        """Where it comes from: what its entry point names, and the package that has it."""
        return self.entry.value + (f" of {self.entry.dist.name}" if self.entry.dist else "")

    def _tried(self) -> tuple[Any, str | None]:
        try:
            loaded = self.entry.load()
            complaint = self.check(loaded) if self.check else None
        except (Exception, SystemExit) as error:  # other people's code may raise anything
            first_line = str(error).strip().partition("\n")[0]
            return None, f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__
        return loaded, complaint


def plugins(group: str, check: Check | None = None) -> dict[str, Plugin]:
    """The plug-ins of a group by name; of two with one name the first counts.

    >>> plugins("bestarm.colors")
    {}
    """
    found: dict[str, Plugin] = {}
    for entry in entry_points(group=group):
        found.setdefault(entry.name, Plugin(group, entry.name, entry, check))
    return found


def load_plugin(group: str, name: str, check: Check | None = None) -> Any:
    """The plug-in of that name, loaded; None if there is none. Raises `InvalidInput` if it is broken."""
    plugin = plugins(group, check).get(name)
    return None if plugin is None else plugin.load()
