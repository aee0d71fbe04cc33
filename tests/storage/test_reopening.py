"""A live study that is closed and opened again, in the middle and after its end: it knows what it knew."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from tests.lengths import cases

import bestarm as ba
from bestarm.kernel.compile import kernel
from bestarm.policies import all_policies
from bestarm.policies.decisions import EmptyProposal
from bestarm.policies.kernels import KernelPolicy, Kernels, no_choices
from bestarm.policies.racing import new_memory, update

Measure = Callable[[ba.Test], float]


SIGMA = 0.4
"""So little noise that studies are short."""


def plan_of(rows: Sequence[Sequence[float]], policy: str, budget: ba.Budget | None = None) -> ba.Plan:
    """Each row is an arm: its gain, then the means of its constraints, whose thresholds are 0."""
    noise = ba.Gaussian(SIGMA)
    metrics = ["gain", *(f"risk {k}" for k in range(1, len(rows[0])))]
    return ba.Plan(
        arms=tuple(ba.Arm(f"arm {k}", dict(zip(metrics, row, strict=True))) for k, row in enumerate(rows)),
        objective=ba.maximize("gain", noise=noise),
        constraints=tuple(ba.at_most(metric, 0.0, noise=noise) for metric in metrics[1:]),
        policy=policy,
        bound="mixture",
        budget=budget,
    )


ENDS = {
    "an arm": ([[0.0, -2.0], [3.0, -2.0], [6.0, 2.0]], None, ("certified", "arm 1")),
    "none": ([[4.0, 2.0], [2.0, 3.0], [0.0, 2.0]], None, ("no_feasible_arm", None)),
    "budget": ([[1.0, -2.0], [1.0, -2.0]], ba.Budget(tests=60), ("budget_spent", None)),
}


def measuring(plan: ba.Plan, seed: int = 1) -> Measure:
    rng = np.random.default_rng(seed)
    means = dict(zip(plan.arm_names, plan.true_means(), strict=True))
    return lambda test: float(rng.normal(means[test.arm][plan.metrics.index(test.metric)], SIGMA))


def run(study: ba.Study, measure: Measure, at_most: int = 10**6) -> int:
    """Go on until the study is done or so many results have been told."""
    told = 0
    while told < at_most and (tests := study.ask(2)):
        for test in tests:
            study.tell(test, measure(test))
        told += len(tests)
    return told


ENGINES = ("interpreted", "compiled")


@pytest.fixture
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    most = 0 if request.param == "compiled" else 10**9
    for limit in ("COMPILE_STREAMS", "COMPILE_BACKLOG", "COMPILE_RESULTS"):
        monkeypatch.setattr(f"bestarm.study.record.decider.{limit}", most)
    return str(request.param)


CASES = list(itertools.product(sorted(all_policies()), ENDS, ENGINES))


def is_long(policy: str, end: str, engine: str) -> bool:
    """Both engines run the same source: here each policy has its turn on both, and each end, though not together."""
    turn = sorted(all_policies()).index(policy) + list(ENDS).index(end)
    return engine != ENGINES[turn % 2]


@cases(4)
@pytest.mark.parametrize(
    ("policy", "end", "engine"),
    [pytest.param(*case, marks=[pytest.mark.torture] if is_long(*case) else []) for case in CASES],
    indirect=["engine"],
)
def test_a_study_opened_again_knows_what_it_knew(policy: str, end: str, engine: str, tmp_path: Path) -> None:
    rows, budget, (state, arm) = ENDS[end]
    plan, url = plan_of(rows, policy, budget), str(tmp_path / "study.db")
    whole = ba.Study.create(plan, name="whole", storage=url)
    run(whole, measuring(plan))
    parts = ba.Study.create(plan, name="parts", storage=url)
    measure = measuring(plan)
    # An odd number, in the middle of a round.
    while run(parts, measure, 15):
        parts.storage.close()
        parts = ba.Study.open("parts", storage=url)
    expected = whole.answer
    assert expected is not None
    assert expected.state == state
    if state != "budget_spent":
        assert expected.arm == arm
    for study in (parts, ba.Study.open("parts", storage=url), ba.Study.open("whole", storage=url)):
        assert study.done
        assert study.ask(5) == []
        assert study.status().state == state
        assert study.answer == expected
        decided = study._decider.policy
        assert isinstance(decided, KernelPolicy)
        assert decided.is_compiled == (engine == "compiled")


@pytest.mark.parametrize("policy", ["certify", "racing"])
def test_a_large_study_without_a_feasible_arm_ends(policy: str, tmp_path: Path) -> None:
    """130 arms: so many streams that it is compiled from the start."""
    plan, url = plan_of([[k / 13, 3.0] for k in range(130)], policy), str(tmp_path / "large.db")
    study, measure = ba.Study.create(plan, storage=url), measuring(plan)
    while tests := study.ask(400):
        study.tell_many([(test, measure(test)) for test in tests])
    for again in (study, ba.Study.open(study.name, storage=url)):
        assert again.status().state == "no_feasible_arm"
        answer = again.answer
        assert answer is not None
        assert (answer.state, answer.arm) == ("no_feasible_arm", None)


class Idle(ba.Policy):
    """Has nothing to say after the first round."""

    name = "idle"

    def propose(self) -> list[tuple[int, int]] | ba.Stop:
        return [] if self.streams.counts.any() else [(arm, 0) for arm in range(self.arms)]


@kernel
def propose_nothing(setting: object, streams: object, memory: object, batch: object) -> int:
    return 0


class IdleKernel(KernelPolicy):
    """The same, compiled."""

    name = "idle-kernel"
    kernels = Kernels(new_memory, update, propose_nothing, no_choices)


@pytest.mark.parametrize("policy", [Idle, IdleKernel])
def test_an_empty_batch_is_a_mistake_and_no_answer(policy: type[ba.Policy]) -> None:
    problem = plan_of([[0.0], [1.0]], "certify")
    with pytest.raises(EmptyProposal, match=f"policy '{policy.name}' proposed an empty batch: it must propose one"):
        ba.simulate(problem, policy=policy, runs=2)


@pytest.mark.parametrize("engine", ENGINES, indirect=True)
def test_an_empty_batch_is_a_mistake_in_a_live_study(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestarm.study.record.decider.policy_for", lambda _problem, _name: IdleKernel)
    plan = plan_of([[0.0], [1.0]], "certify")
    study = ba.Study.create(plan, storage=":memory:")
    study.tell_many([(test, 0.0) for test in study.ask(2)])
    with pytest.raises(EmptyProposal, match="proposed an empty batch"):
        study.ask(2)
