"""What `docs/architecture.md` names is there."""

from __future__ import annotations

import ast
import functools
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bestarm"
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HAS_NAMES = ("function", "stand-in", "kernel")
"""The columns of tables with names that the file in the row's column "file" must define."""


@functools.cache
def defined(path: Path) -> frozenset[str]:
    """The functions, classes and other names of a file, methods as `Class.method`."""
    names: set[str] = set()
    if not path.exists():
        return frozenset()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.Assign):  # as of kernels that choose among others
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return frozenset(names)


def tables() -> Iterator[dict[str, str]]:
    """Every row of every table, by its columns' names."""
    for table in re.findall(r"(?:^\|.*\n)+", PAGE, flags=re.MULTILINE):
        header, _, *rows = ([cell.strip() for cell in line.strip("|\n").split(" | ")] for line in table.splitlines())
        yield from (dict(zip(header, row, strict=False)) for row in rows)


def named() -> Iterator[tuple[str, str]]:
    """The pairs (file, name) that the page claims belong together."""
    for row in tables():
        if "file" in row:
            [file] = re.findall(r"`(.*?)`", row["file"])
            cells = " ".join(row.get(column, "") for column in HAS_NAMES)
            yield from ((file, name) for name in re.findall(r"`(.*?)`", cells))
    for names, file in re.findall(r"((?:`[\w.]+`(?:, | and )?)+) in\s`([\w/]+\.py)`", PAGE):
        yield from ((file, name) for name in re.findall(r"`(.*?)`", names))


def test_every_file_is_there() -> None:
    paths = set(re.findall(r"`([\w/]+(?:\.py|/))`", PAGE))
    assert len(paths) > 30
    assert [path for path in sorted(paths) if not (PACKAGE / path).exists() and not (ROOT / path).exists()] == []


def test_every_function_is_in_its_file() -> None:
    pairs = set(named())
    assert len(pairs) > 50
    assert sorted((file, name) for file, name in pairs if name not in defined(PACKAGE / file)) == []


def test_every_stand_in_is_listed() -> None:
    found = {
        (path.relative_to(PACKAGE).as_posix(), name)
        for path in PACKAGE.rglob("*.py")
        for name in re.findall(r'^def (\w+)\(.*?\n    """Stands for', path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert found
    assert found <= set(named())


def test_the_rooms_are_those_that_the_linter_knows_in_its_order() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    [layers] = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    rooms = [row["room"].strip("`").removesuffix("/").removesuffix(".py") for row in tables() if "room" in row]
    assert rooms == layers
