"""The source of a kernel, as Python's syntax tree."""

from __future__ import annotations

import ast
import functools
import linecache
import types
from typing import Any

from bestarm.kernel.native.types import Untranslatable

WRITTEN = "__bestarm_source__"
"""Where a kernel that was made, not read from a file, keeps its source."""


@functools.lru_cache(maxsize=256)
def _functions(text: str) -> dict[int, ast.FunctionDef]:
    """The functions of a file, by the line on which each starts with its decorators."""
    found = {}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first] = node
    return found


def tree_of(function: types.FunctionType) -> ast.FunctionDef:
    text = getattr(function, WRITTEN, None)
    if text is None:
        text = "".join(linecache.getlines(function.__code__.co_filename, function.__globals__))
    try:
        return _functions(text)[function.__code__.co_firstlineno]
    except (KeyError, SyntaxError):
        raise Untranslatable(f"{function.__qualname__}: its source is not known") from None


def named(function: types.FunctionType, name: str) -> Any:
    """What a name means inside a function that does not assign it."""
    code = function.__code__
    if name in code.co_freevars and function.__closure__ is not None:
        return function.__closure__[code.co_freevars.index(name)].cell_contents
    if name in function.__globals__:
        return function.__globals__[name]
    builtins: dict[str, Any] = vars(__import__("builtins"))
    if name in builtins:
        return builtins[name]
    raise Untranslatable(f"{function.__qualname__}: nothing is called {name}")


def bound_once(tree: ast.FunctionDef) -> frozenset[str]:
    """Variables that are assigned in one place, before and around everything that reads them. They need no memory."""
    stores: dict[str, list[ast.Name]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stores.setdefault(node.id, []).append(node)
    arguments = {argument.arg for argument in tree.args.args}
    once = {name for name, places in stores.items() if len(places) == 1 and name not in arguments}
    return frozenset(once & _settled_in_their_suite(tree, once))


def _settled_in_their_suite(tree: ast.FunctionDef, names: set[str]) -> set[str]:
    """Names that a plain assignment sets, and that only later statements of the same suite read."""
    reads: dict[str, int] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names:
            reads[node.id] = reads.get(node.id, 0) + 1
    settled = set()
    for suite in _suites(tree):
        for place, statement in enumerate(suite):
            if not isinstance(statement, ast.Assign | ast.AnnAssign):
                continue
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            assigned = {name for target in targets for name in _plain_names(target)} & names
            if assigned:
                later: dict[str, int] = {}
                for following in suite[place + 1 :]:
                    for node in ast.walk(following):
                        if isinstance(node, ast.Name) and node.id in assigned:
                            later[node.id] = later.get(node.id, 0) + 1
                settled |= {name for name in assigned if later.get(name, 0) == reads.get(name, 0)}
    return settled


def _plain_names(target: ast.expr) -> list[str]:
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Tuple):
        return [name for part in target.elts for name in _plain_names(part)]
    return []


def _suites(tree: ast.AST) -> list[list[ast.stmt]]:
    return [
        suite
        for node in ast.walk(tree)
        for field in ("body", "orelse")
        if isinstance(suite := getattr(node, field, None), list)
    ]
