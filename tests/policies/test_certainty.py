"""What a study says for certain: in agreement with its certificates, in words that claim no more and no less.

Seeds are fixed; probabilities of failing by chance are those under a random seed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom
from tests.lengths import cases, lengths
from tests.tools.hard import hard_problems

import bestarm as ba
from bestarm.analysis.standing.arms import findings_of, standings
from bestarm.analysis.status.status import Status
from bestarm.analysis.status.words import certain, guarantee, known
from bestarm.answer import Answer
from bestarm.policies import all_policies, find_policy
from bestarm.policies.base import Policy
from bestarm.policies.certify import Certify
from bestarm.policies.findings import Findings
from bestarm.policies.kernels import KernelPolicy
from bestarm.policies.safety import FEASIBLE
from bestarm.policies.setting import new_setting
from bestarm.study.record.conclusion import answer_of

GAUSSIAN = ba.Gaussian(1.0)


def plan_of(
    rows: list[list[float]], *, tolerance: float = 0.0, slack: float = 0.0, noise: Any = GAUSSIAN, delta: float = 0.1
) -> ba.Plan:
    """Each row is an arm: its performance, then the means of its constraints, whose thresholds are 0."""
    metrics = ["p", *(f"c{k}" for k in range(1, len(rows[0])))]
    return ba.Plan(
        arms=tuple(ba.Arm(f"arm {k}", dict(zip(metrics, row, strict=True))) for k, row in enumerate(rows)),
        objective=ba.maximize("p", noise=noise, tolerance=tolerance),
        constraints=tuple(ba.at_most(metric, 0.0, noise=noise, slack=slack) for metric in metrics[1:]),
        delta=delta,
        bound="mixture",
    )


def watched(plan: ba.Plan, kind: type[Policy], seed: int, max_tests: int) -> Iterator[tuple[Policy, Any]]:
    """The policy after each round of a study, and its decision there."""
    shape = len(plan.arms), len(plan.metrics)
    policy = kind(new_setting(plan, plan.delta, plan.bound), *shape, seed=seed)
    if isinstance(policy, KernelPolicy):
        policy.compile()
    rng, means = np.random.default_rng(seed), plan.true_means()
    decision: Any = list(np.ndindex(shape))
    while isinstance(decision, list) and policy.spent[0] < max_tests:
        batch = np.array(decision)
        true = means[batch[:, 0], batch[:, 1]]
        noise = plan.noises[0]
        values = rng.normal(true, noise.unit)
        if not isinstance(noise, ba.Gaussian):
            low, high = noise.range
            values = low + (high - low) * (rng.random(len(true)) < (true - low) / (high - low))
        ends = np.zeros(len(batch), np.int8)
        ends[-1] = 1
        decision = policy.advance(batch, values, ends)
        yield policy, decision


ENDING = {
    "ties and tolerance": plan_of([[0.0, -1.0], [0.0, -1.0], [-0.1, -1.0]], tolerance=0.6),
    "slack": plan_of([[1.0, 0.1], [0.0, -1.5], [0.5, 1.5]], slack=0.6),
    "slack and tolerance": plan_of([[0.0, 0.2, -1.0], [0.0, -0.2, -1.0]], slack=0.7, tolerance=0.7),
    "none": plan_of([[2.0, 1.0], [0.0, 1.2]], slack=0.5),
    "plain": plan_of([[0.0, -1.0], [1.5, -1.0], [3.0, 1.0]]),
}
FOR_EVERY_POLICY = ("plain", "none")
"""The paper's algorithms know neither tolerance nor slack, so they may go on forever on the others."""


