"""Writing one function in LLVM's language: blocks of instructions, and conversions of values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from bestarm.kernel.native.types import (
    COMPLEX,
    FLAG,
    FLOAT,
    INT,
    WORD,
    Array,
    Element,
    Number,
    Record,
    Type,
    Untranslatable,
    named,
    number_type,
)


@dataclass(frozen=True)
class Value:
    """A value while a kernel runs: its leaves are names of results, or constants."""

    type: Type
    leaves: tuple[str, ...]
    known: Any = None
    """Its value, if that is known already."""

    @property
    def leaf(self) -> str:
        (leaf,) = self.leaves
        return leaf

    def part(self, place: int) -> Value:
        assert isinstance(self.type, Record)
        return Value(self.type.parts[place], self.leaves[self.type.stretch(place)])


def constant(value: Any) -> Value:
    """A number that is known while translating."""
    kind = number_type(value)
    if kind == FLOAT:
        return Value(FLOAT, (float_text(float(value)),), float(value))
    if kind == FLAG:
        return Value(FLAG, ("true" if value else "false",), bool(value))
    number = int(value)
    if kind == WORD or number >= 1 << 63:
        signed = number - (1 << 64) if number >= 1 << 63 else number
        return Value(WORD, (str(signed),), number)
    return Value(INT, (str(number),), number)


def float_text(value: float) -> str:
    return "0x" + struct.pack(">d", value).hex().upper()


def joined(values: list[Value], names: tuple[str, ...] = ()) -> Value:
    """A tuple of values."""
    leaves = tuple(leaf for value in values for leaf in value.leaves)
    return Value(Record(tuple(value.type for value in values), names), leaves)


@dataclass
class Block:
    """Instructions that run one after the other, up to a jump or a return."""

    name: str
    lines: list[str] = field(default_factory=list)
    is_closed: bool = False


class Writer:
    """The body of one function."""

    def __init__(self) -> None:
        self._count = 0
        self._memory: list[str] = []
        self.blocks: list[Block] = []
        self.here = self.start(self.block())

    # ------------------------------------------------------------------------------------------------ instructions

    def block(self) -> Block:
        self._count += 1
        return Block(f"b{self._count}")

    def start(self, block: Block) -> Block:
        """Go on writing in a new block."""
        self.blocks.append(block)
        self.here = block
        return block

    def do(self, text: str) -> None:
        if not self.here.is_closed:
            self.here.lines.append(text)

    def result(self, text: str) -> str:
        self._count += 1
        name = f"%v{self._count}"
        self.do(f"{name} = {text}")
        return name

    def close(self, text: str) -> None:
        """End the block with a jump or a return. What is written after it can never run, and is dropped."""
        self.do(text)
        self.here.is_closed = True

    def go(self, block: Block) -> None:
        self.close(f"br label %{block.name}")

    def fork(self, condition: str, yes: Block, no: Block) -> None:
        self.close(f"br i1 {condition}, label %{yes.name}, label %{no.name}")

    def memory(self, kind: Type) -> tuple[str, ...]:
        """Room for a variable, one place for each leaf."""
        places = []
        for leaf in kind.leaves:
            self._count += 1
            self._memory.append(f"%m{self._count} = alloca {leaf}")
            places.append(f"%m{self._count}")
        return tuple(places)

    def load(self, kind: Type, places: tuple[str, ...]) -> Value:
        leaves = zip(kind.leaves, places, strict=True)
        return Value(kind, tuple(self.result(f"load {leaf}, ptr {place}") for leaf, place in leaves))

    def store(self, value: Value, places: tuple[str, ...]) -> None:
        for kind, leaf, place in zip(value.type.leaves, value.leaves, places, strict=True):
            self.do(f"store {kind} {leaf}, ptr {place}")

    def merged(self, kind: Type, ways: list[tuple[Block, Value]]) -> Value:
        """The value that belongs to the block from which this one was reached."""
        leaves = []
        for place, leaf in enumerate(kind.leaves):
            choices = ", ".join(f"[{value.leaves[place]}, %{block.name}]" for block, value in ways)
            leaves.append(self.result(f"phi {leaf} {choices}"))
        return Value(kind, tuple(leaves))

    def text(self) -> str:
        first, *others = self.blocks
        lines = [f"{first.name}:", *self._memory, *first.lines]
        for block in others:
            lines += [f"{block.name}:", *block.lines]
            if not block.is_closed:
                lines.append("unreachable")
        return "\n".join(lines)

    # ------------------------------------------------------------------------------------------------- conversions

    def converted(self, value: Value, kind: Type) -> Value:
        """The value as one of another type."""
        if value.type == kind:
            return value
        if isinstance(value.type, Record) and isinstance(kind, Record) and len(value.type.parts) == len(kind.parts):
            parts = [self.converted(value.part(place), part) for place, part in enumerate(kind.parts)]
            return Value(kind, joined(parts).leaves)
        if isinstance(value.type, Number) and isinstance(kind, Number):
            return self._converted_number(value, kind)
        raise Untranslatable(f"{named(value.type)} where {named(kind)} is needed")

    def _converted_number(self, value: Value, kind: Number) -> Value:
        if value.known is not None and kind == FLOAT:
            return constant(float(value.known))
        leaf = value.leaf
        if value.type == FLAG:
            operation = "uitofp" if kind == FLOAT else "zext"
            return Value(kind, (self.result(f"{operation} i1 {leaf} to {kind.llvm}"),))
        if kind == FLAG:
            test = "fcmp une double" if value.type == FLOAT else "icmp ne i64"
            return Value(FLAG, (self.result(f"{test} {leaf}, {float_text(0.0) if value.type == FLOAT else 0}"),))
        if value.type == FLOAT:
            operation = "fptoui" if kind == WORD else "fptosi"
            return Value(kind, (self.result(f"{operation} double {leaf} to i64"),))
        if kind == FLOAT:
            operation = "uitofp" if value.type == WORD else "sitofp"
            return Value(kind, (self.result(f"{operation} i64 {leaf} to double"),))
        return Value(kind, (leaf,), value.known)  # signed and unsigned numbers have the same bits

    def truth(self, value: Value) -> str:
        return self.converted(value, FLAG).leaf

    # ------------------------------------------------------------------------------------------------------ arrays

    def element(self, array: Value, indices: list[Value]) -> str:
        """The address of an element, or of the first one of a part of an array."""
        assert isinstance(array.type, Array)
        lengths = array.leaves[1:]
        place = "0"
        for axis, length in enumerate(lengths):
            if axis:
                place = self.result(f"mul nsw i64 {place}, {length}") if place != "0" else "0"
            if axis < len(indices):
                index = self.place(indices[axis], length)
                place = self.result(f"add nsw i64 {place}, {index}") if place != "0" else index
        if place == "0":
            return array.leaves[0]
        return self.result(f"getelementptr {array.type.element.llvm}, ptr {array.leaves[0]}, i64 {place}")

    def place(self, index: Value, length: str) -> str:
        """An index as a place: a negative one counts from the end, as in Python."""
        if index.type == FLOAT:
            raise Untranslatable("an index that is not a whole number", "`int(x)`")
        leaf = self.converted(index, INT).leaf
        if index.known is not None:
            return leaf if index.known >= 0 else self.result(f"add nsw i64 {length}, {leaf}")
        if index.type != INT:
            return leaf
        is_negative = self.result(f"icmp slt i64 {leaf}, 0")
        from_end = self.result(f"add nsw i64 {leaf}, {length}")
        return self.result(f"select i1 {is_negative}, i64 {from_end}, i64 {leaf}")

    def read(self, element: Element, address: str) -> Value:
        if element.value == COMPLEX:
            both = self.result(f"load {element.llvm}, ptr {address}, align 4")
            parts = (self.result(f"extractvalue {element.llvm} {both}, {place}") for place in range(2))
            return Value(COMPLEX, tuple(self.result(f"fpext float {part} to double") for part in parts))
        loaded = self.result(f"load {element.llvm}, ptr {address}")
        if element.code == "f4":
            loaded = self.result(f"fpext float {loaded} to double")
        elif element.code == "b1":
            loaded = self.result(f"icmp ne i8 {loaded}, 0")
        elif element.llvm not in ("double", "i64"):
            operation = "zext" if element.code[0] == "u" else "sext"
            loaded = self.result(f"{operation} {element.llvm} {loaded} to i64")
        return Value(element.value, (loaded,))

    def write(self, element: Element, address: str, value: Value) -> None:
        stored = self.converted(value, element.value)
        if element.value == COMPLEX:
            parts = [self.result(f"fptrunc double {leaf} to float") for leaf in stored.leaves]
            both = self.result(f"insertvalue {element.llvm} undef, float {parts[0]}, 0")
            both = self.result(f"insertvalue {element.llvm} {both}, float {parts[1]}, 1")
            self.do(f"store {element.llvm} {both}, ptr {address}, align 4")
            return
        leaf = stored.leaf
        if element.code == "f4":
            leaf = self.result(f"fptrunc double {leaf} to float")
        elif element.code == "b1":
            leaf = self.result(f"zext i1 {leaf} to i8")
        elif element.llvm not in ("double", "i64"):
            leaf = self.result(f"trunc i64 {leaf} to {element.llvm}")
        self.do(f"store {element.llvm} {leaf}, ptr {address}")
