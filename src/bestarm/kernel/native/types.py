"""The types of values in kernels: numbers, arrays, and named tuples of both.

In LLVM's language a value is a row of leaves: a number is one leaf, an array a pointer and its lengths, a named tuple
the leaves of its parts. So no kernel ever builds a structure in memory, and unused parts cost nothing.
"""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np


class Untranslatable(Exception):
    """A kernel uses something of Python that only numba knows how to compile."""


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
            raise Untranslatable(f"an array of {value.dtype}")
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
    raise Untranslatable(f"a value of type {type(value).__name__}")


_RANK = {FLAG: 0, INT: 1, FLOAT: 2}


def common(one: Type, other: Type) -> Type:
    """The type of a variable that is sometimes of one type and sometimes of the other."""
    if one == other:
        return one
    if isinstance(one, Record) and isinstance(other, Record) and len(one.parts) == len(other.parts):
        parts = tuple(common(a, b) for a, b in zip(one.parts, other.parts, strict=True))
        return Record(parts, one.names if one.names == other.names else ())
    if one in _RANK and other in _RANK:
        return max(one, other, key=lambda number: _RANK[number])
    raise Untranslatable(f"{one} and {other} in one place")


_NUMBERS = {number.name: number for number in (INT, WORD, FLOAT, FLAG)}


def type_name(kind: Type) -> str:
    """The type of a result as text."""
    if isinstance(kind, Record):
        return f"({''.join(f'{type_name(part)},' for part in kind.parts)})"
    if isinstance(kind, Number):
        return kind.name
    raise Untranslatable("an array as a result")


def type_named(text: str) -> Type:
    """The inverse of `type_name`, apart from the names of a tuple's parts."""
    if not text.startswith("("):
        return _NUMBERS[text]
    parts, depth, start = [], 0, 1
    for place, letter in enumerate(text[:-1]):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 1:
            parts.append(type_named(text[start:place]))
            start = place + 1
    return Record(tuple(parts))
