"""The types of values in kernels: numbers, arrays, and named tuples of both.

In LLVM's language a value is a row of leaves: a number is one leaf, an array a pointer and its lengths, a named tuple
the leaves of its parts. So no kernel ever builds a structure in memory, and unused parts cost nothing.
"""

from __future__ import annotations

import functools
import itertools
import types
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from bestarm.errors import InvalidInput


class Untranslatable(InvalidInput):
    """A kernel uses Python that cannot be compiled. The message names the file, the line and what to write instead."""

    kind: ClassVar[str] = "untranslatable"

    def __init__(self, what: str, instead: str = "") -> None:
        super().__init__(f"{what}; write {instead}" if instead else what)
        self.line: int | None = None
        """Where in the file it is, as soon as that is known."""
        self.is_located = False

    def inside(self, node: Any) -> Untranslatable:
        """The same, with its line if that was not known: errors begin at the innermost expression."""
        self.line = self.line or node.lineno
        return self

    def of_kernel(self, kernel: types.FunctionType) -> Untranslatable:
        """The same error with its place in front, unless it already has one: that of a kernel called by this one."""
        if self.is_located:
            return self
        code = kernel.__code__
        located = Untranslatable(
            f"{code.co_filename}:{self.line or code.co_firstlineno}: "
            f"the kernel {kernel.__name__} cannot be compiled: {self}"
        )
        located.is_located = True
        return located


@dataclass(frozen=True)
class Number:
    """A number, and how LLVM calls it."""

    name: str
    llvm: str

    @property
    def leaves(self) -> tuple[str, ...]:
        return (self.llvm,)


INT = Number("int", "i64")
WORD = Number("word", "i64")
"""An unsigned number of 64 bits."""
FLOAT = Number("float", "double")
FLAG = Number("bool", "i1")


@dataclass(frozen=True)
class Element:
    """How an array keeps its numbers."""

    code: str
    """As numpy writes the type: "f8" and so on."""
    llvm: str
    value: Type
    """What a kernel sees."""


@dataclass(frozen=True)
class Array:
    """An array in C's order."""

    element: Element
    rank: int

    @property
    def leaves(self) -> tuple[str, ...]:
        return ("ptr", *itertools.repeat("i64", self.rank))


@dataclass(frozen=True)
class Record:
    """A tuple; `names` is empty if its parts have none."""

    parts: tuple[Type, ...]
    names: tuple[str, ...] = ()

    @functools.cached_property
    def leaves(self) -> tuple[str, ...]:
        return tuple(leaf for part in self.parts for leaf in part.leaves)

    def stretch(self, place: int) -> slice:
        """Which leaves are those of one part."""
        start = sum(len(part.leaves) for part in self.parts[:place])
        return slice(start, start + len(self.parts[place].leaves))


Type = Number | Array | Record
NOTHING = Record(())
"""What a kernel returns that returns nothing."""
COMPLEX = Record((FLOAT, FLOAT), ("real", "imag"))

_ELEMENTS = {
    element.code: element
    for element in (
        Element("f8", "double", FLOAT),
        Element("f4", "float", FLOAT),
        Element("i8", "i64", INT),
        Element("i4", "i32", INT),
        Element("i2", "i16", INT),
        Element("i1", "i8", INT),
        Element("u8", "i64", WORD),
        Element("u4", "i32", INT),
        Element("u2", "i16", INT),
        Element("u1", "i8", INT),
        Element("b1", "i8", FLAG),
        Element("c8", "{float, float}", COMPLEX),
    )
}


def type_of(value: Any) -> Type:
    """The type of what Python hands to a compiled kernel."""
    if isinstance(value, np.ndarray):
        element = _ELEMENTS.get(value.dtype.str[1:])
        if element is None or not value.flags.c_contiguous or not value.dtype.isnative:
            what = f"an array of {value.dtype}" if element is None else "an array with gaps or in another byte order"
            raise Untranslatable(f"it is given {what}", "`np.ascontiguousarray(array, np.float64)` where it is called")
        return Array(element, value.ndim)
    if isinstance(value, tuple):
        return Record(tuple(type_of(part) for part in value), getattr(value, "_fields", ()))
    return number_type(value)


def number_type(value: Any) -> Number:
    if isinstance(value, bool | np.bool_):
        return FLAG
    if isinstance(value, np.uint64):
        return WORD
    if isinstance(value, int | np.integer):
        return INT
    if isinstance(value, float):
        return FLOAT
    raise Untranslatable(
        f"it uses a value of type {type(value).__name__}", "numbers, tuples of numbers, or arrays that are handed in"
    )


_RANK = {FLAG: 0, INT: 1, FLOAT: 2}


def named(kind: Type) -> str:
    """A type as messages call it."""
    if isinstance(kind, Number):
        return {INT: "an int", WORD: "an unsigned number"}.get(kind, f"a {kind.name}")
    if isinstance(kind, Array):
        return f"a {kind.rank}-dimensional array"
    return f"a tuple of {len(kind.parts)}" if kind.parts else "nothing"


def common(one: Type, other: Type) -> Type:
    """The type of a variable that is sometimes of one type and sometimes of the other."""
    if one == other:
        return one
    if isinstance(one, Record) and isinstance(other, Record) and len(one.parts) == len(other.parts):
        parts = tuple(common(a, b) for a, b in zip(one.parts, other.parts, strict=True))
        return Record(parts, one.names if one.names == other.names else ())
    if one in _RANK and other in _RANK:
        return max(one, other, key=lambda number: _RANK[number])
    raise Untranslatable(f"a variable is {named(one)} in one place and {named(other)} in another", "two variables")


_NUMBERS = {number.name: number for number in (INT, WORD, FLOAT, FLAG)}


def described(kind: Type) -> Any:
    """The type of a result for JSON: a name, or a list for a tuple."""
    if isinstance(kind, Array):
        raise Untranslatable("it returns an array", "the result into an array that is handed in")
    return kind.name if isinstance(kind, Number) else [described(part) for part in kind.parts]


def type_described(description: Any) -> Type:
    """The inverse of `described`, apart from the names of a tuple's parts."""
    return Record(tuple(map(type_described, description))) if isinstance(description, list) else _NUMBERS[description]
