"""One source, several engines: plain functions for live studies, compiled clones of them for simulation.

`kernel` only marks a function, so importing a policy never imports numba. `compiled` clones a marked
function together with every marked function it calls and compiles the clones; the originals stay plain.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_MARK = "__bestarm_kernel__"
_LARGE = "__bestarm_large__"

# Kernels own no memory, so numba need not count references to the arrays they are handed: with counting,
# each call of a helper costs some 60 ns, ten times the work it does.
_OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True, "_nrt": False}


def kernel(function: F) -> F:
    """Mark `function` as kernel code: fit to run as it is and to be compiled."""
    setattr(function, _MARK, True)
    return function


def large(function: F) -> F:
    """Mark a kernel that is large and rarely needed or called in many places. A card, whose cache of instructions is
    small, keeps it as one function for policies whose program is large; else it is copied into its callers."""
    setattr(function, _LARGE, True)
    return function


def is_large(function: types.FunctionType) -> bool:
    return hasattr(function, _LARGE)


def is_kernel(value: object) -> bool:
    return isinstance(value, types.FunctionType) and hasattr(value, _MARK)


def called_kernels(
    function: types.FunctionType, replaced: dict[str, types.FunctionType]
) -> dict[str, types.FunctionType]:
    """The marked functions that `function` names, after `replaced` has taken the place of some."""
    named = ((name, replaced.get(name, function.__globals__.get(name))) for name in function.__code__.co_names)
    return {name: value for name, value in named if isinstance(value, types.FunctionType) and is_kernel(value)}


def _constants(function: types.FunctionType) -> list[tuple[str, object]]:
    """Global numbers, and tuples of them, that the compiler will freeze into the machine code."""
    found = ((name, function.__globals__.get(name)) for name in function.__code__.co_names)
    return [(name, value) for name, value in found if isinstance(value, int | float | tuple)]


def fingerprint(function: types.FunctionType, replaced: dict[str, types.FunctionType]) -> str:
    """A hash of everything that the compiled code is made from.

    numba's cache on disk looks only at the file of the outermost function, so an edit of a helper in
    another file would go unnoticed; with this hash in the cached name it cannot.
    """
    digest = hashlib.sha256(repr(_OPTIONS).encode())
    seen: set[types.FunctionType] = set()

    def visit(current: types.FunctionType) -> None:
        if current in seen:
            return
        seen.add(current)
        code = current.__code__
        digest.update(
            repr((current.__qualname__, code.co_code, code.co_consts, code.co_names, _constants(current))).encode()
        )
        for name, callee in sorted(called_kernels(current, replaced).items()):
            digest.update(name.encode())
            visit(callee)

    visit(function)
    return digest.hexdigest()[:12]


def clone(function: types.FunctionType, bindings: dict[str, Any], qualname: str) -> types.FunctionType:
    """The same function, in which some global names stand for something else."""
    copy = types.FunctionType(
        function.__code__,
        {**function.__globals__, **bindings},
        function.__name__,
        function.__defaults__,
    )
    copy.__module__ = function.__module__
    copy.__qualname__ = qualname
    return copy


@functools.cache
def _helper(function: types.FunctionType, **inlining: Any) -> Any:
    import numba

    called = called_kernels(function, {})
    bindings = {name: _helper(callee, forceinline=True) for name, callee in called.items()}
    return numba.njit(**inlining, **_OPTIONS)(clone(function, bindings, function.__qualname__))


@functools.cache
def _compiled(root: types.FunctionType, label: str, replaced: tuple[tuple[str, Any], ...]) -> Any:
    import numba

    substitutes = dict(replaced)
    called = called_kernels(root, substitutes)
    # Only this root calls what is put into it, so that is merged before LLVM sees it: compiled as functions of
    # their own, these large parts would be optimized twice, which takes half as long again.
    bindings = {
        name: _helper(callee, inline="always") if name in substitutes else _helper(callee, forceinline=True)
        for name, callee in called.items()
    }
    qualname = f"{root.__qualname__}_{label}_{fingerprint(root, substitutes)}"
    return numba.njit(cache=True, **_OPTIONS)(clone(root, bindings, qualname))


def compiled(root: Callable[..., Any], label: str = "", **replaced: Callable[..., Any]) -> Any:
    """The compiled form of `root`, in which each name in `replaced` stands for another kernel.

    `label` tells apart, in the cache on disk, the forms of one root.
    """
    return _compiled(root, label, tuple(sorted(replaced.items())))


def cache_folder(root: Callable[..., Any]) -> Path:
    """Where the compiled forms of `root` are kept. Raises RuntimeError if numba finds no folder that it can write."""
    import numba

    return Path(numba.njit(cache=True)(root).stats.cache_path)
