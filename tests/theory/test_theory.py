"""Theory: the paper's complexity and bounds against figures by hand, and the edges."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.theory.problems import UNIT, kl, problem_of

import bestarm as ba
from bestarm.cli.simulate import theory as command
from bestarm.theory import analyze
from bestarm.theory.bounds import divergence_bound, lower_bound, upper_bound


@pytest.mark.parametrize(
    ("name", "h", "lower", "time", "measured"),
    [
        # θ of arms 1 to 4 is 16 each, and 3 · 16 for arm 5, which has no feasible rival.
        ("exp1-a", 112.0, 319.7, 224.0, 13_300),
        # Arms 2 to 5 are worse by ¼, ½, ¾ and 1; arm 1 has three gaps of 0.1 and a rival ¼ away.
        ("exp1-b", 16 + 4 + 16 / 9 + 1 + 300 + 16, 967.0, 743.0, 41_900),
        # Arm 1 must be found infeasible; arms 3 to 5 are worse by 0.4, 0.65 and 0.9 and cheapest told so.
        ("exp1-c", 1 / 0.15**2 + 25 + 200 + 1 / 0.81 + 6.25 + 1 / 0.65**2 + 1 / 0.81, 801.0, 597.0, 33_300),
        # By hand: 150 mg has θ = 0.035^-2 + 0.041^-2; 75 and 300 mg are better and have θ = 0.112^-2, 0.11^-2;
        # 25 mg is worse by 0.125, placebo by 0.105 but violates its constraint by only 0.08.
        ("drug", 0.035**-2 + 0.041**-2 + 0.112**-2 + 0.11**-2 + 0.125**-2 + 0.105**-2, 4933.0, 3946.0, 271_000),
    ],
)
def test_figures_of_the_papers_instances(name: str, h: float, lower: float, time: float, measured: float) -> None:
    theory = analyze(ba.instance(name), 0.1)
    assert pytest.approx(h, rel=1e-12) == theory.H
    assert theory.lower_bound == pytest.approx(lower, rel=0.005)
    assert theory.characteristic_time == pytest.approx(time, rel=0.005)
    assert theory.lower_bound < measured < theory.upper_bound
    assert theory.upper_bound == pytest.approx(
        4 * theory.upper_bound_epochs + len(ba.instance(name).arms) * len(ba.instance(name).metrics)
    )
    assert theory.kl_bound == pytest.approx(theory.characteristic_time * 0.8 * math.log(9))


def test_sets_of_the_drug_problem() -> None:
    theory = analyze(ba.instance("drug"), 0.1)
    assert theory.answer == "150 mg"
    assert {arm.name: arm.set for arm in theory.arms} == {
        "25 mg": "W",
        "75 mg": "I",
        "150 mg": "best",
        "300 mg": "I",
        "placebo": "W",
    }
    assert [arm.feasible for arm in theory.arms] == [False, False, True, False, False]
    assert theory.arms[1].phi == math.inf
    assert theory.arms[2].phi == 0.0


@pytest.mark.parametrize("name", ba.instance_names())
def test_bounds_are_in_order_on_every_instance(name: str) -> None:
    theory = analyze(ba.instance(name), 0.1)
    assert 0 < theory.lower_bound <= theory.kl_bound < theory.upper_bound < math.inf
    # The sum of the paper's demands on single arms never asks for more than all demands together.
    assert theory.characteristic_time * (1 + 1e-12) >= 2 * theory.H
    assert theory.allocation.sum() == pytest.approx(1.0)


def iterated(a: float, b: float) -> float:
    return math.log(a * math.log(b))


def test_every_term_of_theorem_2_by_hand() -> None:
    # K = 3 arms, N = 2 constraints: arm 0 is better but infeasible, arm 1 is the answer, arm 2 is feasible and worse.
    problem = problem_of([[0.9, 0.1, 0.8], [0.7, 0.3, 0.4], [0.2, 0.45, 0.25]])
    delta, share = 0.05, 0.05 / 9
    root = share**0.25

    def n(gap: float) -> float:
        return 32 / gap**2 * iterated(91 / gap**2 / root, 95 / gap**2 / root)

    def q(gap: float) -> float:
        return 128 / gap**2 * iterated(368 / gap**2 / root, 384 / gap**2 / root) + share

    bound = upper_bound(problem, delta)
    assert bound.infeasible == pytest.approx(n(0.3))
    phi = 1 / 0.5**2 + 1 / 0.5**2  # of the answer and of arm 2
    assert bound.performance == pytest.approx(292 * phi * math.log(phi / delta))
    assert bound.best == pytest.approx(n(0.2) + n(0.1))
    assert pytest.approx(8 / 0.2**2 + 8 / 0.1**2 + 16) == bound.G1
    # Arm 0's constraints, the larger mean first, are 0.8 and 0.1: gaps 0.3 and 0.4, and 0.7 between them.
    horizon = 2 * math.floor(max(n(0.3), n(0.4)) + 2)
    g = (
        8 / 0.3**2
        + (8 / 0.3**2 + 8 / 0.4**2) * 2 * 9 ** (-1 / 8)
        + (32 * 2 - 22 + 16 * math.log(32 / 0.7**2)) / 0.7**2
        + 8 * math.log(horizon) / 0.7**2
        + share * (n(0.4) + 8 / 0.4**2)
    )
    assert pytest.approx(g) == bound.G2
    in_w = n(0.05) + 8 / 0.05**2 + n(0.25) + 8 / 0.25**2
    assert pytest.approx(delta * (4 * (q(0.2) + q(0.7)) + in_w + 2 * 2 * q(0.5))) == bound.G3
    assert (bound.G4, bound.G5) == (0.0, 0.0)
    parts = bound.infeasible + bound.performance + bound.best + bound.G1 + bound.G2 + bound.G3
    assert bound.epochs == pytest.approx(parts)
    assert bound.tests == pytest.approx(4 * parts + 9)

    # Without a feasible arm: two arms that violate their only constraint, so no gap between constraints exists.
    bound = upper_bound(problem_of([[0.9, 0.8], [0.7, 0.6]]), delta)
    share = delta / 4
    root = share**0.25
    assert bound.infeasible == pytest.approx(n(0.3) + n(0.1))
    assert pytest.approx((8 / 0.3**2 + 8 / 0.1**2) * (1 + 4 ** (-1 / 8))) == bound.G4
    assert pytest.approx(4 * delta * 2 * q(0.2)) == bound.G5
    assert (bound.performance, bound.best, bound.G1, bound.G2, bound.G3) == (0.0, 0.0, 0.0, 0.0, 0.0)
    assert bound.tests == pytest.approx(4 * (bound.infeasible + bound.G4 + bound.G5) + 4)


def test_theorem_2_sees_only_the_scale_of_the_noise() -> None:
    means = [[0.9, 0.8, 0.1], [0.7, 0.3, 0.4]]
    coins = upper_bound(problem_of(means, noises=[ba.Bernoulli()] * 3), 0.1)
    assert coins == upper_bound(problem_of(means, noises=[ba.Gaussian(0.5)] * 3), 0.1)


def test_wide_gaps_do_not_make_theorem_2_negative() -> None:
    bound = upper_bound(problem_of([[900.0, 800.0, -5.0], [7.0, -600.0, -90.0], [-80.0, -70.0, -60.0]]), 0.1)
    assert all(part >= 0.0 for part in (bound.infeasible, bound.performance, bound.best, bound.G1, bound.G2, bound.G3))


def test_one_arm_without_constraints_is_known_already() -> None:
    theory = analyze(problem_of([[0.7]]), 0.1)
    assert theory.answer == "arm 0"
    assert (theory.H, theory.lower_bound, theory.characteristic_time, theory.kl_bound) == (0.0, 0.0, 0.0, 0.0)
    assert theory.upper_bound == 4 * 16 + 1
    assert theory.allocation.tolist() == [[0.0]]


def test_one_arm_with_constraints() -> None:
    theory = analyze(problem_of([[0.7, 0.3, 0.1]], costs=[1.0, 1.0, 3.0]), 0.1)
    assert pytest.approx(25 + 6.25) == theory.H
    assert theory.characteristic_time == pytest.approx(50 + 3 * 12.5)
    assert theory.allocation == pytest.approx(np.array([[0.0, 0.8, 0.2]]))


def test_without_constraints_it_is_best_arm_identification() -> None:
    theory = analyze(problem_of([[0.7], [0.2], [0.5]]), 0.1)
    assert [arm.set for arm in theory.arms] == ["best", "W", "W"]
    assert [arm.theta for arm in theory.arms] == [0.0, 0.0, 0.0]
    assert pytest.approx(25 + 4 + 25) == theory.H


def test_no_feasible_arm() -> None:
    theory = analyze(problem_of([[0.7, 0.9, 0.7], [0.2, 0.3, 0.6]], costs=[1.0, 4.0, 0.5]), 0.1)
    assert theory.answer is None
    assert theory.summary()["answer"] == "none"
    assert [(arm.set, arm.phi) for arm in theory.arms] == [("I", math.inf), ("I", math.inf)]
    assert pytest.approx(1 / 0.4**2 + 1 / 0.1**2) == theory.H
    # Arm 0 is condemned by its cheaper constraint although the other shows more: 0.5 / 0.02 against 4 / 0.08.
    assert theory.characteristic_time == pytest.approx(0.5 / 0.02 + 0.5 / 0.005)
    assert theory.upper_bound < math.inf


def test_rivals_for_the_best_place_tie() -> None:
    theory = analyze(problem_of([[0.7, 0.2], [0.7, 0.3], [0.1, 0.2]]), 0.1)
    assert theory.answer == "arm 0"
    assert [arm.phi for arm in theory.arms[:2]] == [math.inf, math.inf]
    assert [arm.set for arm in theory.arms] == ["best", "W", "W"]
    whole = (theory.H, theory.lower_bound, theory.upper_bound, theory.characteristic_time, theory.kl_bound)
    assert whole == (math.inf,) * 5
    summary = theory.summary()
    assert [summary[key] for key in ("H", "lower_bound", "upper_bound", "characteristic_time", "kl_bound")] == [
        None
    ] * 5
    assert summary["arms"][0]["phi"] is None
    assert summary["allocation"]["arm 2"] == {"metric 0": None, "metric 1": None}
    json.dumps(summary, allow_nan=False)


def test_an_infeasible_arm_may_tie() -> None:
    theory = analyze(problem_of([[0.7, 0.2], [0.7, 0.8]]), 0.1)
    assert [arm.set for arm in theory.arms] == ["best", "I"]
    assert pytest.approx(2 / 0.3**2) == theory.H
    assert theory.characteristic_time == pytest.approx(4 / 0.3**2)
    # Algorithm 1 may have to tell the two apart after an error, which Theorem 2 counts.
    assert theory.upper_bound == math.inf


def test_a_mean_at_its_threshold() -> None:
    better = analyze(problem_of([[0.9, 0.5], [0.7, 0.2]]), 0.1)
    assert better.answer == "arm 1"
    assert not better.arms[0].feasible
    assert (better.H, better.characteristic_time, better.upper_bound) == (math.inf,) * 3
    # A worse arm can still be told by its performance; only Theorem 2 has no bound.
    worse = analyze(problem_of([[0.4, 0.5], [0.7, 0.2]]), 0.1)
    assert worse.arms[0].set == "W"
    assert worse.arms[0].theta == math.inf
    assert pytest.approx(1 / 0.3**2 + 1 / 0.3**2) == worse.H
    assert 2 * worse.H < worse.characteristic_time < math.inf
    assert worse.upper_bound == math.inf
    nobody = analyze(problem_of([[0.4, 0.5]]), 0.1)
    assert nobody.answer is None
    assert (nobody.H, nobody.characteristic_time) == (math.inf, math.inf)


def test_equal_leading_constraints_of_an_infeasible_arm_are_beyond_theorem_2() -> None:
    theory = analyze(problem_of([[0.9, 0.8, 0.8], [0.7, 0.2, 0.2]]), 0.1)
    assert theory.upper_bound == math.inf
    assert theory.characteristic_time < math.inf
    # Of a feasible arm they are not.
    assert analyze(problem_of([[0.9, 0.8, 0.6], [0.7, 0.2, 0.2]]), 0.1).upper_bound < math.inf


@pytest.mark.parametrize("delta", [0.5, 0.7, 0.99])
def test_where_errors_are_allowed_freely_there_is_no_lower_bound(delta: float) -> None:
    for means in ([[0.9], [0.1]], [[0.5], [0.5]]):
        theory = analyze(problem_of(means), delta)
        assert (theory.lower_bound, theory.kl_bound) == (0.0, 0.0)


@given(st.floats(1e-15, 0.499))
def test_the_divergence_bound_improves_on_theorem_1(delta: float) -> None:
    assert divergence_bound(1.0, delta) >= lower_bound(0.5, delta)
    assert divergence_bound(1.0, delta) == pytest.approx(kl(ba.Bernoulli(), 1 - delta, delta))
    assert lower_bound(0.5, delta) == pytest.approx(max(0.0, math.log(1 / (2.4 * delta))))


def test_the_summary() -> None:
    theory = analyze(ba.instance("exp1-a"), 0.1)
    summary = theory.summary()
    keys = ["answer", "H", "lower_bound", "upper_bound", "characteristic_time", "kl_bound", "arms", "allocation"]
    assert list(summary) == [*keys, "not_computed"]
    assert summary["not_computed"] == []
    assert summary["arms"][4] == {
        "name": "arm 5",
        "feasible": True,
        "theta": 48.0,
        "phi": 0.0,
        "set": "best",
        "H": 48.0,
    }
    shares = summary["allocation"]
    assert list(shares) == list(ba.instance("exp1-a").arm_names)
    assert list(shares["arm 1"]) == list(ba.instance("exp1-a").metrics)
    assert shares["arm 1"]["constraint 1"] == pytest.approx(1 / 7)
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary


def test_true_means_and_a_probability_are_needed() -> None:
    with pytest.raises(ba.InvalidInput, match="lacks 'metric 0'"):
        analyze(ba.Problem(arms=(ba.Arm("a"),), objective=ba.maximize("metric 0", noise=UNIT)), 0.1)
    with pytest.raises(ba.InvalidInput, match=r"delta = 1\.5"):
        analyze(problem_of([[1.0]]), 1.5)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("drug", as_json=True)
    assert json.loads(capsys.readouterr().out) == analyze(ba.instance("drug"), 0.1).summary()
    command("drug", 0.01, as_json=True)
    assert json.loads(capsys.readouterr().out) == analyze(ba.instance("drug"), 0.01).summary()
    command("drug")
    printed = capsys.readouterr().out
    assert "4,933" in printed
    assert "150 mg" in printed
    tied = tmp_path / "tied.toml"
    tied.write_text(ba.Plan.of(problem_of([[0.7, 0.2], [0.7, 0.3]])).to_toml(), encoding="utf-8")
    command(str(tied))
    assert "infinite" in capsys.readouterr().out
    with pytest.raises(ba.InvalidInput, match=r"delta = 0\.0"):
        command(str(tied), 0.0, as_json=True)
