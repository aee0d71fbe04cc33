"""What every noise must do. Run each of `NOISE_CHECKS` on your own, with a mean that its streams can have:

@pytest.mark.parametrize("check", NOISE_CHECKS)
def test_my_noise(check):
    check(MyNoise(3.0), 0.4)

Checks of probabilities are seeded. A noise that only just keeps its promise fails with probability 1e-6 at most.
"""

from __future__ import annotations

import dataclasses
import math
import unittest
from collections.abc import Callable
from typing import Any

import numpy as np

from bestarm.evidence.intervals import PRECISION, interval_end
from bestarm.evidence.pairs import common_range, pair_evidence, product
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.random import NOISE, Generator, seed_generator
from bestarm.kernel.state import Floats, Ints, Setting, Streams, new_streams
from bestarm.noises.base import ABOVE, BELOW, Nature, NoiseModel, Stream, stream_of
from bestarm.noises.dispatch import ceiling, draw, evidence, evidence_and_slope, most_kept, record
from bestarm.plan import Plan
from bestarm.policies import find_policy
from bestarm.policies.setting import new_setting, references
from bestarm.problem import Arm, Objective, Problem, at_most
from bestarm.simulation.device import why_no_card
from bestarm.simulation.engine import Job
from bestarm.simulation.nature import new_nature
from bestarm.simulation.simulate import simulate
from bestarm.testing.policies import assert_engines_agree
from bestarm.testing.replays import assert_replays, record_study

Check = Callable[[NoiseModel, float], None]

SIDES = (ABOVE, BELOW)
LEVELS = (0.5, 3.0, 20.0)


# -------------------------------------------------------------------------------------------- what it says about itself


def check_states_itself(noise: NoiseModel, mean: float) -> None:
    fields = [field.name for field in dataclasses.fields(noise)]  # type: ignore[arg-type]
    assert list(noise.stated) == fields, "`stated` must name its fields, in order"
    assert all([noise.name, noise.label, noise.about.endswith(".")]), "a name, a label and a sentence for forms"
    assert noise.sentence().rstrip(".") == noise.sentence() != "", "words to follow the metric's name, without a period"
    assert 0.0 < noise.scale < math.inf
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


def problem_with(noise: NoiseModel, mean: float | None = None, goal: Any = "maximize") -> Problem:
    """One arm with one metric."""
    arm = Arm("a", None if mean is None else {"m": mean}, spreads={"m": noise.scale} if noise.needs_spread else None)
    return Problem(arms=(arm,), objective=Objective("m", goal, noise))


def drawn(noise: NoiseModel, mean: float, count: int, seed: int = 0) -> Floats:
    """Measurements in the user's terms, from the simulated world."""
    values, generator = np.zeros(count), np.zeros(4, np.uint64)
    compiled(seed_generator)(generator, seed, 0, NOISE)
    compiled(_fill)(new_nature(problem_with(noise, mean)), generator, values)
    return values


@kernel
def _fill(nature: Nature, generator: Generator, values: Floats) -> None:
    for k in range(values.shape[0]):
        values[k] = draw(nature, generator, 0, 0)


def stream_of_values(noise: NoiseModel, values: Floats, sign: float = 1.0) -> Stream:
    """A stream with these results, each times `sign`."""
    goal = "maximize" if sign > 0 else "minimize"
    setting = new_setting(problem_with(noise, None, goal), 0.05, "paper")
    streams = new_streams(1, 1, most_kept(setting))
    for value in values.tolist():
        record(setting, streams, 0, 0, sign * value)
    return stream_of(setting, streams, 0, 0)


def summed_stream(noise: NoiseModel, n: int, total: float) -> Stream:
    """A stream of n equal results that add up to `total`, for noises whose streams keep only sums."""
    setting = new_setting(problem_with(noise), 0.05, "paper")
    counts, sums = np.array([[n]]), np.array([[total]])
    streams = new_streams(1, 1, most_kept(setting))
    record(setting, streams, 0, 0, total / n)
    return stream_of(setting, Streams(counts, sums / counts, sums, n * streams.kept), 0, 0)


