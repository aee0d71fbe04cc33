"""Values far from 0: a study of values near 10^9 is decided as the same study shifted to 0, test by test.

Values, means and thresholds are multiples of 2^-20 here, so that they can be shifted by 10^9 without rounding.
"""

from __future__ import annotations

import dataclasses
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import cases, lengths

import bestarm as ba
from bestarm.policies import all_policies, find_policy
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import new_setting, references, to_normal, to_user
from bestarm.simulation.engine import Job
from bestarm.storage.base import Entries
from bestarm.study.record.decider import Decider

OFFSET = 1e9
SIGMA = 2.0**-10
GRID = 2.0**-20


def on_grid(value: float) -> float:
    return round(value / GRID) * GRID


def plan_at(offset: float, goal: str, side: str, kind: str, policy: str) -> ba.Plan:
    """Three arms: the best, one that is worse, and one that is better still and not feasible."""
    noise: Any = {
        "gaussian": ba.Gaussian(SIGMA),
        "symmetric": ba.Symmetric(),
        "bounded": ba.Bounded(offset, offset + 1.0),
    }[kind]
    unit = 0.25 if kind == "bounded" else SIGMA
    good, safe = 1.0 if goal == "maximize" else -1.0, -1.0 if side == "at_most" else 1.0
    center = offset + 0.5
    rows = {"best": (0.0, 1.5), "worse": (-1.5, 1.5), "unsafe": (1.5, -1.5)}
    objective = ba.maximize if goal == "maximize" else ba.minimize
    constraint = ba.at_most if side == "at_most" else ba.at_least
    return ba.Plan(
        arms=tuple(
            ba.Arm(name, {"gain": center + good * unit * gain, "harm": center + safe * unit * margin})
            for name, (gain, margin) in rows.items()
        ),
        objective=objective("gain", noise=noise),
        constraints=(constraint("harm", center, noise=noise),),
        policy=policy,
        bound="mixture",
    )


def measured(plan: ba.Plan, test: ba.Test, rng: np.random.Generator) -> float:
    """On the grid, and for bounded values at one of the ends: the hardest, and exact."""
    mean = plan.true_means()[plan.arm_names.index(test.arm), plan.metrics.index(test.metric)]
    low, high = plan.noises[0].range
    if math.isfinite(low):
        return high if rng.random() < mean - low else low
    return on_grid(mean + on_grid(SIGMA * rng.standard_normal()))


ENGINES = ("interpreted", "compiled")


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    most = 0 if request.param == "compiled" else 10**9
    for limit in ("COMPILE_STREAMS", "COMPILE_BACKLOG", "COMPILE_RESULTS"):
        monkeypatch.setattr(f"bestarm.study.record.decider.{limit}", most)
    return str(request.param)


SIDES = {"maximize": "at_most", "minimize": "at_least"}
KINDS = ("gaussian", "symmetric", "bounded")
CASES = [
    (policy, goal, kind)
    for policy in sorted(all_policies())
    for goal in SIDES
    for kind in KINDS
    # Interpreted, the paper's algorithms search every interval of a symmetric metric anew after each test.
    if kind != "symmetric" or policy == "certify"
]


def is_long(policy: str, goal: str, kind: str, engine: str) -> bool:
    """What is bounded takes many more tests, but for certify. Each policy is tried on one engine, certify on both."""
    if policy == "certify":
        return (kind, goal, engine) not in {
            ("gaussian", "minimize", "compiled"),
            ("gaussian", "maximize", "interpreted"),
            ("symmetric", "minimize", "interpreted"),
            ("symmetric", "maximize", "compiled"),
            ("bounded", "maximize", "compiled"),
            ("bounded", "minimize", "interpreted"),
        }
    own = ENGINES[sorted(all_policies()).index(policy) % 2]
    return (kind, goal, engine) != ("gaussian", "minimize", own)


