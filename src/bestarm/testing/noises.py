"""What every noise must do. Run each of `NOISE_CHECKS` on your own, with a mean that its streams can have:

@pytest.mark.parametrize("check", NOISE_CHECKS)
def test_my_noise(check):
    check(MyNoise(3.0), 0.4)

A check says on standard error when it begins and how long it took; pytest shows that with `-s`. Checks of
probabilities are seeded. A noise that only just keeps its promise fails one with probability 1e-6 at most.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.evidence.intervals import PRECISION, interval_end
from bestarm.evidence.pairs import pair_evidence, product, scaled_range
from bestarm.noises.base import NoiseModel
from bestarm.noises.dispatch import ceiling, evidence, evidence_and_slope
from bestarm.noises.streams import ABOVE, Stream
from bestarm.policies import find_policy
from bestarm.policies.setting import new_setting, references
from bestarm.problem import Arm, Objective, Plan, Problem, at_least, at_most
from bestarm.simulation.device import why_no_card
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import simulate
from bestarm.testing import error_rates
from bestarm.testing.announcing import announced
from bestarm.testing.error_rates import SIDES
from bestarm.testing.noise_streams import drawn, points_around, problem_with, spread_of, stream_of_values
from bestarm.testing.policies import assert_engines_agree
from bestarm.testing.replays import assert_replays, record_study

Check = Callable[[NoiseModel, float], None]


# -------------------------------------------------------------------------------------------- what it says about itself


def check_states_itself(noise: NoiseModel, mean: float) -> None:
    fields = [field.name for field in dataclasses.fields(noise)]  # type: ignore[arg-type]
    assert list(noise.stated) == fields, "`stated` must name its fields, in order"
    assert all([noise.name, noise.label, noise.about.endswith(".")]), "a name, a label and a sentence for forms"
    assert noise.sentence().rstrip(".") == noise.sentence() != "", "words to follow the metric's name, without a period"
    assert noise.scale is None or 0.0 < noise.scale < math.inf
    low, high = noise.range
    assert low < mean < high, "the checks need a mean inside the range"
    assert [number["name"] for number in noise.choice()["numbers"]] == fields


def check_file_round_trip(noise: NoiseModel, mean: float) -> None:
    """A noise that study files can name is read as it is written."""
    plan = Plan(arms=("a", "b"), objective=Objective("m", "maximize", noise))
    assert Plan.from_toml(plan.to_toml()) == plan
    assert Plan.from_json(plan.to_json()) == plan
    assert plan.to_data()["objective"]["noise"] == noise.file_form()


def check_values_outside_are_refused(noise: NoiseModel, mean: float) -> None:
    low, high = noise.range
    for number in (low, high):
        if math.isfinite(number):
            noise.check_value(number)
    outside = [low - 1.0, high + 1.0, *([math.floor(mean) + 0.5] if noise.is_whole else [])]
    for number in filter(math.isfinite, outside):
        refused = ""
        try:
            noise.check_value(number)
        except ValueError as error:
            refused = str(error)
        assert refused == noise.accepted_values(), f"{number} lies outside {noise.range} and was accepted"


def check_items(noise: NoiseModel, mean: float) -> None:
    """It says why it is not for studies with items, or which noise is for a set of them and for differences."""
    for repeats in (False, True):
        refused = noise.refuses_items(repeats=repeats)
        if refused is not None:
            assert refused.rstrip(".") == refused != "", "words to follow the metric's name, without a period"
            continue
        (low, high), (least, most) = noise.range, noise.differences().range
        assert least <= low - high
        assert high - low <= most, "differences of two values lie in their range"
        if not repeats:
            for one in (noise, noise.differences()):
                assert one.of_set(9).range == one.range


# ------------------------------------------------------------------------------------------------------- the evidence


def _streams(noise: NoiseModel, mean: float) -> list[Stream]:
    return [stream_of_values(noise, drawn(noise, mean, n, seed=n)) for n in (1, 2, 10, 300)]


def is_convex(noise: NoiseModel) -> bool:
    """Whether the noise's log-evidence is convex in c; else it brings kernels of its own to compare arms."""
    return noise.kernels.evidence_and_slope is not None


def check_monotone_and_convex(noise: NoiseModel, mean: float) -> None:
    """The log-evidence falls with c on the side `ABOVE`, rises on the side `BELOW`, and is convex in c. The comparison
    of arms rests on that, unless the noise has a `pair` and an `end` of its own."""
    if not is_convex(noise):
        assert noise.kernels.pair is not None
        assert noise.kernels.end is not None
        return
    for s in _streams(noise, mean):
        points = points_around(s)
        for side in SIDES:
            found = np.array([evidence(s, side, c) for c in points])
            tolerance = 1e-9 * (1.0 + np.abs(found).max())
            assert (side * np.diff(found) <= tolerance).all(), f"not monotone in c on side {side} after {s.n} results"
            assert (np.diff(found, 2) >= -tolerance).all(), f"not convex in c on side {side} after {s.n} results"


