"""Every policy, discovered, through the whole conformance suite; and a user's own."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from tests.lengths import cases

import bestarm as ba
from bestarm.policies import all_policies, find_policy
from bestarm.policies.base import Policy
from bestarm.testing.policies import POLICY_CHECKS

Check = Callable[[type[Policy]], None]


class EqualShares(ba.Policy):
    """Test every stream equally often; answer when the intervals leave one answer. A policy in plain Python."""

    name = "equal-shares"

    def propose(self) -> list[tuple[int, int]] | ba.Stop:
        everything = [(arm, metric) for arm in range(self.arms) for metric in range(self.metrics)]
        if self.streams.counts[0, 0] < 2:
            return everything
        threshold = self.setting.threshold
        constraints = range(1, self.metrics)
        possible = [a for a in range(self.arms) if all(self.lower(a, m) < threshold[m] for m in constraints)]
        proven = [a for a in possible if all(self.upper(a, m) < threshold[m] for m in constraints)]
        if not possible:
            return ba.Stop(None)
        for arm in proven:
            if all(self.upper(other, 0) <= self.lower(arm, 0) for other in possible if other != arm):
                return ba.Stop(arm)
        return everything


@cases(30)
@pytest.mark.parametrize("check", POLICY_CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("policy", [*all_policies().values(), EqualShares], ids=lambda policy: policy.name)
def test_conformance(policy: type[Policy], check: Check) -> None:
    check(policy)


def test_all_of_the_papers_policies_are_found() -> None:
    assert {"feasible-lucb", "feasibility-first", "performance-first", "tf-lucb", "racing"} <= set(all_policies())


@pytest.mark.parametrize("policy", all_policies().values(), ids=lambda policy: policy.name)
def test_a_docstring_has_parameters_an_example_and_a_reference(policy: type[Policy]) -> None:
    text = policy.__doc__ or ""
    assert "Parameters\n" in text
    assert ">>> " in text
    assert re.search(r"Reference: .*\b(19|20)\d\d\b", text, flags=re.DOTALL)


def test_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ba.InvalidInput, match=r"policy = 'lucb': no such policy; there are .*feasible-lucb"):
        find_policy("lucb")


def test_the_suite_catches_a_policy_that_guesses() -> None:
    """The checks can fail: an arm picked without a test does not pass."""

    class Guess(ba.Policy):
        """Answers arm 0."""

        name = "guess"

        def propose(self) -> list[tuple[int, int]] | ba.Stop:
            return ba.Stop(0)

    failed = 0
    for check in POLICY_CHECKS:
        try:
            check(Guess)
        except AssertionError:
            failed += 1
    assert failed >= 5


def test_racing_tests_every_stream_of_every_survivor_equally() -> None:
    result = ba.simulate(ba.instance("exp1-a"), policy="racing", runs=5)
    assert result.tests_per_stream is not None
    assert (result.tests_per_stream == result.tests_per_stream[:, :, :1]).all()


def test_performance_first_tests_constraints_of_the_winner_only() -> None:
    """On exp1-b the first winner is feasible, so the other arms' constraints keep their initial test."""
    result = ba.simulate(ba.instance("exp1-b"), policy="performance-first", runs=5)
    assert result.tests_per_stream is not None
    assert (result.tests_per_stream[:, 1:, 1:] == 1).all()


def test_feasibility_first_tests_performance_of_feasible_arms_only() -> None:
    """On exp1-a one arm is feasible, so no performance is tested beyond the initial test."""
    result = ba.simulate(ba.instance("exp1-a"), policy="feasibility-first", runs=5)
    assert result.tests_per_stream is not None
    assert (result.tests_per_stream[:, :, 0] == 1).all()


def test_an_epoch_of_algorithm_1_is_at_most_four_tests() -> None:
    from bestarm.policies.setting import new_setting

    problem = ba.instance("exp1-c")
    study = find_policy("feasible-lucb")(new_setting(problem, 0.1, "paper"), 5, 4)
    first = study.propose()
    assert first == [(arm, metric) for arm in range(5) for metric in range(4)]
    for arm, metric in first:
        study.tell(arm, metric, float(problem.true_means()[arm, metric]))
    epoch = study.propose()
    # The means are the truth, so the leader is arm 0 and, all widths being equal, the challenger arm 1; the
    # constraint most likely violated is the first of arm 0 and, of arm 1, the second.
    assert epoch == [(0, 0), (1, 0), (0, 1), (1, 2)]
