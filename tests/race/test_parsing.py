"""What people write on the command line of a race: units, limits, parameters."""

from __future__ import annotations

import contextlib
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples

from bestarm.race.contestants import contestants_of, with_another, words_of
from bestarm.race.limits import (
    METRICS,
    SHARES,
    SIZES,
    TIMES,
    read_limit,
    read_limits,
    read_objective,
    read_share,
    read_size,
    read_time,
    size_words,
    time_words,
)
from bestarm.race.own_metrics import read_metrics
from bestarm.validation import InvalidInput

NUMBERS = st.floats(0.01, 1e5).map(lambda number: float(f"{number:.6g}"))


@given(NUMBERS, st.sampled_from(sorted(TIMES)), st.sampled_from(["", " "]))
def test_times_are_read_in_every_unit(number: float, unit: str, space: str) -> None:
    assert math.isclose(read_time("--timeout", f"{number!r}{space}{unit}"), number * TIMES[unit])


@given(NUMBERS, st.sampled_from(sorted(SIZES)))
def test_sizes_are_read_in_every_unit(number: float, unit: str) -> None:
    assert math.isclose(read_size("memory", f"{number!r}{unit}"), number * SIZES[unit])


@given(st.floats(1e-6, 9e2))
def test_what_is_shown_of_a_time_can_be_read_again(seconds: float) -> None:
    assert math.isclose(read_time("time", time_words(seconds)), seconds, rel_tol=0.006)


@given(st.floats(1.0, 9e14))
def test_what_is_shown_of_a_size_can_be_read_again(size: float) -> None:
    assert math.isclose(read_size("size", size_words(size)), size, rel_tol=0.006)


@examples(50, 1000)
@given(st.text(max_size=20))
def test_no_text_makes_it_fail_otherwise(text: str) -> None:
    for read in (
        read_limit,
        read_objective,
        lambda words: read_time("--timeout", words),
        lambda words: read_limit(f"time={words}"),
        lambda words: read_limit(f"p{words}(time)=1s"),
        lambda words: contestants_of(["a {x}"], lists=[f"x={words}"]),
    ):
        with contextlib.suppress(InvalidInput):
            read(text)


@pytest.mark.parametrize(
    ("text", "metric", "value", "quantile", "is_relative"),
    [
        ("memory=500MB", "memory", 5e8, 0.5, False),
        ("mean( output )=1kB", "output", 1e3, None, False),
        ("mean(time)=2s", "time", 2.0, None, False),
        ("pauses=0.1%", "pauses", 0.001, None, False),
        (" time = 2s ", "time", 2.0, None, False),
        ("p99(time)=2s", "time", 2.0, 0.99, False),
        ("p99.9(memory)=1GiB", "memory", 2.0**30, 0.999, False),
        ("failures=1%", "failures", 0.01, None, False),
        ("time=1.02x", "time", 1.02, None, True),
        ("output=1.5×", "output", 1.5, None, True),
    ],
)
def test_limits(text: str, metric: str, value: float, quantile: float | None, is_relative: bool) -> None:
    limit = read_limit(text)
    assert (limit.metric, limit.value, limit.quantile, limit.is_relative) == (metric, value, quantile, is_relative)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("memory", "must be METRIC=LIMIT"),
        ("speed=2", "'speed' is not a metric"),
        ("speed=2", "if commands print it, --metric 'speed=last-line' says how to read it"),
        ("time=1,05x", "'time=1,05x': numbers have a decimal point and no other marks: time=1.05x"),
        ("time=baseline+1,5ms", "no other marks: time=baseline+1.5ms"),
        ("p99(memory)=1,500MB", "no other marks: p99(memory)=1.500MB or p99(memory)=1500MB"),
        ("output=1,000,000B", "no other marks: output=1000000B"),
        ("memory=500", "'memory=500': needs a unit: 500MB"),
        ("time=2MB", "unknown unit 'MB'; must be a time"),
        ("memory=2s", "unknown unit 's'; must be a size"),
        ("time=-1s", "must be a time"),
        ("time=0x", "relative to the baseline is a multiple of it: time=1.05x"),
        ("time=2.5%", "relative to the baseline is a multiple of it: time=1.025x"),
        ("time=baseline+5%", "relative to the baseline is a multiple of it: time=1.05x"),
        ("1.1x", "must be METRIC=LIMIT, such as time=1.1x, time=2s"),
        ("failures=100%", "must be less than 100%"),
        ("failures=5", "must be less than 100%; 5 percent are written 5%"),
        ("failures=2x", "failures need a limit of their own"),
        ("p99(failures)=1%", "a share of runs already"),
        ("mean(pauses)=1%", "pauses are a share of runs already"),
        ("pauses=1.1x", "pauses need a limit of their own"),
        ("p99(time)=1.1x", "a quantile needs a limit of its own"),
        ("p0(time)=1s", "a quantile lies between"),
        ("time=nan", "must be a time"),
        ("time=1e99s", "too small or too large"),
    ],
)
def test_mistakes_are_told_in_plain_words(text: str, complaint: str) -> None:
    with pytest.raises(InvalidInput, match=r"^--at-most = ") as raised:
        read_limit(text)
    assert complaint in str(raised.value)


