"""Kernels in machine code do what the same source does in Python."""

from __future__ import annotations

import math
import pickle
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bestarm.kernel.compile import apart, compiled, kernel
from bestarm.kernel.native.forms import Native
from bestarm.kernel.native.types import Untranslatable

Floats = npt.NDArray[np.float64]


def natively(root: Any) -> Any:
    """The machine code of a kernel, which must not be interpreted."""

    def refuse(*values: Any) -> Any:
        raise AssertionError(f"{root.__name__} is interpreted")

    made = compiled(root)
    return Native(root, made.name, made._resolve, made._is_apart, made._is_unchanged, refuse)


def same(one: Any, other: Any) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other) or (one != one and other != other)


# ---------------------------------------------------------------------------------------------------------- numbers

INTS = st.integers(-(2**31), 2**31)
ANY_FLOATS = st.floats(width=64)


@kernel
def whole_numbers(a: int, b: int) -> tuple[int, int, int, int, int, int, int]:
    return a + b, a - b, a * b, a // b, a % b, a & b, a ^ b | 5


@kernel
def other_ways(a: int, b: int) -> tuple[float, int, int, int, bool, int, int]:
    return a / b, a >> 3, a << 2, -a, not a, abs(a), a**2


@settings(deadline=None, derandomize=True)
@given(a=INTS, b=INTS.filter(bool))
@example(a=-7, b=2)
@example(a=7, b=-2)
@example(a=-8, b=2)
def test_whole_numbers(a: int, b: int) -> None:
    for root in (whole_numbers, other_ways):
        assert natively(root)(a, b) == root(a, b)


@kernel
def choices(x: float, y: float, k: int) -> tuple[float, float, float, bool, bool, float]:
    chosen = x if x < y else k
    between = -1.0 < x <= y < 5.0
    either = x > y or (k > 0 and not y > 1.0)
    return min(x, y), max(x, y, 1.0), chosen, between, either, abs(x)


@settings(deadline=None, derandomize=True)
@given(x=ANY_FLOATS, y=ANY_FLOATS, k=INTS)
@example(x=math.nan, y=1.0, k=1)
@example(x=1.0, y=math.nan, k=0)
@example(x=0.0, y=-0.0, k=0)
def test_choices_and_conditions(x: float, y: float, k: int) -> None:
    assert same(natively(choices)(x, y, k), choices(x, y, k))


@kernel
def functions(x: float) -> tuple[float, ...]:
    return (
        math.sqrt(x), math.log(x), math.log1p(x), math.exp(-x), math.expm1(-x), math.erfc(x), math.pow(x, 0.3),
        x**1.5, float(int(x)), float(math.floor(x)),
    )  # fmt: skip


@settings(deadline=None, derandomize=True)
@given(x=st.floats(1e-300, 1e15))
def test_functions_are_those_of_the_c_library(x: float) -> None:
    """As Python's are, but for a power, which Python rounds in its own way."""
    assert natively(functions)(x) == pytest.approx(functions(x), rel=1e-15)


@kernel
def unsigned(word: np.uint64, k: int) -> Any:
    turned = (word << np.uint64(23)) | (word >> np.uint64(41))
    mixed = (word ^ np.uint64(0xBF58476D1CE4E5B9)) * np.uint64(3)
    return turned, mixed + np.uint64(k), np.int64(word) >> 11, float(word >> np.uint64(11)), word > np.uint64(7)


@settings(deadline=None, derandomize=True)
@given(word=st.integers(0, 2**64 - 1), k=st.integers(0, 2**62))
def test_unsigned_numbers(word: int, k: int) -> None:
    with np.errstate(over="ignore"):
        assert natively(unsigned)(np.uint64(word), k) == unsigned(np.uint64(word), k)


# --------------------------------------------------------------------------------------------- loops and variables


@kernel
def loops(first: int, last: int, most: int) -> tuple[int, float, int]:
    total = 0
    share: float = 0  # it is an int at first, and a float in the end
    for i in range(first, last):
        if i % 3 == 0:
            continue
        total += i
        for j in range(i, first, -2):
            total -= j
            if total > most:
                break
        share = share + 1 / (i * i + 1)
    k = 0
    while True:
        k += 1
        if k * k > most:
            return total, share, k


