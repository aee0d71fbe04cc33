"""Streams at the ends of the floating range, and what is no number, decide nothing wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.lengths import cases, first
from tests.streams import summed_stream

import bestarm as ba
from bestarm.analysis.standing.arms import standings
from bestarm.evidence.claims import suffices
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.pairs import pair_evidence
from bestarm.kernel.compile import compiled, kernel
from bestarm.noises.dispatch import evidence
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.policies import all_policies, find_policy
from bestarm.policies.base import Policy
from bestarm.policies.confidence import present_answer
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import new_setting

NONSENSE = (math.nan, math.inf, -math.inf)


class EqualShares(ba.Policy):
    """A policy in plain Python, as in the guide for contributors."""

    name = "equal-shares"

    def propose(self) -> list[tuple[int, int]] | ba.Stop:
        constraints = range(1, self.metrics)
        everything = [(arm, metric) for arm in range(self.arms) for metric in range(self.metrics)]
        if self.streams.counts[0, 0] < 2:
            return everything
        limit = self.setting.threshold
        possible = [a for a in range(self.arms) if all(self.lower(a, m) < limit[m] for m in constraints)]
        if not possible:
            return ba.Stop(None)
        for arm in possible:
            feasible = all(self.upper(arm, m) < limit[m] for m in constraints)
            if feasible and all(self.upper(b, 0) <= self.lower(arm, 0) for b in possible if b != arm):
                return ba.Stop(arm)
        return everything


POLICIES = [*all_policies().values(), EqualShares]
ENGINES = [(policy, engine) for policy in POLICIES for engine in ("interpreted", "compiled")]
ENGINES.remove((EqualShares, "compiled"))


def three_arms(noise: Any, threshold: float, slack: float = 0.0) -> ba.Plan:
    return ba.Plan(
        arms=("a", "b", "c"),
        objective=ba.maximize("p", noise=noise),
        constraints=tuple(ba.at_most(f"c{k}", threshold, noise=noise, slack=slack) for k in (1, 2)),
        bound="mixture",
    )


def going_on(policy: Policy, engine: str, value: Callable[[int, int], float], rounds: int = 300) -> Stop | None:
    """Tell the tests that the policy proposes these values, for so many rounds or until it stops."""
    if engine == "compiled":
        assert isinstance(policy, KernelPolicy)
        policy.compile()
    decision: Any = policy.propose()
    for _ in range(rounds):
        if isinstance(decision, Stop):
            return decision
        ends = np.zeros(len(decision), np.int8)
        ends[-1] = 1
        decision = policy.advance(np.array(decision), np.array([value(*test) for test in decision]), ends)
    return None


@cases(20)
@pytest.mark.parametrize(
    "noise", first(2, [ba.Gaussian(1.0), ba.Symmetric(), ba.Bounded(-4.0, 4.0), ba.Exact()]), ids=repr
)
@pytest.mark.parametrize("nonsense", [*((x,) for x in NONSENSE), (math.inf, -math.inf)], ids=str)
@pytest.mark.parametrize(("kind", "engine"), ENGINES)
def test_what_is_no_number_closes_nothing(kind: type[Policy], engine: str, nonsense: Any, noise: Any) -> None:
    """In every stream, before results that would decide everything."""
    plan = three_arms(noise, 0.0)
    policy = kind(new_setting(plan, 0.05, "mixture"), 3, 3)
    with np.errstate(all="ignore"):
        for arm, metric in np.ndindex(3, 3):
            for value in nonsense:
                policy.tell(arm, metric, value)
        assert going_on(policy, engine, lambda arm, metric: 3.0 - arm if metric == 0 else (-3.5, 3.5)[arm > 1]) is None
        found = policy.findings()
        rows = standings(plan, policy)
        assert policy.present_answer().confidence == 0.0
    for known in (found.holds, found.violated, found.infeasible, found.excluded, found.feasible):
        assert not known.any()
    assert found.candidates.all()
    assert {row.verdict for row in rows} == {"open"}
    for row in rows:
        for metric, (low, high) in zip(row.metrics, [part.noise.range for part in plan.parts], strict=True):
            assert (metric.low, metric.high) == (low, high)


@cases(20)
@pytest.mark.parametrize("where", [(0, 0), (0, 1), (1, 0)], ids=str)
@pytest.mark.parametrize("nonsense", NONSENSE, ids=str)
@pytest.mark.parametrize(("kind", "engine"), ENGINES)
def test_one_stream_that_is_no_number_keeps_the_answer_open(
    kind: type[Policy], engine: str, nonsense: float, where: tuple[int, int]
) -> None:
    """Performance of a feasible arm, or a constraint of the one that is best: without it nothing can be certain."""
    plan = three_arms(ba.Gaussian(1.0), 0.0)
    policy = kind(new_setting(plan, 0.05, "mixture"), 3, 3)
    with np.errstate(all="ignore"):
        for arm, metric in np.ndindex(3, 3):
            policy.tell(arm, metric, nonsense if (arm, metric) == where else -1.0)
        assert going_on(policy, engine, lambda arm, metric: 6.0 - 3.0 * arm if metric == 0 else -3.5) is None
        found = policy.findings()
    assert found.candidates[where[0]]
    assert not found.infeasible.any()
    if where[1]:
        assert not found.holds[where]


@kernel
def compare(high: Stream, low: Stream, margin: float) -> float:
    return pair_evidence(high, low, margin)


@kernel
def find_end(s: Stream, side: int, level: float) -> float:
    return interval_end(s, side, level)


@pytest.mark.parametrize("nonsense", NONSENSE, ids=str)
@pytest.mark.parametrize("noise", [ba.Gaussian(1.0), ba.Bounded(0.0, 1.0)], ids=repr)
@pytest.mark.parametrize("engine", ["interpreted", "compiled"])
def test_evidence_from_what_is_no_number_does_not_suffice(engine: str, noise: Any, nonsense: float) -> None:
    with np.errstate(all="ignore"):
        sound, broken = summed_stream(noise, 50, 25.0), summed_stream(noise, 50, nonsense)
    kernels: list[Any] = [compare, suffices, find_end]
    between, enough, end = map(compiled, kernels) if engine == "compiled" else kernels
    with np.errstate(all="ignore"):
        for pair in ((sound, broken), (broken, sound), (broken, broken)):
            assert not enough(between(*pair, 0.0), -1e300)
        assert tuple(end(broken, side, 3.0) for side in (ABOVE, BELOW)) == noise.range
    assert not enough(math.nan, 1.0)
    assert not enough(math.inf, 1.0)
    assert enough(1.0, 1.0)


def test_confidence_is_not_raised_by_what_is_no_number() -> None:
    plan = three_arms(ba.Gaussian(1.0), 0.0)
    policy = find_policy("racing")(new_setting(plan, 0.05, "paper"), 3, 3)
    policy.streams.counts[:] = 100
    policy.streams.means[:] = [[2.0, -2.0, -2.0], [0.0, -2.0, -2.0], [-2.0, 2.0, 2.0]]
    policy.streams.sums[:] = 100 * policy.streams.means
    assert present_answer(policy.setting, policy.streams).confidence > 0.999
    for where in ((1, 0), (0, 1), (0, 0)):
        for nonsense in NONSENSE:
            before = policy.streams.sums[where]
            policy.streams.sums[where] = nonsense
            with np.errstate(all="ignore"):
                assert present_answer(policy.setting, policy.streams).confidence == 0.0
            policy.streams.sums[where] = before


def test_a_lead_far_beyond_the_width_of_an_interval() -> None:
    """An interval that rounds to a point must not beat itself: the answer was "no arm is feasible"."""
    noise, far = ba.Gaussian(1e-12), 1e9
    plan = ba.Plan(
        arms=(ba.Arm("a", {"p": 0.0, "c": -1.0}), ba.Arm("b", {"p": far, "c": -1.0})),
        objective=ba.maximize("p", noise=noise),
        constraints=(ba.at_most("c", 0.0, noise=noise),),
    )
    for policy in all_policies():
        assert ba.simulate(plan, policy=policy, runs=5, max_tests=10_000).answer_counts == {"b": 5}


def told(kind: type[Policy], engine: str, plan: ba.Plan, rounds: list[list[float]]) -> Stop | None:
    """What the policy says after every stream, in order, has been told a round's values, and then the next round's."""
    arms, metrics = len(plan.arms), len(plan.metrics)
    policy = kind(new_setting(plan, 0.05, "mixture"), arms, metrics)
    if engine == "compiled":
        assert isinstance(policy, KernelPolicy)
        policy.compile()
    decision: Any = None
    tests = np.array(list(np.ndindex(arms, metrics)))
    ends = np.zeros(len(tests), np.int8)
    ends[-1] = 1
    for values in rounds:
        decision = policy.advance(tests, np.array(values), ends)
    return decision if isinstance(decision, Stop) else None


@pytest.mark.parametrize(("kind", "engine"), ENGINES)
def test_results_that_contradict_one_another_do_not_make_arms_infeasible(kind: type[Policy], engine: str) -> None:
    """Without constraints every arm is feasible, whatever the values: an eliminated arm must not beat the last one."""
    plan = ba.Plan(arms=("a", "b", "c"), objective=ba.maximize("p", noise=ba.Gaussian(1.0)), bound="mixture")
    rng = np.random.default_rng(4)
    for scale in (1.0, 1e3, 1e12, 1e17):
        for _ in range(40):
            policy = kind(new_setting(plan, 0.05, "mixture"), 3, 1)
            stop = going_on(policy, engine, lambda *_: float(rng.choice([-1.0, 0.0, 1.0])) * scale, rounds=12)  # noqa: B023
            assert stop is None or stop.arm is not None


@pytest.mark.parametrize(("kind", "engine"), ENGINES)
def test_intervals_that_round_to_a_point_decide_nothing(kind: type[Policy], engine: str) -> None:
    """Two arms that are alike, 10^17 sigmas from the reference, and one that is worse: one of the two is not better."""
    plan = ba.Plan(arms=("a", "b", "c"), objective=ba.maximize("p", noise=ba.Gaussian(1.0)), bound="mixture")
    assert told(kind, engine, plan, [[1e17, 1e17, -1e17]] * 3) is None
    # A lead that is no more than the rounding of the sums is none.
    assert told(kind, engine, plan, [[1e17, 1e17, -1e17]] * 40 + [[1e17 + 16.0, 1e17, -1e17]]) is None
    # One that is more decides.
    assert told(kind, engine, plan, [[1e17, 1e17 + 1e6, -1e17]] * 3) == Stop(1)


@pytest.mark.parametrize(("kind", "engine"), ENGINES)
def test_a_constraint_on_its_threshold_by_rounding_is_not_decided(kind: type[Policy], engine: str) -> None:
    """Told by hand, without references, 10^17 sigmas from 0."""
    plan = ba.Plan(
        arms=("a",),
        objective=ba.maximize("p", noise=ba.Gaussian(1.0)),
        constraints=(ba.at_most("c", 1e17, noise=ba.Gaussian(1.0)),),
        bound="mixture",
    )
    for apart in (16.0, -16.0):
        assert told(kind, engine, plan, [[0.0, 1e17]] * 40 + [[0.0, 1e17 + apart]]) is None
    assert told(kind, engine, plan, [[0.0, 1e17 + 1e6]] * 3) == Stop(None)
    assert told(kind, engine, plan, [[0.0, 1e17 - 1e6]] * 3) == Stop(0)


def test_a_sum_that_is_off_by_rounding_is_no_evidence() -> None:
    total = float(np.nextafter(100 * 1e17, math.inf))
    noise = ba.Gaussian(1.0)
    found = evidence(summed_stream(noise, 100, total), ABOVE, 1e17)
    assert found == evidence(summed_stream(noise, 100, 0.0), ABOVE, 0.0)
    assert evidence(summed_stream(noise, 100, 1.001 * total), ABOVE, 1e17) > 1e3