def test_a_decimal_comma_is_refused_in_every_option() -> None:
    for read, text, instead in (
        (read_time, "1,5s", "1.5s"),
        (read_size, "1,25MB", "1.25MB"),
        (read_share, "2,5%", "2.5%"),
    ):
        with pytest.raises(InvalidInput) as raised:
            read("--option", text)
        assert str(raised.value).endswith(f"'{text}': numbers have a decimal point and no other marks: {instead}")


def test_an_unknown_objective_may_be_one_that_commands_print() -> None:
    with pytest.raises(
        InvalidInput, match=r"^--maximize = 'rps': must be one of time, .*--metric 'rps=last-line' says"
    ):
        read_objective("rps", "--maximize")
    with pytest.raises(InvalidInput, match=r"output$"):
        read_objective("5 rps", "--maximize")


def test_margins() -> None:
    plus, minus = read_limit("time=baseline+5ms"), read_limit(" memory = baseline - 1MB ")
    assert (plus.value, plus.is_relative, plus.margin) == (1.0, True, 0.005)
    assert (minus.quantile, minus.margin, minus.words) == (None, -1e6, "memory at most 1 MB below the baseline")
    for text, complaint in (
        ("time=baseline+5MB", "unknown unit 'MB'; must be a time"),
        ("p99(time)=baseline+5ms", "a quantile needs a limit of its own"),
        ("failures=baseline+1%", "failures need a limit of their own"),
        ("time=baseline", "must be a time"),
    ):
        with pytest.raises(InvalidInput, match=complaint):
            read_limit(text)
    with pytest.raises(InvalidInput, match="say which command that is with --baseline"):
        read_limits(["time=baseline+5ms"], None)


def test_a_limit_with_a_unit_needs_a_metric_with_one() -> None:
    with pytest.raises(InvalidInput, match=r"must be a number; --metric 'p99\[ms\]=…' says the unit"):
        read_limit("p99=50ms", known=read_metrics(["p99=last-line"]))


def test_what_is_relative_needs_a_baseline() -> None:
    with pytest.raises(InvalidInput, match="say which command that is with --baseline"):
        read_limits(["time=1.02x"], None)
    with pytest.raises(InvalidInput, match="failures can only be limited"):
        read_objective("failures")
    assert all(read_objective(name) == name for name in METRICS if name not in SHARES)
    assert read_share("failures", "0.5") == 0.5