@settings(deadline=None, derandomize=True)
@given(first=st.integers(-20, 20), last=st.integers(-20, 20), most=st.integers(-5, 500))
def test_loops(first: int, last: int, most: int) -> None:
    assert natively(loops)(first, last, most) == loops(first, last, most)


@kernel
def not_evaluated(x: Floats, k: int) -> bool:
    return k < x.shape[0] and bool(x[k] > 0.0)


@kernel
def counted(calls: Floats, answer: bool) -> bool:
    calls[0] += 1
    return answer


@kernel
def short_circuits(calls: Floats, a: bool, b: bool, x: float) -> bool:
    if (counted(calls, a) and counted(calls, b)) or counted(calls, False):
        return x < counted(calls, True) < 3.0
    return not (counted(calls, b) or counted(calls, a))


@settings(deadline=None, derandomize=True)
@given(a=st.booleans(), b=st.booleans(), x=st.floats(-2, 2))
def test_what_python_does_not_evaluate_is_not_evaluated(a: bool, b: bool, x: float) -> None:
    calls, expected = np.zeros(1), np.zeros(1)
    assert natively(short_circuits)(calls, a, b, x) == short_circuits(expected, a, b, x)
    assert calls == expected
    assert not natively(not_evaluated)(np.ones(3), 10**15)


# --------------------------------------------------------------------------------------- arrays, tuples and helpers


class Inner(NamedTuple):
    flags: Any
    words: Any


class Outer(NamedTuple):
    table: Any
    inner: Inner
    factor: float


class Pair(NamedTuple):
    high: float
    low: float


LOOKED_UP = (1.5, 2.5, 3.5)
NUMBERS = (3, 1, 2)


@apart
@kernel
def pair_of(outer: Outer, k: int, shift: float = 0.5) -> Pair:
    return Pair(low=LOOKED_UP[k] - shift, high=outer.table[k, -1] * outer.factor)


@kernel
def of_many_kinds(outer: Outer, small: Any, both: Any, k: int) -> tuple[float, float, int]:
    flags, words = outer.inner
    row = outer.table[k]
    row[0] += 1
    flags[k] = row[0] > 2.0
    words[-1] -= 1
    small[k] = small[k] * 2 + NUMBERS[k]
    both[k] = complex(row[0], outer.table.shape[1])
    pair = pair_of(outer, k, shift=0.25)
    high, low = pair_of(outer, k)
    return pair.high + high, pair[1] + low + both[k].imag, len(small) + int(flags[k]) + words[0]


def arrays(seed: int, small: str) -> tuple[Outer, Any, Any]:
    random = np.random.default_rng(seed)
    inner = Inner(np.zeros(3, np.int8), np.arange(4, dtype=np.uint32) + 5)
    outer = Outer(random.normal(size=(3, 5)), inner, 1.25)
    return outer, random.integers(0, 9, 3).astype(small), np.zeros(3, np.complex64)


@pytest.mark.parametrize("small", ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "f4", "f8"])
def test_arrays_and_tuples(small: str) -> None:
    ours, theirs = arrays(1, small), arrays(1, small)
    for k in (0, 1, 2, -1):
        assert natively(of_many_kinds)(*ours, k) == pytest.approx(of_many_kinds(*theirs, k), rel=1e-15)
    for one, other in zip(
        (ours[0].table, *ours[0].inner, *ours[1:]), (theirs[0].table, *theirs[0].inner, *theirs[1:]), strict=True
    ):
        np.testing.assert_array_equal(one, other)


@kernel
def nothing(values: Floats) -> None:
    """Returns nothing on every path."""
    if values.shape[0] == 0:
        return
    values[0] = math.inf


def test_a_kernel_may_return_nothing_and_take_an_empty_array() -> None:
    values = np.zeros(2)
    assert natively(nothing)(np.zeros(0)) is None
    assert natively(nothing)(values) is None
    assert values[0] == math.inf


def test_a_tuple_that_is_given_again_is_not_mistaken_for_another() -> None:
    run = natively(of_many_kinds)
    for seed in (1, 2, 1):
        given, expected = arrays(seed, "i8"), arrays(seed, "i8")
        assert run(*given, 0) == of_many_kinds(*expected, 0)
        assert run(*given, 1) == of_many_kinds(*expected, 1)


# ------------------------------------------------------------------------------- what plug-ins use, and what is refused


