"""A policy of another package whose kernels cannot be compiled: simulations say so, and live studies go on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.program import bestarm

import bestarm as ba
from bestarm.extend import KernelPolicy, Kernels, Untranslatable, conclude, every_stream, half_width, kernel
from bestarm.study.forecast.continuations import simulate_continuations

SAID = rf"{__file__}:\d+: the kernel propose cannot be compiled: the call `sum\(memory.rounds\)` is not supported"


class Memory(NamedTuple):
    rounds: Any


def new_memory(arms: int, metrics: int) -> Memory:
    return Memory(np.zeros(1, np.int64))


@kernel
def update(setting: Any, streams: Any, memory: Memory, arm: int, metric: int) -> None:
    if arm == 0:
        memory.rounds[0] += 1


@kernel
def propose(setting: Any, streams: Any, memory: Memory, batch: Any) -> int:
    if sum(memory.rounds) > 1:
        for arm in range(2):
            low = streams.means[arm, 0] - half_width(setting, streams, arm, 0)
            high = streams.means[1 - arm, 0] + half_width(setting, streams, 1 - arm, 0)
            if low >= high:
                return conclude(arm)
    return every_stream(streams, batch)


class EqualShares(KernelPolicy):
    """Test both arms equally often, until one of them is better for certain."""

    name = "equal-shares"
    kernels = Kernels(new_memory, update, propose)


PLAN = ba.Plan.of(
    ba.Problem(
        arms=[ba.Arm("slow", means={"speed": 1.0}), ba.Arm("fast", means={"speed": 2.0})],
        objective=ba.maximize("speed", noise=ba.Gaussian(1.0)),
    ),
    delta=0.1,
    bound="mixture",
)


def test_a_simulation_ends_with_the_place_and_the_remedy() -> None:
    with pytest.raises(Untranslatable, match=SAID):
        ba.simulate(PLAN, policy=EqualShares, runs=1)
    said = bestarm("simulate", "exp1-a", "--policy", f"{__file__}:EqualShares", "--runs", "1")
    assert said.code == 2
    assert "cannot be compiled" in said.err
    assert "write a loop" in " ".join(said.err.split())


def test_a_live_study_goes_on_interpreted(caplog: pytest.LogCaptureFixture) -> None:
    policy = EqualShares(EqualShares.new_setting(PLAN, PLAN.delta, PLAN.bound), 2, 1)
    random = np.random.default_rng(1)
    for _ in range(10):
        for arm in range(2):
            policy.tell(arm, 0, random.normal([1.0, 2.0][arm]))
    for wait in (True, False):
        policy.compile(wait=wait)
        assert not policy.is_compiled
    assert policy.decide() == [(0, 0), (1, 0)]
    outlook = simulate_continuations(PLAN, policy, runs=5)
    assert outlook.answers
    [said] = [record.message for record in caplog.records]
    assert "the kernel propose cannot be compiled" in said
    assert "its decisions are right, and slow" in said
