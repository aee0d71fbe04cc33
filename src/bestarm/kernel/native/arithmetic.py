"""Calculating with numbers of kernels, in LLVM's language."""

from __future__ import annotations

import ast

from bestarm.kernel.native.advice import unknown_syntax
from bestarm.kernel.native.types import FLAG, FLOAT, INT, WORD, Number, Untranslatable, common, named
from bestarm.kernel.native.writing import Value, Writer, constant

_MOST_FACTORS = 16
"""The largest power of a whole number that is written out as a product."""

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
    for kind in (one.type, other.type):
        if not isinstance(kind, Number):
            raise Untranslatable(f"{named(kind)} is used as a number", "a loop over its entries")
    if WORD in kinds and kinds != {WORD}:
        # Python would need more than 64 bits. A constant fits either way.
        partner = one if other.type == WORD else other
        if partner.type == INT and partner.known is not None and partner.known >= 0:
            return WORD
        raise Untranslatable(
            f"{named(one.type)} together with {named(other.type)}", "`np.int64(word)` or `np.uint64(number)`"
        )
    kind = common(one.type, other.type)
    assert isinstance(kind, Number)
    return INT if kind == FLAG else kind


class Arithmetic:
    """Writes operations on values."""

    def __init__(self, writer: Writer) -> None:
        self.write = writer

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
        is_floored = kind == FLOAT and isinstance(operator, ast.FloorDiv | ast.Mod)
        instead = "`math.floor(a / b)` or `math.fmod(a, b)`" if is_floored else ""
        raise Untranslatable(f"the operator {type(operator).__name__} between {named(kind)} and another", instead)

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
            return self.called("pow", [base, exponent])
        if exponent.type == INT and exponent.known is not None and 0 <= exponent.known <= _MOST_FACTORS:
            product = constant(1)
            for _ in range(exponent.known):
                product = self.calculated(ast.Mult(), product, base)
            return product
        raise Untranslatable("a power of a whole number", "`float(a) ** b`")

    def called(self, name: str, arguments: list[Value]) -> Value:
        leaves = ", ".join(f"double {self.write.converted(value, FLOAT).leaf}" for value in arguments)
        return Value(FLOAT, (self.write.result(f"call double @{name}({leaves})"),))

    def compared(self, operator: ast.cmpop, left: Value, right: Value) -> str:
        if type(operator) not in _COMPARISONS:
            raise unknown_syntax(operator)
        kind = _together(left, right)
        name = _COMPARISONS[type(operator)][(INT, WORD, FLOAT).index(kind)]
        a, b = (self.write.converted(value, kind).leaf for value in (left, right))
        return self.write.result(f"{'fcmp' if kind == FLOAT else 'icmp'} {name} {kind.llvm} {a}, {b}")

    def absolute(self, value: Value) -> Value:
        if value.type == FLOAT:
            return Value(FLOAT, (self.write.result(f"call double @llvm.fabs.f64(double {value.leaf})"),))
        return self.chosen(ast.Gt(), self.calculated(ast.Sub(), constant(0), value), value)

    def chosen(self, operator: ast.cmpop, other: Value, best: Value) -> Value:
        """`other` if it compares so with `best`, else `best`: as Python's min and max do, also for NaN."""
        return self.selected(self.compared(operator, other, best), other, best)

    def selected(self, condition: str, one: Value, other: Value) -> Value:
        kind = _together(one, other)
        a, b = (self.write.converted(value, kind).leaf for value in (one, other))
        return Value(kind, (self.write.result(f"select i1 {condition}, {kind.llvm} {a}, {kind.llvm} {b}"),))