def no_contradiction(plan: ba.Plan, policy: Policy, stop: ba.Stop | None) -> Findings:
    """What is shown at one moment must agree with itself and with what decides."""
    found = findings_of(policy, stop)
    rows = standings(plan, policy, found)
    standing = policy.present_answer(stop)
    for arm, row in enumerate(rows):
        verdicts = [metric.verdict for metric in row.metrics]
        if found.candidates[arm]:
            # Without slack a violated constraint takes the arm out, at the end of the round at the latest.
            assert "violated" not in verdicts or not plan.slacks
            assert row.verdict != "infeasible"
        if row.verdict == "infeasible":
            assert found.infeasible[arm]
        if found.feasible[arm]:
            assert all(verdict == "holds" for verdict in verdicts[1:])
    if isinstance(policy, Certify):
        assert standing.confidence <= 1.0 - plan.delta
        if stop is None and not policy.untested:
            assert standing.leader == (None if policy.leader < 0 else policy.leader)
            assert standing.leader is None or found.candidates[standing.leader]
    return found


@cases(10)
@pytest.mark.parametrize(("certify", "others"), lengths((5, 2), (40, 8)))
@pytest.mark.parametrize("problem", ENDING)
@pytest.mark.parametrize("name", sorted(all_policies()))
def test_the_confidence_of_a_certified_answer_is_what_was_promised(
    name: str, problem: str, certify: int, others: int
) -> None:
    """In every study; it was less in 28 of 300 with ties and tolerance, in one of them 0."""
    plan = ENDING[problem]
    always = name == "certify" or problem in FOR_EVERY_POLICY
    most, ended = 3_000 if always else 400, 0
    studies = certify if name == "certify" else others
    for seed in range(studies):
        for looks, (policy, decision) in enumerate(watched(plan, find_policy(name), seed, most)):
            stop = decision if isinstance(decision, ba.Stop) else None
            if stop is None:
                if looks % 16 == 0:
                    no_contradiction(plan, policy, None)
                continue
            ended += 1
            found = no_contradiction(plan, policy, stop)
            answer = answer_of(plan, policy, stop)
            assert answer is not None
            assert answer.confidence >= 1.0 - plan.delta
            assert answer.arm == (None if stop.arm is None else plan.arm_names[stop.arm])
            assert answer.candidates == (() if answer.arm is None else (answer.arm,))
            if answer.arm is None:
                assert found.infeasible.all()
                assert all(reason.startswith("infeasible: ") for reason in answer.reasons.values())
            else:
                assert answer.arm in answer.feasible
                assert answer.reasons[answer.arm] == "feasible: every constraint holds"
        else:
            assert not always or policy.spent[0] < most
    assert not always or ended == studies


@pytest.mark.parametrize("policy", sorted(all_policies()))
def test_a_live_study_shows_one_confidence_everywhere(policy: str) -> None:
    plan = dataclasses.replace(ENDING["plain"], policy=policy)
    study, rng = ba.Study.create(plan, storage=":memory:", seed=3), np.random.default_rng(3)
    means = dict(zip(plan.arm_names, plan.true_means(), strict=True))
    for k in range(10_000):
        status = study.status() if k % 10 == 0 or study.done else None
        if status is not None:
            assert status.confidence == study.confidence
            assert repr(status.arms) == repr(study.state)
        if study.done:
            break
        for test in study.ask(4):
            study.tell(test, float(rng.normal(means[test.arm][plan.metrics.index(test.metric)], 1.0)))
    answer = study.answer
    assert answer is not None
    assert status is not None
    assert (answer.state, answer.arm) == ("certified", "arm 1")
    assert answer.confidence == status.confidence >= 0.9
    assert (answer.candidates, answer.feasible) == (status.candidates, status.feasible)
    assert status.leader == status.answer == answer.arm


def true_statements(plan: ba.Plan, found: Findings) -> bool:
    """Whether what is certain is also true: who is feasible, and that a right answer is among the candidates."""
    means = plan.true_means()
    feasible = [
        all(c.allows(means[arm, k], c.slack) for k, c in enumerate(plan.constraints, start=1))
        for arm in range(len(plan.arms))
    ]
    right = plan.right_answers()
    if any(found.feasible[arm] and not feasible[arm] for arm in range(len(plan.arms))):
        return False
    # "No arm is feasible" is right where none is; then nothing is said of who is left.
    return None in right or any(found.candidates[arm] for arm in right if arm is not None)


