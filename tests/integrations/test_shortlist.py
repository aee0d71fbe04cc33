"""Which candidates of a tuner are handed over."""

from __future__ import annotations

from typing import Any

import pytest
from tests.integrations.problem import CRASHES, LATENCY, tried

import bestarm as ba
from bestarm.integrations.shortlist import LONGEST_ARM, Tried, arm_name, shortlist, trial_number


class TestShortlist:
    def test_feasible_first_then_the_nearest_misses_then_the_unknown(self) -> None:
        trials = [
            tried(0, 5.0, -1.0),
            tried(1, 3.0, -0.1),
            tried(2, 1.0, 0.5),
            tried(3, 2.0, 0.2),
            Tried(4, {"x": 4}, 0.0, None),
        ]
        found = shortlist(trials, LATENCY, [CRASHES], top=5, constrained=True)
        assert [candidate.trials for candidate in found.candidates] == [(1,), (0,), (3,), (2,), (4,)]
        assert [candidate.looked_feasible for candidate in found.candidates] == [True, True, False, False, False]
        assert shortlist(trials, LATENCY, [CRASHES], top=2, constrained=True).arm_names == found.arm_names[:2]

    def test_the_goal_says_which_values_are_good(self) -> None:
        trials = [tried(0, 5.0), tried(1, 3.0)]
        objective = ba.maximize("throughput", noise=ba.Gaussian(1.0))
        assert shortlist(trials, objective, [], top=1, constrained=False).candidates[0].trials == (0,)
        assert shortlist(trials, LATENCY, [], top=1, constrained=False).candidates[0].trials == (1,)

    def test_equal_parameters_are_one_candidate_judged_by_the_mean(self) -> None:
        trials = [tried(3, 1.0, 0.3, x=1), tried(1, 5.0, -0.5, x=1), tried(2, 2.0, -1.0, x=2)]
        first, second = shortlist(trials, LATENCY, [CRASHES], top=8, constrained=True).candidates
        assert (first.trials, first.value) == ((2,), 2.0)
        assert (second.trials, second.value, second.looked_feasible) == ((1, 3), 3.0, True)

    def test_names_are_unique_readable_and_lead_back(self) -> None:
        nasty = {"kernel": "a\nb\x00 c", "text": "y" * 300, "rate": 1 / 3}
        trials = [Tried(k, nasty | {"k": k}, 1.0, ()) for k in range(12)]
        found = shortlist(trials, LATENCY, [], top=12, constrained=False)
        assert len(set(found.arm_names)) == 12
        assert found.arm_names[0].startswith("trial 0: kernel=a b c, text=yyy")
        assert all(len(name) <= LONGEST_ARM for name in found.arm_names)
        assert [trial_number(name) for name in found.arm_names] == list(range(12))
        assert [found.params(name)["k"] for name in found.arm_names] == list(range(12))
        assert arm_name(7, {}) == "trial 7"

    def test_a_shortlist_is_a_problem_of_its_own_kind_only_here(self) -> None:
        found = shortlist([tried(0, 1.0), tried(1, 2.0)], LATENCY, [CRASHES], top=2, constrained=False)
        plan = ba.Plan.of(found, delta=0.1)
        assert plan == ba.Plan(arms=found.arm_names, objective=LATENCY, constraints=[CRASHES], delta=0.1)

    def test_an_arm_that_is_not_there(self) -> None:
        found = shortlist([tried(0, 1.0)], LATENCY, [], top=2, constrained=False)
        with pytest.raises(ba.InvalidInput, match="arm = 'trial 9': no such arm; the arms are 'trial 0: x=0'"):
            found.params("trial 9")

    @pytest.mark.parametrize("name", ["placebo", "trial x", "trial 3b"])
    def test_a_name_that_is_not_a_candidates(self, name: str) -> None:
        with pytest.raises(ba.InvalidInput, match=f"arm = '{name}': must be the name of a tuner's candidate"):
            trial_number(name)

    @pytest.mark.parametrize("top", [0, -1, 2.0, True, "8", 10**6])
    def test_top_is_a_whole_number(self, top: Any) -> None:
        with pytest.raises(ba.InvalidInput, match=r"top = .*: must be a whole number from 1 to 10,000"):
            shortlist([tried(0, 1.0)], LATENCY, [], top=top, constrained=False)

    def test_values_that_are_not_finite_are_no_candidates(self) -> None:
        with pytest.raises(ba.InvalidInput, match="no finished trial with a finite value"):
            shortlist([tried(0, float("nan")), tried(1, float("inf"))], LATENCY, [], top=1, constrained=False)
