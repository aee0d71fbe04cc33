"""The tournament tree, the one-block layout, and the cache of compiled code."""

from __future__ import annotations

import math
import types
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bestarm.kernel import compile as compiling
from bestarm.kernel.compile import compiled, fingerprint, kernel, one_of
from bestarm.kernel.tournament import NO_ARM, best, best_except, enter, new_tournament
from bestarm.simulation.loop import in_one_block

# Few distinct keys, so that ties are common.
KEYS = st.sampled_from([-math.inf, -1.0, 0.0, 0.5, 2.0])


@settings(deadline=None, derandomize=True)
@given(size=st.integers(1, 600), moves=st.lists(st.tuples(st.integers(0, 10**6), KEYS), max_size=60))
def test_tournament_agrees_with_a_scan(size: int, moves: list[tuple[int, float]]) -> None:
    tournament = new_tournament(size)
    keys = np.full(size, -math.inf)
    assert best(tournament) == NO_ARM
    for place, key in moves:
        k = place % size
        keys[k] = key
        enter(tournament, k, key)
        expected = int(np.argmax(keys))
        assert best(tournament) == (expected if keys[expected] > -math.inf else NO_ARM)
        for left_out in {k, expected, 0, size - 1}:
            others = keys.copy()
            others[left_out] = -math.inf
            expected = int(np.argmax(others))
            wanted = expected if others[expected] > -math.inf else NO_ARM
            assert best_except(tournament, left_out) == wanted


class Inner(NamedTuple):
    flags: np.ndarray[Any, Any]
    table: np.ndarray[Any, Any]


class Outer(NamedTuple):
    numbers: np.ndarray[Any, Any]
    inner: Inner


def test_one_block_holds_every_array_and_restores_it() -> None:
    state = Outer(np.arange(3.0), Inner(np.array([1, 0, 1], np.int8), np.arange(6, dtype=np.uint32).reshape(2, 3)))
    view, block = in_one_block(state)
    fresh = block.copy()
    assert isinstance(view.inner, Inner)
    for before, after in ((state.numbers, view.numbers), (state.inner.flags, view.inner.flags)):
        assert before.dtype == after.dtype
        assert (before == after).all()
    view.numbers[:] = -1
    view.inner.flags[:] = 7
    view.inner.table[:] = 9
    assert (state.inner.table == np.arange(6).reshape(2, 3)).all()
    block[:] = fresh
    assert (view.numbers == state.numbers).all()
    assert (view.inner.flags == state.inner.flags).all()
    assert (view.inner.table == state.inner.table).all()


@kernel
def helper(x: float) -> float:
    return x + 1.0


@kernel
def other_helper(x: float) -> float:
    return x + 2.0


@kernel
def root(x: float) -> float:
    return 2.0 * helper(x)


def test_compiled_code_can_be_made_for_another_helper() -> None:
    assert root(1.0) == 4.0
    assert compiled(root)(1.0) == 4.0
    assert compiled(root, "other", helper=other_helper)(1.0) == 6.0
    assert root(1.0) == 4.0


def test_the_cached_name_changes_with_a_helper_in_another_file() -> None:
    assert isinstance(root, types.FunctionType)
    assert isinstance(helper, types.FunctionType)
    assert isinstance(other_helper, types.FunctionType)
    before = fingerprint(root, {})
    assert fingerprint(root, {}) == before
    assert fingerprint(root, {"helper": other_helper}) != before


def test_only_marked_functions_are_kernels() -> None:
    assert compiling.is_kernel(helper)
    assert not compiling.is_kernel(len)


def test_a_docstring_is_not_part_of_what_is_compiled() -> None:
    def one(x: float) -> float:
        """Some words."""
        return x + 1.0

    def same(x: float) -> float:
        """Other words."""
        return x + 1.0

    def other(x: float) -> float:
        """Some words."""
        return x + 2.0

    functions: list[Any] = [one, same, other]
    for function in functions:
        function.__qualname__ = "one"
    first, second, third = (fingerprint(function, {}) for function in functions)
    assert first == second != third


@kernel
def plus_one(kind: int, x: float) -> float:
    return x + 1.0


@kernel
def plus_two(kind: int, x: float) -> float:
    return x + 2.0


@one_of("kind", lambda: [plus_one, plus_two])
def plus_chosen(kind: int, x: float) -> float:
    return (plus_one, plus_two)[kind](kind, x)


@kernel
def sum_of_chosen(kind: int, other: int, x: float) -> float:
    return plus_chosen(kind, x) + plus_chosen(other, x)


def test_a_number_that_compiled_code_was_not_made_for_gives_nan() -> None:
    """It must not be taken for one that the code was made for."""
    for known, numbers in ((None, (0, 1)), ((0,), (0,)), ((1,), (1,))):
        fast = compiled(sum_of_chosen, known=known)
        for kind in (0, 1, 2):
            for other in (0, 1, 2):
                found = fast(kind, other, 0.5)
                if kind in numbers and other in numbers:
                    assert found == sum_of_chosen(kind, other, 0.5)
                else:
                    assert math.isnan(found)