@kernel
def of_plug_ins(values: Floats, pair: Pair, k: int) -> tuple[Any, ...]:
    low, high = pair.low, pair.high
    low, high = high, low
    total = 0.0
    for value in values:
        total += value
    three = (total, low, high)
    lengths = (len(values), len(pair), len(three), len(LOOKED_UP))
    chosen = (min(three), max((k, 3)), three[k], pair[k - 1])
    functions = (math.isinf(total), math.isfinite(total), math.fmod(low, 3.0), math.tanh(low))
    return lengths, chosen, functions, k**3, abs(-k), ~k, +k


@pytest.mark.parametrize("k", [0, 1, 2])
def test_what_plug_ins_use(k: int) -> None:
    for values in (np.array([0.5, -3.0, 7.25]), np.array([math.inf]), np.zeros(0)):
        assert same(natively(of_plug_ins)(values, Pair(2.0, -1.0), k), of_plug_ins(values, Pair(2.0, -1.0), k))


@kernel
def rows(table: Floats) -> float:
    total = 1.0
    for row in table:
        for value in row:
            total = 2.0 * total + value
    return total


def test_a_loop_over_the_rows_of_an_array() -> None:
    table = np.arange(12.0).reshape(3, 4)
    assert natively(rows)(table) == rows(table)


def refused_sum(values: Floats) -> float:
    return float(sum(values))


def refused_list(values: Floats) -> int:
    doubled = [2.0 * value for value in values]
    return len(doubled)


def refused_check(values: Floats) -> None:
    raise ValueError(values[0])


def refused_numpy(values: Floats) -> float:
    return float(np.log(values[0]))


TABLE = np.arange(3.0)


def refused_array(values: Floats) -> float:
    return float(TABLE[0])


def refused_slice(values: Floats) -> None:
    values[1:] = 0.0


def refused_whole_array(values: Floats) -> Any:
    return values * 2.0


def refused_rest(values: Floats) -> float:
    return float(values[0] % 2.0)


@kernel
def helper_with_text(x: float) -> str:
    return f"{x}"


def refused_in_a_helper(values: Floats) -> Any:
    return helper_with_text(values[0])


@pytest.mark.parametrize(
    ("refused", "construct", "instead"),
    [
        (refused_sum, "sum(values)", "a loop: `for k in range(len(values))`"),
        (refused_list, "[2.0 * value for value in values]", "into an array that is handed in"),
        (refused_check, "raise ValueError(values[0])", "the check where the setting is made"),
        (refused_numpy, "np.log(values[0])", "`math.log`"),
        (refused_array, "TABLE[0]", "arrays as a part of the setting or the memory"),
        (refused_slice, "1:", "a loop from the first index to the last"),
        (refused_whole_array, "a 1-dimensional array is used as a number", "a loop over its entries"),
        (refused_rest, "Mod", "`math.fmod(a, b)`"),
    ],
)
def test_what_cannot_be_compiled_is_named_with_its_place(refused: Any, construct: str, instead: str) -> None:
    line = refused.__code__.co_firstlineno + 1
    with pytest.raises(Untranslatable) as raised:
        compiled(kernel(refused))(np.ones(3))
    said = str(raised.value)
    assert said.startswith(f"{__file__}:{line}: the kernel {refused.__name__} cannot be compiled: ")
    assert construct in said
    assert instead in said.partition("; write ")[2]
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (Untranslatable, said)


def test_the_place_is_that_of_the_helper_at_fault() -> None:
    line = helper_with_text.__code__.co_firstlineno + 2  # its mark is the first
    with pytest.raises(Untranslatable, match=rf":{line}: the kernel helper_with_text cannot be compiled"):
        compiled(kernel(refused_in_a_helper))(np.ones(3))


@pytest.mark.parametrize("values", [np.ones(6)[::2], np.ones(3, np.float16), "text", None], ids=str)
def test_what_cannot_be_handed_to_compiled_code(values: Any) -> None:
    with pytest.raises(Untranslatable, match="the kernel nothing cannot be compiled: it "):
        compiled(nothing)(values)


def test_a_live_study_goes_on_interpreted_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    fast = compiled(kernel(refused_sum))
    for _ in range(2):
        assert fast.interpreted_until_ready(refused_sum, wait=True)(np.ones(3)) == 3.0
        assert not fast.is_ready("text")
    first, second = (record.message for record in caplog.records)
    assert "the call `sum(values)` is not supported" in first
    assert "interpreted: its decisions are right, and slow" in first
    assert "a value of type str" in second
