"""Expressions of kernels in LLVM's language."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import numpy as np

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
)
from bestarm.kernel.native.writing import Block, Value, Writer, constant, joined


@dataclass(frozen=True)
class Thing:
    """What a name means that is no value of a kernel: a module, a function, a type, a tuple of constants."""

    it: Any


_MATH = {
    function: name
    for name in ("sin", "cos", "exp", "expm1", "log", "log1p", "log2", "log10", "pow", "erf", "erfc", "floor", "ceil")
    if (function := getattr(math, name))
} | {math.sqrt: "llvm.sqrt.f64", math.fabs: "llvm.fabs.f64", math.copysign: "llvm.copysign.f64"}
_WHOLE = (math.floor, math.ceil)
"""They return whole numbers, not floats."""

_ARITHMETIC: dict[type[ast.operator], tuple[str, str, str]] = {
    ast.Add: ("add nsw", "add", "fadd"),
    ast.Sub: ("sub nsw", "sub", "fsub"),
    ast.Mult: ("mul nsw", "mul", "fmul"),
}
_BITS: dict[type[ast.operator], tuple[str, str]] = {
    ast.LShift: ("shl", "shl"),
    ast.RShift: ("ashr", "lshr"),
    ast.BitAnd: ("and", "and"),
    ast.BitOr: ("or", "or"),
    ast.BitXor: ("xor", "xor"),
}
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str, str]] = {
    ast.Eq: ("eq", "eq", "oeq"),
    ast.NotEq: ("ne", "ne", "une"),
    ast.Lt: ("slt", "ult", "olt"),
    ast.LtE: ("sle", "ule", "ole"),
    ast.Gt: ("sgt", "ugt", "ogt"),
    ast.GtE: ("sge", "uge", "oge"),
}


def _together(one: Value, other: Value) -> Number:
    """The type in which two numbers are compared or calculated with."""
    kinds = {one.type, other.type}
    if WORD in kinds and kinds != {WORD}:
        # Python would need more than 64 bits, and numba a float. A constant fits either way.
        partner = one if other.type == WORD else other
        if partner.type == INT and partner.known is not None and partner.known >= 0:
            return WORD
        raise Untranslatable("a signed number together with an unsigned one")
    kind = common(one.type, other.type)
    if not isinstance(kind, Number):
        raise Untranslatable(f"{kind} as a number")
    return INT if kind == FLAG else kind


class Expressions:
    """Writes the expressions of one function. What names mean and how kernels are called is left to others."""

    def __init__(
        self,
        writer: Writer,
        read_name: Callable[[str], Value | Thing],
        call_kernel: Callable[[Any, list[Value]], Value],
        table: Callable[[tuple[Any, ...]], tuple[str, Number]],
    ) -> None:
        self.write = writer
        self._read_name = read_name
        self._call_kernel = call_kernel
        self._table = table

    def value(self, node: ast.expr) -> Value:
        found = self.any(node)
        if isinstance(found, Thing):
            if isinstance(found.it, tuple):
                return joined([constant(part) for part in found.it], getattr(found.it, "_fields", ()))
            raise Untranslatable(f"{ast.unparse(node)} as a value")
        return found

    def any(self, node: ast.expr) -> Value | Thing:
        method = getattr(self, f"on_{type(node).__name__.lower()}", None)
        if method is None:
            raise Untranslatable(f"{type(node).__name__}: {ast.unparse(node)}")
        found: Value | Thing = method(node)
        return found

    def on_constant(self, node: ast.Constant) -> Value:
        return constant(node.value)

    def on_name(self, node: ast.Name) -> Value | Thing:
        return self._read_name(node.id)

    def on_tuple(self, node: ast.Tuple) -> Value:
        return joined([self.value(part) for part in node.elts])

    def on_attribute(self, node: ast.Attribute) -> Value | Thing:
        owner = self.any(node.value)
        if isinstance(owner, Thing):
            found = getattr(owner.it, node.attr)
            return constant(found) if isinstance(found, int | float | np.generic) else Thing(found)
        if isinstance(owner.type, Record) and node.attr in owner.type.names:
            return owner.part(owner.type.names.index(node.attr))
        if isinstance(owner.type, Array) and node.attr == "shape":
            return joined([Value(INT, (length,)) for length in owner.leaves[1:]])
        raise Untranslatable(ast.unparse(node))

    def on_subscript(self, node: ast.Subscript) -> Value:
        owner = self.any(node.value)
        if isinstance(owner, Value) and isinstance(owner.type, Array):
            return self._entry(owner, self.indices(node))
        index = self.value(node.slice)
        if isinstance(owner, Value):
            if isinstance(owner.type, Record) and isinstance(index.known, int):
                return owner.part(range(len(owner.type.parts))[index.known])
        elif isinstance(owner.it, tuple):
            if isinstance(index.known, int):
                return constant(owner.it[index.known])
            return self._looked_up(owner.it, index)
        raise Untranslatable(ast.unparse(node))

    def _looked_up(self, numbers: tuple[Any, ...], index: Value) -> Value:
        """An entry of a tuple of constants."""
        name, kind = self._table(numbers)
        place = self.write.place(index, str(len(numbers)))
        address = self.write.result(f"getelementptr {kind.llvm}, ptr {name}, i64 {place}")
        return Value(kind, (self.write.result(f"load {kind.llvm}, ptr {address}"),))

    def indices(self, node: ast.Subscript) -> list[Value]:
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        return [self.value(part) for part in parts]

    def _entry(self, array: Value, indices: list[Value]) -> Value:
        assert isinstance(array.type, Array)
        address = self.write.element(array, indices)
        if len(indices) == array.type.rank:
            return self.write.read(array.type.element, address)
        if len(indices) > array.type.rank:
            raise Untranslatable("too many indices")
        return Value(
            Array(array.type.element, array.type.rank - len(indices)), (address, *array.leaves[1 + len(indices) :])
        )

    # -------------------------------------------------------------------------------------------------- arithmetic

    def on_unaryop(self, node: ast.UnaryOp) -> Value:
        operand = self.value(node.operand)
        if isinstance(node.op, ast.Not):
            return Value(FLAG, (self.write.result(f"xor i1 {self.write.truth(operand)}, true"),))
        if isinstance(node.op, ast.USub):
            if operand.known is not None and operand.type in (INT, FLOAT):
                return constant(-operand.known)
            if operand.type == FLOAT:
                return Value(FLOAT, (self.write.result(f"fneg double {operand.leaf}"),))
            if operand.type in (INT, FLAG):
                return Value(INT, (self.write.result(f"sub nsw i64 0, {self.write.converted(operand, INT).leaf}"),))
        raise Untranslatable(ast.unparse(node))

    def on_binop(self, node: ast.BinOp) -> Value:
        return self.calculated(node.op, self.value(node.left), self.value(node.right))

    def calculated(self, operator: ast.operator, left: Value, right: Value) -> Value:
        """The result of an operation on two numbers."""
        if isinstance(operator, ast.Pow):
            return self._power(left, right)
        kind = _together(left, right)
        if isinstance(operator, ast.Div):
            kind = FLOAT
        a, b = (self.write.converted(value, kind).leaf for value in (left, right))
        if isinstance(operator, ast.Div):
            return Value(FLOAT, (self.write.result(f"fdiv double {a}, {b}"),))
        place = (INT, WORD, FLOAT).index(kind)
        if type(operator) in _ARITHMETIC:
            name = _ARITHMETIC[type(operator)][place]
            return Value(kind, (self.write.result(f"{name} {kind.llvm} {a}, {b}"),))
        if kind != FLOAT and type(operator) in _BITS:
            return Value(kind, (self.write.result(f"{_BITS[type(operator)][place]} i64 {a}, {b}"),))
        if kind == INT and isinstance(operator, ast.FloorDiv | ast.Mod):
            return self._floored(isinstance(operator, ast.FloorDiv), a, b)
        raise Untranslatable(f"{type(operator).__name__} of {kind.name}")

    def _floored(self, is_quotient: bool, a: str, b: str) -> Value:
        """Python rounds down where machines round toward 0."""
        write = self.write
        rest = write.result(f"srem i64 {a}, {b}")
        is_inexact = write.result(f"icmp ne i64 {rest}, 0")
        differ = write.result(f"icmp slt i64 {write.result(f'xor i64 {rest}, {b}')}, 0")
        is_off = write.result(f"and i1 {is_inexact}, {differ}")
        if is_quotient:
            step = write.result(f"sext i1 {is_off} to i64")
            return Value(INT, (write.result(f"add nsw i64 {write.result(f'sdiv i64 {a}, {b}')}, {step}"),))
        step = write.result(f"select i1 {is_off}, i64 {b}, i64 0")
        return Value(INT, (write.result(f"add nsw i64 {rest}, {step}"),))

    def _power(self, base: Value, exponent: Value) -> Value:
        if exponent.known == 2 and exponent.type == INT:
            return self.calculated(ast.Mult(), base, base)
        if FLOAT in (base.type, exponent.type):
            return self._math("pow", [base, exponent])
        raise Untranslatable("a power of whole numbers")

    def _math(self, name: str, arguments: list[Value]) -> Value:
        leaves = ", ".join(f"double {self.write.converted(value, FLOAT).leaf}" for value in arguments)
        return Value(FLOAT, (self.write.result(f"call double @{name}({leaves})"),))

    # ------------------------------------------------------------------------------------------------- comparisons

    def compared(self, operator: ast.cmpop, left: Value, right: Value) -> str:
        if type(operator) not in _COMPARISONS:
            raise Untranslatable(type(operator).__name__)
        kind = _together(left, right)
        name = _COMPARISONS[type(operator)][(INT, WORD, FLOAT).index(kind)]
        a, b = (self.write.converted(value, kind).leaf for value in (left, right))
        return self.write.result(f"{'fcmp' if kind == FLOAT else 'icmp'} {name} {kind.llvm} {a}, {b}")

    def on_compare(self, node: ast.Compare) -> Value:
        if len(node.ops) == 1:
            left, right = self.value(node.left), self.value(node.comparators[0])
            return Value(FLAG, (self.compared(node.ops[0], left, right),))
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
                self.write.fork(self.compared(operator, left, right), following, no)
                if following is not yes:
                    self.write.start(following)
                left = right
        else:
            value = self.value(node)
            if is_flag and value.type != FLAG:
                raise Untranslatable(f"{ast.unparse(node)} as a part of a condition whose value is used")
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
        if not isinstance(called, Thing) or any(isinstance(part, ast.Starred) for part in node.args):
            raise Untranslatable(ast.unparse(node))
        it = called.it
        if isinstance(it, type) and issubclass(it, tuple) and hasattr(it, "_fields"):
            return joined(self._arguments(node, it._fields, {}), it._fields)
        if isinstance(it, FunctionType):
            code = it.__code__
            names = code.co_varnames[: code.co_argcount]
            given = it.__defaults__ or ()
            defaults = dict(zip(names[len(names) - len(given) :], given, strict=True))
            return self._call_kernel(it, self._arguments(node, names, defaults))
        if node.keywords:
            raise Untranslatable(ast.unparse(node))
        return self._built_in(it, [self.value(argument) for argument in node.args], node)

    def _arguments(self, node: ast.Call, names: tuple[str, ...], defaults: dict[str, Any]) -> list[Value]:
        given = dict(zip(names, [self.value(argument) for argument in node.args], strict=False))
        given |= {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
        missing = {name: constant(value) for name, value in defaults.items() if name not in given}
        try:
            return [(given | missing)[name] for name in names]
        except KeyError:
            raise Untranslatable(ast.unparse(node)) from None

    def _built_in(self, it: Any, values: list[Value], node: ast.Call) -> Value:
        if it in (min, max) and len(values) > 1:
            best = values[0]
            for other in values[1:]:
                best = self._chosen(ast.Lt() if it is min else ast.Gt(), other, best)
            return best
        if it is complex and len(values) == 2:
            return Value(COMPLEX, joined([self.write.converted(value, FLOAT) for value in values]).leaves)
        if it in _MATH:
            found = self._math(_MATH[it], values)
            return self.write.converted(found, INT) if it in _WHOLE else found
        if len(values) == 1:
            (value,) = values
            conversions: dict[Any, Type] = {
                int: INT, np.int64: INT, np.uint64: WORD, float: FLOAT, np.float64: FLOAT, bool: FLAG
            }  # fmt: skip
            if it in conversions:
                return self.write.converted(value, conversions[it])
            if it is abs:
                return self._absolute(value)
            if it is math.isnan:
                return Value(FLAG, (self.compared(ast.NotEq(), value, value),))
            if it is len and isinstance(value.type, Array):
                return Value(INT, (value.leaves[1],))
        raise Untranslatable(ast.unparse(node))

    def _absolute(self, value: Value) -> Value:
        if value.type == FLOAT:
            return Value(FLOAT, (self.write.result(f"call double @llvm.fabs.f64(double {value.leaf})"),))
        return self._chosen(ast.Gt(), self.calculated(ast.Sub(), constant(0), value), value)

    def _chosen(self, operator: ast.cmpop, other: Value, best: Value) -> Value:
        """`other` if it compares so with `best`, else `best`: as Python's min and max do, also for NaN."""
        kind = _together(best, other)
        condition = self.compared(operator, other, best)
        a, b = (self.write.converted(value, kind).leaf for value in (other, best))
        return Value(kind, (self.write.result(f"select i1 {condition}, {kind.llvm} {a}, {kind.llvm} {b}"),))