def test_parameters_are_filled_in() -> None:
    found = contestants_of(["zip -{level} {file}", "cat {file}"], lists=["level=1,9", "file=a,b"])
    # In hyperfine's order: what names belong to.
    assert [one.command for one in found] == ["zip -1 a", "cat a", "zip -9 a", "zip -1 b", "cat b", "zip -9 b"]
    assert found[2].parameters == {"level": "9", "file": "a"}
    assert found[1].parameters == {"file": "a"}


@pytest.mark.parametrize(
    ("commands", "names", "lists", "complaint"),
    [
        (["a", "a"], [], [], "is there twice"),
        (["a", "b"], ["x", "y", "z"], [], "there are 2 commands, and no more names"),
        (["a", "b"], ["x", "x"], [], "is there twice"),
        (["a  b", "a b", "a b"], [], [], "is there twice"),
        (["  "], ["x"], [], "must not be empty"),
        (["a"], [], ["x=1,2"], "no command has {x} to fill in"),
        (["a {x}"], [], ["x=1,,2"], "must not be empty"),
        (["a {x}"], [], ["x"], "must be a name and its values"),
        (["a {x}"], [], ["x=1", "x=2"], "a name of its own"),
        (["a {x} {y}"], [], [f"x={','.join(map(str, range(100)))}", f"y={','.join(map(str, range(100)))}"], "at most"),
    ],
)
def test_mistakes_in_commands(commands: list[str], names: list[str], lists: list[str], complaint: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        contestants_of(commands, names, lists)
    assert complaint in str(raised.value)


def test_one_name_with_a_parameter_names_all() -> None:
    found = contestants_of(["gzip -{n} f"], ["level {n}"], ["n=1,9"])
    assert [one.name for one in found] == ["level 1", "level 9"]
    assert [one.name for one in contestants_of(["gzip -{n} f"], ["fast"], ["n=1,9"])] == ["fast", "gzip -9 f"]


def test_a_baseline_is_one_of_the_commands_or_comes_first() -> None:
    commands = contestants_of(["a", "b"], ["x", "y"])
    assert with_another(commands, "y", "--baseline") == (commands, "y")
    assert with_another(commands, "b", "--baseline") == (commands, "y")
    more, name = with_another(commands, "old", "--baseline")
    assert ([one.name for one in more], name) == (["old", "x", "y"], "old")


def test_commands_that_are_called_the_same_get_numbers() -> None:
    commands = contestants_of(["echo 'a  b'", "echo 'a b'", "x" * 300, "x" * 301])
    long = "x" * 190
    assert [one.name for one in commands] == ["echo 'a b'", "echo 'a b' (2)", f"{long}{'x' * 9}…", f"{long} (2)"]
    assert with_another(commands, "echo 'a b'", "--baseline") == (commands, "echo 'a b' (2)")
    more, name = with_another(commands, "echo  'a b'", "--baseline")
    assert (more[0].name, name, more[1:]) == ("echo 'a b' (3)", name, commands)


def test_long_commands_have_short_names() -> None:
    [one] = contestants_of(["echo " + "x" * 1000 + "\n  more"])
    assert len(one.name) == 200
    assert one.name.endswith("…")
    assert one.command.endswith("\n  more")


def test_with_and_without_a_shell() -> None:
    assert words_of("echo 'a b' | wc", "default") == ["/bin/sh", "-c", "echo 'a b' | wc"]
    assert words_of("echo a", "bash -e") == ["bash", "-e", "-c", "echo a"]
    assert words_of("echo 'a b'", "none") == ["echo", "a b"]
    for command, shell in (("echo 'a", "none"), ("''"[:0], "none"), ("a", ""), ("a\0b", "default")):
        with pytest.raises(InvalidInput):
            words_of(command, shell)


def test_a_parameter_may_be_an_option() -> None:
    """Its values stand on the same command line as the command."""
    found = contestants_of(["gcc {opt} main.c"], lists=["opt=-O2,-O3 -flto"])
    assert [one.command for one in found] == ["gcc -O2 main.c", "gcc -O3 -flto main.c"]