def check_slopes_are_derivatives(noise: NoiseModel, mean: float) -> None:
    if not is_convex(noise):
        return
    for s in _streams(noise, mean):
        points = points_around(s)
        step = 1e-6 * float(points[1] - points[0])
        for side, c in itertools.product(SIDES, points.tolist()):
            here, slope = evidence_and_slope(s, side, c)
            derivative = (evidence(s, side, c + step) - evidence(s, side, c - step)) / (2.0 * step)
            assert abs(here - evidence(s, side, c)) <= 1e-9 * (1.0 + abs(here))
            assert abs(slope - derivative) * s.width <= 1e-3 * (1.0 + abs(derivative) * s.width), (s.n, side, c)


def check_mirrored(noise: NoiseModel, mean: float) -> None:
    """Evidence below c equals that of minus the values above minus c: only how users state it differs."""
    for n in (1, 30):
        values = drawn(noise, mean, n, seed=n)
        s, mirrored = stream_of_values(noise, values), stream_of_values(noise, values, sign=-1.0)
        for side, c in itertools.product(SIDES, points_around(s).tolist()):
            plain, other = evidence(s, side, c), evidence(mirrored, -side, -c)
            assert abs(plain - other) <= 1e-9 * (1.0 + abs(plain)), f"side {side} of {c}: {plain} and {other}"


def check_ceilings(noise: NoiseModel, mean: float) -> None:
    """A ceiling is never below the evidence."""
    for s in _streams(noise, mean):
        for side, c in itertools.product(SIDES, points_around(s).tolist()):
            assert ceiling(s, side, c) >= evidence(s, side, c), f"after {s.n} results, on side {side} of {c}"


def check_ends_of_intervals(noise: NoiseModel, mean: float) -> None:
    """An interval ends where the evidence reaches the level, or where the range ends."""
    for s in _streams(noise, mean):
        near = 2.0 * PRECISION * s.width + 1e-12 * abs(s.total / s.n)
        for level, side in itertools.product((0.5, 3.0, 20.0), SIDES):
            end, limit = interval_end(s, side, level), s.low if side == ABOVE else s.high
            assert s.low <= end <= s.high
            if math.isinf(end):
                # So few results allow no limit at all.
                assert end == limit
                continue
            if is_convex(noise):
                assert evidence(s, side, end + side * near) < level, f"on side {side} the interval ends too far out"
            for outside in (end - side * near, end - side * 0.1 * s.width, end - side * 100.0 * s.width):
                if s.low <= outside <= s.high and abs(end - limit) > near:
                    assert evidence(s, side, outside) >= level, "the interval ends too far in"


def check_comparisons(noise: NoiseModel, mean: float) -> None:
    """The evidence that one stream's mean is above another's is at most the product of evidence at every c, and not
    much less than the least of them."""
    spread = spread_of(noise, mean)
    for n, others in ((3, 5), (12, 30), (300, 200)):
        values = drawn(noise, mean, n + others, seed=n)
        ahead, behind = stream_of_values(noise, values[:n]), stream_of_values(noise, values[n:])
        for margin in (0.0, 0.3 * spread, 3.0 * spread):
            found = pair_evidence(ahead, behind, margin)
            first, last = scaled_range(ahead, behind, margin, 1.0)
            if not first <= last:
                continue
            reach = 8.0 * spread
            points = np.linspace(max(first, mean - reach), min(last, mean + margin + reach), 401)
            products = [product(ahead, behind, c - margin, c)[0] for c in points.tolist()]
            least = min(products, default=math.inf)
            assert found <= least + 1e-9 * (1.0 + abs(least)), f"after {n} and {others} results, margin {margin}"
            if found > 1.0:
                assert found >= min(least, 30.0) - 1.0, f"{found} where {least} could be: margin {margin}"


# ---------------------------------------------------------------------------------------------- simulation and planning


def check_draws(noise: NoiseModel, mean: float) -> None:
    """Draws have the mean that was asked for, and are values that can be told."""
    values = drawn(noise, mean, 20_000)
    for value in values[:200].tolist():
        noise.check_value(value)
    error = float(values.std()) / math.sqrt(len(values))
    # Five standard errors: exceeded with probability 1e-6.
    assert abs(float(values.mean()) - mean) <= 5.0 * error + 1e-9 * abs(mean)


def check_divergence(noise: NoiseModel, mean: float) -> None:
    """No divergence from itself, and more with distance."""
    (low, high), spread = noise.range, spread_of(noise, mean)
    for end in (max(low, mean - spread), min(high, mean + spread)):
        away = mean + (end - mean) * np.linspace(0.0, 0.9, 10)
        found = noise.divergence(np.full(10, mean), away)
        assert found[0] == 0.0
        assert (np.diff(found) > 0.0).all()


