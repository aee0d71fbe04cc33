"""What is shown of a study: right whatever has been tested, the same interpreted and compiled, quick at scale."""

from __future__ import annotations

import dataclasses
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.lengths import cases, examples
from tests.streams import summed_stream
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.analysis.standing.arms import ArmStanding, standings
from bestarm.evidence.intervals import PRECISION, interval_end
from bestarm.evidence.pairs import pair_evidence
from bestarm.kernel.compile import compiled
from bestarm.noises.dispatch import evidence
from bestarm.noises.registry import known_for
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.policies import all_policies, find_policy
from bestarm.policies.base import Policy
from bestarm.policies.certify import Certify
from bestarm.policies.confidence import (
    evidence_for,
    new_intervals,
    present_answer,
    refresh_intervals,
)
from bestarm.policies.findings import Findings
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.leads import lead_at
from bestarm.policies.setting import new_setting

SMALL = ba.Bounded(-0.003, -0.002)
NOISES: list[Any] = [ba.Gaussian(2.0), ba.Bernoulli(), ba.Bounded(-3.0, 5.0)]


def draw(noise: Any, rng: np.random.Generator) -> float:
    if isinstance(noise, ba.Gaussian):
        return float(rng.normal(0.0, noise.sigma))
    low, high = noise.range
    return float(rng.integers(2) if isinstance(noise, ba.Bernoulli) else rng.uniform(low, high))


@st.composite
def plans(draw_one: Any) -> ba.Plan:
    def noise() -> Any:
        return draw_one(st.sampled_from(NOISES))

    objective = draw_one(st.sampled_from([ba.maximize, ba.minimize]))
    sides = [draw_one(st.sampled_from([ba.at_most, ba.at_least])) for _ in range(draw_one(st.integers(0, 3)))]
    return ba.Plan(
        arms=tuple(ba.Arm(f"arm {k}") for k in range(draw_one(st.integers(1, 4)))),
        objective=objective("p", noise=noise()),
        constraints=tuple(side(f"c{k}", 0.5, noise=noise()) for k, side in enumerate(sides)),
    )


def new_policy(plan: ba.Plan, name: str = "certify") -> Policy:
    return find_policy(name)(new_setting(plan, plan.delta, plan.bound), len(plan.arms), len(plan.metrics))


def check(plan: ba.Plan, policy: Policy, rows: list[ArmStanding]) -> None:
    assert [row.name for row in rows] == list(plan.arm_names)
    for arm, row in enumerate(rows):
        assert row.reason
        for k, (part, shown) in enumerate(zip(plan.parts, row.metrics, strict=True)):
            low, high = part.noise.range
            assert shown.tests == policy.streams.counts[arm, k]
            if shown.tests == 0:
                assert math.isnan(shown.mean)
                assert (shown.low, shown.high) == (low, high)
                assert shown.verdict == (None if k == 0 else "open")
            else:
                assert low <= shown.low <= shown.mean <= shown.high <= high
        if not policy.streams.counts[arm].any():
            assert row.verdict == "open"
        if any(m.verdict == "open" for m in row.metrics[1:]) and row.verdict == "feasible":
            # By a certificate that was latched; the interval may have come back since.
            assert isinstance(policy, Certify)


@pytest.mark.parametrize("name", sorted(all_policies()))
@examples(15, 100)
@given(plan=plans(), seed=st.integers(0, 2**32), share=st.floats(0.0, 1.0), tests=st.integers(0, 40))
def test_any_part_of_the_streams_may_be_tested(name: str, plan: ba.Plan, seed: int, share: float, tests: int) -> None:
    policy = new_policy(plan, name)
    rng = np.random.default_rng(seed)
    sign = plan.normal_form().sign
    streams = [test for test in np.ndindex(policy.streams.counts.shape) if rng.random() < share]
    for _ in range(tests if streams else 0):
        arm, metric = streams[int(rng.integers(len(streams)))]
        policy.tell(arm, metric, float(sign[metric]) * draw(plan.noises[metric], rng))
    if not policy.untested:
        policy.propose()
    check(plan, policy, standings(plan, policy))
    leader, confidence = present_answer(policy.setting, policy.streams)
    assert 0.0 <= confidence <= 1.0
    if leader is not None:
        assert (policy.streams.counts[leader] > 0).all()
    if policy.untested and len(plan.arms) > 1:
        assert confidence < 1.0


