"""Kernels in LLVM's language: a function for each kernel and each combination of types that it is called with."""

from __future__ import annotations

import ast
import re
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.kernel.native.advice import unknown_syntax
from bestarm.kernel.native.expressions import CompileTimeObject, Expressions
from bestarm.kernel.native.source import meaning_of, tree_of
from bestarm.kernel.native.types import FLOAT, INT, NOTHING, Array, Number, Record, Type, Untranslatable, common
from bestarm.kernel.native.writing import Block, Value, Writer, constant

ENTRY = "bestarm_entry"

_SMALL = 64
"""Shorter functions are always inlined. LLVM decides about the others. Inlining all of them doubles the compile time,
and inlining none makes `certify` a quarter slower."""

Resolve = Callable[[types.FunctionType, str], types.FunctionType | None]
"""Which kernel a name in a kernel stands for; None if it is no kernel."""


class _TypeWidened(Exception):
    """A variable turned out to have a wider type than the code so far assumes."""


class Written:
    """A function of the program."""

    def __init__(self, name: str, returned: Type, used: list[int]) -> None:
        self.name = name
        self.returned = returned
        self.used = used
        """Which leaves of its arguments it reads."""

    @property
    def result(self) -> str:
        leaves = self.returned.leaves
        return "void" if not leaves else leaves[0] if len(leaves) == 1 else f"{{{', '.join(leaves)}}}"


class Program:
    """A root kernel and all that it calls, as one text."""

    def __init__(self, root: types.FunctionType, arguments: tuple[Type, ...], resolve: Resolve, is_apart: Any) -> None:
        self._resolve = resolve
        self._is_apart = is_apart
        self._functions: dict[tuple[types.FunctionType, tuple[Type, ...]], Written | None] = {}
        self._tables: dict[tuple[Number, tuple[Any, ...]], str] = {}
        self._texts: list[str] = []
        written = self.function(root, arguments)
        self.returned = written.returned
        self._texts.append(self._entry(written, arguments))

    @property
    def text(self) -> str:
        tables = [
            f"{name} = private constant [{len(numbers)} x {kind.llvm}] "
            f"[{', '.join(f'{kind.llvm} {self._number(number, kind)}' for number in numbers)}]"
            for (kind, numbers), name in self._tables.items()
        ]
        body = "\n".join(self._texts)
        called = sorted(set(re.findall(r"call double @([a-z][\w.]*)\(([^)]*)\)", body)))
        outside = {name: ", ".join(["double"] * (text.count(",") + 1)) for name, text in called if name[:2] != "k_"}
        declared = [
            f"declare double @{name}({types}) nounwind willreturn memory(none)" for name, types in outside.items()
        ]
        return "\n".join([*declared, *tables, body])

    @staticmethod
    def _number(number: Any, kind: Number) -> str:
        return constant(float(number) if kind == FLOAT else int(number)).leaf

    def table(self, numbers: tuple[Any, ...]) -> tuple[str, Number]:
        if not all(isinstance(number, int | float | np.number) for number in numbers):
            raise Untranslatable("a tuple of other things than numbers", "a tuple of numbers for each column")
        kind = FLOAT if any(isinstance(number, float) for number in numbers) else INT
        key = (kind, numbers)  # 1 and 1.0 are equal
        if key not in self._tables:
            self._tables[key] = f"@table{len(self._tables)}"
        return self._tables[key], kind

    def function(self, kernel: types.FunctionType, arguments: tuple[Type, ...]) -> Written:
        key = (kernel, arguments)
        if key not in self._functions:
            self._functions[key] = None
            name = f"k_{len(self._functions)}_{kernel.__name__}"
            try:
                self._functions[key] = self._written(name, kernel, arguments)
            except Untranslatable as error:
                raise error.of_kernel(kernel) from None
        found = self._functions[key]
        if found is None:
            raise Untranslatable(f"{kernel.__name__} calls itself", "a loop")
        return found

    def _written(self, name: str, kernel: types.FunctionType, arguments: tuple[Type, ...]) -> Written:
        variables: dict[str, Type] = {}
        while True:
            body = _Body(self, kernel, arguments, variables)
            try:
                text, returned = body.written()
                break
            except _TypeWidened:
                pass
        leaves = [leaf for argument in arguments for leaf in argument.leaves]
        used = sorted({int(place) for place in re.findall(r"%a(\d+)\b", text)})
        written = Written(name, returned, used)
        parameters = ", ".join(f"{leaves[place]} %a{place}" for place in used)
        is_small = text.count("\n") < _SMALL
        how = "noinline" if self._is_apart(kernel) else "alwaysinline" if is_small else ""
        self._texts.append(f"define internal {written.result} @{name}({parameters}) nounwind {how} {{\n{text}\n}}")
        return written

    def call(self, write: Writer, kernel: types.FunctionType, values: list[Value]) -> Value:
        written = self.function(kernel, tuple(value.type for value in values))
        pairs = [pair for value in values for pair in zip(value.type.leaves, value.leaves, strict=True)]
        given = ", ".join(f"{pairs[place][0]} {pairs[place][1]}" for place in written.used)
        return unpacked(write, written, f"call {written.result} @{written.name}({given})")

    def resolve(self, function: types.FunctionType, name: str) -> types.FunctionType | None:
        return self._resolve(function, name)

    @staticmethod
    def _entry(root: Written, arguments: tuple[Type, ...]) -> str:
        """What Python calls: arguments and results are in two rows of words."""
        write = Writer()
        leaves = [leaf for argument in arguments for leaf in argument.leaves]
        given = []
        for place in root.used:
            address = write.result(f"getelementptr i64, ptr %given, i64 {place}")
            kind = leaves[place]
            leaf = write.result(f"load {'i64' if kind == 'i1' else kind}, ptr {address}")
            given.append(f"{kind} {write.result(f'trunc i64 {leaf} to i1') if kind == 'i1' else leaf}")
        result = unpacked(write, root, f"call {root.result} @{root.name}({', '.join(given)})")
        for place, (kind, leaf) in enumerate(zip(result.type.leaves, result.leaves, strict=True)):
            address = write.result(f"getelementptr i64, ptr %result, i64 {place}")
            word, kind = (write.result(f"zext i1 {leaf} to i64"), "i64") if kind == "i1" else (leaf, kind)
            write.do(f"store {kind} {word}, ptr {address}")
        write.close("ret void")
        return f"define void @{ENTRY}(ptr %given, ptr %result) nounwind {{\n{write.text()}\n}}"


