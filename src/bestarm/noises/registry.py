"""Finds the noises: those in this folder and those of installed packages. There is no list to edit.

A noise named "my-noise" is found through an installed package's entry point of the group `bestarm.noises`. In Python, a
value of your own class works too.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
import threading
from pathlib import Path

from bestarm.kernel.compile import forget_alternatives
from bestarm.noises.base import NoiseModel
from bestarm.plugins import Plugin, plugins


@functools.cache
def built_in() -> dict[str, type[NoiseModel]]:
    """The noises in this folder by name."""
    found = {}
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        module = importlib.import_module(f"{__package__}.{info.name}")
        for item in vars(module).values():
            is_noise = isinstance(item, type) and issubclass(item, NoiseModel) and item.__module__ == module.__name__
            if is_noise and "name" in vars(item):
                found[item.name] = item
    return found


def _complaint(loaded: object) -> str | None:
    if isinstance(loaded, type) and issubclass(loaded, NoiseModel):
        return None
    return "it is not a subclass of bestarm.noises.base.NoiseModel"


def noise_plugins() -> dict[str, Plugin]:
    """The noises of installed packages, broken ones too."""
    return plugins("bestarm.noises", _complaint)


def all_noises() -> dict[str, type[NoiseModel]]:
    """Every noise that a study file can name, those with the fewest parameters first. Broken plug-ins are left out."""
    working = {name: found.load() for name, found in noise_plugins().items() if found.error is None}
    return dict(sorted({**working, **built_in()}.items(), key=lambda item: (len(item[1].stated), item[0])))


def find_noise(name: str) -> type[NoiseModel] | None:
    """The noise that a study file calls `name`, or None. Raises `InvalidInput` if that is a plug-in and broken.
    Plug-ins are loaded only if no built-in noise has the name."""
    known = built_in()
    if name in known:
        return known[name]
    installed = noise_plugins()
    found: type[NoiseModel] | None = installed[name].load() if name in installed else None
    return found


_numbered: list[type[NoiseModel]] = []
_numbering = threading.Lock()


def numbered() -> list[type[NoiseModel]]:
    """The noises that kernels know, each at its number's place: the built-in ones, and others once they are used."""
    if not _numbered:
        with _numbering:
            if not _numbered:
                _numbered.extend(sorted(built_in().values(), key=lambda noise: not noise.is_common))
    return _numbered


def kind_of(noise: type[NoiseModel]) -> int:
    """The number by which kernels know a noise, in this process."""
    known = numbered()
    with _numbering:
        if noise not in known:
            known.append(noise)
            forget_alternatives()
    return known.index(noise)