def points_around(s: Stream, count: int = 41) -> Floats:
    """Values of c on both sides of a stream's mean, within its range."""
    mean, reach = s.total / s.n, 6.0 * s.width / math.sqrt(s.n)
    low, high = max(mean - reach, s.low), min(mean + reach, s.high)
    return np.linspace(low, high, count + 2)[1:-1]


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
        for side in SIDES:
            for c in points.tolist():
                here, slope = evidence_and_slope(s, side, c)
                there, back = evidence(s, side, c + step), evidence(s, side, c - step)
                derivative = (there - back) / (2.0 * step)
                assert abs(here - evidence(s, side, c)) <= 1e-9 * (1.0 + abs(here))
                assert abs(slope - derivative) * s.width <= 1e-3 * (1.0 + abs(derivative) * s.width), (s.n, side, c)


def check_mirrored(noise: NoiseModel, mean: float) -> None:
    """Evidence below c equals that of minus the values above minus c: only how users state it differs."""
    for n in (1, 30):
        values = drawn(noise, mean, n, seed=n)
        s, mirrored = stream_of_values(noise, values), stream_of_values(noise, values, sign=-1.0)
        for c in points_around(s).tolist():
            for side in SIDES:
                plain, other = evidence(s, side, c), evidence(mirrored, -side, -c)
                assert abs(plain - other) <= 1e-9 * (1.0 + abs(plain)), f"side {side} of {c}: {plain} and {other}"


def check_ceilings(noise: NoiseModel, mean: float) -> None:
    """A ceiling is never below the evidence."""
    for s in _streams(noise, mean):
        for side in SIDES:
            for c in points_around(s).tolist():
                assert ceiling(s, side, c) >= evidence(s, side, c), f"after {s.n} results, on side {side} of {c}"


def check_ends_of_intervals(noise: NoiseModel, mean: float) -> None:
    """An interval ends where the evidence reaches the level, or where the range ends."""
    for s in _streams(noise, mean):
        near = 2.0 * PRECISION * s.width + 1e-12 * abs(s.total / s.n)
        for level in LEVELS:
            for side in SIDES:
                end, limit = interval_end(s, side, level), s.low if side == ABOVE else s.high
                assert s.low <= end <= s.high
                if math.isinf(end):
                    # So few results allow no limit at all.
                    assert end == limit
                    continue
                if is_convex(noise):
                    assert evidence(s, side, end + side * near) < level, f"on side {side} the interval ends too far out"
                for outside in (end - side * near, end - side * 0.1 * s.width, end - side * 100.0 * s.width):
                    inside_range = s.low <= outside <= s.high
                    assert not inside_range or abs(end - limit) <= near or evidence(s, side, outside) >= level, (
                        "the interval ends too far in"
                    )


def check_comparisons(noise: NoiseModel, mean: float) -> None:
    """The evidence that one stream's mean is above another's is at most the product of evidence at every c, and not
    much less than the least of them."""
    for n, others in ((3, 5), (12, 30), (300, 200)):
        values = drawn(noise, mean, n + others, seed=n)
        ahead, behind = stream_of_values(noise, values[:n]), stream_of_values(noise, values[n:])
        for margin in (0.0, 0.3 * noise.scale, 3.0 * noise.scale):
            found = pair_evidence(ahead, behind, margin)
            first, last = common_range(ahead, behind, margin)
            if not first <= last:
                continue
            reach = 8.0 * noise.scale
            points = np.linspace(max(first, mean - reach), min(last, mean + margin + reach), 401)
            products = [product(ahead, behind, c - margin, c)[0] for c in points.tolist()]
            least = min(products, default=math.inf)
            assert found <= least + 1e-9 * (1.0 + abs(least)), f"after {n} and {others} results, margin {margin}"
            if found > 1.0:
                assert found >= min(least, 30.0) - 1.0, f"{found} where {least} could be: margin {margin}"


