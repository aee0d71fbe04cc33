"""The public names, what they take and what they have, stay as they are unless a change is intended.

They are listed in `public_names.txt`. After a change that is meant, `python tests/project/test_public_names.py` writes
the list anew, and the difference is there to be read.
"""

from __future__ import annotations

import ast
import dataclasses
import difflib
import importlib
import inspect
import re
import subprocess
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import bestarm as ba
import bestarm.client
import bestarm.extend
import bestarm.integrations

FURTHER = (bestarm.integrations, bestarm.client, bestarm.extend)
"""Modules with public names of their own: they load what not every user needs."""
LIST = Path(__file__).with_name("public_names.txt")
ROOT = Path(__file__).parents[2]


def words(annotation: object) -> str:
    """A type as its author wrote it. What a library made of it is left out: it differs between versions."""
    return annotation if isinstance(annotation, str) else ""


def parameter(name: str, annotation: object, default: object) -> str:
    text = f"{name}: {words(annotation)}" if words(annotation) else name
    if default is inspect.Parameter.empty:
        return text
    shown = "…" if " at 0x" in repr(default) or default is dataclasses.MISSING else repr(default)
    return f"{text} = {shown}" if words(annotation) else f"{text}={shown}"


def signature(function: Any) -> str:
    parts: list[str] = []
    found = inspect.signature(function)
    stars = False
    for each in found.parameters.values():
        if each.name in ("self", "cls"):
            continue
        if each.kind is each.KEYWORD_ONLY and not stars:
            parts.append("*")
        stars = stars or each.kind in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        prefix = "*" if each.kind is each.VAR_POSITIONAL else "**" if each.kind is each.VAR_KEYWORD else ""
        parts.append(prefix + parameter(each.name, each.annotation, each.default))
    returns = words(found.return_annotation)
    return f"({', '.join(parts)})" + (f" -> {returns}" if returns else "")


def field_signature(cls: type) -> str:
    """How a dataclass is made, with the types as its author wrote them."""
    types_of = {
        name: kind for base in reversed(cls.__mro__) for name, kind in vars(base).get("__annotations__", {}).items()
    }
    parts = []
    for field in dataclasses.fields(cls):
        required = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        default = inspect.Parameter.empty if required else field.default
        parts.append(parameter(field.name, types_of.get(field.name), default))
    return f"({', '.join(parts)})"


def members(cls: type) -> Iterator[str]:
    """Everything public that a class of ours, or what of ours it is made from, defines."""
    found: dict[str, Any] = {}
    fields = {field.name for field in dataclasses.fields(cls)} if dataclasses.is_dataclass(cls) else set()
    for base in reversed([base for base in cls.__mro__ if base.__module__.startswith("bestarm.")]):
        found |= dict.fromkeys(vars(base).get("__annotations__", {}))
        found |= vars(base)
    for name, member in sorted(found.items()):
        if name.startswith("_") or name in fields:
            continue
        if isinstance(member, classmethod | staticmethod):
            yield f"{name}{signature(member.__func__)}"
        elif isinstance(member, types.FunctionType):
            yield f"{name}{signature(member)}"
        else:
            yield name


def listed() -> str:
    parts = [described({name: getattr(ba, name) for name in ba.__all__})]
    for module in FURTHER:
        values = {name: getattr(module, name) for name in module.__all__}
        again = [name for name in values if values[name] is getattr(ba, name, None)]
        lines = described({name: value for name, value in values.items() if name not in again})
        parts.append([f"\nfrom {module.__name__}", *lines, *(f"bestarm.{name}" for name in again)])
    for name, names in taught():
        values = {each: getattr(importlib.import_module(name), each) for each in names}
        parts.append([f"\nfrom {name}", *described(values)])
    return "\n".join(line for lines in parts for line in lines) + "\n"


def taught() -> Iterator[tuple[str, list[str]]]:
    """The other names that documents import, by module: readers use them, so they stay as well."""
    imports: dict[str, set[str]] = {}
    for document in [ROOT / "README.md", *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")]:
        text = document.read_text(encoding="utf-8")
        for module, names in re.findall(r"^ *from (bestarm\.[\w.]+) import ([\w, ]+)", text, flags=re.MULTILINE):
            imports.setdefault(module, set()).update(map(str.strip, names.split(",")))
    known = {module.__name__ for module in FURTHER}
    return ((module, sorted(names)) for module, names in sorted(imports.items()) if module not in known)


def described(values: dict[str, Any]) -> list[str]:
    lines = []
    for name, value in sorted(values.items()):
        if isinstance(value, type):
            bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
            lines.append(f"class {name}({bases})" if bases else f"class {name}")
            if dataclasses.is_dataclass(value):
                lines.append(f"    {name}{field_signature(value)}")
            elif issubclass(value, tuple):
                lines.append(f"    {name}{signature(value)}")
            elif "__init__" in vars(value):
                lines.append(f"    {name}{signature(value.__init__)}".removesuffix(" -> None"))
            lines += [f"    .{member}" for member in members(value)]
        elif isinstance(value, types.ModuleType):
            lines.append(f"module {name}")
            own = (
                each for each in vars(value).values() if inspect.isfunction(each) and each.__module__ == value.__name__
            )
            public = sorted((each for each in own if not each.__name__.startswith("_")), key=lambda each: each.__name__)
            lines += [f"    .{each.__name__}{signature(each)}" for each in public]
        elif isinstance(value, types.FunctionType):
            lines.append(f"{name}{signature(value)}")
        else:
            lines.append(name)  # a number, or a type that has another name
    return lines


def test_public_names_are_as_listed() -> None:
    known = LIST.read_text(encoding="utf-8")
    difference = "\n".join(
        difflib.unified_diff(known.splitlines(), listed().splitlines(), "listed", "now", lineterm="")
    )
    assert not difference, f"{difference}\nIf this is meant: python tests/project/test_public_names.py"


def test_every_public_name_can_be_had_and_is_documented() -> None:
    assert dir(ba) == sorted(ba.__all__)
    undocumented = [name for name in ba.__all__ if not inspect.getdoc(getattr(ba, name))]
    assert undocumented == []


def test_what_extensions_import_is_there_and_loads_late() -> None:
    assert dir(bestarm.extend) == bestarm.extend.__all__
    for name in bestarm.extend.__all__:
        assert getattr(bestarm.extend, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'kernels'"):
        _ = bestarm.extend.kernels
    script = (
        "import sys\n"
        "from bestarm.extend import InvalidInput, command, study_command\n"
        "heavy = {'numpy', 'llvmlite', 'pydantic', 'sqlalchemy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_extensions_import_has_types() -> None:
    """The names that type checkers see are those that programs can import."""
    [block] = [node for node in ast.parse(Path(bestarm.extend.__file__).read_text()).body if isinstance(node, ast.If)]
    seen = {
        alias.asname: node.module for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert seen == {name: f"bestarm.{home}" for name, home in bestarm.extend._HOME.items()}


def test_the_list_holds_what_calls_depend_on() -> None:
    """So that it cannot become empty words."""
    lines = listed().splitlines()
    assert any(line.startswith("identify(problem: Problem") for line in lines)
    assert any(line.startswith("    Gaussian(sigma") for line in lines)
    assert any(line.startswith("    .ask(n: int = 1, *") for line in lines)
    assert "from bestarm.race.functions" in lines
    assert len(lines) > 100


if __name__ == "__main__":
    LIST.write_text(listed(), encoding="utf-8")
    print(f"wrote {LIST}")
