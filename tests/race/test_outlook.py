"""What a race says of its own length: continuations are drawn, so that luck is in what is shown."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from tests.race.simulated import a_run, race

from bestarm.noises.gaussian import gaussian_evidence
from bestarm.noises.self_normalized import LOG_FLAT, SKIPPED, add_flat, log_signs
from bestarm.race.continuations import pairs_in_all
from bestarm.race.limits import read_limit
from bestarm.race.outlook import UNKNOWN, Range, outlook_of, shortage_words
from bestarm.race.plans import Question, plan_of
from bestarm.race.race import Conditions

LEVEL = math.log(2 / 0.04)


def end_of(leads: Sequence[float]) -> float:
    """After how many pairs the evidence itself, pair by pair, says that one of two commands is ahead."""
    weighted = weights = squares = mean = 0.0
    for n, lead in enumerate(leads):
        if n >= SKIPPED:
            ww = (n - 1.0) / (squares * (1.0 + 2.0 / n))
            weighted, weights = weighted + math.sqrt(ww) * lead, weights + ww * lead * lead
        away = lead - mean
        mean += away / (n + 1.0)
        squares += away * (lead - mean)
        first = leads[: n + 1]
        signs = log_signs(n + 1) if n < 20 and (min(first) > 0.0 or max(first) < 0.0) else LOG_FLAT
        if add_flat(gaussian_evidence(weights, abs(weighted)), signs) >= LEVEL:
            return n + 1
    return math.inf


def test_how_long_it_takes_lies_in_the_range() -> None:
    """Leads are drawn from a wide range, and each race is looked at after 30 pairs. Of those in which something is
    shown, 80% end in the range. If the probability of each is 0.8, fewer than 0.7 or more than 0.9 of 200 do so with
    one of 5e-4."""
    inside: list[bool] = []
    for seed in range(650):
        random = np.random.default_rng((seed, 3))
        leads = (random.uniform(-0.8, 0.8) + random.standard_normal(3000)).tolist()
        end, found = end_of(leads), Range.of(pairs_in_all(leads[:30], LEVEL, random))
        if end > 30 and math.isfinite(found.middle):
            inside.append(found.low <= end <= found.high)
    assert len(inside) >= 200
    assert 0.7 <= np.mean(inside) <= 0.9


def test_what_cannot_be_foreseen() -> None:
    random = np.random.default_rng(1)
    assert np.isinf(pairs_in_all([1.0] * 5, LEVEL, random)).all()
    assert np.isinf(pairs_in_all([1.0, -1.0] * 20, LEVEL, random)).all()
    equal = race(lambda *_: a_run(1.0), ["a", "b"], runs=40)
    assert outlook_of(equal.plan, equal.status, equal.run_log) == UNKNOWN


def test_a_lead_without_scatter_takes_as_few_runs_as_there_are() -> None:
    needed = pairs_in_all([1.0] * 6, LEVEL, np.random.default_rng(1))
    # 0.05 * 2^10 > 50
    assert needed.min() == needed.max() == 10


@pytest.mark.parametrize(("is_gate", "few", "enough"), [(False, 8, 9), (True, 11, 15)])
def test_the_fewest_runs_that_can_decide(is_gate: bool, few: int, enough: int) -> None:
    """Nothing that can be drawn speaks much more clearly than one command that is always slower by far."""
    limits, baseline = (["time=1.5x"], "a") if is_gate else ([], None)
    outcomes = [
        race(
            lambda command, rng: a_run({"a": 3.0, "b": 1.0}[command] + rng.uniform(0.0, 0.1)),
            ["a", "b"],
            limits,
            baseline=baseline,
            is_gate=is_gate,
            conditions=Conditions(timeout=10.0, least_runs=runs, most_runs=runs),
        )
        for runs in (few, enough)
    ]
    assert [outcome.found for outcome in outcomes] == ["undecided", "certified"]
    words = [shortage_words(one.plan, one.question, most) for one, most in zip(outcomes, (few, enough), strict=True)]
    assert words == [f"{few} runs of each command are too few for a certain answer, which takes {few + 1} or more", ""]


@pytest.mark.parametrize(
    ("question", "most", "words"),
    [
        (Question(), 1, "1 run of each command is too few"),
        (Question(runs=17), math.inf, "8 runs of each command are too few"),
        (Question(runs=18), math.inf, ""),
        (Question(assumed="range"), 2, ""),
        (Question(limits=(read_limit("memory=1GB"),)), 2, ""),
    ],
)
def test_whether_too_few_runs_were_asked_for(question: Question, most: float, words: str) -> None:
    plan = plan_of("a race", ["a", "b"], question, {"time": 1.0})
    assert shortage_words(plan, question, most).startswith(words)
    assert bool(shortage_words(plan, question, most)) is bool(words)


@pytest.mark.parametrize(("apart", "wide"), [(1.5, False), (1.02, True)])
def test_a_close_race_has_a_wide_range(apart: float, wide: bool) -> None:
    outcome = race(
        lambda command, rng: a_run({"a": 1.0, "b": apart}[command] + rng.gauss(0.0, 0.05)), ["a", "b"], seed=4, runs=16
    )
    seconds = outlook_of(outcome.plan, outcome.status, outcome.run_log).seconds
    assert seconds.low <= seconds.middle <= seconds.high
    assert seconds.is_narrow is not wide