@kernel
def _reaches(
    setting: Setting,
    nature: Nature,
    generator: Generator,
    streams: Streams,
    c: float,
    levels: Floats,
    side: int,
    reached: Ints,
) -> None:
    """For each path, how many of the rising levels the evidence that the mean lies on this side of c ever reaches."""
    for path in range(reached.shape[0]):
        seed_generator(generator, 5, path, NOISE)
        streams.counts[0, 0] = 0
        streams.sums[0, 0] = 0.0
        for k in range(streams.kept.shape[2]):
            streams.kept[0, 0, k] = 0.0
        for _ in range(1_000):
            record(setting, streams, 0, 0, draw(nature, generator, 0, 0))
            s = stream_of(setting, streams, 0, 0)
            if ceiling(s, side, c) >= levels[reached[path]]:
                found = evidence(s, side, c)
                while reached[path] < levels.shape[0] and found >= levels[reached[path]]:
                    reached[path] += 1
                if reached[path] == levels.shape[0]:
                    break


def check_crossing_rates(noise: NoiseModel, mean: float) -> None:
    """If the mean is c, evidence ever reaches 1 / alpha in at most a share alpha of all paths."""
    paths, problem = 1_000, problem_with(noise, mean)
    setting, generator = new_setting(problem, 0.05, "paper"), np.zeros(4, np.uint64)
    alphas = np.array([0.2, 0.05])
    for side in SIDES:
        reached, streams = np.zeros(paths, np.int64), new_streams(1, 1, most_kept(setting))
        compiled(_reaches)(setting, new_nature(problem), generator, streams, mean, -np.log(alphas), side, reached)
        for level, alpha in enumerate(alphas.tolist()):
            ever = int((reached > level).sum())
            # Five standard deviations of a binomial: exceeded with probability 1e-6 if the share is exactly alpha.
            most = alpha * paths + 5.0 * math.sqrt(alpha * (1.0 - alpha) * paths)
            assert ever <= most, f"{ever} of {paths} paths reach 1 / {alpha} on side {side}"


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
    low, high = noise.range
    for end in (max(low, mean - noise.scale), min(high, mean + noise.scale)):
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
        scatters = np.full(4_000, noise.scale)
        means = noise.drawn_means(law, np.full(4_000, count), np.full(4_000, mean), scatters, 1.0, random)
        assert (means >= setting.low[0]).all()
        assert (means <= setting.high[0]).all()
        spreads.append(float(means.std()))
    assert spreads[1] < spreads[0] / 5.0


# ------------------------------------------------------------------------------------------------------- whole studies


def study_with(noise: NoiseModel, mean: float) -> Problem:
    """Three arms, told apart by the objective and by a constraint, both with this noise."""
    low, high = max(noise.range[0], mean - 2.0 * noise.scale), min(noise.range[1], mean + 2.0 * noise.scale)
    worse, better = mean + 0.6 * (low - mean), mean + 0.6 * (high - mean)
    spreads = {"m": noise.scale, "c": noise.scale} if noise.needs_spread else None
    return Problem(
        arms=(
            Arm("best", {"m": mean, "c": worse}, spreads=spreads),
            Arm("worse", {"m": worse, "c": worse}, spreads=spreads),
            Arm("harmful", {"m": better, "c": better}, spreads=spreads),
        ),
        objective=Objective("m", "maximize", noise),
        constraints=(at_most("c", mean, noise=noise),),
    )


def check_studies_end_right(noise: NoiseModel, mean: float) -> None:
    """At most 16 of 100 simulated studies at delta = 5 % are wrong. If each is wrong with 5 %, this fails once in
    50,000 checks."""
    result = simulate(study_with(noise, mean), policy="certify", delta=0.05, runs=100, max_tests=10**6)
    assert result.unfinished == 0
    assert result.error_rate <= 0.16


def _job(noise: NoiseModel, mean: float, policy: str, **fields: Any) -> Job:
    return Job(study_with(noise, mean), find_policy(policy), 0.2, "mixture", 3, 300, **fields)


def check_interpreted_and_compiled_agree(noise: NoiseModel, mean: float) -> None:
    for policy in ("certify", "feasible-lucb"):
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

    for policy in ("certify", "feasible-lucb"):
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


NOISE_CHECKS: list[Check] = [found for name, found in sorted(globals().items()) if name.startswith("check_")]
