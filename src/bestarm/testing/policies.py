"""What every policy must do. Run each of `POLICY_CHECKS` on your own:

@pytest.mark.parametrize("check", POLICY_CHECKS)
def test_my_policy(check):
    check(MyPolicy)

A check says on standard error when it begins and how long it took; pytest shows that with `-s`.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bestarm.kernel.tournament import NO_ARM
from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.exact import Exact
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop
from bestarm.policies.findings import settled
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.setting import new_setting
from bestarm.problem import Arm, Plan, Problem, at_least, at_most, maximize, minimize
from bestarm.problem.measurements import measurement
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import Simulation, simulate
from bestarm.testing.announcing import announced
from bestarm.testing.replays import assert_replays, new_policy, record_study

PolicyType = type[Policy]

_DELTA = 0.05


def _gaussian_problem(performance: Sequence[float], constraints: Sequence[Sequence[float]]) -> Problem:
    """Wide gaps, so that a few hundred tests decide. Thresholds are 0."""
    metrics = [f"constraint {k}" for k in range(len(constraints[0]))]
    return Problem(
        arms=tuple(
            Arm(f"arm {k}", {"performance": mean, **dict(zip(metrics, row, strict=True))})
            for k, (mean, row) in enumerate(zip(performance, constraints, strict=True))
        ),
        objective=maximize("performance", noise=Gaussian(1.0)),
        constraints=tuple(at_most(metric, 0.0, noise=Gaussian(1.0)) for metric in metrics),
    )


def _answers(policy: PolicyType, problem: Problem, expected: str) -> Simulation:
    """Every one of ten runs must give the expected answer.

    Its guarantee allows a policy to err with probability 0.05 in each. A policy that used all of that would fail here
    with probability 0.4. But with gaps this wide, an error is a sign of a mistake in the policy.
    """
    result = simulate(problem, policy=policy, delta=_DELTA, runs=10, seed=7, max_tests=200_000)
    assert result.unfinished == 0, f"{result.unfinished} of 10 runs did not stop within 200,000 tests"
    assert result.answer_counts == {expected: 10}, f"answers {result.answer_counts}, expected {expected!r}"
    return result


def check_has_a_name(policy: PolicyType) -> None:
    assert isinstance(policy.name, str)
    assert policy.name == policy.name.strip().lower()
    assert policy.__doc__, "a policy says in its docstring what it does and when its guarantee holds"


def check_gives_the_right_answer(policy: PolicyType) -> None:
    """The best of the feasible arms, with several constraints, one or none; "none" if no arm is feasible."""
    for performance, constraints, expected in (
        ([3.0, 2.0, 1.0], [[1.5, -1.5], [-1.5, -1.5], [-1.5, -1.5]], "arm 1"),
        ([0.0, 2.0, 1.0, 3.0], [[-1.5], [-1.5], [1.5], [1.5]], "arm 1"),
        ([2.0, 1.0], [[1.5, -1.5], [-1.5, 1.5]], "none"),
        ([0.0, 2.0, 1.0], [[], [], []], "arm 1"),
        ([0.0], [[-1.5, -1.5]], "arm 0"),
        ([0.0], [[-1.5, 1.5]], "none"),
        ([0.0], [[]], "arm 0"),
    ):
        _answers(policy, _gaussian_problem(performance, constraints), expected)


def check_works_with_every_noise_direction_and_scale(policy: PolicyType) -> None:
    """Minimize, at_least, general thresholds, unequal sigmas and costs, rates and bounded values in one problem; then
    unknown scatter, values that never vary, and a quantile."""
    noises: list[Noise] = [Gaussian(3.0), Bernoulli(), Bounded(-10.0, 30.0)]
    metrics = ("latency", "success", "score")
    means = {"fast": (1.0, 0.2, 25.0), "good": (20.0, 0.9, 25.0), "slow": (40.0, 0.9, 25.0), "poor": (9.0, 0.9, -5.0)}
    problem = Problem(
        arms=tuple(Arm(name, dict(zip(metrics, row, strict=True))) for name, row in means.items()),
        objective=minimize("latency", noise=noises[0]),
        constraints=(
            at_least("success", 0.55, noise=noises[1], cost=3.0),
            at_least("score", 10.0, noise=noises[2], cost=0.5),
        ),
    )
    result = _answers(policy, problem, "good")
    assert result.tests_per_stream is not None
    cost = (result.tests_per_stream * np.array([1.0, 3.0, 0.5])).sum(axis=(1, 2))
    assert np.allclose(result.cost, cost), "the cost of a run is the sum of its tests' costs"
    assert (result.tests_per_stream.sum(axis=(1, 2)) == result.tests).all()
    problem = Problem(
        arms=tuple(
            Arm(name, dict(zip(("time", "size", "latency"), row, strict=True)), spreads={"time": 2.0})
            for name, row in {"best": (5.0, 3.0, 0.1), "slow": (12.0, 2.0, 0.1), "late": (1.0, 3.0, 0.9)}.items()
        ),
        objective=minimize("time", noise=Symmetric()),
        constraints=(at_most("size", 3.0, noise=Exact()), at_most("latency", 200.0, noise=Quantile(0.5))),
    )
    _answers(policy, problem, "best")


def check_works_with_metrics_measured_together(policy: PolicyType) -> None:
    """A test then gives a result to each of them, and counts once."""
    plain = _gaussian_problem([3.0, 2.0, 1.0], [[1.5, -1.5], [-1.5, -1.5], [-1.5, -1.5]])
    for together in (plain.metrics, plain.metrics[:2], plain.metrics[1:]):
        problem = dataclasses.replace(plain, measurements=(measurement(*together, cost=2.0),))
        result = _answers(policy, problem, "arm 1")
        assert result.tests_per_stream is not None
        leads = [bundle[0] for bundle in problem.bundles]
        assert (result.tests_per_stream[:, :, leads].sum(axis=(1, 2)) == result.tests).all()
        for bundle in problem.bundles:
            of_lead = result.tests_per_stream[:, :, bundle[0]]
            assert all((result.tests_per_stream[:, :, part] == of_lead).all() for part in bundle)
        assert_engines_agree(Job(problem, policy, 0.1, "mixture", 3, 500), run=1)


def check_stops_at_the_limit_of_tests(policy: PolicyType) -> None:
    """With two equal arms, an honest policy is still undecided when the limit comes."""
    problem = _gaussian_problem([1.0, 1.0], [[-1.5], [-1.5]])
    result = simulate(problem, policy=policy, delta=1e-6, runs=3, max_tests=500)
    assert result.unfinished == 3
    assert (result.tests == 500).all()
    assert (result.answers == -2).all()
    assert result.answer_counts == {}


def _before_each_decision(policy: PolicyType, problem: Problem) -> Iterator[Policy]:
    """A study that measures what its policy proposes, up to its answer."""
    means, rng = problem.true_means(), np.random.default_rng(3)
    study = policy(new_setting(problem, _DELTA, "mixture"), *means.shape, seed=1)
    for _ in range(10_000):
        yield study
        proposal = study.decide()
        if isinstance(proposal, Stop):
            return
        for arm, metric in proposal:
            study.tell(arm, metric, rng.normal(means[arm, metric], 1.0))
    raise AssertionError("no answer within 10,000 batches")


def check_proposing_twice_gives_the_same(policy: PolicyType) -> None:
    """Asked twice, a policy proposes the same tests, all the way to the answer, and leaves the results alone."""
    for study in _before_each_decision(policy, _gaussian_problem([2.0, 1.0], [[-1.5], [-1.5]])):
        before = pickle.dumps(study.streams)
        proposal = study.propose()
        assert study.propose() == proposal
        assert pickle.dumps(study.streams) == before, "proposing changes the results"
        if isinstance(proposal, Stop):
            assert proposal.arm == 0
        else:
            assert proposal, "a proposal is one test at least; to end, return Stop"
            assert all(arm in (0, 1) and metric in (0, 1) for arm, metric in proposal)


def check_runs_depend_on_seed_and_number_alone(policy: PolicyType) -> None:
    problem = _gaussian_problem([2.0, 1.0], [[-1.5], [-1.5]])
    together = simulate(problem, policy=policy, runs=6, seed=11, max_tests=20_000, workers=2)
    job = Job(problem, policy, 0.05, "paper", 11, 20_000)
    alone = [int(job.simulate(run, 1).outcomes.tests[0]) for run in (5, 0, 3)]
    assert alone == [int(together.tests[run]) for run in (5, 0, 3)]


def check_interpreted_and_compiled_agree(policy: PolicyType) -> None:
    """Test by test: stream, order, value, answer. Policies that are not written as kernels pass unchecked."""
    if not issubclass(policy, KernelPolicy):
        return
    problem = _gaussian_problem([2.0, 1.5, 1.0], [[-0.7, -1.0], [-1.0, 0.8], [-1.0, -1.0]])
    assert_engines_agree(Job(problem, policy, 0.1, "paper", 5, 3_000), run=2)


def check_records_are_replayed(policy: PolicyType) -> None:
    """They end with the first arm, with the last of many, without a feasible arm; or they have not ended: of two equal
    arms, neither is the answer, and the next batch is the decision. Some tests may have no result."""
    last = _gaussian_problem([*[0.0] * 11, 3.0], [[-1.5]] * 12)
    infeasible = _gaussian_problem([2.0 * k for k in range(12)], [[2.0]] * 12)
    equal = _gaussian_problem([1.0, 1.0], [[-1.5], [-1.5]])
    for problem, expected, max_tests, lost in (
        (_gaussian_problem([2.0, 1.0], [[-1.5, -1.5], [-1.5, -1.5]]), Stop(0), 20_000, 0),
        (last, Stop(11), 20_000, 0),
        (last, Stop(11), 20_000, 9),
        (_gaussian_problem([2.0, 1.0], [[1.5, -1.5], [-1.5, 1.5]]), Stop(None), 20_000, 0),
        (infeasible, Stop(None), 20_000, 0),
        (infeasible, Stop(None), 20_000, 9),
        (equal, None, 300, 0),
        (equal, None, 300, 9),
    ):
        job = Job(problem, policy, _DELTA, "mixture", 7, max_tests)
        recorded = record_study(job, lost=lost)
        decided = recorded.decision if isinstance(recorded.decision, Stop) else None
        assert decided == expected, f"decided {decided} within {max_tests} tests, expected {expected}"
        assert_replays(job, recorded)


def check_is_sure_of_its_answer(policy: PolicyType) -> None:
    """What is shown agrees with the answer: the same arm, the promised confidence, and no other arm is left."""
    for problem, answer in (
        (_gaussian_problem([2.0, 1.0, 3.0], [[-1.5], [-1.5], [1.5]]), 0),
        (_gaussian_problem([2.0, 1.0], [[1.5], [1.5]]), None),
    ):
        job = Job(problem, policy, _DELTA, "mixture", 7, 20_000)
        recorded, study = record_study(job), new_policy(job)
        stop = study.advance(recorded.tests, recorded.values, recorded.ends)
        assert stop == Stop(answer)
        assert isinstance(stop, Stop)
        leader, confidence = study.present_answer(stop)
        assert leader == answer
        assert confidence >= 1.0 - _DELTA, f"{confidence} at a certified answer"
        left = settled(study.setting, study.streams.counts, study.findings(), answer).candidates
        assert np.flatnonzero(left).tolist() == ([] if answer is None else [answer])


def check_what_it_says_of_itself_is_consistent(policy: PolicyType) -> None:
    """Intervals, verdicts and reasons agree with each other all the way to the answer."""
    problem = _gaussian_problem([2.0, 1.0, 3.0], [[-1.5, -1.5], [-1.5, -1.5], [1.5, -1.5]])
    for turn, study in enumerate(_before_each_decision(policy, problem)):
        # Looking is slow, and findings change more and more slowly.
        if turn & (turn - 1) == 0:
            assert_findings_agree(study, problem)
    assert_findings_agree(study, problem)


def assert_findings_agree(study: Policy, problem: Problem) -> None:
    """What the policy says about each arm must agree with its own intervals."""
    found, tested = study.findings(), study.streams.counts > 0
    low, high = study.bounds()
    # What was certified to hold stays so, also where the interval has grown since.
    certain = np.where(found.holds, np.minimum(high, study.setting.threshold + study.setting.slack), high)
    assert np.allclose(low, found.low, rtol=0.0, atol=1e-5), "`findings` and `bounds` have the same intervals"
    assert np.allclose(certain, found.high, rtol=0.0, atol=1e-5), "`findings` and `bounds` have the same intervals"
    assert (low <= study.streams.means)[tested].all(), "a mean lies in its interval"
    assert (high >= study.streams.means)[tested].all(), "a mean lies in its interval"
    assert not (found.holds & found.violated).any(), "a constraint is said to hold and to be violated"
    assert not found.holds[:, 0].any(), "the objective is no constraint"
    assert not found.violated[:, 0].any(), "the objective is no constraint"
    assert (low > study.setting.threshold)[found.violated].all(), "a constraint is violated inside its interval"
    assert not (found.infeasible & ~found.excluded).any(), "an infeasible arm can still be the answer"
    assert not (found.infeasible & found.feasible).any()
    for arm in range(study.arms):
        if found.infeasible[arm]:
            assert 1 <= found.worst[arm] < study.metrics, "of an infeasible arm `worst` names a constraint"
        better = found.beaten_by[arm]
        assert better == NO_ARM or 0 <= better < study.arms
        assert better != arm, "an arm is beaten by itself"
        assert better == NO_ARM or not found.infeasible[better], "an arm is beaten by one that is out"
        reason = study.reason(problem, arm, found)
        assert reason is None or (reason.strip() and "\n" not in reason), "a reason is words on one line, or None"


def check_its_note_on_intervals_is_a_sentence(policy: PolicyType) -> None:
    plan = Plan.of(_gaussian_problem([2.0, 1.0], [[-1.5], [-1.5]]), delta=_DELTA)
    for note in (policy.note_on_intervals(plan), policy.note_on_intervals(plan, brief=True)):
        assert note[:1].isupper()
        assert note.endswith(".")
        assert "\n" not in note
    assert "\n" not in policy.remark


def check_what_is_no_number_decides_nothing(policy: PolicyType) -> None:
    """With NaN or infinity in every stream there is no answer, nothing certain and no confidence, whatever follows."""
    problem = _gaussian_problem([2.0, 1.0], [[-1.5], [1.5]])
    means = problem.true_means()
    for nonsense in (np.nan, np.inf, -np.inf):
        study = policy(new_setting(problem, _DELTA, "mixture"), 2, 2, seed=1)
        with np.errstate(all="ignore"):
            for arm, metric in np.ndindex(2, 2):
                study.tell(arm, metric, nonsense)
            for _ in range(100):
                proposal = study.decide()
                assert not isinstance(proposal, Stop), f"answered {proposal.arm} after {nonsense}"
                for arm, metric in proposal:
                    study.tell(arm, metric, float(means[arm, metric]))
            found = study.findings()
            assert found.candidates.all(), f"an arm is excluded after {nonsense}"
            assert not found.feasible.any(), f"an arm is feasible after {nonsense}"
            assert study.present_answer().confidence == 0.0


def assert_engines_agree(job: Job, run: int) -> None:
    """One run of `job` must be the same to the last bit, whether its source is compiled or interpreted."""
    compiled, traced = job.trace(run)
    interpreted, plain = job.interpreted_trace(run)
    assert len(traced.values) == len(plain.values)
    assert (traced.streams == plain.streams).all()
    assert (traced.values == plain.values).all()
    assert compiled.outcomes.answers[0] == interpreted.outcomes.answers[0]
    assert compiled.outcomes.cost[0] == interpreted.outcomes.cost[0]


POLICY_CHECKS: list[Callable[[PolicyType], None]] = announced(globals())
