"""How large the package's extras are on disk, beside its core: `python tools/sizes.py` where they are installed.

Bytecode is not counted. What is not installed, such as packages for other systems, is left out.
"""

from __future__ import annotations

import importlib.metadata

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

INSTALLED = {canonicalize_name(one.metadata["Name"]): one for one in importlib.metadata.distributions()}
MEGABYTE = 1e6


def needed(name: str, extras: frozenset[str]) -> set[str]:
    """The names of all packages that one needs, itself included."""
    found: set[tuple[str, frozenset[str]]] = set()
    left = [(name, extras)]
    while left:
        package = name, extras = left.pop()
        if package in found or name not in INSTALLED:
            continue
        found.add(package)
        for line in INSTALLED[canonicalize_name(name)].requires or ():
            wanted = Requirement(line)
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in ("", *extras)):
                left.append((canonicalize_name(wanted.name), frozenset(wanted.extras)))
    return {name for name, _ in found}


def size(names: set[str]) -> float:
    """The size of their files, in megabytes."""
    files = [file for name in names for file in INSTALLED[canonicalize_name(name)].files or ()]
    places = [file.locate() for file in files if file.suffix != ".pyc"]
    return sum(place.stat().st_size for place in places if place.exists()) / MEGABYTE  # type: ignore[attr-defined]


def main() -> None:
    """Print a line for each extra."""
    core = needed("bestarm", frozenset())
    print(f"{'core':10}{size(core):7,.0f} MB")
    for extra in importlib.metadata.metadata("bestarm").get_all("Provides-Extra", []):
        print(f"{extra:10}{size(needed('bestarm', frozenset([extra])) - core):7,.0f} MB")


if __name__ == "__main__":
    main()