def unpacked(write: Writer, written: Written, call: str) -> Value:
    """What a call returns."""
    leaves = written.returned.leaves
    if not leaves:
        write.do(call)
        return Value(written.returned, ())
    result = write.result(call)
    if len(leaves) == 1:
        return Value(written.returned, (result,))
    parts = (write.result(f"extractvalue {written.result} {result}, {place}") for place in range(len(leaves)))
    return Value(written.returned, tuple(parts))


class _Body:
    """Writes one function, assuming what is known of the types of its variables so far."""

    def __init__(
        self, program: Program, kernel: types.FunctionType, arguments: tuple[Type, ...], variables: dict[str, Type]
    ) -> None:
        self._program = program
        self._kernel = kernel
        self._types = variables
        self._write = Writer()
        self._tree = tree_of(kernel)
        self._values: dict[str, Value] = {}
        self._places: dict[str, tuple[str, ...]] = {}
        self._loops: list[tuple[Block, Block]] = []
        self._expressions = Expressions(self._write, self._read, self._call, program.table)
        self._local = set(kernel.__code__.co_varnames)
        self._take(arguments)

    def _take(self, arguments: tuple[Type, ...]) -> None:
        assigned = {
            node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }
        start = 0
        for name, kind in zip(self._kernel.__code__.co_varnames, arguments, strict=False):
            stop = start + len(kind.leaves)
            value = Value(kind, tuple(f"%a{place}" for place in range(start, stop)))
            if name in assigned:
                self._assign_name(name, value)
            else:
                self._values[name] = value
            start = stop

    def written(self) -> tuple[str, Type]:
        self._suite(self._tree.body)
        returned = self._types.get("return", NOTHING)
        if not self._write.here.is_closed:
            self._write.close("ret void" if returned == NOTHING else "unreachable")
        return self._write.text(), returned

    # ------------------------------------------------------------------------------------------------------- names

    def _read(self, name: str) -> Value | CompileTimeObject:
        if name in self._values:
            return self._values[name]
        if name in self._places:
            return self._write.load(self._types[name], self._places[name])
        if name in self._local:
            raise Untranslatable(f"{name} may not have a value here", f"`{name} = …` before it is read")
        kernel = self._program.resolve(self._kernel, name)
        if kernel is not None:
            return CompileTimeObject(kernel)
        found = meaning_of(self._kernel, name)
        return constant(found) if isinstance(found, int | float | np.generic) else CompileTimeObject(found)

    def _call(self, kernel: types.FunctionType, values: list[Value]) -> Value:
        return self._program.call(self._write, kernel, values)

    def _assign_name(self, name: str, value: Value) -> None:
        before = self._types.get(name)
        kind = value.type if before is None else common(before, value.type)
        self._types[name] = kind
        if before is not None and kind != before and name in self._places:
            raise _TypeWidened
        if name not in self._places:
            self._places[name] = self._write.memory(kind)
        self._write.store(self._write.converted(value, kind), self._places[name])

    def _assign(self, target: ast.expr, value: Value) -> None:
        if isinstance(target, ast.Name):
            self._assign_name(target.id, value)
        elif isinstance(target, ast.Tuple) and isinstance(value.type, Record):
            if len(target.elts) != len(value.type.parts):
                raise Untranslatable(f"`{ast.unparse(target)}` is set to a tuple of {len(value.type.parts)}")
            for place, part in enumerate(target.elts):
                self._assign(part, value.part(place))
        elif isinstance(target, ast.Subscript):
            array, address = self._address(target)
            self._write.write(array.element, address, value)
        else:
            raise Untranslatable(f"`{ast.unparse(target)}` cannot be set", "into arrays, or to names")

    def _address(self, target: ast.Subscript) -> tuple[Array, str]:
        array, indices = self._expressions.value(target.value), self._expressions.indices(target)
        if not isinstance(array.type, Array) or array.type.rank != len(indices):
            raise Untranslatable(f"`{ast.unparse(target)}` is no single entry of an array", "a loop over the entries")
        return array.type, self._write.element(array, indices)

    # -------------------------------------------------------------------------------------------------- statements

    def _suite(self, statements: list[ast.stmt]) -> None:
        for statement in statements:
            if self._write.here.is_closed:
                return
            method = getattr(self, f"on_{type(statement).__name__.lower()}", None)
            try:
                if method is None:
                    raise unknown_syntax(statement)
                method(statement)
            except Untranslatable as error:
                raise error.inside(statement) from None

    def on_expr(self, statement: ast.Expr) -> None:
        if not isinstance(statement.value, ast.Constant):
            self._expressions.value(statement.value)

    def on_pass(self, statement: ast.Pass) -> None:
        pass

    def on_assign(self, statement: ast.Assign) -> None:
        value = self._expressions.value(statement.value)
        for target in statement.targets:
            self._assign(target, value)

    def on_annassign(self, statement: ast.AnnAssign) -> None:
        if statement.value is not None:
            self._assign(statement.target, self._expressions.value(statement.value))

    def on_augassign(self, statement: ast.AugAssign) -> None:
        calculated = self._expressions.numbers.calculated
        if isinstance(statement.target, ast.Name):
            before = self._expressions.value(ast.Name(statement.target.id, ast.Load()))
            after = calculated(statement.op, before, self._expressions.value(statement.value))
            self._assign_name(statement.target.id, after)
        elif isinstance(statement.target, ast.Subscript):
            array, address = self._address(statement.target)
            before = self._write.read(array.element, address)
            after = calculated(statement.op, before, self._expressions.value(statement.value))
            self._write.write(array.element, address, after)
        else:
            raise Untranslatable(f"`{ast.unparse(statement.target)}` cannot be set", "into arrays, or to names")

    def on_return(self, statement: ast.Return) -> None:
        value = Value(NOTHING, ()) if statement.value is None else self._expressions.value(statement.value)
        before = self._types.get("return")
        kind = value.type if before is None else common(before, value.type)
        self._types["return"] = kind
        if before is not None and before != kind:
            raise _TypeWidened
        written = Written("", kind, [])
        leaves = self._write.converted(value, kind).leaves
        if len(leaves) <= 1:
            self._write.close(f"ret {kind.leaves[0]} {leaves[0]}" if leaves else "ret void")
            return
        packed = "undef"
        for place, (leaf_kind, leaf) in enumerate(zip(kind.leaves, leaves, strict=True)):
            packed = self._write.result(f"insertvalue {written.result} {packed}, {leaf_kind} {leaf}, {place}")
        self._write.close(f"ret {written.result} {packed}")

    def on_if(self, statement: ast.If) -> None:
        yes, no, end = self._write.block(), self._write.block(), self._write.block()
        self._expressions.branch(statement.test, yes, no)
        closed = []
        for block, suite in ((yes, statement.body), (no, statement.orelse)):
            self._write.start(block)
            self._suite(suite)
            closed.append(self._write.here.is_closed)
            self._write.go(end)
        self._write.start(end)
        # Nothing comes here if both ways have left.
        self._write.here.is_closed = all(closed)
        if all(closed):
            end.lines.append("unreachable")

    def on_while(self, statement: ast.While) -> None:
        if statement.orelse:
            raise Untranslatable("`while … else`", "a variable that says how the loop ended")
        test, body, end = self._write.block(), self._write.block(), self._write.block()
        self._write.go(test)
        self._write.start(test)
        self._expressions.branch(statement.test, body, end)
        self._write.start(body)
        self._repeat(statement.body, test, end)
        self._write.start(end)

    def _repeat(self, suite: list[ast.stmt], following: Block, end: Block) -> None:
        """The body of a loop that goes on in `following`, and is left for `end`."""
        self._loops.append((following, end))
        self._suite(suite)
        self._loops.pop()
        self._write.go(following)

    def on_for(self, statement: ast.For) -> None:
        if statement.orelse:
            raise Untranslatable("`for … else`", "a variable that says how the loop ended")
        call = statement.iter
        if isinstance(call, ast.Call) and self._expressions.any(call.func) == CompileTimeObject(range):
            first, last, step = self._bounds(call)
            self._count(statement, first, last, step, lambda number: number)
            return
        looped = self._expressions.any(call) if isinstance(call, ast.Name | ast.Attribute | ast.Subscript) else None
        if not isinstance(looped, Value) or not isinstance(looped.type, Array):
            raise Untranslatable(f"`for … in {ast.unparse(call)}`", "`for k in range(len(values))`")
        length = Value(INT, (looped.leaves[1],))
        self._count(statement, constant(0), length, 1, lambda k: self._expressions.entry(looped, [k]))

    def _bounds(self, call: ast.Call) -> tuple[Value, Value, int]:
        bounds = [self._expressions.value(argument) for argument in call.args]
        step = bounds[2] if len(bounds) == 3 else constant(1)
        if not isinstance(step.known, int) or step.known == 0 or any(bound.type == FLOAT for bound in bounds):
            raise Untranslatable(f"`{ast.unparse(call)}`", "whole numbers, and a step that is a constant")
        first, last = (constant(0), bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        return self._write.converted(first, INT), self._write.converted(last, INT), step.known

    def _count(self, statement: ast.For, first: Value, last: Value, step: int, item: Callable[[Value], Value]) -> None:
        """A loop over numbers, in which `item` of the number is what the loop's variable is set to."""
        write = self._write
        counter = write.memory(INT)
        write.store(first, counter)
        test, body, following, end = write.block(), write.block(), write.block(), write.block()
        write.go(test)
        write.start(test)
        now = write.load(INT, counter)
        condition = write.result(f"icmp {'slt' if step > 0 else 'sgt'} i64 {now.leaf}, {last.leaf}")
        write.fork(condition, body, end)
        write.start(body)
        self._assign(statement.target, item(now))
        self._repeat(statement.body, following, end)
        write.start(following)
        after = write.result(f"add nsw i64 {now.leaf}, {step}")
        write.store(Value(INT, (after,)), counter)
        write.go(test)
        write.start(end)

    def on_break(self, statement: ast.Break) -> None:
        self._write.go(self._loops[-1][1])

    def on_continue(self, statement: ast.Continue) -> None:
        self._write.go(self._loops[-1][0])