@cases(2)
@pytest.mark.parametrize(
    ("policy", "goal", "kind", "engine"),
    [
        pytest.param(*case, engine, marks=[pytest.mark.torture] if is_long(*case, engine) else [])
        for case in CASES
        for engine in ENGINES
    ],
    indirect=["engine"],
)
def test_a_live_study_far_from_0(policy: str, goal: str, kind: str, engine: str, tmp_path: Path) -> None:
    """And after it has been opened again, half-way and at the end."""
    near, far = (plan_at(offset, goal, SIDES[goal], kind, policy) for offset in (0.0, OFFSET))
    urls = [str(tmp_path / name) for name in ("near.db", "far.db")]
    studies = [ba.Study.create(plan, storage=url) for plan, url in zip((near, far), urls, strict=True)]
    rng, told = np.random.default_rng(3), 0
    while True:
        tests = [study.ask(8) for study in studies]
        assert tests[0] == tests[1]
        if not tests[0]:
            break
        values = [measured(near, test, rng) for test in tests[0]]
        studies[0].tell_many(list(zip(tests[0], values, strict=True)))
        studies[1].tell_many([(test, value + OFFSET) for test, value in zip(tests[1], values, strict=True)])
        told += len(tests[0])
        if told in (40, 80):
            studies = [ba.Study.open("study", storage=url) for url in urls]
    for _ in range(2):
        statuses = [study.status() for study in studies]
        assert (statuses[0].state, statuses[0].answer) == ("certified", "best")
        for name in ("state", "answer", "leader", "confidence", "tests", "candidates", "feasible"):
            assert getattr(statuses[0], name) == getattr(statuses[1], name)
        for one, other in zip(statuses[0].arms, statuses[1].arms, strict=True):
            assert one.verdict == other.verdict
            for a, b in zip(one.metrics, other.metrics, strict=True):
                assert (a.tests, a.verdict) == (b.tests, b.verdict)
                # To the last digit that a number near 10^9 has.
                assert [a.mean, a.low, a.high] == pytest.approx([x - OFFSET for x in (b.mean, b.low, b.high)], abs=2e-7)
        studies = [ba.Study.open("study", storage=url) for url in urls]


SIMULATED = [*lengths(("maximize", "at_least", "gaussian"), ("maximize", "at_least", "bounded"))]
SIMULATED += [*lengths(("minimize", "at_most", "bounded"), ("minimize", "at_most", "gaussian"))]


@pytest.mark.parametrize(("goal", "side", "kind"), SIMULATED)
@pytest.mark.parametrize("policy", sorted(all_policies()))
def test_a_simulation_far_from_0(policy: str, goal: str, side: str, kind: str) -> None:
    near, far = (
        ba.simulate(plan_at(offset, goal, side, kind, policy), runs=10, seed=4, max_tests=100_000)
        for offset in (0.0, OFFSET)
    )
    assert near.answer_counts == {"best": 10}
    assert (near.answers == far.answers).all()
    assert near.tests_per_stream is not None
    assert far.tests_per_stream is not None
    assert (near.tests_per_stream == far.tests_per_stream).all()


@pytest.mark.parametrize("policy", ["certify", "racing"])
def test_what_remains_of_a_study_far_from_0(policy: str) -> None:
    """A forecast continues from statistics that are relative to the study's own reference."""
    found = []
    for offset in (0.0, OFFSET):
        plan = plan_at(offset, "minimize", "at_least", "gaussian", policy)
        study, rng = ba.Study.create(plan, storage=":memory:"), np.random.default_rng(3)
        for _ in range(6):
            for test in study.ask(8):
                study.tell(test, measured(plan, test, rng))
        found.append(study.forecast(runs=40))
    near, far = found
    assert near is not None
    assert far is not None
    assert near.median_tests < 500
    # Means drawn near 10^9 are rounded to its digits, 10^-4 sigmas, which can shift a run by a test or two.
    assert far.median_tests == pytest.approx(near.median_tests, rel=0.1)
    assert far.answers == near.answers


@pytest.mark.parametrize("studies", lengths(50, 200))
def test_a_mean_just_below_a_large_threshold(studies: int) -> None:
    """tau = 10^9 + 0.3, sigma = 10^-3, the mean 0.02 sigma below: when sums held all digits of tau, 120 of 200 erred.

    By the guarantee each study errs with probability 0.05 at most; the errors that are too many, more than 10 of 50 or
    24 of 200, have probability 1e-5 at most.
    """
    tau, sigma, delta = 1e9 + 0.3, 1e-3, 0.05
    plan = ba.Plan(
        arms=("a",),
        objective=ba.maximize("gain", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("harm", tau, noise=ba.Gaussian(sigma)),),
        delta=delta,
    )
    tests = 120_000
    metrics = np.ones(tests, np.int64)
    metrics[0] = 0
    ends = np.ones(tests, np.int8)
    wrong = undecided = 0
    for seed in range(studies):
        decider = Decider(plan, seed)
        values = tau - 0.02 * sigma + sigma * np.random.default_rng(seed).standard_normal(tests)
        arms = np.zeros(tests, np.int64)
        ids, told, arrivals = np.arange(1, tests + 1), np.zeros(tests), np.zeros(tests, np.int64)
        decider.enter(Entries(ids, arms, metrics, values, ends, told, arrivals))
        wrong += decider.stop == Stop(None)
        undecided += decider.stop is None
    assert wrong <= binom.isf(1e-5, studies, delta)
    # The evidence needs about 40,000 tests on average.
    assert undecided <= studies / 20


