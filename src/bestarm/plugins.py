"""Plug-ins: what installed packages add to bestarm, found through their entry points.

A package names what it adds in its `pyproject.toml`, in one of the `GROUPS`:

    [project.entry-points."bestarm.policies"]
    my-policy = "my_package.my_policy:MyPolicy"

`plugins` lists a group without loading anything, and never raises. A plug-in is loaded when it is asked for by
name, so a broken one does no harm. `Registry` does this for classes, some of which are built in.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from bestarm.errors import InvalidInput

T = TypeVar("T")

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
    """One entry point of an installed package. It is loaded on demand."""

    group: str
    name: str
    entry: EntryPoint
    check: Check | None = None

    def load(self) -> Any:
        """What the entry point names. Raises `InvalidInput`, which says what is wrong, if it is broken."""
        loaded, error = self._tried()
        if error is None:
            return loaded
        field = GROUPS.get(self.group, self.group)
        raise InvalidInput(field, self.name, f"the plug-in {self.source} is broken: {error}")

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


def load_plugin(group: str, name: str) -> Any:
    """The plug-in of that name, loaded; None if there is none. Raises `InvalidInput` if it is broken."""
    plugin = plugins(group).get(name)
    return None if plugin is None else plugin.load()


class Registry(Generic[T]):
    """The classes of one kind that can be chosen by name: those in the modules of a package, and the plug-ins of the
    group that has the package's name. Each class has a `name` of its own."""

    def __init__(self, package: str, base: type, called: str) -> None:
        self._package = package
        self._base = base
        self._called = called
        """What to call the base class where a plug-in is not one of it."""

    @functools.cached_property
    def built_in(self) -> dict[str, type[T]]:
        """The classes in the package."""
        folder = importlib.import_module(self._package).__path__
        modules = [importlib.import_module(f"{self._package}.{info.name}") for info in pkgutil.iter_modules(folder)]
        return {
            vars(item)["name"]: item
            for module in modules
            for item in vars(module).values()
            if self._is_one(item) and item.__module__ == module.__name__ and "name" in vars(item)
        }

    def plugins(self) -> dict[str, Plugin]:
        """Those of installed packages, broken ones too, except those with the name of a built-in one."""
        found = plugins(self._package, self._complaint)
        return {name: plugin for name, plugin in found.items() if name not in self.built_in}

    def all(self) -> dict[str, type[T]]:
        """Every class that can be chosen. Broken plug-ins are left out."""
        working = {name: plugin.load() for name, plugin in self.plugins().items() if plugin.error is None}
        return {**self.built_in, **working}

    def find(self, name: str) -> type[T] | None:
        """The class of that name, None if there is none. Raises `InvalidInput` if it is a plug-in and broken. Plug-ins
        are looked for only if no built-in class has the name."""
        if name in self.built_in:
            return self.built_in[name]
        plugin = self.plugins().get(name)
        return None if plugin is None else plugin.load()

    def _is_one(self, item: object) -> bool:
        return isinstance(item, type) and issubclass(item, self._base)

    def _complaint(self, loaded: object) -> str | None:
        return None if self._is_one(loaded) else f"it is not a subclass of {self._called}"
