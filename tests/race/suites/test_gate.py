"""Gates on suites whose runs are drawn: verdicts, how often they err, and what ends a gate.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from bestarm.race.suites.gate import CANDIDATE, Comparison, gate_suite
from bestarm.race.suites.readers import Times
from bestarm.race.suites.result import SuiteGate
from bestarm.race.suites.words import notes, rows, verdict
from bestarm.study.work.failures import MeasurementFailed, NotStarted
from bestarm.validation import InvalidInput

Program = Callable[[float], Times]


def drawn(random: np.random.Generator, means: Times, scatter: float = 0.02) -> Program:
    """A program whose benchmarks scatter around these means, all of a run together and each by itself."""

    def run(timeout: float) -> Times:
        together = 1.0 + 0.01 * random.standard_normal()
        return {name: mean * together * (1.0 + scatter * random.standard_normal()) for name, mean in means.items()}

    return run


def gate(
    means: Times, factors: Times, *, seed: int = 0, pairs: int = 60, scatter: float = 0.02, **more: Any
) -> SuiteGate:
    """The candidate takes so many times as long as the baseline."""
    random = np.random.default_rng((seed, 5))
    slower = {name: mean * factors.get(name, 1.0) for name, mean in means.items()}
    old, new = drawn(random, means, scatter), drawn(random, slower, scatter)
    return gate_suite(old, new, pairs=pairs, seed=seed, **more)


MEANS = {"sort": 1e-5, "sum": 3e-9, "read a file": 0.2, "parse": 0.004}


def verdicts(found: SuiteGate) -> dict[str, str]:
    return {one.name: one.verdict for one in found.benchmarks}


def test_a_slower_benchmark_is_named_and_the_others_pass() -> None:
    found = gate(MEANS, {"parse": 1.15, "sum": 0.5})
    assert verdicts(found) == {"sort": "certified", "sum": "certified", "read a file": "certified", "parse": "refuted"}
    assert found.found == found.decided == "refuted"
    assert verdict(found).startswith(
        "REFUTED: 1 benchmark of 4 exceeds the limit: parse, except for pauses of the baseline rarer than 1 in "
    )
    [first, *_] = rows(found)
    assert first[:3] == ("parse", "refuted", "1.05x")
    [parse] = found.of("refuted")
    assert parse.low > parse.limit
    assert parse.low < 1.15 < parse.high
    assert all(one.low < one.ratio < one.high <= one.limit for one in found.of("certified"))


def test_all_pass_together_before_each_would_by_name() -> None:
    """By the signs of differences alone: 0.05 * 2^10 > 2 / 0.0475, and 0.05 * 2^16 > 60 * 2 / 0.0475."""
    names = [f"benchmark {number}" for number in range(60)]
    quick = dict.fromkeys(names, 1.0)
    together = gate_suite(lambda _: quick, lambda _: quick, seed=1)
    assert (together.found, together.pairs) == ("certified", 10)
    by_name = gate_suite(lambda _: quick, lambda _: quick | {names[0]: 1.2}, seed=1)
    assert (by_name.found, by_name.pairs, len(by_name.of("certified"))) == ("refuted", 16, 59)


def test_a_gate_that_passes() -> None:
    found = gate(MEANS, {})
    assert found.found == "certified"
    assert verdict(found).startswith("CERTIFIED: each of 4 benchmarks is within its limit, except for pauses")
    ratio, low, high = found.geometric_mean
    assert low < ratio < high
    assert abs(ratio - 1.0) < 0.05


def test_limits_of_single_benchmarks() -> None:
    found = gate(MEANS, {"parse": 1.15}, limits={"parse": 1.4})
    assert found.found == "certified"
    assert [one.limit for one in found.benchmarks] == [1.05, 1.05, 1.05, 1.4]
    assert gate(MEANS, {}, at_most=0.8).found == "refuted"


def test_benchmarks_of_one_program_alone_are_named() -> None:
    old, new = {"both": 1.0, "gone": 1.0}, {"came": 1.0, "both": 1.0}
    found = gate_suite(lambda _: old, lambda _: new, seed=1)
    assert verdicts(found) == {"both": "certified", "gone": "absent", "came": "new"}
    assert found.found == "certified"
    said = [*notes(found)]
    assert "Not compared: the candidate has no gone (absent)." in said
    assert "Not compared: the baseline has no came (new)." in said
    with pytest.raises(InvalidInput, match="has no benchmark in common with the baseline, which has 'both'"):
        gate_suite(lambda _: {"both": 1.0}, lambda _: {"came": 1.0}, seed=1)


def test_a_run_with_other_benchmarks_ends_the_gate() -> None:
    runs = iter([{"a": 1.0, "b": 2.0}] * 2 + [{"a": 1.0}])
    with pytest.raises(MeasurementFailed, match="a run of the candidate lacks the benchmark 'b'"):
        gate_suite(lambda _: {"a": 1.0, "b": 2.0}, lambda _: next(runs), seed=1)
    runs = iter([{"a": 1.0}, {"a": 1.0, "b": 2.0}])
    with pytest.raises(MeasurementFailed, match="has, unlike the first, the benchmark 'b'"):
        gate_suite(lambda _: {"a": 1.0}, lambda _: next(runs), seed=1)


def test_a_program_that_fails_ends_the_gate() -> None:
    def fails(timeout: float) -> Times:
        raise MeasurementFailed("it failed")

    with pytest.raises(MeasurementFailed, match="it failed"):
        gate_suite(lambda _: {"a": 1.0}, fails, seed=1)


def test_pauses_of_the_candidate_alone_withhold_its_verdict() -> None:
    """The candidate pauses for long in one run, the baseline never: then symmetry cannot be assumed."""
    count = 0

    def pauses_once(timeout: float) -> Times:
        nonlocal count
        count += 1
        return {"a": 2.5 if count == 4 else 0.5, "b": 0.5}

    found = gate_suite(lambda _: {"a": 1.0, "b": 1.0}, pauses_once, seed=1, pairs=40)
    assert verdicts(found) == {"a": "undecided", "b": "certified"}
    [a] = found.of("undecided")
    assert a.withheld.startswith("the candidate pauses in 1 of 40 runs, the baseline in 0 of 40 runs")
    assert f"a has no verdict: {a.withheld}." in [*notes(found)]
    assert (a.paused, a.pauses_rarer_than) == ((0, 1), None)


def test_an_upper_end_is_cut_off_only_where_all_are_certified() -> None:
    """After 35 pairs, there is enough evidence that all are within their limits. Because a paused once, that is not
    said, and b, which has no verdict of its own yet, may be above its limit."""
    random = np.random.default_rng(1)
    quiet = {f"quiet {number}": 1.0 for number in range(20)}
    first = {program: [{"a": 1.0, "b": 1.0, **quiet}] * 2 for program in ("baseline", CANDIDATE)}
    found = Comparison(first, at_most=1.3, seed=1)
    for pair in range(35):
        old, new = 1.0 + 0.3 * random.standard_normal(2)
        found.enter({"a": 1.0, "b": old, **quiet}, {"a": 2.5 if pair == 2 else 0.5, "b": new, **quiet})
    a, b, *rest = found.result().benchmarks
    assert "the candidate pauses in 1 of 35 runs" in a.withheld
    assert (b.verdict, b.withheld) == ("undecided", "")
    assert b.low < 1.0 < 1.3 < b.high < 2.0
    assert {one.verdict for one in rest} == {"certified"}


def test_a_pause_of_both_programs_is_said_of_the_benchmark_that_has_it() -> None:
    """What is said of pauses that are rare is said of the others alone."""
    count = {"old": 0, "new": 0}

    def program(name: str, time: float) -> Program:
        def run(timeout: float) -> Times:
            count[name] += 1
            return {"a": time + 0.9 * (count[name] == 6), "b": time}

        return run

    found = gate_suite(program("old", 1.0), program("new", 0.6), seed=1)
    assert found.found == "certified"
    a, b = found.benchmarks
    assert (a.paused, a.pauses_rarer_than, b.paused) == ((1, 1), None, (0, 0))
    assert b.pauses_rarer_than is not None
    rare = f"except for pauses of the candidate rarer than 1 in {b.pauses_rarer_than} and those seen in a, with 95%"
    assert rare in verdict(found)
    assert any(f"far longer than the first, of {found.pairs} each: a (1 and 1)." in line for line in notes(found))


def test_a_ratio_outside_of_its_interval_is_explained() -> None:
    """The baseline pauses in a: that moves its mean, and not the interval, which is about runs without pauses."""
    random, count = np.random.default_rng(2), 0

    def old(timeout: float) -> Times:
        nonlocal count
        count += 1
        a, b = 1.0 + 0.01 * random.standard_normal(2)
        return {"a": 9.0 if count == 60 else a, "b": b, "open": 1.0}

    new = {"a": 0.9, "b": 0.9, "open": 1.0}
    found = gate_suite(old, lambda _: new, limits={"open": 1.0}, seed=1, pairs=60)
    a, b, _ = found.benchmarks
    assert a.ratio < a.low
    assert b.low <= b.ratio <= b.high
    moved = "Pauses moved the measured ratio of a out of its interval, which is about other runs."
    assert moved in [*notes(found)]


def test_without_a_pause_it_says_how_rare_they_are_jointly() -> None:
    found = gate(MEANS, {}, pairs=300, seed=3)
    # (1 - 1/N)^pairs <= 0.05 * 0.05 / 4, for each of 4 benchmarks
    [rarest] = {one.pauses_rarer_than for one in found.benchmarks}
    assert rarest is not None
    assert f"except for pauses of the candidate rarer than 1 in {rarest}, with 95%" in verdict(found)
    assert (1.0 - 1.0 / rarest) ** found.pairs <= 0.05 * 0.05 / 4 < (1.0 - 1.0 / (rarest + 1)) ** found.pairs


def test_the_budget() -> None:
    now = 0.0

    def takes_ten_seconds(timeout: float) -> Times:
        nonlocal now
        now += 10.0
        return {"a": 1.0}

    found = gate_suite(takes_ten_seconds, takes_ten_seconds, minutes=2.0, at_most=1.0, seed=1, clock=lambda: now)
    # 40 s are for the first runs, and then there is time for four pairs.
    assert (found.found, found.pairs, now) == ("undecided", 4, 120.0)
    assert verdict(found).startswith("UNDECIDED: the budget is spent after 4 pairs of runs, and a may be")
    with pytest.raises(NotStarted, match="a pair of runs takes 20 s, which does not fit into the budget"):
        gate_suite(takes_ten_seconds, takes_ten_seconds, minutes=0.7, seed=1, clock=lambda: now)
    with pytest.raises(NotStarted, match=r"the first runs alone take 0.1 minutes; state more --minutes"):
        gate_suite(takes_ten_seconds, takes_ten_seconds, minutes=0.1, seed=1, clock=lambda: now)


def test_what_is_refused() -> None:
    def one(_: float) -> Times:
        return {"a": 1.0}

    with pytest.raises(InvalidInput, match="no such benchmark in both programs; there are 'a'"):
        gate_suite(one, one, limits={"b": 1.1})
    with pytest.raises(InvalidInput, match="must be a positive number: that many times the baseline"):
        gate_suite(one, one, at_most=0.0)
    with pytest.raises(InvalidInput, match=r"must lie strictly between 0 and 1"):
        gate_suite(one, one, delta=1.0)


def test_order_is_random_and_repeated_by_its_seed() -> None:
    made: list[str] = []

    def program(name: str) -> Program:
        def run(timeout: float) -> Times:
            made.append(name)
            return {"a": 1.0}

        return run

    orders = []
    for _ in range(2):
        made.clear()
        gate_suite(program("old"), program("new"), seed=7)
        orders.append([*made])
    assert orders[0] == orders[1]
    counted = orders[0][4:]
    assert {(counted[k], counted[k + 1]) for k in range(0, len(counted), 2)} == {("old", "new"), ("new", "old")}


def test_names_that_arms_could_not_have() -> None:
    names = ["a\nb", "a b", " ", "x" * 300, "x" * 301]
    first = {program: [dict.fromkeys(names, 1.0)] * 2 for program in ("baseline", CANDIDATE)}
    found = Comparison(first, seed=1)
    for _ in range(30):
        found.enter(dict.fromkeys(names, 1.0), dict.fromkeys(names, 1.0))
    assert [one.name for one in found.result().of("certified")] == names


@pytest.mark.torture
def test_false_verdicts_are_rare() -> None:
    """δ = 0.2, on the limit or a little beside it: at most 0.2 of gates may have a false verdict. With 120 gates, more
    than 36 would have a probability below 0.005 if it were 0.2."""
    gates, wrong = 120, 0
    factors = {"at": 1.05, "above": 1.06, "below": 1.04, "far": 1.2}
    for seed in range(gates):
        found = gate(dict.fromkeys(factors, 1.0), factors, seed=seed, pairs=60, delta=0.2)
        by_name = verdicts(found)
        wrong += by_name["at"] == "certified" or by_name["above"] == "certified" or by_name["below"] == "refuted"
        assert by_name["far"] != "certified"
    assert binom.sf(36, gates, 0.2) < 0.005
    assert wrong <= 36


@pytest.mark.torture
def test_no_verdict_rests_on_benchmarks_being_independent() -> None:
    """All benchmarks of a run are the same number. Of 100 gates on the limit, at most δ = 0.2 certify or refute; more
    than 31 would have a probability below 0.005 if it were 0.2."""
    wrong = 0
    for seed in range(100):
        random = np.random.default_rng((seed, 9))

        def run(_: float, random: np.random.Generator = random) -> Times:
            return dict.fromkeys("abcd", 1.0 + 0.03 * float(random.standard_normal()))

        found = gate_suite(run, run, at_most=1.0, pairs=60, delta=0.2, seed=seed)
        wrong += bool(found.of("certified", "refuted"))
    assert binom.sf(31, 100, 0.2) < 0.005
    assert wrong <= 31
