"""Results of several trials: k of n count as n results and as one test."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import examples, lengths

import bestarm as ba
from bestarm.kernel.packing import MOST_TRIALS, pack, trials, unpack
from bestarm.noises.shares import as_number, as_share, as_told, is_share
from bestarm.study.files.exchange import import_results, write_csv, write_json
from bestarm.study.intake.values import RefusedValue
from bestarm.study.work.command import read_output

Told = list[tuple[str, str, Any]]


def problem(**changes: Any) -> ba.Problem:
    """Rates on every side: to be small, at most and at least something, alone and relative to the baseline."""
    asked: dict[str, Any] = {
        "arms": ["old", "new"],
        "objective": ba.minimize("crashes", noise=ba.Bernoulli()),
        "constraints": [
            ba.at_most("errors", 0.01, noise=ba.Bernoulli()),
            ba.at_least("hits", 0.5, noise=ba.Bernoulli()),
            ba.at_least("found", relative_to_baseline=True, margin=0.2, noise=ba.Bernoulli()),
        ],
        "baseline": "old",
    }
    return ba.Problem(**(asked | changes))


def study(asked: ba.Problem, **options: Any) -> ba.Study:
    return ba.Study.create(asked, storage=":memory:", seed=1, **options)


def known_of(found: ba.Study) -> list[object]:
    """What decides and what is shown, up to rounding."""
    streams = found._decider.policy.streams
    rows = [
        (metric.metric, metric.verdict, metric.mean, metric.low, metric.high)
        for arm in found.state
        for metric in arm.metrics
    ]
    return [*streams.counts.ravel().tolist(), *streams.sums.ravel().tolist(), found.confidence, *rows]


@given(st.integers(1, MOST_TRIALS), st.floats(0.0, 1.0))
def test_packing_loses_nothing(n: int, share: float) -> None:
    k = round(share * n)
    packed = pack(k, n)
    if n > 1:
        assert unpack(packed) == (k, n)
    assert trials(np.array([packed, math.nan, 0.0])).tolist() == [n, 1, 1]
    assert as_number(packed) == k / n
    assert as_told(packed) == (f"{k}/{n}" if n > 1 else float(k))
    assert as_share(f"{k} of {n}") == ba.Share(k, n)


@pytest.mark.parametrize(
    ("k", "n", "complaint"),
    [
        (1, 0, "Share.n = 0: must lie between 1 and"),
        (1, 2**25, "must lie between 1 and"),
        (3, 2, "Share.k = 3: must lie between 0 and n = 2"),
        (-1, 2, "must lie between 0 and n = 2"),
        (0.5, 2, "Share.k = 0.5: must be a whole number"),
        (True, 2, "must be a whole number"),
        ("1", 2, "must be a whole number"),
    ],
)
def test_what_is_no_share(k: Any, n: Any, complaint: str) -> None:
    with pytest.raises(ba.InvalidInput) as raised:
        ba.Share(k, n)
    assert complaint in str(raised.value)


def test_numbers_of_numpy_are_whole() -> None:
    assert ba.Share(*np.array([3, 5]).astype(object)) == ba.Share(*np.array([3, 5])) == ba.Share(3, 5)
    assert [is_share(text) for text in ("3/5", " 3 of 5 ", "3/5/6", "a/b", 0.5)] == [True, True, False, False, False]


METRICS = ("crashes", "errors", "hits", "found")


@examples(8, 300)
@given(
    st.lists(
        st.tuples(st.sampled_from(["old", "new"]), st.sampled_from(METRICS), st.integers(1, 60), st.floats(0, 1)),
        min_size=1,
        max_size=12,
    ),
    st.randoms(use_true_random=False),
)
def test_k_of_n_is_the_evidence_of_n_results_in_any_order(rows: list[tuple[str, str, int, float]], rng: Any) -> None:
    first: Told = [(arm, metric, 1.0) for arm in ("old", "new") for metric in METRICS]
    shares: Told = [(arm, metric, ba.Share(round(share * n), n)) for arm, metric, n, share in rows]
    singles: Told = [(arm, metric, float(place < told.k)) for arm, metric, told in shares for place in range(told.n)]
    rng.shuffle(singles)
    # A budget of one test keeps the policy from deciding before the end.
    by_share, by_single = study(problem()), study(problem())
    by_share.add([*first, *shares])
    by_single.add([*first, *singles])
    if by_share.done or by_single.done:
        return
    assert known_of(by_share) == known_of(by_single)
    assert by_share.status().tests == len(first) + len(rows)
    assert by_single.status().tests == len(first) + len(singles)


@pytest.mark.parametrize("policy", ["certify", "feasible-lucb", "racing"])
def test_tests_are_spent_and_trials_are_counted(policy: str) -> None:
    asked = problem(constraints=[ba.at_most("errors", 0.01, noise=ba.Bernoulli(), cost=3.0)], baseline=None)
    live = study(asked, policy=policy, budget=ba.Budget(tests=200))
    rng = np.random.default_rng(5)
    rates = {("old", "crashes"): 0.3, ("new", "crashes"): 0.1, ("old", "errors"): 0.001, ("new", "errors"): 0.002}
    while not live.done:
        for test in live.ask(1):
            live.tell(test, ba.Share(int(rng.binomial(20_000, rates[test.arm, test.metric])), 20_000))
    assert live.answer is not None
    assert (live.answer.state, live.answer.arm) == ("certified", "new")
    status = live.status()
    assert status.tests < 100
    for arm in status.arms:
        for metric in arm.metrics:
            assert metric.trials == 20_000 * metric.tests
            assert metric.mean == pytest.approx(rates[arm.name, metric.metric], abs=0.05)
    assert sum(metric.tests for arm in status.arms for metric in arm.metrics) == status.tests
    errors = sum(metric.tests for arm in status.arms for metric in arm.metrics if metric.metric == "errors")
    assert status.cost == status.tests + 2.0 * errors


def test_compiled_and_interpreted_alike() -> None:
    """Backlogs of 2,000 results and more run compiled."""
    asked, rng = (
        problem(constraints=[ba.at_most("hits", 0.5, noise=ba.Bernoulli())], baseline=None),
        np.random.default_rng(3),
    )
    rows: Told = [
        (arm, metric, ba.Share(int(rng.binomial(50, 0.5)), 50))
        for _ in range(600)
        for arm in ("old", "new")
        for metric in ("crashes", "hits")
    ]
    at_once, one_by_one = study(asked, delta=1e-30), study(asked, delta=1e-30)
    at_once.add(rows)
    for place in range(0, len(rows), 40):
        one_by_one.add(rows[place : place + 40])
        one_by_one.status()
    assert [at_once.done, one_by_one.done] == [False, False]
    assert [getattr(one._decider.policy, "is_compiled", None) for one in (at_once, one_by_one)] == [True, False]
    assert known_of(at_once) == known_of(one_by_one)
    assert at_once.health == one_by_one.health
    assert not at_once.health.void_because
    assert at_once.forecast() is None


def test_a_share_among_the_values_of_one_test() -> None:
    asked = ba.Problem(
        arms=["a", "b"],
        objective=ba.minimize("time", noise=ba.Symmetric()),
        constraints=[ba.at_most("errors", 0.01, noise=ba.Bernoulli())],
        measurements=[ba.measurement("time", "errors")],
    )
    live = study(asked)
    [test, *_] = live.ask(1)
    live.tell(test, {"time": 1.5, "errors": "3 of 105800"})
    live.tell(test, {"time": 1.5, "errors": ba.Share(3, 105800)})
    with pytest.raises(ba.AlreadyTold, match=r"has the result time 1\.5, errors 3/105800 already"):
        live.tell(test, {"time": 1.5, "errors": 0})
    live.correct(test, {"errors": "4/105800"}, "read the wrong line")
    row = live.state[0].metrics[1]
    assert (row.tests, row.trials, row.mean) == (1, 105800, 4 / 105800)
    with pytest.raises(RefusedValue, match="value of 'time' = '3/4': must be a number"):
        live.tell(test, {"time": "3/4", "errors": 0})


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"blocks": ba.Blocks("day", size=4)}, "in blocks, what the trials of a test share is not known"),
        ({"items": 50}, "arms are compared on items, one by one"),
        ({"items": 50, "repeats": True}, "arms are compared on items, one by one"),
    ],
)
def test_what_cannot_be_combined(changes: dict[str, Any], complaint: str) -> None:
    live = study(problem(constraints=[], baseline=None, **changes))
    test = live.ask(1)[0]
    with pytest.raises(RefusedValue) as raised:
        live.tell(test, ba.Share(1, 5))
    assert complaint in str(raised.value)
    with pytest.raises(RefusedValue, match=r"must be 0 or 1$"):
        live.tell(test, 0.5)
    assert live.status().tests == 0


def test_on_items_that_are_drawn_again_a_limit_of_its_own_takes_shares() -> None:
    """Each arm is compared on its own with such a limit, so nothing must be known of single trials."""
    asked = ba.Problem(
        arms=["a", "b"],
        objective=ba.minimize("time", noise=ba.Symmetric()),
        constraints=[ba.at_most("errors", 0.01, noise=ba.Bernoulli())],
        measurements=[ba.measurement("time", "errors")],
        items=1,
        repeats=True,
    )
    live, rng = study(asked), np.random.default_rng(2)
    while not live.done:
        for test in live.ask(2):
            errors = ba.Share(int(rng.binomial(5000, {"a": 0.001, "b": 0.05}[test.arm])), 5000)
            live.tell(test, {"time": {"a": 2.0, "b": 1.0}[test.arm] + rng.normal(0.0, 0.1), "errors": errors})
    assert live.answer is not None
    assert (live.answer.state, live.answer.arm) == ("certified", "a")
    status = live.status()
    assert status.tests < 20
    assert sum(arm.metrics[1].trials or 0 for arm in status.arms) == 5000 * status.tests


def test_functions_and_commands_yield_shares() -> None:
    def measure(arm: str, metric: str) -> ba.Share:
        return ba.Share({"old": 900, "new": 100}[arm], 5000)

    asked = problem(constraints=[], baseline=None)
    answer = ba.identify(asked, measure)
    assert (answer.state, answer.arm, answer.tests) == ("certified", "new", 2)
    live = study(asked)
    for metrics, printed in ((["crashes"], "3/40\n"), (["crashes"], "3 of 40\n"), (["crashes"], '{"crashes": "3/40"}')):
        [test] = live.ask(1)
        live.tell(test, read_output(printed, metrics))
    assert live.status().tests == 3
    assert [metric.mean for arm in live.state for metric in arm.metrics] == pytest.approx([3 / 40] * 2)
    with pytest.raises(RefusedValue, match=r"value of 'size' = Share\(k=1, n=2\): must be a number"):
        study(ba.Problem(["a", "b"], ba.maximize("size", noise=ba.Symmetric()))).add([("a", "size", ba.Share(1, 2))])
    with pytest.raises(ba.MeasurementFailed, match="must be a number"):
        ba.identify(
            ba.Problem(["a", "b"], ba.maximize("size", noise=ba.Symmetric())), lambda arm, metric: ba.Share(1, 2)
        )


def test_files_and_frames() -> None:
    pandas = pytest.importorskip("pandas")
    asked = problem(constraints=[], baseline=None)
    live = study(asked)
    live.add_frame(pandas.DataFrame({"arm": ["old", "new"], "metric": "crashes", "value": ["3/10", "1 of 8"]}))
    live.add([("old", "crashes", ba.Share(0, 5)), ("new", "crashes", 1)])
    as_csv, as_json = io.StringIO(), io.StringIO()
    write_csv(live, as_csv)
    write_json(live, as_json)
    assert [row["value"] for row in csv.DictReader(as_csv.getvalue().splitlines())] == ["3/10", "1/8", "0/5", "1.0"]
    told = [test["outcomes"][0]["value"] for test in json.loads(as_json.getvalue())["tests"]]
    assert told == ["3/10", "1/8", "0/5", 1.0]
    again = study(asked)
    import_results(again, as_csv.getvalue().encode(), "results.csv")
    assert known_of(again) == known_of(live)
    assert live.frame()["value"].tolist() == [0.3, 0.125, 0.0, 1.0]


@pytest.mark.parametrize(("count", "allowed"), lengths((12, 4), (2000, 135)))
def test_errors_are_as_rare_as_stated(count: int, allowed: int) -> None:
    """A rate exactly at its limit, in tests of random sizes, looked at after each: at delta = 0.05, so many studies of
    which more than `allowed` claim that it is below or above have a probability of less than 1 in 1,000."""
    rng, wrong = np.random.default_rng(11), 0
    sizes = rng.integers(1, 400, size=(count, 25))
    successes = rng.binomial(sizes, 0.05)
    asked = ba.Problem(
        arms=["a"],
        objective=ba.maximize("known", noise=ba.Exact()),
        constraints=[ba.at_most("errors", 0.05, noise=ba.Bernoulli())],
    )
    for run in range(count):
        live = study(asked)
        live.add([("a", "known", 1.0)])
        live.add([("a", "errors", ba.Share(int(k), int(n))) for k, n in zip(successes[run], sizes[run], strict=True)])
        wrong += live.done
    assert wrong <= allowed
