"""Variants of a policy that differ in one of the kernels it calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from bestarm.kernel.compile import clone, is_kernel
from bestarm.kernel.identity import meanings

F = TypeVar("F", bound=Callable[..., Any])


def specialized(function: F, suffix: str, **replaced: Callable[..., Any]) -> F:
    """The same kernel, in which everything that it calls, directly or not, uses other kernels under some names.

    It is a kernel like any other, to be run as it is or compiled. `suffix` tells its name apart.
    """
    done: dict[Any, Any] = {}

    def visit(current: Any) -> Any:
        if current not in done:
            # A name may also be that of an attribute, so that a kernel seems to call itself.
            done[current] = current
            called = {name: value for name, value in meanings(current).items() if is_kernel(value)}
            bindings = {name: replaced[name] if name in replaced else visit(value) for name, value in called.items()}
            if any(bindings[name] is not value for name, value in called.items()):
                copy = clone(current, bindings, f"{current.__qualname__}_{suffix}")
                copy.__dict__.update(current.__dict__)
                copy.__doc__ = current.__doc__
                done[current] = copy
        return done[current]

    special: F = visit(function)
    return special
