"""Files from outside: a valid thing, or one line that says what is wrong. Never a traceback."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bestarm as ba
from bestarm.parsing import MOST_NESTED, read_decimal, read_json, read_toml, read_whole
from bestarm.study.files.exchange import import_results, tell_results
from bestarm.texts import quoted
from tests.lengths import examples
from tests.outside import DEEP, HUGE, PLAN, mutated, one_line


@pytest.mark.parametrize(
    "text",
    [
        "[" * DEEP,
        "[" * DEEP + "]" * DEEP,
        '{"a":' * DEEP,
        f'{{"delta": {HUGE}}}',
        f'{{"delta": -{HUGE}}}',
        '{"delta": 0.1, "delta": 0.2}',
        '{"arms": [{"name": "a", "name": "b"}]}',
        '{"\\u001b[31m": 1, "\\u001b[31m": 2}',
        "",
        "\x00",
        "nul",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_json_that_cannot_be_read(text: str) -> None:
    for read in (read_json, ba.Plan.from_json):
        with pytest.raises(ba.InvalidInput) as refused:
            read(text)
        one_line(refused.value)


def test_bytes_that_are_no_text() -> None:
    with pytest.raises(ba.InvalidInput, match="not valid JSON: is not UTF-8"):
        read_json(b'{"a": "\xff\xfe"}')


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * DEEP,
        "a = " + "[" * DEEP + "]" * DEEP,
        "a = " + "{b = " * DEEP,
        f"delta = {HUGE}",
        f"delta = 0x{'f' * 50_000}",
        f"arms = [0x{'f' * 50_000}]",
        "delta = 1e999",
        "delta = 0.1\ndelta = 0.2",
        "\x00",
    ],
    ids=lambda text: repr(text[:20]),
)
def test_toml_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ba.InvalidInput) as refused:
        ba.Plan.from_toml(text)
    one_line(refused.value)


def refused_in_one_line(read: Callable[[], object]) -> None:
    """Either what is read is a valid thing, or it is refused so; any other exception fails the test."""
    try:
        read()
    except ba.InvalidInput as error:
        one_line(error)


@examples(40, 300)
@given(mutated(PLAN.to_toml()))
def test_any_toml_is_a_plan_or_refused(text: str) -> None:
    refused_in_one_line(lambda: ba.Plan.from_toml(text))


@examples(40, 300)
@given(mutated(PLAN.to_json()))
def test_any_json_is_a_plan_or_refused(text: str) -> None:
    refused_in_one_line(lambda: ba.Plan.from_json(text))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.just(10**4000),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def changed(draw: Any, data: Any) -> Any:
    """Plain data with one entry, at any depth, replaced by anything."""
    if isinstance(data, dict) and data and draw(st.booleans()):
        key = draw(st.sampled_from(sorted(data)))
        return data | {key: draw(changed(data[key]))}
    if isinstance(data, list) and data and draw(st.booleans()):
        k = draw(st.integers(0, len(data) - 1))
        return [*data[:k], draw(changed(data[k])), *data[k + 1 :]]
    return draw(ANYTHING)


@examples(40, 300)
@given(changed(PLAN.to_data()))
def test_any_data_is_a_plan_or_refused(data: Any) -> None:
    refused_in_one_line(lambda: ba.Plan.from_data(data))


@pytest.mark.parametrize("text", ["1_000", "１", "1e1_0", "0x10", "1 2", "", "--1", "1e", "٣"])
def test_python_alone_reads_these_as_numbers(text: str) -> None:
    study = ba.Study.create(PLAN, storage=":memory:")
    for name in ("import", "tell"):
        data = f"arm,metric,value\na,p,{text}\n".encode()
        with pytest.raises(ba.InvalidInput, match="value"):
            {"import": import_results, "tell": tell_results}[name](study, data, "f")
    with pytest.raises(ValueError, match="must be a number"):
        read_decimal(text)
    with pytest.raises(ValueError, match="must be a whole number"):
        read_whole(text)


def test_numbers_as_people_write_them() -> None:
    texts = ("1", " -1.5\n", "+.5", "5.", "1e-3", "1E+3")
    assert [read_decimal(text) for text in texts] == [1, -1.5, 0.5, 5, 1e-3, 1e3]
    assert [read_whole(text) for text in ("0", "-7", str(2**63 - 1))] == [0, -7, 2**63 - 1]
    for text in (str(2**63), "9" * 10_000, str(-(2**63) - 1)):
        with pytest.raises(ValueError, match="must be a whole number from -9223372036854775808 to 9223372036854775807"):
            read_whole(text)


def test_numbers_too_long_to_be_written() -> None:
    for make in (
        lambda: ba.Gaussian(10**5000),
        lambda: ba.simulate(PLAN, runs=10**5000),
        lambda: ba.Study.create(PLAN, storage=":memory:", seed=-(10**5000)),
        lambda: ba.Study.create(PLAN, storage=":memory:").ask(10**5000),
        lambda: ba.Study.create(PLAN, storage=":memory:").add([("a", "p", 10**5000)]),
        lambda: ba.Study.create(PLAN, storage=":memory:").tell(10**5000, 1.0),
        lambda: ba.Study.create(PLAN, storage=":memory:").log(10**5000),
    ):
        with pytest.raises(ba.InvalidInput) as refused:
            make()
        one_line(refused.value)
    assert quoted([10**5000]) == "[a whole number of 16,610 bits]"


@pytest.mark.parametrize("depth", [1, MOST_NESTED, MOST_NESTED + 1, 300, 100_000])
@pytest.mark.parametrize(("begin", "end"), [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_what_is_nested_too_deeply_is_refused(depth: int, begin: str, end: str) -> None:
    """Whatever works with it would run out of its stack, if the reader does not."""
    text, times = begin * depth + "1" + end * depth, begin.count("[") + begin.count("{")
    toml = "a = " + text.replace('"a":', "a=")
    if depth * times <= MOST_NESTED:
        assert read_json(text) is not None
    else:
        with pytest.raises(ba.InvalidInput, match="not valid JSON: is nested too deeply: at most 100"):
            read_json(text)
    if depth * times < MOST_NESTED:
        assert read_toml(toml)
    elif depth * times > MOST_NESTED:
        with pytest.raises(ba.InvalidInput, match="not valid TOML: is nested too deeply: at most 100"):
            read_toml(toml)
