"""Checks that say what they do: some of them take minutes."""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Callable
from typing import Any


def announced(names: dict[str, Any], prepared: Callable[..., Any] = lambda check: check) -> list[Callable[..., None]]:
    """Every check among the names of a module, in order, prepared and made to say when it begins and how long it took.
    The module has them under the same names."""
    checks = {name: _announced(prepared(found)) for name, found in sorted(names.items()) if name.startswith("check_")}
    names.update(checks)
    return [*checks.values()]


def _announced(check: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(check)
    def run(*given: Any) -> None:
        print(f"{check.__name__}({', '.join(map(_shown, given))}) …", end=" ", file=sys.stderr, flush=True)
        start = time.perf_counter()
        try:
            check(*given)
        finally:
            print(f"{time.perf_counter() - start:.1f} s", file=sys.stderr, flush=True)

    return run


def _shown(value: Any) -> str:
    return str(getattr(value, "__name__", None) or repr(value))
