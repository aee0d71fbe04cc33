"""Finds the noises: those in this folder and those of installed packages. There is no list to edit.

A noise named "my-noise" is found through an installed package's entry point of the group `bestarm.noises`. In Python, a
value of your own class works too.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from bestarm.kernel.compile import forget_alternatives
from bestarm.kernel.state import features_of
from bestarm.noises.base import NoiseModel
from bestarm.plugins import Plugin, Registry

_registry: Registry[NoiseModel] = Registry("bestarm.noises", NoiseModel, "bestarm.noises.base.NoiseModel")


def built_in() -> dict[str, type[NoiseModel]]:
    """The noises in this folder by name."""
    return _registry.built_in


def noise_plugins() -> dict[str, Plugin]:
    """The noises of installed packages, broken ones too, except those with the name of a built-in noise."""
    return _registry.plugins()


def all_noises() -> dict[str, type[NoiseModel]]:
    """Every noise that a study file can name, in the order in which people are offered them: first those for which
    they need not know how results scatter. Broken plug-ins are left out."""
    return dict(sorted(_registry.all().items(), key=lambda item: (item[1].place, len(item[1].stated), item[0])))


def find_noise(name: str) -> type[NoiseModel] | None:
    """The noise that a study file calls `name`, or None. Raises `InvalidInput` if that is a plug-in and broken.
    Plug-ins are loaded only if no built-in noise has the name."""
    return _registry.find(name)


_of_sets: Registry[NoiseModel] = Registry("bestarm.noises.sets", NoiseModel, "bestarm.noises.base.NoiseModel")
"""The noises of sets of items, which users cannot choose."""
_tracked: Registry[NoiseModel] = Registry("bestarm.noises.tracked", NoiseModel, "bestarm.noises.base.NoiseModel")
"""Those of sampling = "tracking", which users cannot choose either."""
_numbered: list[type[NoiseModel]] = []
_tiers: list[int] = []
"""How many noises there are in this folder, and with those that users cannot choose."""
_numbering = threading.Lock()


def numbered() -> list[type[NoiseModel]]:
    """The noises that kernels know, each at its number's place: the built-in ones, those of sets of items, and others
    once they are used."""
    if not _tiers:
        with _numbering:
            if not _tiers:
                own: dict[int, type[NoiseModel]] = {}
                for noise in built_in().values():
                    own.setdefault(id(noise.kernels), noise)
                _numbered.extend(sorted(own.values(), key=lambda noise: not noise.is_common))
                first = len(_numbered)
                _numbered.extend(_of_sets.built_in.values())
                _numbered.extend(_tracked.built_in.values())
                _tiers.extend((first, len(_numbered)))
    return _numbered


def kinds_in(parts: Any) -> set[int]:
    """The numbers of all noises in a setting, or in a simulated world: those of its own streams, and those of the
    settings within it, such as that of differences on items."""
    inner = [kinds_in(part) for part in parts if hasattr(part, "_fields")]
    kinds = getattr(parts, "kind", None)
    own = {int(kind) for kind in kinds.flat} if isinstance(kinds, np.ndarray) else set()
    return own.union(*inner)


def known_for(*settings: Any) -> tuple[int, ...]:
    """The numbers that kernels must know where these are the settings, or simulated worlds: those of noises and of
    features. For any other number, compiled code finds no evidence.

    Most studies need only the noises in this folder, for which one program is compiled. Sets of items are rarer and
    their programs larger, so that each has just what it needs.
    """
    every = range(len(numbered()))
    found = set().union(*map(kinds_in, settings))
    noises = every[: _tiers[0]] if max(found) < _tiers[0] else sorted(found)
    features = {number for one in settings if "pairing" in one._fields for number in features_of(one)}
    return (*noises, *sorted(features))


def kind_of(noise: type[NoiseModel]) -> int:
    """The number by which kernels know a noise, in this process. Noises with the same kernels share it."""
    known = numbered()
    with _numbering:
        number = next((k for k, one in enumerate(known) if one.kernels is noise.kernels), None)
        if number is None:
            number = len(known)
            known.append(noise)
            forget_alternatives()
    return number


def tracked_kind(noise: NoiseModel) -> int | None:
    """The number of the noise with whose evidence tests are tracked; None if there is none."""
    name = vars(type(noise)).get("tracked_as")
    return None if name is None else kind_of((built_in() | _tracked.built_in)[name])
