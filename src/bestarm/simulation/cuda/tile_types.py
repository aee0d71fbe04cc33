"""`view`, `renew` and `tables` of `bestarm.simulation.cuda.compiling` for a card.

numba cannot express "this nested tuple of arrays, of another run", so they are written in the compiler's own terms.
With a constant stride, an address is a shift and a sum. With a constant shape, short loops can be unrolled.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

from numba.cuda import cgutils, types
from numba.cuda.extending import core_models, intrinsic, lower_builtin, register_model
from numba.cuda.np.arrayobj import make_array, populate_array

from bestarm.simulation.cuda.tiles import LANES, WORD, Same, Shape, is_shared


class TileArray(types.Array):  # type: ignore[misc] # numba ships no types
    """An array of one run in a tile."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        super().__init__(dtype, ndim, "A", name=f"tile({dtype}, {ndim}d)")


class TableArray(types.Array):  # type: ignore[misc]
    """An array that is the same for every run and never changes."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        super().__init__(dtype, ndim, "A", name=f"table({dtype}, {ndim}d)")


class SameArray(types.Array):  # type: ignore[misc]
    """A table whose entries the compiler knows: all the same number or, with None, each the number of its place."""

    def __init__(self, dtype: Any, ndim: int, number: int | float | None) -> None:
        self.number = number
        super().__init__(dtype, ndim, "A", name=f"same({dtype}, {ndim}d, {number})")

    @property
    def key(self) -> tuple[Any, ...]:
        """What tells types apart: numba compiles a function once per type."""
        return (*super().key, self.number)


for _kind in (TileArray, TableArray, SameArray):
    register_model(_kind)(core_models.ArrayModel)


# In arrays with gaps, numba computes addresses as integers, and then cannot tell which memory they are in. Here a
# pointer stays a pointer, and an address in shared memory is half as long and is read directly. No kernel counts from
# an array's end or has two billion elements, so half a word is enough for an index.
def _element(context: Any, builder: Any, kind: Any, value: Any, index_kind: Any, index: Any) -> Any:
    array = make_array(kind)(context, builder, value)
    kinds = index_kind.types if isinstance(index_kind, types.BaseTuple) else (index_kind,)
    parts = cgutils.unpack_tuple(builder, index) if isinstance(index_kind, types.BaseTuple) else [index]
    half = context.get_value_type(types.int32)
    number = half(0)
    shape = cgutils.unpack_tuple(builder, array.shape, kind.ndim)
    for part_kind, part, length in zip(kinds, parts, shape, strict=True):
        whole = builder.mul(number, builder.trunc(length, half), flags=["nsw"])
        number = builder.add(whole, context.cast(builder, part, part_kind, types.int32), flags=["nsw"])
    if isinstance(kind, TileArray):
        number = builder.mul(number, half(LANES), flags=["nsw"])
    return builder.gep(array.data, [number])


def _getitem(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    kind, index_kind = sig.args
    item = builder.load(_element(context, builder, kind, arguments[0], index_kind, arguments[1]))
    # Otherwise the two parts of a complex number would be read one by one.
    item.align = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    if isinstance(kind, TableArray):
        # Otherwise any write could change it, and it would be read again.
        item.set_metadata("invariant.load", builder.module.add_metadata([]))
    return item


def _setitem(context: Any, builder: Any, sig: Any, arguments: Any) -> None:
    kind, index_kind, item_kind = sig.args
    pointer = _element(context, builder, kind, arguments[0], index_kind, arguments[1])
    builder.store(context.cast(builder, arguments[2], item_kind, kind.dtype), pointer)


def _getitem_of_same(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    kind, place = sig.args
    if kind.number is None:
        return context.cast(builder, arguments[1], place, kind.dtype)
    return context.get_constant(kind.dtype, kind.number)


for _index_kind in (types.Integer, types.BaseTuple):
    lower_builtin(operator.getitem, SameArray, _index_kind)(_getitem_of_same)
    for _kind in (TableArray, TileArray):
        lower_builtin(operator.getitem, _kind, _index_kind)(_getitem)
    lower_builtin(operator.setitem, TileArray, _index_kind, types.Any)(_setitem)


def _is_shared(kind: Any) -> bool:
    return isinstance(kind, types.BaseNamedTuple) and is_shared(kind.instance_class)


def _in_tile(kind: Any) -> Any:
    """The type in a tile of a state of this type."""
    if isinstance(kind, types.Array):
        return TileArray(kind.dtype, kind.ndim)
    if _is_shared(kind):
        return _as_table(kind)
    if not isinstance(kind, types.BaseNamedTuple):
        return kind  # what belongs to a feature that the study does not use is an empty tuple
    return types.BaseTuple.from_types([_in_tile(part) for part in kind.types], kind.instance_class)


def _as_table(kind: Any, same: tuple[Same, ...] = ()) -> Any:
    """The type of something that never changes, given what is known of the tables in it."""
    if isinstance(kind, types.Array):
        return TableArray(kind.dtype, kind.ndim)
    if not isinstance(kind, types.BaseNamedTuple):
        return kind
    known = {name: number for owner, name, number in same if owner is kind.instance_class}
    parts = [
        SameArray(part.dtype, part.ndim, known[name]) if name in known else _as_table(part, same)
        for name, part in zip(kind.fields, kind.types, strict=True)
    ]
    return types.BaseTuple.from_types(parts, kind.instance_class)


def _arrays(context: Any, builder: Any, kind: Any, value: Any) -> Iterator[tuple[Any, Any]]:
    """Each array of a state, with its type."""
    if isinstance(kind, types.Array):
        yield kind, make_array(kind)(context, builder, value)
    elif not _is_shared(kind):
        for k, part in enumerate(kind.types):
            yield from _arrays(context, builder, part, builder.extract_value(value, k))


def tables_for(same: tuple[Same, ...]) -> Any:
    """`tables` if the single values in these tables are known."""

    def tables(_: Any, given: Any) -> Any:
        def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            # Only the type changes, and with it how elements are read.
            return arguments[0]

        return _as_table(given, same)(given), codegen

    return intrinsic(tables)


def view_for(shapes: tuple[Shape, ...]) -> Any:
    """`view` for arrays of these shapes."""

    def view(_: Any, fresh: Any, block: Any, run: Any) -> Any:
        def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
            word = context.get_value_type(types.intp)
            run_number = context.cast(builder, arguments[2], run, types.intp)
            tile, lane = builder.udiv(run_number, word(LANES)), builder.urem(run_number, word(LANES))
            kinds = [kind for kind, _array in _arrays(context, builder, fresh, arguments[0])]
            steps = [context.get_abi_sizeof(context.get_data_type(kind.dtype)) for kind in kinds]
            sizes = [math.prod(shape) * step for shape, step in zip(shapes, steps, strict=True)]
            # 32 runs together always take a multiple of 32 bytes, so arrays need no gaps between them.
            tile_bytes = LANES * WORD * -(-sum(sizes) // WORD)
            # Pointers are moved, never made from integers, so that the compiler sees which memory they point to.
            origin = builder.bitcast(make_array(block)(context, builder, arguments[1]).data, cgutils.voidptr_t)
            origin = builder.gep(origin, [builder.mul(tile, word(tile_bytes))])
            pieces, start = [], 0
            for kind, shape, step, size in zip(kinds, shapes, steps, sizes, strict=True):
                array = make_array(_in_tile(kind))(context, builder)
                place = builder.add(word(start), builder.mul(lane, word(step)))
                data = builder.bitcast(builder.gep(origin, [place]), array.data.type)
                # Strides are not used: `_element` knows them.
                populate_array(array, data, [*map(word, shape)], [word(0)] * len(shape), step, meminfo=None)
                pieces.append(array._getvalue())
                start += LANES * size
            left = iter(pieces)

            def assembled(kind: Any, value: Any) -> Any:
                if isinstance(kind, types.Array):
                    return next(left)
                if _is_shared(kind):
                    return value
                parts = [assembled(part, builder.extract_value(value, k)) for k, part in enumerate(kind.types)]
                return context.make_tuple(builder, _in_tile(kind), parts)

            return assembled(fresh, arguments[0])

        return _in_tile(fresh)(fresh, block, run), codegen

    return intrinsic(view)


def _renew(_: Any, state: Any, fresh: Any) -> Any:

    def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        targets = _arrays(context, builder, state, arguments[0])
        sources = _arrays(context, builder, fresh, arguments[1])
        for (_kind, target), (_same, source) in zip(targets, sources, strict=True):
            with cgutils.for_range(builder, source.nitems) as loop:
                item = builder.load(builder.gep(source.data, [loop.index]))
                place = builder.mul(loop.index, loop.index.type(LANES))
                builder.store(item, builder.gep(target.data, [place]))
        return context.get_dummy_value()

    return types.void(state, fresh), codegen


def _hurried(_: Any, setting: Any, is_hurried: Any) -> Any:

    def codegen(context: Any, builder: Any, __: Any, arguments: Any) -> Any:
        place = setting.fields.index("is_hurried")
        said = context.cast(builder, arguments[1], is_hurried, setting.types[place])
        return builder.insert_value(arguments[0], said, place)

    return setting(setting, is_hurried), codegen


def _keep_out_of_line(_: Any) -> Any:

    def codegen(context: Any, builder: Any, __: Any, ___: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.void(), codegen


renew = intrinsic(_renew)
"""`renew` of `bestarm.simulation.cuda.compiling`."""
hurried = intrinsic(_hurried)
"""`hurried` of `bestarm.simulation.cuda.compiling`."""
keep_out_of_line = intrinsic(_keep_out_of_line)
"""Called in a function, keeps the compiler from copying that function into its callers."""