def test_the_reference_is_the_first_result_of_the_objective_that_enters() -> None:
    """Also if it is not the first of all, and if a test before it was given up."""
    noise = ba.Gaussian(1.0)
    plan = ba.Plan(
        arms=("a", "b"), objective=ba.minimize("p", noise=noise), constraints=(ba.at_least("c", 2e9, noise=noise),)
    )
    study = ba.Study.create(plan, storage=":memory:")
    tests = {(test.arm, test.metric): test for test in study.ask(4)}
    study.tell(tests["b", "p"], 7e9 + 1)  # waits for the first
    study.tell(tests["a", "c"], 2e9 + 3)
    assert study.ask(1)  # planned by what waits
    study.abandon(tests["a", "p"], "the bench broke")
    assert study.status().tests == 2
    policy = study._decider.policy
    assert policy.setting.reference.tolist() == [-7e9 - 1, -2e9]
    assert policy.setting.threshold.tolist() == [0.0, 0.0]
    assert policy.streams.means.tolist() == [[0.0, -3.0], [0.0, 0.0]]
    shown = {arm.name: arm.metrics for arm in study.state}
    assert (shown["b"][0].mean, shown["a"][1].mean) == (7e9 + 1, 2e9 + 3)


def test_normal_form_and_back() -> None:
    plan = plan_at(OFFSET, "minimize", "at_least", "bounded", "certify")
    setting = new_setting(plan, 0.05, "paper", references(plan))
    assert setting.reference.tolist() == [-OFFSET - 1.0] * 2
    assert setting.low.tolist() == [0.0, 0.0]
    assert setting.threshold.tolist() == [0.0, 0.5]
    assert to_normal(plan, setting, 1, OFFSET + 0.25) == 0.75
    metrics = np.array([0, 1, 1])
    values = OFFSET + np.array([0.0, 0.25, 1.0])
    assert to_user(plan, setting, metrics, to_normal(plan, setting, metrics, values)).tolist() == values.tolist()
    # Told by hand, without references: times the sign, and that is all.
    plain = new_setting(plan, 0.05, "paper")
    assert to_normal(plan, plain, 1, 3.0) == -3.0
    assert plain.threshold.tolist() == [0.0, -OFFSET - 0.5]


def test_sums_of_ten_million_results() -> None:
    """Of values a million sigmas from the reference: the sum's error is a hundredth of its standard deviation at most.

    Each of the 10^7 roundings errs by at most half a unit in the last place of 10^13, 2^-10, to either side alike:
    together by 2^-10 sqrt(10^7 / 3) / 2 = 0.9 at most as a standard deviation. The limit is 31 sigmas = 35 of these.
    """
    plan = ba.Plan(arms=("a", "b"), objective=ba.maximize("p", noise=ba.Gaussian(1.0)))
    policy = find_policy("racing")(new_setting(plan, 0.05, "paper"), 2, 1)
    assert isinstance(policy, KernelPolicy)
    policy.compile()
    rng, exact, part = np.random.default_rng(6), 0.0, 10**6
    tests, ends = np.zeros((part, 2), np.int64), np.zeros(part, np.int8)
    for _ in range(10):
        deviations = rng.standard_normal(part)
        values = 1e6 + deviations
        exact += math.fsum(values - 1e6)
        policy.advance(tests, values, ends)
    n = 10**7
    assert policy.streams.counts[0, 0] == n
    assert abs(float(policy.streams.sums[0, 0]) - 1e6 * n - exact) <= 0.01 * math.sqrt(n)


def test_words_show_the_digits_that_matter() -> None:
    plan = dataclasses.replace(plan_at(OFFSET, "maximize", "at_most", "gaussian", "certify"), name="far")
    study, rng = ba.Study.create(plan, storage=":memory:"), np.random.default_rng(1)
    while tests := study.ask(8):
        for test in tests:
            study.tell(test, measured(plan, test, rng))
    answer = study.answer
    assert answer is not None
    reason = answer.reasons["unsafe"]
    assert reason.startswith("infeasible: harm 1000000000.50")
    assert "> 1000000000.5, evidence" in reason
    page = study._repr_html_()
    # The ticks of the chart can be told apart.
    assert {"1000000000", "1000000001"} <= set(re.findall(r'class="tick">([^<]*)<', page))
    assert ">1e+09<" not in page


def test_jobs_are_relative_to_the_first_arm() -> None:
    plan = plan_at(OFFSET, "maximize", "at_most", "gaussian", "certify")
    job = Job.of(plan, find_policy("certify"), seed=1, max_tests=10)
    assert job.setting.reference.tolist() == [OFFSET + 0.5, OFFSET + 0.5]
    assert np.abs(job.nature.mean).max() < 1.0
