"""Parameters of policies: declared by the class, stated by the plan, read by kernels as numbers."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from tests.program import bestarm

import bestarm as ba
from bestarm.extend import KernelPolicy, Kernels, NonNegative, conclude, every_stream, kernel
from bestarm.parsing import read_parameter
from bestarm.simulation.campaign import Campaign
from bestarm.simulation.engine import Job
from bestarm.study.record.decider import Decider


class Memory(NamedTuple):
    rounds: np.ndarray[Any, Any]


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(np.zeros(1, np.int64))


@kernel
def update(setting: Any, streams: Any, memory: Memory, arm: int, metric: int) -> None:
    if arm == 0:
        memory.rounds[0] += 1


@kernel
def propose(setting: Any, streams: Any, memory: Memory, batch: Any) -> int:
    if memory.rounds[0] >= setting.options.rounds * setting.options.factor:
        return conclude(1 if setting.options.answer == 1 else 0)
    return every_stream(streams, batch)


class Fixed(KernelPolicy):
    """Stop after a number of rounds with an answer, both of which are stated."""

    name = "fixed"
    kernels = Kernels(new_memory, update, propose)

    class Options(NamedTuple):
        rounds: int = 5
        factor: NonNegative = 1
        answer: Literal["first", "second"] = "first"
        is_kind: bool = False


class Plain(ba.Policy):
    """The same in plain Python."""

    name = "plain"
    Options = Fixed.Options

    def propose(self) -> list[tuple[int, int]] | ba.Stop:
        if self.streams.counts[0, 0] >= self.options.rounds * self.options.factor:
            return ba.Stop(["first", "second"].index(self.options.answer))
        return [(0, 0), (1, 0)]


PROBLEM = ba.Problem(
    arms=[ba.Arm("a", {"m": 0.0}), ba.Arm("b", {"m": 1.0})], objective=ba.maximize("m", noise=ba.Gaussian(1.0))
)


@pytest.mark.parametrize("policy", [Fixed, Plain])
@pytest.mark.parametrize(
    ("options", "tests", "answer"),
    [({}, 10, "a"), ({"rounds": 3, "answer": "second"}, 6, "b"), ({"factor": 1.5, "is_kind": True}, 16, "a")],
)
def test_every_engine_reads_them(policy: type[ba.Policy], options: dict[str, Any], tests: int, answer: str) -> None:
    result = ba.simulate(PROBLEM, policy=policy, options=options, runs=5)
    assert result.tests.tolist() == [tests] * 5
    assert result.answer_counts == {answer: 5}
    assert result.plan.options == options
    assert ("options" in result.summary()) == bool(options)
    job = Job.of(result.plan, policy, seed=0, max_tests=100)
    assert job.interpret(0, 5).outcomes.tests.tolist() == [tests] * 5
    assert job.new_policy(0).options == Fixed.Options(**options)


def test_the_simulated_card_reads_them() -> None:
    script = (
        "from tests.policies.test_options import PROBLEM, Fixed\n"
        "from bestarm.problem import Plan\n"
        "from bestarm.simulation.engine import Job\n"
        "from bestarm.simulation.cuda.card import CardJob, planned, this_card\n"
        "plan = Plan.of(PROBLEM, policy='fixed', options={'rounds': 3, 'answer': 'second'})\n"
        "job = Job.of(plan, Fixed, seed=0, max_tests=100)\n"
        "chunks = [chunk.outcomes for _, chunk in CardJob(job, planned(job, 3, this_card())).simulate(0, 3)]\n"
        "print(sum((chunk.tests.tolist() + chunk.answers.tolist() for chunk in chunks), []))\n"
    )
    pytest.importorskip("numba_cuda")
    root = Path(__file__).parents[2]
    found = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "NUMBA_ENABLE_CUDASIM": "1"},
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert sorted(eval(found.stdout or "[]")) == [1, 1, 1, 6, 6, 6], found.stderr


@pytest.mark.parametrize(
    ("options", "field", "said"),
    [
        ({"round": 3}, "options.round", "policy 'fixed' has no such option; it has rounds, factor, answer, is_kind"),
        ({"rounds": 2.5}, "options.rounds", "must be a whole number"),
        ({"rounds": True}, "options.rounds", "must be a whole number"),
        ({"rounds": "3"}, "options.rounds", "must be a whole number"),
        ({"factor": -1}, "options.factor", "must not be negative"),
        ({"factor": float("nan")}, "options.factor", "must be a finite number"),
        ({"answer": "third"}, "options.answer", "must be one of 'first' or 'second'"),
        ({"is_kind": 1}, "options.is_kind", "must be true or false"),
        ({"rounds": [3]}, "options.rounds", "must be a number"),
    ],
)
def test_what_is_refused(options: dict[str, Any], field: str, said: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        ba.simulate(PROBLEM, policy=Fixed, options=options, runs=1)
    assert caught.value.field == field
    assert said in str(caught.value)


def test_a_policy_without_options_takes_none() -> None:
    with pytest.raises(ba.InvalidInput, match="policy 'racing' has no such option; it has none"):
        ba.Study.create(PROBLEM, policy="racing", options={"a": 1}, storage=":memory:")


def test_plans_record_them_and_another_policy_does_not_inherit_them() -> None:
    plan = ba.Plan.of(PROBLEM, policy="fixed", options={"rounds": 3, "answer": "second", "factor": 0.5})
    assert ba.Plan.from_toml(plan.to_toml()) == plan
    assert ba.Plan.from_json(plan.to_json()) == plan
    assert "[options]\nrounds = 3\n" in plan.to_toml()
    assert "options" not in ba.Plan.of(PROBLEM).to_data()
    assert ba.Plan.of(plan, delta=0.2).options == plan.options
    assert ba.Plan.of(plan, policy="fixed").options == plan.options
    assert ba.Plan.of(plan, policy="racing").options == {}
    assert ba.simulate(plan, policy="racing", runs=3).plan.options == {}
    own, other = Campaign.grid([plan], policies=[Fixed, "racing"], runs=1).cells
    assert own.plan.options == plan.options
    assert other.plan.options == {}
    assert own.key.endswith('{"rounds": 3, "answer": "second", "factor": 0.5}')


def test_a_live_study_decides_by_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bestarm.study.record.decider.policy_for", lambda plan, policy: Fixed)
    plan = ba.Plan.of(PROBLEM, policy="fixed", options={"rounds": 3})
    assert Decider(plan, 0).policy.options == Fixed.Options(rounds=3)


def test_a_policy_made_by_hand_has_the_defaults() -> None:
    policy = Fixed(ba.extend.new_setting(PROBLEM, 0.1, "paper"), 2, 1)
    assert policy.options == Fixed.Options(factor=1.0)
    assert type(policy.setting.options.factor) is float


def test_command_lines_write_them_as_text() -> None:
    assert [read_parameter(text) for text in ("true", "-3", "1e3", "x=y", "")] == [True, -3, 1000.0, "x=y", ""]


def test_the_command_line_states_them() -> None:
    policy = ("simulate", "exp1-a", "--policy", f"{Path(__file__)}:Plain", "--runs", "2")
    found = bestarm(*policy, "--option", "rounds=2", "--option", "answer=second", "--json")
    assert json.loads(found.out)["options"] == {"rounds": 2, "answer": "second"}, found.err
    for wrong, said in (("rounds", "must be written as NAME=VALUE"), ("rounds=x", "must be a whole number")):
        assert said in bestarm(*policy, "--option", wrong).err
    assert "rounds is given twice" in bestarm(*policy, "--option", "rounds=1", "--option", "rounds=2").err
