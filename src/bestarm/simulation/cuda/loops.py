"""`range` for a card.

numba's `range` keeps the next number and how many are left. The compiler for cards does not see that the one follows
from the other. So it knows neither where a loop ends nor its current number, and every turn costs about twenty
instructions. Here only the number is kept.
"""

from __future__ import annotations

from typing import Any

from numba.cuda import cgutils, types
from numba.cuda.core.imputils import RefType, iternext_impl
from numba.cuda.extending import core_models, intrinsic, lower_builtin, register_model

NUMBER = types.int32
"""No loop on a card counts beyond two billion."""


class StepIterator(types.SimpleIteratorType):  # type: ignore[misc] # numba ships no types
    """The state of a loop over `Steps`."""

    def __init__(self) -> None:
        super().__init__("step iterator", NUMBER)


class Steps(types.SimpleIterableType):  # type: ignore[misc]
    """The numbers from `first` up to, not including, `last`."""

    def __init__(self) -> None:
        super().__init__("steps", StepIterator())


@register_model(Steps)
class _StepsModel(core_models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("first", NUMBER), ("last", NUMBER)])


@register_model(StepIterator)
class _StepIteratorModel(core_models.StructModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [("place", types.EphemeralPointer(NUMBER)), ("last", NUMBER)])


def _steps(typing_context: Any, *bounds: Any) -> Any:
    numbas = typing_context.resolve_function_type(range, bounds, {})

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        given = cgutils.unpack_tuple(builder, arguments[0])
        if len(bounds) == 3:
            cast = [context.cast(builder, *one) for one in zip(given, bounds, numbas.args, strict=True)]
            return context.get_function(range, numbas)(builder, cast)
        numbers = [context.cast(builder, *one, NUMBER) for one in zip(given, bounds, strict=True)]
        steps = cgutils.create_struct_proxy(sig.return_type)(context, builder)
        steps.last = numbers[-1]
        steps.first = numbers[0] if len(numbers) == 2 else context.get_constant(NUMBER, 0)
        return steps._getvalue()

    kind = numbas.return_type if len(bounds) == 3 else Steps()
    return kind(types.StarArgTuple(bounds)), codegen


def _iterated(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
    steps = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=arguments[0])
    iterator = cgutils.create_struct_proxy(sig.return_type)(context, builder)
    iterator.place = cgutils.alloca_once(builder, steps.first.type)
    builder.store(steps.first, iterator.place)
    iterator.last = steps.last
    return iterator._getvalue()


def _next(context: Any, builder: Any, sig: Any, arguments: Any, result: Any) -> None:
    iterator = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=arguments[0])
    number = builder.load(iterator.place)
    result.set_valid(builder.icmp_signed("<", number, iterator.last))
    # Do this after the last number, too: the compiler would not see through a branch.
    result.yield_(number)
    builder.store(builder.add(number, number.type(1), flags=["nsw"]), iterator.place)


lower_builtin("getiter", Steps)(_iterated)
lower_builtin("iternext", StepIterator)(iternext_impl(RefType.BORROWED)(_next))
steps = intrinsic(_steps)
"""`range`; with a step it is numba's."""
