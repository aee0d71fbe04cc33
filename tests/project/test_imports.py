"""No module imports itself by a detour, and rooms know few other rooms.

Imports inside functions, imports for types and modules loaded by a name that stands in the code count too. Only what a
registry finds in a folder (`plugins.py`) does not.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterator, Mapping
from pathlib import Path

import bestarm

PACKAGE = Path(bestarm.__file__).parent
MOST_ARROWS = 170
"""From room to room, where a room is a folder or a file directly in the package. Before rooms were grouped: 196."""
MOST_LINES = 400
Arrows = Mapping[str, set[str]]


def modules() -> dict[str, Path]:
    found = {}
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def loaded_by_name(call: ast.Call, known: Mapping[str, Path]) -> Iterator[str]:
    """What `import_module("bestarm.x")` loads; of `import_module(f"bestarm.x.{name}")`, every module of that room."""
    if ast.unparse(call.func).rpartition(".")[2] != "import_module":
        return
    match call.args[0]:
        case ast.Constant(value=str(name)) if name in known:
            yield name
        case ast.JoinedStr(values=[ast.Constant(value=str(start)), *_]) if (
            start.startswith("bestarm.") and start != "bestarm."
        ):
            # What the package itself loads by name, it also imports for types.
            yield from (name for name in known if name.startswith(start))


@functools.cache
def arrows() -> Arrows:
    """By module: what it imports."""
    known = modules()
    found: dict[str, set[str]] = {}
    for module, path in known.items():
        targets = found[module] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Import(names=names):
                    targets.update(each.name for each in names if each.name in known)
                case ast.ImportFrom(module=source, names=names, level=level):
                    assert level == 0, f"{path} has a relative import"
                    for each in names:
                        full = f"{source}.{each.name}"
                        targets.update([full] if full in known else [source] if source in known else [])
                case ast.Call():
                    targets.update(loaded_by_name(node, known))
        targets.discard(module)
    return found


def circles(found: Arrows) -> list[list[str]]:
    """The sets of modules that reach each other."""

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        open_ones = [start]
        while open_ones:
            for target in found[open_ones.pop()] - seen:
                seen.add(target)
                open_ones.append(target)
        return seen

    reach = {module: reached(module) for module in found}
    groups = {
        tuple(sorted(other for other in reach[module] if module in reach[other]))
        for module in found
        if module in reach[module]
    }
    return [list(group) for group in sorted(groups)]


def room(module: str) -> str:
    return ".".join(module.split(".")[:2])


def test_no_import_circle() -> None:
    assert circles(arrows()) == []


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == [["b", "c"]]
    found = arrows()
    assert "bestarm.study.intake.names" in found["bestarm.cli.tell"], "imports inside functions count"
    assert "bestarm.study.plots.plot" in found["bestarm"], "imports for types count"
    call = ast.parse('importlib.import_module(f"bestarm.problem.{name}")').body[0].value  # type: ignore[attr-defined]
    assert "bestarm.problem.goals" in set(loaded_by_name(call, modules()))


def test_rooms_know_few_others() -> None:
    between = {(room(a), room(b)) for a, targets in arrows().items() for b in targets if room(a) != room(b)}
    assert 100 < len(between) <= MOST_ARROWS


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")}
    assert {path.relative_to(PACKAGE).as_posix() for path, lines in lengths.items() if lines > MOST_LINES} == set()
