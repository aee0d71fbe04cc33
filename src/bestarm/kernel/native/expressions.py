"""Expressions of kernels in LLVM's language."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

from bestarm.kernel.native.advice import unknown_call, unknown_syntax
from bestarm.kernel.native.arithmetic import Arithmetic
from bestarm.kernel.native.types import (
    COMPLEX,
    FLAG,
    FLOAT,
    INT,
    WORD,
    Array,
    Number,
    Record,
    Type,
    Untranslatable,
    common,
    named,
)
from bestarm.kernel.native.writing import Block, Value, Writer, constant, joined


@dataclass(frozen=True)
class CompileTimeObject:
    """What a name means that is no value of a kernel: a module, a function, a type, a tuple of constants."""

    value: Any


_MATH: dict[Any, str] = {
    getattr(math, name): name
    for name in (
        *("sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "exp", "expm1", "log", "log1p"),
        *("log2", "log10", "pow", "fmod", "erf", "erfc", "lgamma", "floor", "ceil"),
    )
} | {
    math.sqrt: "llvm.sqrt.f64",
    math.fabs: "llvm.fabs.f64",
    math.copysign: "llvm.copysign.f64",
    math.gamma: "tgamma",
}
_OF_TWO = (math.pow, math.atan2, math.fmod, math.copysign)
_WHOLE = (math.floor, math.ceil)
"""They return whole numbers, not floats."""


class Expressions:
    """Writes the expressions of one function. What names mean and how kernels are called is left to others."""

    def __init__(
        self,
        writer: Writer,
        read_name: Callable[[str], Value | CompileTimeObject],
        call_kernel: Callable[[Any, list[Value]], Value],
        table: Callable[[tuple[Any, ...]], tuple[str, Number]],
    ) -> None:
        self.write = writer
        self.numbers = Arithmetic(writer)
        self._read_name = read_name
        self._call_kernel = call_kernel
        self._table = table

    def value(self, node: ast.expr) -> Value:
        found = self.any(node)
        if isinstance(found, CompileTimeObject):
            if isinstance(found.value, tuple):
                return joined([constant(part) for part in found.value], getattr(found.value, "_fields", ()))
            raise Untranslatable(
                f"`{ast.unparse(node)}` is no number",
                "arrays as a part of the setting or the memory, and tables as tuples of numbers",
            )
        return found

    def any(self, node: ast.expr) -> Value | CompileTimeObject:
        method = getattr(self, f"on_{type(node).__name__.lower()}", None)
        try:
            if method is None:
                raise unknown_syntax(node)
            found: Value | CompileTimeObject = method(node)
        except Untranslatable as error:
            raise error.inside(node) from None
        return found

    def on_constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def on_name(self, node: ast.Name) -> Value | CompileTimeObject:
        return self._read_name(node.id)

    def on_tuple(self, node: ast.Tuple) -> Value:
        return joined([self.value(part) for part in node.elts])

    def on_attribute(self, node: ast.Attribute) -> Value | CompileTimeObject:
        owner = self.any(node.value)
        if isinstance(owner, CompileTimeObject):
            found = getattr(owner.value, node.attr)
            return constant(found) if isinstance(found, int | float | np.generic) else CompileTimeObject(found)
        if isinstance(owner.type, Record) and node.attr in owner.type.names:
            return owner.part(owner.type.names.index(node.attr))
        if isinstance(owner.type, Array) and node.attr == "shape":
            return joined([Value(INT, (length,)) for length in owner.leaves[1:]])
        raise Untranslatable(
            f"`{ast.unparse(node)}`: {named(owner.type)} has no {node.attr}", "`x.shape` of arrays, and names of parts"
        )

    def on_subscript(self, node: ast.Subscript) -> Value:
        owner = self.any(node.value)
        if isinstance(owner, Value) and isinstance(owner.type, Array):
            return self.entry(owner, self.indices(node))
        index = self.value(node.slice)
        if isinstance(owner, Value):
            if isinstance(owner.type, Record):
                return self._part(owner, index)
        elif isinstance(owner.value, tuple):
            if isinstance(index.known, int):
                return constant(owner.value[index.known])
            return self._looked_up(owner.value, index)
        raise Untranslatable(
            f"`{ast.unparse(node)}` is no entry of an array or a tuple",
            "arrays as a part of the setting or the memory, and tables as tuples of numbers",
        )

    def _part(self, owner: Value, index: Value) -> Value:
        """A part of a tuple."""
        assert isinstance(owner.type, Record)
        parts = [owner.part(place) for place in range(len(owner.type.parts))]
        if isinstance(index.known, int):
            if not -len(parts) <= index.known < len(parts):
                raise Untranslatable(f"a tuple of {len(parts)} has no part number {index.known}")
            return parts[index.known]
        place, chosen = Value(INT, (self.write.place(index, str(len(parts))),)), parts[0]
        for number, part in enumerate(parts[1:], 1):
            chosen = self.numbers.selected(self.numbers.compared(ast.Eq(), place, constant(number)), part, chosen)
        return chosen

    def _looked_up(self, numbers: tuple[Any, ...], index: Value) -> Value:
        """An entry of a tuple of constants."""
        name, kind = self._table(numbers)
        place = self.write.place(index, str(len(numbers)))
        address = self.write.result(f"getelementptr {kind.llvm}, ptr {name}, i64 {place}")
        return Value(kind, (self.write.result(f"load {kind.llvm}, ptr {address}"),))

    def indices(self, node: ast.Subscript) -> list[Value]:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [self.value(part) for part in parts]

    def entry(self, array: Value, indices: list[Value]) -> Value:
        assert isinstance(array.type, Array)
        address = self.write.element(array, indices)
        if len(indices) == array.type.rank:
            return self.write.read(array.type.element, address)
        if len(indices) > array.type.rank:
            raise Untranslatable(f"{len(indices)} indices for {named(array.type)}")
        return Value(
            Array(array.type.element, array.type.rank - len(indices)), (address, *array.leaves[1 + len(indices) :])
        )

    # -------------------------------------------------------------------------------------------------- arithmetic

    def on_unaryop(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(FLAG, (self.write.result(f"xor i1 {self.write.truth(operand)}, true"),))
        if isinstance(node.op, ast.UAdd) and operand.type in (INT, FLOAT):
            return operand
        if isinstance(node.op, ast.Invert) and operand.type in (INT, WORD):
            return Value(operand.type, (self.write.result(f"xor i64 {operand.leaf}, -1"),))
        if isinstance(node.op, ast.USub):
            if operand.known is not None and operand.type in (INT, FLOAT):
                return constant(-operand.known)
            if operand.type == FLOAT:
                return Value(FLOAT, (self.write.result(f"fneg double {operand.leaf}"),))
            if operand.type in (INT, FLAG):
                return Value(INT, (self.write.result(f"sub nsw i64 0, {self.write.converted(operand, INT).leaf}"),))
        raise Untranslatable(f"`{ast.unparse(node)}` of {named(operand.type)}")

    def on_binop(self, node: ast.BinOp) -> Value:
        return self.numbers.calculated(node.op, self.value(node.left), self.value(node.right))

    # ------------------------------------------------------------------------------------------------- comparisons

    def on_compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1:
            left, right = self.value(node.left), self.value(node.comparators[0])
            return Value(FLAG, (self.numbers.compared(node.ops[0], left, right),))
        return self._decided(node)

    def on_boolop(self, node: ast.BoolOp) -> Value:
        return self._decided(node)

    def _decided(self, node: ast.expr) -> Value:
        """A condition as a value."""
        yes, no, end = self.write.block(), self.write.block(), self.write.block()
        self.branch(node, yes, no, is_flag=True)
        for block in (yes, no):
            self.write.start(block)
            self.write.go(end)
        self.write.start(end)
        return self.write.merged(FLAG, [(yes, constant(True)), (no, constant(False))])

    def branch(self, node: ast.expr, yes: Block, no: Block, *, is_flag: bool = False) -> None:
        """Go on in one block or the other. What Python would not evaluate is not evaluated."""
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And)
            for part in node.values[:-1]:
                following = self.write.block()
                self.branch(part, *((following, no) if is_and else (yes, following)), is_flag=is_flag)
                self.write.start(following)
            self.branch(node.values[-1], yes, no, is_flag=is_flag)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            self.branch(node.operand, no, yes)
        elif isinstance(node, ast.Compare) and len(node.ops) > 1:
            left = self.value(node.left)
            for place, operator in enumerate(node.ops):
                right = self.value(node.comparators[place])
                following = yes if place == len(node.ops) - 1 else self.write.block()
                self.write.fork(self.numbers.compared(operator, left, right), following, no)
                if following is not yes:
                    self.write.start(following)
                left = right
        else:
            value = self.value(node)
            if is_flag and value.type != FLAG:
                raise Untranslatable(
                    f"the value of `and` or `or` is used, and `{ast.unparse(node)}` is no truth value", "a comparison"
                )
            self.write.fork(self.write.truth(value), yes, no)

    def on_ifexp(self, node: ast.IfExp) -> Value:
        yes, no, end = self.write.block(), self.write.block(), self.write.block()
        self.branch(node.test, yes, no)
        ways = []
        for block, part in ((yes, node.body), (no, node.orelse)):
            self.write.start(block)
            value = self.value(part)
            ways.append((self.write.here, value))
        kind = common(ways[0][1].type, ways[1][1].type)
        converted = []
        for block, value in ways:
            self.write.here = block
            converted.append((block, self.write.converted(value, kind)))
            self.write.go(end)
        self.write.start(end)
        return self.write.merged(kind, converted)

    # ------------------------------------------------------------------------------------------------------- calls

    def on_call(self, node: ast.Call) -> Value:
        called = self.any(node.func)
        if not isinstance(called, CompileTimeObject):
            raise unknown_call(None, node)
        for part in node.args:
            if isinstance(part, ast.Starred):
                raise unknown_syntax(part)
        function = called.value
        if isinstance(function, type) and issubclass(function, tuple) and hasattr(function, "_fields"):
            return joined(self._arguments(node, function._fields, {}), function._fields)
        if isinstance(function, FunctionType):
            code = function.__code__
            names = code.co_varnames[: code.co_argcount]
            given = function.__defaults__ or ()
            defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
            return self._call_kernel(function, self._arguments(node, names, defaults))
        if node.keywords:
            raise unknown_call(function, node)
        if function is len and len(node.args) == 1:
            return self._length(node.args[0])
        return self._built_in(function, [self.value(argument) for argument in node.args], node)

    def _arguments(self, node: ast.Call, names: tuple[str, ...], defaults: dict[str, Any]) -> list[Value]:
        given = dict(zip(names, [self.value(argument) for argument in node.args], strict=False))
        given |= {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
        missing = {name: constant(value) for name, value in defaults.items() if name not in given}
        try:
            return [(given | missing)[name] for name in names]
        except KeyError as missing_one:
            raise Untranslatable(f"the call `{ast.unparse(node)}` gives no {missing_one}") from None

    def _length(self, node: ast.expr) -> Value:
        measured = self.any(node)
        if isinstance(measured, CompileTimeObject):
            if isinstance(measured.value, tuple):
                return constant(len(measured.value))
        elif isinstance(measured.type, Array):
            return Value(INT, (measured.leaves[1],))
        elif isinstance(measured.type, Record):
            return constant(len(measured.type.parts))
        raise Untranslatable(f"`{ast.unparse(node)}` has no length")

    def _built_in(self, function: Any, values: list[Value], node: ast.Call) -> Value:
        if function in (min, max) and len(values) == 1 and isinstance(values[0].type, Record) and values[0].type.parts:
            values = [values[0].part(place) for place in range(len(values[0].type.parts))]
        elif function in (min, max) and len(values) == 1:
            raise Untranslatable(f"`{ast.unparse(node)}` of {named(values[0].type)}", "a loop over its entries")
        if function in (min, max):
            best = values[0]
            for other in values[1:]:
                best = self.numbers.chosen(ast.Lt() if function is min else ast.Gt(), other, best)
            return best
        if function is complex and len(values) == 2:
            return Value(COMPLEX, joined([self.write.converted(value, FLOAT) for value in values]).leaves)
        if function in _MATH and len(values) == 1 + (function in _OF_TWO):
            found = self.numbers.called(_MATH[function], values)
            return self.write.converted(found, INT) if function in _WHOLE else found
        if len(values) == 1:
            (value,) = values
            conversions: dict[Any, Type] = {
                int: INT, np.int64: INT, np.uint64: WORD, float: FLOAT, np.float64: FLOAT, bool: FLAG
            }  # fmt: skip
            if function in conversions:
                return self.write.converted(value, conversions[function])
            if function is abs:
                return self.numbers.absolute(value)
            if function is math.isnan:
                return Value(FLAG, (self.numbers.compared(ast.NotEq(), value, value),))
            if function is math.isinf:
                return Value(FLAG, (self.numbers.compared(ast.Eq(), self.numbers.absolute(value), constant(math.inf)),))
            if function is math.isfinite:
                return Value(FLAG, (self.numbers.compared(ast.Lt(), self.numbers.absolute(value), constant(math.inf)),))
        raise unknown_call(function, node)