class Cautious(Policy):
    """Has bounds of its own."""

    name = "cautious"

    def propose(self) -> list[tuple[int, int]]:
        return [(0, 0)]

    def lower(self, arm: int, metric: int) -> float:
        return self.mean(arm, metric) - 7.0

    def upper(self, arm: int, metric: int) -> float:
        return self.mean(arm, metric) + 8.0


def test_a_policys_own_bounds_are_shown() -> None:
    plan = ba.Plan(arms=(ba.Arm("a"), ba.Arm("b")), objective=ba.minimize("p", noise=ba.Gaussian(1.0)))
    policy = Cautious(new_setting(plan, plan.delta, plan.bound), 2, 1)
    policy.tell(0, 0, -2.0)
    (shown,), (untested,) = (row.metrics for row in standings(plan, policy))
    assert (shown.low, shown.mean, shown.high) == (-6.0, 2.0, 9.0)
    assert (untested.low, untested.high) == (-math.inf, math.inf)


class Outspoken(Cautious):
    """Has words of its own for the first arm, and leaves the others to `findings`."""

    def reason(self, problem: ba.Problem, arm: int, found: Findings) -> str | None:
        return f"{problem.arm_names[arm]} is not my favorite" if arm == 0 else None


def test_a_policys_own_reasons_are_shown() -> None:
    plan = ba.Plan(arms=(ba.Arm("a"), ba.Arm("b")), objective=ba.minimize("p", noise=ba.Gaussian(1.0)))
    policy = Outspoken(new_setting(plan, plan.delta, plan.bound), 2, 1)
    assert [row.reason for row in standings(plan, policy)] == ["a is not my favorite", "undecided"]


def test_a_count_beyond_the_dense_table_shows_the_bound_that_decides() -> None:
    plan = ba.instance("exp1-a")
    policy = new_policy(plan, "racing")
    policy.streams.counts[:] = [1, 65_535, 65_536, 10**7 + 3]
    for arm, row in enumerate(standings(plan, policy)):
        for metric, shown in enumerate(row.metrics):
            assert (shown.low, shown.high) == (policy.lower(arm, metric), policy.upper(arm, metric))


streams_of = st.builds(
    lambda noise, n, share, scale: (
        summed_stream(ba.Gaussian(scale), n, n * scale * (40 * share - 20))
        if noise is ba.Gaussian
        else summed_stream(ba.Bounded(-3.0 * scale, -2.0 * scale), n, n * scale * (share - 3.0))
    ),
    st.sampled_from([ba.Gaussian, ba.Bounded]),
    st.integers(1, 10**6),
    st.one_of(st.floats(0.0, 1.0), st.sampled_from([0.0, 1.0, 1e-6])),
    st.sampled_from([1e-3, 1.0, 50.0]),
)


@examples(100, 1000)
@given(s=streams_of, level=st.floats(0.05, 60.0))
def test_the_ends_of_an_interval_are_where_the_evidence_suffices(s: Stream, level: float) -> None:
    low, high = interval_end(s, ABOVE, level), interval_end(s, BELOW, level)
    near = 2 * PRECISION * s.width + 1e-12 * abs(s.total / s.n)
    bottom, top = s.low, s.high
    assert bottom <= low <= s.total / s.n + near
    assert top + near >= high >= s.total / s.n - near
    assert evidence(s, ABOVE, low + near) < level
    assert evidence(s, BELOW, high - near) < level
    # Outside, or the end of the range.
    assert low == bottom or evidence(s, ABOVE, low - near) >= level
    assert high >= top - near or evidence(s, BELOW, high + near) >= level


