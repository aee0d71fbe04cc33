"""The engine: one source on two engines, and runs that depend on (seed, run) alone."""

from __future__ import annotations

import dataclasses
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import cases, examples

import bestarm as ba
from bestarm.evidence.bounds import bound_names
from bestarm.policies import all_policies
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import simulate
from bestarm.testing.policies import assert_engines_agree


@st.composite
def problems(draw: st.DrawFn) -> ba.Problem:
    """Random problems: 1 to 12 arms, 0 to 4 constraints, every noise, direction, threshold, cost and grouping."""
    arms = draw(st.integers(1, 12))
    parts: list[ba.Objective | ba.Constraint] = []
    for k in range(draw(st.integers(0, 4)) + 1):
        noise = draw(
            st.one_of(
                st.floats(0.1, 3.0).map(ba.Gaussian),
                st.just(ba.Bernoulli()),
                st.just(ba.Bounded(-1.0, 3.0)),
            )
        )
        low, high = (-2.0, 2.0) if isinstance(noise, ba.Gaussian) else noise.range
        cost = draw(st.floats(0.1, 5.0))
        if k == 0:
            make = draw(st.sampled_from([ba.maximize, ba.minimize]))
            parts.append(make("objective", noise=noise, cost=cost))
        else:
            side = draw(st.sampled_from([ba.at_most, ba.at_least]))
            threshold = low + (high - low) * draw(st.floats(0.2, 0.8))
            parts.append(side(f"constraint {k}", threshold, noise=noise, cost=cost))
    fractions = st.floats(0.0, 1.0)
    table = {}
    for arm in range(arms):
        row = {}
        for part in parts:
            low, high = (-2.0, 2.0) if isinstance(part.noise, ba.Gaussian) else part.noise.range
            row[part.metric] = low + (high - low) * draw(fractions)
        table[f"arm {arm}"] = row
    objective, *constraints = parts
    # Some metrics are measured together, at one cost.
    groups = draw(st.lists(st.integers(0, 3), min_size=len(parts), max_size=len(parts)))
    together = [[part for part, group in zip(parts, groups, strict=True) if group == k] for k in (0, 1)]
    joined = {part.metric for group in together if len(group) > 1 for part in group}
    objective, *constraints = (
        dataclasses.replace(part, cost=1.0) if part.metric in joined else part for part in (objective, *constraints)
    )
    return ba.Problem(
        arms=tuple(ba.Arm(name, row) for name, row in table.items()),
        objective=objective,  # type: ignore[arg-type]
        constraints=tuple(constraints),  # type: ignore[arg-type]
        measurements=[
            ba.measurement(*(part.metric for part in group), cost=2.5) for group in together if len(group) > 1
        ],
    )


@cases(3)
@pytest.mark.parametrize("policy", all_policies())
@examples(4, 25)
@given(problem=problems(), bound=st.sampled_from(bound_names()), run=st.integers(0, 2**40))
def test_interpreted_and_compiled_agree_test_by_test(policy: str, problem: ba.Problem, bound: str, run: int) -> None:
    assert_engines_agree(Job(problem, all_policies()[policy], 0.1, bound, seed=3, max_tests=400), run)


@pytest.mark.torture
def test_many_arms_agree_too() -> None:
    """Enough arms for a tournament tree of three levels."""
    rng = np.random.default_rng(1)
    arms = tuple(ba.Arm(f"arm {k}", {"p": float(rng.normal()), "c": float(rng.normal())}) for k in range(150))
    noise = ba.Gaussian(1.0)
    problem = ba.Problem(arms, ba.maximize("p", noise=noise), (ba.at_most("c", 0.0, noise=noise),))
    for policy in all_policies().values():
        assert_engines_agree(Job(problem, policy, 0.1, "mixture", 9, 3_000), run=0)


def _same(one: ba.Simulation, other: ba.Simulation) -> None:
    assert (one.answers == other.answers).all()
    assert (one.tests == other.tests).all()
    assert (one.cost == other.cost).all()
    assert one.tests_per_stream is not None
    assert other.tests_per_stream is not None
    assert (one.tests_per_stream == other.tests_per_stream).all()


