"""A policy that is asked twice proposes the same tests."""

from __future__ import annotations

import numpy as np

from bestarm.kernel.state import Floats
from bestarm.policies.base import Policy
from bestarm.policies.decisions import Stop


def assert_same_when_asked_twice(policy: Policy, means: Floats, rounds: int) -> None:
    """Tell a policy results around `means`, in normal form, with a standard deviation of 1, until it stops."""
    noise = np.random.default_rng(1)
    for _ in range(rounds):
        decision = policy.decide()
        assert policy.decide() == decision
        if isinstance(decision, Stop):
            break
        for arm, metric in decision:
            policy.tell(arm, metric, noise.normal(means[arm, metric]))