HARD = ("barely infeasible", "barely feasible and best", "wrong leader", "slack", "tie with tolerance", "rates near 0")


@cases(4)
@pytest.mark.parametrize(("certify", "others", "chance"), lengths((8, 6, 1e-4), (60, 20, 1e-6)))
@pytest.mark.parametrize("problem", HARD)
@pytest.mark.parametrize("policy", ["certify", "racing", "feasible-lucb"])
def test_what_is_certain_is_true(policy: str, problem: str, certify: int, others: int, chance: float) -> None:
    """Who is feasible and who is left, looked at all along: of studies with delta = 0.2 at most 20% ever say what is
    false. Of those that just held to it, more than `binom.isf(chance)`, 6 of 8, 5 of 6 and 28 of 60, would do so with
    this probability at most."""
    plan = dataclasses.replace(next(p for p in hard_problems() if p.name == problem), delta=0.2, bound="mixture")
    runs = certify if policy == "certify" else others
    false = said = 0
    for seed in range(runs):
        for look, (study, decision) in enumerate(watched(plan, find_policy(policy), seed, 600)):
            if look % 40 and not isinstance(decision, ba.Stop):
                continue
            found = study.findings()
            said += not found.candidates.all() or bool(found.feasible.any())
            if not true_statements(plan, found):
                false += 1
                break
    assert false <= binom.isf(chance, runs, plan.delta)
    assert said or policy != "certify"


def test_an_arm_that_is_beaten_is_out_only_by_an_arm_that_is_known_to_be_feasible() -> None:
    plan = plan_of([[3.0, -1.0], [1.5, -1.0], [0.0, -1.0], [0.0, -1.0]])
    policy = Certify(new_setting(plan, plan.delta, "paper"), 4, 2)
    for arm in range(4):
        for _ in range(40):
            policy.tell(arm, 0, plan.true_means()[arm, 0])
        policy.tell(arm, 1, -0.1)
    assert isinstance(policy.propose(), list)
    assert policy.leader == 0
    assert policy.memory.beaten.tolist() == [-1, 0, 0, 0]
    found = policy.findings()
    assert found.beaten_by.tolist() == [-1, 0, 0, 0]
    assert found.candidates.all()
    assert not found.feasible.any()
    # Arm 1 is certified feasible and once beat arm 2; arm 0, which beats the others, is not.
    policy.memory.certified[1, 1] = 1
    policy.memory.beaten[2] = 1
    assert policy.findings().candidates.tolist() == [True, True, False, True]
    # Now the leader is: all others are out, by it or by an arm that is out.
    policy.memory.certified[0, 1] = 1
    assert policy.findings().candidates.tolist() == [True, False, True, False]
    policy.memory.beaten[2] = 0
    assert policy.findings().candidates.tolist() == [True, False, False, False]
    # Two that beat each other, as they may within a tolerance: neither takes the other out.
    policy.memory.certified[0, 1] = 0
    policy.memory.certified[3, 1] = 1
    policy.memory.beaten[:] = [-1, 3, 0, 1]
    assert policy.findings().candidates.all()


def test_a_verdict_of_the_papers_algorithms_is_kept() -> None:
    """The interval may come back over the threshold; the policy keeps to its verdict, and so does what is shown."""
    plan = plan_of([[0.0, -1.0], [1.0, -1.0]])
    policy = find_policy("racing")(new_setting(plan, plan.delta, "mixture"), 2, 2)
    assert isinstance(policy, KernelPolicy)
    for _ in range(30):
        policy.tell(0, 1, -3.0)
        policy.tell(1, 1, 3.0)
    assert policy.memory.safety.verdict[0] == FEASIBLE
    for _ in range(60):
        policy.tell(0, 1, 1.5)
        policy.tell(1, 1, -1.5)
    assert abs(policy.mean(0, 1)) < 1e-12
    rows = standings(plan, policy)
    assert (rows[0].verdict, rows[0].metrics[1].verdict) == ("feasible", "holds")
    assert rows[1].verdict == "infeasible"
    assert policy.findings().candidates.tolist() == [True, False]