def ahead_of(s: Stream, n: int, total: float) -> Any:
    """What a stream of the same noise keeps of n results that add up to `total`."""
    return summed_stream(ba.Bounded(s.low, s.high), n, total).kept if s.low > -math.inf else s.kept


@examples(100, 1000)
@example(s=summed_stream(SMALL, 64, -0.128), ahead=1.0, n=8455, level=5.0)  # both at the end of the range
@example(s=summed_stream(SMALL, 2, -0.00400002), ahead=1.0, n=1455, level=5.0)  # one of them
@example(s=summed_stream(SMALL, 3, -0.006), ahead=-1.0, n=5, level=5.0)  # nothing is shown but the range
@given(s=streams_of, ahead=st.floats(-1.0, 1.0), n=st.integers(1, 10**5), level=st.sampled_from([0.1, 5.0, 12.0]))
def test_a_lead_is_what_the_evidence_for_it_allows(s: Stream, ahead: float, n: int, level: float) -> None:
    mean = s.total / s.n
    top, bottom = min(s.high, mean + 3 * s.width), max(s.low, mean - 3 * s.width)
    total = n * (mean + ahead * (top - mean if ahead > 0.0 else mean - bottom))
    first = s._replace(n=n, total=total, kept=ahead_of(s, n, total))
    lead = lead_at(first, s, level, math.inf)
    assert lead == s.low - s.high or pair_evidence(first, s, -lead) >= level
    # A lead that is enough is not looked for any further.
    assert lead_at(first, s, level, lead - 0.1 * s.width) >= lead - 0.1 * s.width
    # Where the evidence is steep, the next larger lead that a double can hold may already have much less of it.
    assert pair_evidence(first, s, -(lead + 1e-5 * s.width)) <= level + 0.02


def large(noise: Any, arms: int = 1000, constraints: int = 9, policy: str = "certify") -> ba.Plan:
    low, width = (0.0, 1.0) if isinstance(noise, ba.Gaussian) else (noise.range[0], np.ptp(noise.range))
    rng = np.random.default_rng(5)
    metrics = [f"c{k}" for k in range(constraints)]
    rows = []
    for arm in range(arms):
        means = rng.uniform(0.1, 0.3, constraints)
        if arm % 2:
            means[rng.integers(constraints)] = rng.uniform(0.7, 0.9)
        performance = rng.uniform(0.2, 0.7) if arm else 0.95
        values = [float(low + width * x) for x in (performance, *means)]
        rows.append(ba.Arm(f"arm {arm}", dict(zip(("p", *metrics), values, strict=True))))
    return ba.Plan(
        name="large",
        arms=tuple(rows),
        objective=ba.maximize("p", noise=noise),
        constraints=tuple(ba.at_most(m, float(low + 0.5 * width), noise=noise) for m in metrics),
        policy=policy,
    )


def advanced(plan: ba.Plan, tests: int, policy: str = "certify") -> Policy:
    """After so many tests or, if it ends before, at the end."""
    study = new_policy(plan, policy)
    if isinstance(study, KernelPolicy) and study.streams.counts.size >= 100:
        study.compile()
    rng, means = np.random.default_rng(1), plan.true_means()
    decision: Any = list(np.ndindex(study.streams.counts.shape))
    while isinstance(decision, list) and study.streams.counts.sum() < tests:
        batch = np.array(decision)
        true = means[batch[:, 0], batch[:, 1]]
        noise = plan.noises[0]
        values = rng.normal(true, 1.0)
        if not isinstance(noise, ba.Gaussian):
            low, high = noise.range
            values = low + (high - low) * (rng.random(len(true)) < (true - low) / (high - low))
        ends = np.zeros(len(batch), np.int8)
        ends[-1] = 1
        decision = study.advance(batch, values, ends)
    return study