def test_workers_chunks_and_executors_do_not_change_results() -> None:
    problem = ba.instance("exp2-k8")
    alone = simulate(problem, runs=60, seed=4, workers=1)
    _same(alone, simulate(problem, runs=60, seed=4, workers=8))
    with ThreadPoolExecutor(3) as threads:
        _same(alone, simulate(problem, runs=60, seed=4, executor=threads))
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as processes:
        _same(alone, simulate(problem, runs=60, seed=4, executor=processes, workers=2))
    job = Job(problem, all_policies()["certify"], 0.1, "paper", 4, 10**9, keep_counts=True)
    backwards = [job.simulate(first, 20).outcomes for first in (40, 20, 0)][::-1]
    assert (np.concatenate([part.tests for part in backwards]) == alone.tests).all()


def test_seeds_and_runs_differ() -> None:
    problem = ba.instance("exp1-a")
    one, other = simulate(problem, runs=50, seed=1), simulate(problem, runs=50, seed=2)
    assert len(set(one.tests)) > 40
    assert (one.tests != other.tests).mean() > 0.9


def test_more_runs_only_append() -> None:
    problem = ba.instance("exp1-a")
    few, many = simulate(problem, runs=7, seed=1), simulate(problem, runs=30, seed=1)
    assert (few.tests == many.tests[:7]).all()


def test_result_as_a_data_frame() -> None:
    result = simulate(ba.instance("drug-bernoulli"), runs=4, seed=1)
    frame = result.frame()
    assert list(frame["answer"]) == ["150 mg"] * 4
    assert list(frame["tests"]) == list(result.tests)
    assert frame.shape == (4, 3 + 5 * 3)
    assert frame[[("150 mg", "efficacy")]].to_numpy().sum() > 0
    streams = frame.drop(columns=["answer", "tests", "cost"])
    assert (streams.sum(axis=1) == frame["tests"]).all()


def test_streams_can_be_left_out() -> None:
    result = simulate(ba.instance("exp1-a"), runs=3, keep_streams=False)
    assert result.tests_per_stream is None
    assert result.frame().shape == (3, 3)


def test_unfinished_runs_are_neither_right_nor_wrong() -> None:
    result = simulate(ba.instance("exp1-c"), runs=5, max_tests=100)
    assert (result.unfinished, result.wrong, result.error_rate) == (5, 0, 0.0)
    assert (result.tests == 100).all()
    assert result.answer_names() == [None] * 5


def test_wrong_answers_are_counted() -> None:
    """A policy that always says arm 1 is wrong on exp1-c, where arm 2 is best."""

    class FirstArm(ba.Policy):
        name = "first-arm"

        def propose(self) -> list[tuple[int, int]] | ba.Stop:
            return ba.Stop(0)

    result = simulate(ba.instance("exp1-c"), policy=FirstArm, runs=3)
    assert (result.wrong, result.error_rate, result.answer_counts) == (3, 1.0, {"arm 1": 3})


def test_tied_best_arms_are_both_right() -> None:
    noise = ba.Gaussian(1.0)
    arms = (ba.Arm("a", {"p": 1.0}), ba.Arm("b", {"p": 1.0}), ba.Arm("c", {"p": 0.0}))
    assert ba.Problem(arms, ba.maximize("p", noise=noise)).right_answers() == (0, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 0}, "runs = 0: must be a whole number from 1"),
        ({"runs": 2.5}, "runs = 2.5: must be a whole number"),
        ({"seed": -1}, "seed = -1: must be a whole number from 0"),
        ({"max_tests": 0}, "max_tests = 0: must be a whole number from 1"),
        ({"delta": 0.0}, "delta = 0.0: must lie strictly between 0 and 1"),
        ({"delta": 1.5}, "delta = 1.5: must lie strictly between 0 and 1"),
        ({"bound": "hoeffding"}, "bound = 'hoeffding': no such confidence bound; there are lil, mixture, paper"),
        ({"policy": "best"}, "policy = 'best': no such policy"),
        ({"workers": -2}, "workers = -2: must be a whole number from 1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ba.InvalidInput) as caught:
        simulate(ba.instance("exp1-a"), **options)  # type: ignore[arg-type]
    assert message in str(caught.value)


def test_missing_means_are_refused_by_name() -> None:
    problem = ba.Problem(arms=["x", "y"], objective=ba.maximize("m", noise=ba.Bernoulli()))
    with pytest.raises(ba.InvalidInput, match=r"arms\[0\].means of 'x' lacks 'm'"):
        simulate(problem)


def test_progress_is_reported_up_to_the_end() -> None:
    seen: list[tuple[int, int]] = []
    result = simulate(ba.instance("exp1-a"), runs=40, progress=lambda runs, tests: seen.append((runs, tests)))
    assert seen[-1] == (40, int(result.tests.sum()))
    assert [runs for runs, _ in seen] == sorted(runs for runs, _ in seen)