def check_drawn_means(noise: NoiseModel, mean: float) -> None:
    """Drawn means lie in the range, and scatter less as results come in."""
    setting = new_setting(problem_with(noise, mean), 0.05, "paper")
    law, random = noise.law(1.0, 0.0), np.random.default_rng(3)
    spreads = []
    for count in (5, 5_000):
        scatters = np.full(4_000, spread_of(noise, mean))
        means = noise.drawn_means(law, np.full(4_000, count), np.full(4_000, mean), scatters, 1.0, random)
        assert (means >= setting.low[0]).all()
        assert (means <= setting.high[0]).all()
        spreads.append(float(means.std()))
    assert spreads[1] < spreads[0] / 5.0


# ------------------------------------------------------------------------------------------------------- whole studies


def study_with(noise: NoiseModel, mean: float, *, is_reversed: bool = False) -> Problem:
    """Three arms, told apart by the objective and by a constraint, both with this noise. Reversed, small values of the
    objective and large ones of the constraint are wanted."""
    spread = spread_of(noise, mean)
    low, high = max(noise.range[0], mean - 2.0 * spread), min(noise.range[1], mean + 2.0 * spread)
    worse, better = mean + 0.6 * (low - mean), mean + 0.6 * (high - mean)
    if is_reversed:
        worse, better = better, worse
    spreads = {"m": spread, "c": spread} if noise.needs_spread else None
    return Problem(
        arms=(
            Arm("best", {"m": mean, "c": worse}, spreads=spreads),
            Arm("worse", {"m": worse, "c": worse}, spreads=spreads),
            Arm("harmful", {"m": better, "c": better}, spreads=spreads),
        ),
        objective=Objective("m", "minimize" if is_reversed else "maximize", noise),
        constraints=((at_least if is_reversed else at_most)("c", mean, noise=noise),),
    )


def check_studies_end_right(noise: NoiseModel, mean: float) -> None:
    """At most 16 of 100 simulated studies at delta = 5% are wrong, in both directions. If each is wrong with a
    probability of 5%, this fails once in 25,000 checks."""
    for is_reversed in (False, True):
        problem = study_with(noise, mean, is_reversed=is_reversed)
        result = simulate(problem, policy="certify", delta=0.05, runs=100, max_tests=10**6)
        assert result.unfinished == 0
        assert result.error_rate <= 0.16


def _job(noise: NoiseModel, mean: float, policy: str, **fields: Any) -> Job:
    return Job(study_with(noise, mean), find_policy(policy), 0.2, "mixture", 3, 300, **fields)


def _policies(noise: NoiseModel) -> tuple[str, ...]:
    """One that decides by evidence, and one that decides by intervals."""
    return ("certify", "feasible-lucb") if noise.has_intervals else ("certify",)


def check_interpreted_and_compiled_agree(noise: NoiseModel, mean: float) -> None:
    for policy in _policies(noise):
        assert_engines_agree(_job(noise, mean, policy), 1)


def check_a_record_is_replayed(noise: NoiseModel, mean: float) -> None:
    """A live study decides the same in every engine, however its record is cut into pieces."""
    job = _job(noise, mean, "certify")
    assert_replays(job, record_study(job))


def check_card_agrees(noise: NoiseModel, mean: float) -> None:
    """Every run comes out the same on a card, or in numba's simulator of one."""
    if reason := why_no_card():
        raise unittest.SkipTest(reason)
    from bestarm.simulation.cuda.card import CardJob, planned, this_card

    for policy in _policies(noise):
        job = _job(noise, mean, policy, keep_counts=True)
        wanted = job.simulate(0, 5).outcomes
        chunks = [chunk.outcomes for _, chunk in CardJob(job, planned(job, 5, this_card())).simulate(0, 5)]
        for name, part in wanted._asdict().items():
            assert (np.concatenate([getattr(chunk, name) for chunk in chunks]) == part).all(), (policy, name)


def check_references(noise: NoiseModel, mean: float) -> None:
    """Keeping values relative to a reference moves the noise and changes nothing else."""
    for sign, goal in ((1.0, "maximize"), (-1.0, "minimize")):
        [reference] = references(problem_with(noise, mean, goal), mean).tolist()
        plain, relative = noise.law(sign, 0.0), noise.law(sign, reference)
        assert relative.width == plain.width
        for end, same in ((relative.low, plain.low), (relative.high, plain.high)):
            assert end + reference == same or abs(end + reference - same) <= 1e-12 * (abs(same) + abs(reference))


NOISE_CHECKS: list[Check] = [*announced(globals()), *announced(vars(error_rates))]
