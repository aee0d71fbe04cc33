"""The source of a kernel, as Python's syntax tree."""

from __future__ import annotations
import __future__

import ast
import contextlib
import functools
import linecache
import logging
import operator
import types
from collections.abc import Iterator
from typing import Any

from bestarm.kernel.identity import code_parts, has_docstring, parts_of
from bestarm.kernel.native.types import Untranslatable

WRITTEN = "__bestarm_source__"
"""Where a kernel that was made, not read from a file, keeps its source."""


_FUTURE = functools.reduce(
    operator.or_, (getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)
)


class AnotherSource(Exception):
    """The source that was found is not that of the function: its file was changed after it was loaded."""


_log = logging.getLogger("bestarm")


@functools.cache
def warn_interpreted(reason: str) -> None:
    """Say once why a kernel has no machine code. `reason` ends with what to do about it."""
    _log.warning("%s. Until then it is interpreted: its decisions are right, and slow", reason)


_ATTEMPTS = 20


def _parsed(text: str) -> ast.Module:
    """Parse a file, again if another thread was parsing. Python before 3.11.9 and 3.12.3 counts the depth of recursion
    of all threads together, and then raises `SystemError` for nothing."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(SystemError):
            return ast.parse(text)
    return ast.parse(text)


@functools.lru_cache(maxsize=256)
def _definitions(text: str, flags: int) -> dict[str, list[tuple[types.CodeType, ast.FunctionDef]]]:
    """The functions of a file by name: what each compiles to, and its definition.

    The whole file is compiled, because what it imports has an influence on what its functions compile to.
    """
    nodes = {}
    for node in ast.walk(_parsed(text)):
        if isinstance(node, ast.FunctionDef):
            nodes[min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])] = node
    found: dict[str, list[tuple[types.CodeType, ast.FunctionDef]]] = {}
    codes = [compile(text, "<source>", "exec", flags, dont_inherit=True)]
    for code in codes:  # it grows
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
        definition = nodes.get(code.co_firstlineno)
        if definition is not None and definition.name == code.co_name:
            found.setdefault(code.co_name, []).append((code, definition))
    return found


def _found(text: str, function: types.FunctionType) -> ast.FunctionDef | None:
    """The definition that compiles to what the function is, wherever it is in the text by now."""
    own, documented = parts_of(function), has_docstring(function)
    definitions = _definitions(text, function.__code__.co_flags & _FUTURE).get(function.__code__.co_name, ())
    return next((node for code, node in definitions if code_parts(code, has_docstring=documented) == own), None)


def _texts(function: types.FunctionType) -> Iterator[str]:
    """Where the source may be: what was read earlier, and what is in the file now."""
    if (written := getattr(function, WRITTEN, None)) is not None:
        yield written
        return
    file = function.__code__.co_filename
    yield "".join(linecache.getlines(file, function.__globals__))
    linecache.checkcache(file)
    yield "".join(linecache.getlines(file, function.__globals__))


@functools.lru_cache(maxsize=1024)
def tree_of(function: types.FunctionType) -> ast.FunctionDef:
    """The definition of a function. Its file may have been replaced since it was loaded, so what is in the file must
    compile to the very function."""
    is_there = False
    for text in _texts(function):
        is_there |= bool(text)
        # A file may be half written, or be no Python anymore.
        with contextlib.suppress(SyntaxError, ValueError):
            if (tree := _found(text, function)) is not None:
                return tree
    if is_there and function.__code__.co_name != "<lambda>":
        raise AnotherSource(
            f"{function.__code__.co_filename} was changed after it was loaded; start the process again to compile it"
        )
    raise Untranslatable("its source is not known", "it as a function in a file")


def meaning_of(function: types.FunctionType, name: str) -> Any:
    """What a name means inside a function that does not assign it."""
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        return function.__closure__[code.co_freevars.index(name)].cell_contents
    if name in function.__globals__:
        return function.__globals__[name]
    builtins: dict[str, Any] = vars(__import__("builtins"))
    if name in builtins:
        return builtins[name]
    raise Untranslatable(f"nothing is called {name}")