# -------------------------------------------------------------------------------------------------- words


def test_tolerance_and_slack_are_said() -> None:
    plain = Answer("certified", "b", 0.05, 0.95, 10, 10.0)
    assert str(plain) == "b: feasible and best, with 95% confidence, after 10 tests"
    near = dataclasses.replace(plain, tolerance=0.1)
    assert str(near) == "b: feasible and within 0.1 of the best, with 95% confidence, after 10 tests"
    loose = dataclasses.replace(near, slack={"crash": 0.01})
    assert str(loose).startswith("b: feasible within its slack and within 0.1 of the best, with 95% confidence")
    status = Status("s", "certified", "b", "b", 0.95, 10, 10.0, 0, 0, (), 0.1, {"crash": 0.01})
    assert status.headline == "b is feasible within its slack and within 0.1 of the best"
    assert str(dataclasses.replace(plain, delta=1e-12)).startswith("b: feasible and best, with over 99.9999% confid")


def test_a_spent_budget_says_what_is_certain() -> None:
    known = "With 95% confidence the best is prompt 5, 6 or 7; prompt 7 is feasible and at most 0.33 below the best"
    spent = Answer("budget_spent", "prompt 7", 0.05, 0.0, 5000, 5000.0, known=known)
    assert str(spent) == (
        "not certified: the budget is spent after 5,000 tests; prompt 7 leads; with 95% confidence the best is "
        "prompt 5, 6 or 7; prompt 7 is feasible and at most 0.33 below the best"
    )
    nothing = dataclasses.replace(spent, arm=None, known="")
    assert str(nothing).endswith("after 5,000 tests; no arm looks feasible; nothing is certain yet")


ALL = tuple(f"arm {k}" for k in range(12))


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, ""),
        ({"candidates": ALL[:9]}, "With 95% confidence, if any arm is feasible, the best is one of 9 arms"),
        ({"feasible": ("arm 3",)}, "With 95% confidence arm 3 is feasible"),
        ({"feasible": ("arm 2", "arm 3")}, "With 95% confidence arm 2 and 3 are feasible"),
        (
            {"feasible": ALL[:3], "leader": "arm 1"},
            "With 95% confidence arm 1 is feasible; arm 0 and 2 are feasible, too",
        ),
        (
            {"candidates": ALL[:2], "feasible": ("arm 1",), "leader": "arm 1", "regret": 0.0},
            "With 95% confidence the best is arm 0 or 1; arm 1 is feasible and as good as the best",
        ),
        (
            {"candidates": ALL[:1], "feasible": ("arm 1",), "leader": "arm 1", "regret": 1.201, "goal": "minimize"},
            "With 95% confidence the best is arm 0; arm 1 is feasible and at most 1.3 above the best",
        ),
        (
            {"candidates": ALL[:1], "feasible": ("arm 0",), "slack": 0.1, "tolerance": 0.5},
            "With 95% confidence, if any arm is feasible, the best, or one that is as good within 0.5 and within the "
            "slack, is arm 0; arm 0 is feasible within its slack",
        ),
        ({"candidates": ()}, "With 95% confidence no arm is feasible"),
        ({"state": "no_feasible_arm"}, "With 95% confidence no arm is feasible"),
        ({"state": "certified", "leader": "arm 1"}, "With 95% confidence arm 1 is feasible and best"),
        ({"bare": True, "feasible": ALL, "leader": "arm 1"}, ""),
        (
            {"bare": True, "feasible": ALL, "leader": "arm 1", "regret": 0.2},
            "With 95% confidence arm 1 is at most 0.2 below the best",
        ),
        (
            {"bare": True, "candidates": ALL[:2], "feasible": ALL},
            "With 95% confidence the best is arm 0 or 1",
        ),
    ],
)
def test_what_is_known_is_one_sentence(more: dict[str, Any], said: str) -> None:
    goal, slack, tolerance = more.get("goal", "maximize"), more.get("slack", 0.0), more.get("tolerance", 0.0)
    plan = ba.Plan(
        arms=ALL,
        objective=getattr(ba, goal)("p", noise=GAUSSIAN, tolerance=tolerance),
        constraints=() if more.get("bare") else (ba.at_most("c", 0.0, noise=GAUSSIAN, slack=slack),),
    )
    state, leader = more.get("state", "running"), more.get("leader")
    arguments = more.get("candidates", ALL), more.get("feasible", ()), more.get("regret")
    assert known(plan, state, leader, *arguments) == said


