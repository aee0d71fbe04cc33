"""What to write in a kernel instead of Python that cannot be compiled."""

from __future__ import annotations

import ast
import math
from typing import Any

from bestarm.kernel.native.types import Untranslatable

_LOOP = "a loop: `for k in range(len(values))`"
_MEMORY = "into an array that is handed in, such as one of the policy's memory"
_NEVER = "the check where the setting is made: kernels neither raise nor print"

_FOR_SYNTAX: dict[tuple[type[ast.AST], ...], str] = {
    (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.List, ast.Dict, ast.Set): f"numbers {_MEMORY}",
    (ast.Assert, ast.Raise, ast.Try, ast.With): _NEVER,
    (ast.Lambda, ast.FunctionDef): "a function of its own, marked `kernel`",
    (ast.NamedExpr,): "the assignment on a line of its own",
    (ast.Slice,): "a loop from the first index to the last",
    (ast.Starred,): "every part by itself",
    (ast.In, ast.NotIn): "comparisons joined by `or`, or a loop",
    (ast.Is, ast.IsNot): "`==` or `!=` with a number",
    (ast.Match,): "`if` and `elif`",
    (ast.JoinedStr,): "numbers; kernels know no text",
    (ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal): "it outside of the kernel",
}
_FOR_FUNCTIONS: dict[Any, str] = {
    **dict.fromkeys((sum, any, all, sorted, enumerate, zip, reversed, map, filter), _LOOP),
    **dict.fromkeys((list, dict, set, tuple), f"numbers {_MEMORY}"),
    print: _NEVER,
    divmod: "`a // b` and `a % b`",
    round: "`math.floor(x + 0.5)`",
    isinstance: "a kernel for each type",
}


def unknown_syntax(node: ast.AST) -> Untranslatable:
    """The error for a part of Python's grammar."""
    instead = next((text for kinds, text in _FOR_SYNTAX.items() if isinstance(node, kinds)), "")
    shown = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else type(node).__name__
    return Untranslatable(f"`{shown.partition(chr(10))[0]}` is not supported", instead)


def unknown_call(called: Any, node: ast.Call) -> Untranslatable:
    """The error for a call of what is no kernel."""
    name = getattr(called, "__name__", "")
    instead = next((text for function, text in _FOR_FUNCTIONS.items() if function is called), "")
    if not instead and hasattr(math, name) and getattr(math, name) is not called:
        instead = f"`math.{name}`"
    instead = instead or "arithmetic, a function of `math`, or a function of your own, marked `kernel`"
    return Untranslatable(f"the call `{ast.unparse(node)}` is not supported", instead)
