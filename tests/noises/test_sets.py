"""Noises of finite sets: against independent values, at every place, and where the set is done."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any, NamedTuple

import mpmath
import numpy as np
import pytest
from scipy import integrate, stats
from tests.lengths import cases

import bestarm as ba
from bestarm.evidence.intervals import interval_end
from bestarm.kernel.state import Floats, Ints
from bestarm.noises import self_normalized
from bestarm.noises.base import NoiseModel
from bestarm.noises.bets import EVEN_LOG_WEIGHTS, STAKE
from bestarm.noises.dispatch import ceiling, evidence
from bestarm.noises.exact import CERTAIN
from bestarm.noises.mixture import RHO
from bestarm.noises.registry import all_noises, built_in, kind_of, kinds_in, known_for, numbered
from bestarm.noises.streams import ABOVE, BELOW, Stream
from bestarm.policies import policy_for
from bestarm.testing.noise_streams import stream_of_values

SIDES = (ABOVE, BELOW)
GAUSSIAN, SYMMETRIC, BOUNDED = ba.Gaussian(2.0), ba.Symmetric(), ba.Bounded(-1.0, 5.0)
NOISES: list[NoiseModel] = [GAUSSIAN, SYMMETRIC, BOUNDED]


class Kinds(NamedTuple):
    """Of a setting, the noises."""

    kind: Ints


PRIOR = stats.halfnorm(scale=RHO**-0.5)


def a_set(items: int, seed: int = 3) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(2.0, 1.0, items).clip(-1.0, 5.0).tolist()
    return values


def stream(
    noise: NoiseModel, items: int, values: list[float], ties: int = BELOW, sign: float = 1.0, noted: int = 0
) -> Stream:
    return stream_of_values(noise.of_set(items, ties=ties), np.array(values), sign, noted)


def expected_next(items: int, values: list[float], c: float) -> list[Fraction]:
    """By place: the mean of what is left of a set whose mean is c."""
    sums = itertools.accumulate(map(Fraction, values), initial=Fraction(0))
    return [(items * Fraction(c) - before) / (items - t) for t, before in zip(range(len(values)), sums, strict=False)]


# -------------------------------------------------------------------------------------------------- independent values


def bets_by_definition(items: int, values: list[float], c: float, is_exact: bool, noted: int = 0) -> float:
    """The evidence that the mean of a set of values in [0, 1] is above c: with each c_t, or with their mean."""
    means = expected_next(items, values, c)[noted:]
    if not is_exact:
        means = [Fraction(sum(means), len(means))] * len(means)
    total = mpmath.mpf(0)
    for log_weight, stake in zip(EVEN_LOG_WEIGHTS, STAKE, strict=True):
        product = mpmath.exp(log_weight)
        for x, mean in zip(values[noted:], means, strict=True):
            product *= (1 + stake * mpmath.mpf(x)) / (1 + stake * mpmath.mpf(mean.numerator) / mean.denominator)
        total += product
    return float(mpmath.log(total))


@pytest.mark.parametrize(("n", "noted"), [(1, 0), (2, 0), (12, 0), (30, 0), (12, 11), (30, 10)])
def test_bounded_evidence_by_definition(n: int, noted: int) -> None:
    items, noise = 40, ba.Bounded(0.0, 1.0)
    values = np.random.default_rng(n).beta(2.0, 3.0, n).tolist()
    s = stream(noise, items, values, noted=noted)
    for c in (0.35, 0.4, 0.45):
        found = evidence(s, ABOVE, c)
        assert found == pytest.approx(bets_by_definition(items, values, c, False, noted), rel=1e-9, abs=1e-9)
        assert found <= bets_by_definition(items, values, c, True, noted) + 1e-9
        mirrored = bets_by_definition(items, [1.0 - x for x in values], 1.0 - c, False, noted)
        assert evidence(s, BELOW, c) == pytest.approx(mirrored, rel=1e-9, abs=1e-9)


def steps_of_walk(items: int, values: list[float], c: float) -> list[float]:
    """The steps of (S - n c) M / (M - n): each is what an item exceeds its expectation by, times M / (M - t)."""
    means = expected_next(items, values, c)
    return [
        float((Fraction(x) - m) * items / (items - t)) for t, (x, m) in enumerate(zip(values, means, strict=True), 1)
    ]


def mixture(deviation: float, squares: float) -> float:
    """The mean of exp(k deviation - k² squares / 2) over a half-normal k, by numerical integration."""
    return integrate.quad(
        lambda k: PRIOR.pdf(k) * math.exp(k * deviation - 0.5 * k * k * squares), 0.0, 3.0, limit=200
    )[0]


@pytest.mark.parametrize(("n", "noted"), [(1, 0), (5, 0), (20, 0), (38, 0), (20, 19), (38, 25)])
def test_gaussian_evidence_by_definition(n: int, noted: int) -> None:
    """What was only noted leaves a smaller set, which has a mean of its own."""
    items, values = 40, a_set(40)[:n]
    s = stream(GAUSSIAN, items, values, noted=noted)
    for c in (1.5, 2.0, 2.4):
        of_rest = float((items * Fraction(c) - sum(map(Fraction, values[:noted]))) / (items - noted))
        left, rest = items - noted, values[noted:]
        steps = steps_of_walk(left, rest, of_rest)
        # The variance of a step, if the values' is 1: that of the item given the ones before, times (M / (M - t))².
        variance = sum((left - t) / (left - t + 1) * (left / (left - t)) ** 2 for t in range(1, len(rest) + 1))
        wanted = math.log(mixture(sum(steps) / GAUSSIAN.sigma, variance))
        assert evidence(s, ABOVE, c) == pytest.approx(wanted, rel=1e-6, abs=1e-6)


def self_normalized_by_definition(items: int, values: list[float], c: float, noted: int = 0) -> float:
    z, above = [], True
    for n, (x, mean) in enumerate(zip(values, expected_next(items, values, c), strict=True)):
        if n < noted:
            continue
        above = above and Fraction(x) > mean
        before = np.array(values[:n])
        if n >= 4:
            left = items - n
            scatter = math.sqrt(float(before.var(ddof=1)) * (1.0 + 2.0 / n))
            z.append(min(items / left, math.sqrt(left / 3.0)) / scatter * float(Fraction(x) - mean))
    sn = mixture(sum(z), sum(x * x for x in z))
    return math.log(0.9 * sn + 0.05 + 0.05 * (10.0 / 9.0) ** (len(values) - noted) * above)


@pytest.mark.parametrize(("n", "noted"), [(1, 0), (4, 0), (5, 0), (20, 0), (38, 0), (5, 4), (20, 2), (38, 30)])
def test_symmetric_evidence_by_definition(n: int, noted: int) -> None:
    items, values = 40, a_set(40)[:n]
    s = stream(SYMMETRIC, items, values, noted=noted)
    for c in (-3.0, 1.0, 1.8, 2.0, 2.3):
        wanted = self_normalized_by_definition(items, values, c, noted)
        assert evidence(s, ABOVE, c) == pytest.approx(wanted, rel=1e-6, abs=1e-6)
        mirrored = self_normalized_by_definition(items, [-x for x in values], -c, noted)
        assert evidence(s, BELOW, c) == pytest.approx(mirrored, rel=1e-6, abs=1e-6)


# ------------------------------------------------------------------------------------- every order, every way to stop


@pytest.mark.parametrize(
    "values",
    [
        (0.0, 0.0, 1.0, 1.0, 1.0, 0.0),
        (0.0, 0.0, 0.0, 0.0, 0.0, 1.0),
        (0.2, 0.2, 0.2, 0.2, 0.2, 0.2),
        (0.1, 0.9, 0.3, 0.35, 0.3),
        (1.0, 1.0, 1.0, 0.999),
    ],
)
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("noted", [0, 1, 2, 3])
def test_the_best_way_to_stop_gains_nothing(values: tuple[float, ...], side: int, noted: int) -> None:
    """Over all orders of a set, evidence that is false is 1 or less on average, whenever one stops; exactly. So it is
    if the first values are given, whatever they are, and only the others come in a random order."""
    items, mean = len(values), math.fsum(values) / len(values)

    @functools.cache
    def best(seen: tuple[float, ...]) -> float:
        now = 1.0
        if seen:
            s = stream(ba.Bounded(0.0, 1.0), items, [*seen], ties=-side, noted=noted)
            now = math.exp(min(evidence(s, side, mean), 700.0))
        left = [*values]
        for x in seen:
            left.remove(x)
        return max(now, sum(best((*seen, x)) for x in left) / len(left)) if left else now

    assert best(values[:noted]) <= 1.0 + 1e-12


# ------------------------------------------------------------------------------------------------------ shapes in c


@cases(16)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("n", [1, 7, 25, 39, 40])
@pytest.mark.parametrize("noted", [0, 7, 30])
def test_mirrored_monotone_and_under_its_ceiling(noise: NoiseModel, n: int, noted: int) -> None:
    values = a_set(40)
    s = stream(noise, 40, values[:n], noted=noted)
    mirrored = stream(noise, 40, values[:n], ABOVE, sign=-1.0, noted=noted)
    points = np.linspace(-0.9, 4.9, 59).tolist()
    for side in SIDES:
        found = np.array([evidence(s, side, c) for c in points])
        assert np.isfinite(found).all()
        if noise is not SYMMETRIC:
            assert (side * np.diff(found) <= 1e-9).all()
        for c, one in zip(points, found.tolist(), strict=True):
            assert evidence(mirrored, -side, -c) == pytest.approx(one, rel=1e-9, abs=1e-9)
            assert ceiling(s, side, c) >= one


@cases(10)
@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("level", [0.5, 3.0, 20.0])
@pytest.mark.parametrize("noted", [0, 7, 20])
def test_ends_of_intervals(noise: NoiseModel, level: float, noted: int) -> None:
    values = a_set(40)
    for n in (1, 7, 25, 39):
        s = stream(noise, 40, values[:n], noted=noted)
        for side in SIDES:
            end = interval_end(s, side, level)
            assert s.low <= end <= s.high
            if math.isinf(end):
                continue
            # What is shown of symmetric values rests on bets of everything on each sign.
            of = self_normalized.evidence if noise is SYMMETRIC else evidence
            for outside in (end - side * 1e-6, end - side * 0.5, end - side * 50.0):
                assert not s.low <= outside <= s.high or of(s, side, outside) >= level - 1e-5
            if noise is not SYMMETRIC:
                assert evidence(s, side, end + side * 1e-5) < level


# ----------------------------------------------------------------------------------------------------------- settled


@pytest.mark.parametrize("noise", [ba.Bernoulli(), ba.Quantile(0.8), ba.Gaussian(0.4), ba.Symmetric()], ids=str)
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_rates_that_equal_their_limit(noise: NoiseModel, sign: float) -> None:
    """However a limit such as 0.1 is rounded: a rate equal to it lies on the side of ties."""
    for items in (1, 10, 49):
        for ones in {0, 1, items // 3, items // 2, items - 1, items}:
            values = [1.0] * ones + [0.0] * (items - ones)
            for ties in SIDES:
                s = stream(noise, items, values, ties, sign)
                # One way to round it, and another.
                for c in (sign * (ones / items), sign * (1.0 - (items - ones) / items)):
                    assert evidence(s, ties, c) == CERTAIN
                    assert evidence(s, -ties, c) == -CERTAIN
                for side in SIDES:
                    near = sign * (ones / items) - side * 1e-9
                    assert evidence(s, side, near) == CERTAIN
                    assert evidence(s, -side, near) == -CERTAIN
                    assert interval_end(s, side, 3.0) == s.total / s.n


def test_decimals_that_equal_their_limit() -> None:
    """Seven, three and 0.3 have no end in binary, and neither have their sums."""
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7] * 30
    for noise in (ba.Bounded(0.0, 1.0), ba.Gaussian(1.0), SYMMETRIC):
        for seed in range(5):
            mixed = np.random.default_rng(seed).permutation(values).tolist()
            s = stream(noise, len(values), mixed)
            assert evidence(s, BELOW, 0.4) == CERTAIN
            assert evidence(s, ABOVE, 0.4) == -CERTAIN
            assert evidence(s, ABOVE, 0.4 - 1e-12) == CERTAIN


def test_limits_of_what_is_missing() -> None:
    """Of 100 questions, 11 wrong are more than a tenth, and 90 right leave no more than a tenth."""
    wrong = stream(ba.Bernoulli(), 100, [1.0] * 11)
    assert evidence(wrong, ABOVE, 0.1) == CERTAIN
    assert interval_end(wrong, ABOVE, 1e5) == pytest.approx(0.11)
    assert evidence(stream(ba.Bernoulli(), 100, [1.0] * 10), ABOVE, 0.1) < 100.0
    assert evidence(stream(ba.Bernoulli(), 100, [0.0] * 90), BELOW, 0.1) == CERTAIN
    assert evidence(stream(ba.Bernoulli(), 100, [0.0] * 90, ties=ABOVE), BELOW, 0.1) < 100.0
    assert evidence(stream(ba.Bernoulli(), 100, [0.0] * 89), BELOW, 0.1) < 100.0


@pytest.mark.parametrize("noise", NOISES, ids=lambda noise: noise.name)
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_values_that_are_no_numbers_decide_nothing(noise: NoiseModel, bad: float) -> None:
    with np.errstate(all="ignore"):
        for n in (3, 12):
            s = stream(noise, 12, [bad, *a_set(n - 1)])
            for side in SIDES:
                found = evidence(s, side, 2.0)
                assert n < 12 or not 1.0 <= found < math.inf


def test_a_set_that_hardly_varies() -> None:
    same: Floats = np.full(200, 2.0)
    for n in (100, 200):
        s = stream(SYMMETRIC, 200, same[:n].tolist())
        assert evidence(s, ABOVE, 2.0) <= 0.0
        assert evidence(s, ABOVE, 1.999) > 7.0
        assert interval_end(s, ABOVE, 5.0) == interval_end(s, BELOW, 5.0) == 2.0


def test_differences_on_items_without_end() -> None:
    """They are weighed as symmetric results are; only bets on signs gain less."""
    values = a_set(30)
    s = stream_of_values(GAUSSIAN.differences(), np.array(values))
    plain = stream_of_values(SYMMETRIC, np.array(values))
    for c in (1.0, 1.8, 2.2, 3.0):
        for side in SIDES:
            assert evidence(s, side, c) == pytest.approx(evidence(plain, side, c), rel=1e-9, abs=1e-9)
            assert interval_end(s, side, 3.0) == pytest.approx(interval_end(plain, side, 3.0), rel=1e-9)
    zeros = stream_of_values(GAUSSIAN.differences(), np.zeros(40))
    assert evidence(zeros, ABOVE, -0.01) < 2.0


# ------------------------------------------------------------------------------------------------- which noise it is


def test_noises_of_sets_and_of_differences() -> None:
    names = {
        noise.name: (noise.of_set(9).name, noise.differences().name, noise.differences().range)
        for noise in (*NOISES, ba.Bernoulli(), ba.Quantile(0.9), ba.Exact())
    }
    everything = (-math.inf, math.inf)
    assert names == {
        "gaussian": ("gaussian-set", "symmetric-set", everything),
        "symmetric": ("symmetric-set", "symmetric-set", everything),
        "bounded": ("bounded-set", "bounded", (-6.0, 6.0)),
        "bernoulli": ("bounded-set", "bounded", (-1.0, 1.0)),
        "quantile": ("bounded-set", "bounded", (-1.0, 1.0)),
        "exact": ("exact", "exact", everything),
    }
    for noise in NOISES:
        assert noise.of_set(9).sentence().startswith(("the values of the 9 items", "each of the 9 items"))
        assert noise.refuses_items(repeats=False) is None


def test_a_noise_that_is_not_known_for_items() -> None:
    class Strange(ba.Gaussian):
        of_set = NoiseModel.of_set
        differences = NoiseModel.differences

    refused = Strange(1.0).refuses_items(repeats=True)
    assert refused is not None
    assert "differences" in refused
    Strange.is_symmetric = True
    assert Strange(1.0).refuses_items(repeats=True) is None
    refused = Strange(1.0).refuses_items(repeats=False)
    assert refused is not None
    assert "set of items" in refused
    with pytest.raises(ba.InvalidInput, match="state Symmetric"):
        Strange(1.0).of_set(5)


def test_kernels_are_compiled_with_them_only_where_a_set_is() -> None:
    """So that a study without items compiles what it always did."""
    names = [noise.name for noise in numbered()]
    plain = known_for(Kinds(np.array([kind_of(type(noise)) for noise in NOISES])))
    assert set(plain) == {kind_of(noise) for noise in built_in().values()}
    for noise in NOISES:
        kind = kind_of(type(noise.of_set(9)))
        assert kind not in plain
        assert names[kind] not in all_noises()
        assert known_for(Kinds(np.array([kind]))) == (kind,)


def test_the_noises_of_a_setting_include_those_of_the_settings_within_it() -> None:
    """Each arm is compared with the baseline on items, with noises that none of its own streams has."""
    plan = ba.Plan(
        arms=["a", "b"],
        objective=ba.maximize("rate", noise=ba.Bernoulli()),
        constraints=[ba.at_most("load", noise=ba.Gaussian(1.0), relative_to_baseline=1.2)],
        baseline="a",
        items=40,
    )
    setting: Any = policy_for(plan, "certify").new_setting(plan, 0.05, "mixture")
    parts = (setting, setting.items.differences, setting.items.contrasts)
    assert kinds_in(setting) == {int(kind) for part in parts for kind in part.kind}
    assert kinds_in(setting) > {int(kind) for part in parts[:2] for kind in part.kind}