def test_the_guarantee_says_what_is_certain() -> None:
    plan = dataclasses.replace(plan_of([[0.0, -1.0]] * 3, tolerance=0.5, slack=0.1), delta=0.05)
    spent = Answer("budget_spent", "arm 0", 0.05, 0.3, 9, 9.0, candidates=("arm 0", "arm 2"), feasible=("arm 0",))
    assert guarantee(plan, spent) == (
        "The budget was spent before the evidence sufficed for an answer. That the arm in the lead is the best "
        "feasible one is not certain. If what the guarantee rests on is true, the procedure errs in at most 5% of "
        "studies like this one: with that reservation, if any arm is feasible, the best one, or one that is as good "
        "within 0.5 and within the slack, "
        "is among arm 0 and 2 (1 of 3 arms is excluded); and arm 0 meets every constraint (within the stated slack)."
    )
    assert certain(plan, dataclasses.replace(spent, candidates=plan.arm_names, feasible=())) == ""
    near = dataclasses.replace(spent, regret_at_most=0.2345)
    assert certain(plan, near).endswith("(within the stated slack); and arm 0 is at most 0.24 below the best.")
    assert guarantee(plan, None).endswith(
        "that answer is wrong with probability at most 5%, if what the guarantee rests on is true."
    )
    status = Status("s", "running", None, "arm 0", 0.3, 9, 9.0, 0, 0, (), 0.5, {}, ("arm 1",), ())
    assert guarantee(plan, None, status).endswith("is among arm 1 (2 of 3 arms are excluded).")


def test_a_live_study_that_spends_its_budget_says_what_is_certain() -> None:
    plan = plan_of([[2.0, -2.0], [1.9, -2.0], [0.0, -2.0], [3.0, 2.0]], delta=0.05)
    plan = dataclasses.replace(plan, budget=ba.Budget(tests=400))
    study, rng = ba.Study.create(plan, storage=":memory:"), np.random.default_rng(1)
    means = dict(zip(plan.arm_names, plan.true_means(), strict=True))
    while tests := study.ask(8):
        for test in tests:
            study.tell(test, float(rng.normal(means[test.arm][plan.metrics.index(test.metric)], 1.0)))
    answer, status = study.answer, study.status()
    assert answer is not None
    assert answer.state == status.state == "budget_spent"
    assert answer.candidates == status.candidates == ("arm 0", "arm 1")
    assert {"arm 0", "arm 1"} >= set(answer.feasible) >= {answer.arm}
    assert answer.known == status.known
    assert answer.known.startswith(f"With 95% confidence the best is arm 0 or 1; {answer.arm} is feasible and at most ")
    assert str(answer).endswith(f"{answer.arm} leads; {answer.known[0].lower()}{answer.known[1:]}")
    assert status.headline.startswith("the budget is spent and no answer is certified; ")
    assert answer.regret_at_most == status.regret_at_most
    assert answer.regret_at_most is not None
    assert 0.0 < answer.regret_at_most < 1.0
    assert {row.kind for row in status.open} == {"rival"}
    assert min(row.share for row in status.open) < status.progress < 1.0
    assert answer.differences == study.differences()
    assert set(study.differences("arm 3")) == {"arm 0", "arm 1", "arm 2"}
    with pytest.raises(ba.InvalidInput, match="arm"):
        study.differences("arm 9")
