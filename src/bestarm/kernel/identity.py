"""What a function is: its code, and everything that the names in it mean, wherever it was written.

Machine code is kept on disk under a hash of this. A source is translated only if it compiles to the same code.
"""

from __future__ import annotations

import functools
import hashlib
import sys
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

_PLAIN: tuple[type, ...] = (bool, int, float, complex, str, bytes, type(None))


def code_parts(code: types.CodeType, *, has_docstring: bool = False) -> tuple[Any, ...]:
    """What a code object does, without its name, its place and its docstring. It is the same in every process
    of one version of Python."""
    constants = code.co_consts[1:] if has_docstring else code.co_consts
    return (
        (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags),
        (code.co_code, code.co_exceptiontable),
        (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars),
        tuple(map(_constant_parts, constants)),
    )


def parts_of(function: types.FunctionType) -> tuple[Any, ...]:
    return code_parts(function.__code__, has_docstring=has_docstring(function))


def has_docstring(function: types.FunctionType) -> bool:
    """Whether the first constant is the docstring, from which nothing is compiled."""
    constants = function.__code__.co_consts
    return function.__doc__ is not None and bool(constants) and constants[0] is function.__doc__


def _constant_parts(value: Any) -> Any:
    if isinstance(value, types.CodeType):
        return code_parts(value)
    if isinstance(value, tuple):
        return tuple(map(_constant_parts, value))
    if isinstance(value, frozenset):
        return "set", sorted(repr(_constant_parts(part)) for part in value)
    return type(value).__name__, repr(value)  # 1, 1.0 and True are equal, as are 0.0 and -0.0


def names_in(code: types.CodeType) -> set[str]:
    """The global names and attributes that a function uses, and those that functions inside it use."""
    inner = (names_in(constant) for constant in code.co_consts if isinstance(constant, types.CodeType))
    return set(code.co_names).union(*inner)


def meanings(function: types.FunctionType) -> dict[str, Any]:
    """What the names in a function mean that it does not assign. A name may also be that of an attribute."""
    found = {name: function.__globals__[name] for name in names_in(function.__code__) if name in function.__globals__}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:  # it is assigned later
            found.pop(name, None)
    return found


def sources_of(folder: str) -> str | None:
    """A hash of the Python files of a package; None if there are none, as in an archive."""
    files = sorted(Path(folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.hexdigest() if files else None


class Identity:
    """A hash of functions and all that they reach. `called` says which kernels are put in the place of names."""

    def __init__(self, called: Callable[[types.FunctionType], Mapping[str, types.FunctionType]]) -> None:
        self._called = called
        # The same bytes mean something else in another version of Python.
        self._digest = hashlib.sha256(str(sys.implementation.cache_tag).encode())
        self._seen: dict[tuple[int, int], tuple[int, Any]] = {}
        """The number of each thing that was met, and the thing itself: it has to live as long as its id is used."""
        self.is_whole = True
        """Whether everything could be described. Otherwise equal hashes prove nothing."""

    def text(self) -> str:
        return self._digest.hexdigest()

    def _add(self, *parts: Any) -> None:
        self._digest.update(f"{parts!r}\n".encode())

    def _is_new(self, value: Any, where: Any = None) -> bool:
        """Whether a thing is met for the first time; otherwise its number is added."""
        key = (id(value), id(where))
        if key in self._seen:
            self._add("seen", self._seen[key][0])
            return False
        self._seen[key] = (len(self._seen), (value, where))
        return True

    def function(self, function: types.FunctionType) -> None:
        if not self._is_new(function):
            return
        self._add(function.__qualname__, parts_of(function))
        defaults = (function.__defaults__, *sorted((function.__kwdefaults__ or {}).items()))
        named = {**meanings(function), **self._called(function), "defaults of the function": defaults}
        for name, value in sorted(named.items()):
            self._add(name)
            self._value(value, function.__code__)

    def _value(self, value: Any, code: types.CodeType) -> None:
        """What compiled code takes over from a value. Attributes count if `code` has their names."""
        kind = type(value)
        plain: Any = next((base for base in _PLAIN if isinstance(value, base)), None)
        if isinstance(value, types.FunctionType):
            self.function(value)
        elif isinstance(value, np.generic | np.ndarray) and not value.dtype.hasobject:
            self._add(kind.__name__, value.dtype.descr, value.shape, value.tobytes())
        elif plain is not None:
            self._add(kind.__name__, plain.__repr__(value))
        elif isinstance(value, tuple):
            self._add(kind.__name__, getattr(value, "_fields", ()), len(value))
            for part in value:
                self._value(part, code)
        elif isinstance(value, functools.partial):
            self._add("partial")
            self._value((value.func, value.args, *sorted(value.keywords.items())), code)
        elif isinstance(value, types.ModuleType | type):
            self._attributes(value, code)
        else:
            # Methods and functions written in C, and fields of named tuples, mean what their names say.
            name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
            self._add(kind.__name__, getattr(value, "__module__", None), name)
            self.is_whole &= isinstance(name, str) or hasattr(kind, "__get__")

    def _attributes(self, value: types.ModuleType | type, code: types.CodeType) -> None:
        if not self._is_new(value, code):
            return
        self._add(value.__name__, getattr(value, "_fields", ()))
        for name in sorted(names_in(code)):
            try:
                found = getattr(value, name)
            except Exception:  # whatever a module or a class raises that is asked for what it does not have
                continue
            self._add(name)
            self._value(found, code)