@cases(1)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: type(noise).__name__)
def test_compiled_and_interpreted_show_the_same(noise: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = large(noise, arms=40, constraints=4)
    policy = advanced(plan, 10**6)
    assert isinstance(policy, Certify)
    fast, answer = standings(plan, policy), present_answer(policy.setting, policy.streams)
    assert {row.verdict for row in fast} >= {"worse"}
    monkeypatch.setattr("bestarm.policies.confidence.COMPILE_STREAMS", 10**9)
    plain = copy_of(policy)
    slow, plain_answer = standings(plan, plain), present_answer(policy.setting, policy.streams)
    assert answer.leader == plain_answer.leader
    assert answer.confidence == pytest.approx(plain_answer.confidence, abs=1e-9)
    for one, other in zip(fast, slow, strict=True):
        assert (one.verdict, one.reason) == (other.verdict, other.reason)
        for a, b in zip(one.metrics, other.metrics, strict=True):
            assert dataclasses.replace(a, low=0, high=0) == dataclasses.replace(b, low=0, high=0)
            assert (a.low, a.high) == pytest.approx((b.low, b.high), abs=1e-9)


def copy_of(policy: Certify) -> Certify:
    """The same state without what it has computed of intervals."""
    other = Certify(policy.setting, policy.arms, policy.metrics)
    other.streams, other.memory = policy.streams, policy.memory
    return other


def test_intervals_follow_their_streams() -> None:
    plan = ba.instance("exp1-a")
    policy = advanced(plan, 200)
    assert isinstance(policy, Certify)
    standings(plan, policy)
    for arm, metric, value in ((0, 1, 0.3), (4, 0, 0.1), (0, 1, -0.2)):
        policy.tell(arm, metric, value)
        assert standings(plan, policy) == standings(plan, copy_of(policy))


def test_a_small_study_needs_no_compiler() -> None:
    program = (
        "import sys, bestarm as ba\n"
        "study = ba.Study.create(ba.instance('drug-bernoulli'), storage=':memory:')\n"
        "for test in study.ask(30): study.tell(test, 0.0)\n"
        "study.status()\n"
        "assert 'llvmlite' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=PATIENCE)


def test_hopeless_evidence_is_no_confidence() -> None:
    """So far on the wrong side that e to the power of it overflows."""
    plan = ba.Plan(
        arms=(ba.Arm("a"), ba.Arm("b")),
        objective=ba.maximize("p", noise=ba.Bernoulli()),
        constraints=(ba.at_most("c", 0.5, noise=ba.Bernoulli()),),
    )
    policy = new_policy(plan)
    policy.streams.counts[:] = 10**7
    policy.streams.sums[:] = [[9e6, 1e6], [9e6, 1e6]]
    policy.streams.means[:] = policy.streams.sums / policy.streams.counts
    assert present_answer(policy.setting, policy.streams) == (0, 0.0)


def test_kernels_that_refresh_leave_the_rest_alone() -> None:
    plan = ba.instance("exp1-a")
    policy = advanced(plan, 200)
    intervals = new_intervals(5, 4)
    compiled(refresh_intervals, known=known_for(policy.setting))(policy.setting, policy.streams, intervals)
    kept = intervals.low.copy()
    intervals.low[2, 1] = -99.0
    refresh_intervals(policy.setting, policy.streams, intervals)
    assert intervals.low[2, 1] == -99.0
    assert (np.delete(intervals.low.ravel(), 9) == np.delete(kept.ravel(), 9)).all()
    standing = present_answer(policy.setting, policy.streams)
    evidence = evidence_for(policy.setting, policy.streams, [standing.leader or 0])
    assert standing.confidence == pytest.approx(-math.expm1(-max(evidence, 0.0)))


def test_no_mean_is_minus_zero() -> None:
    """Of "at least", the normal form has the other sign."""
    limit = ba.at_least("rate", 0.5, noise=ba.Bernoulli())
    plan = ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)), constraints=[limit])
    study = ba.Study.create(plan, storage=":memory:")
    study.add([("a", "gain", 0.0), ("a", "rate", 0.0)])
    assert [str(metric.mean) for metric in study.state[0].metrics] == ["0.0", "0.0"]
