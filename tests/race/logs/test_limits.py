"""Limits as they are written on the command line."""

from __future__ import annotations

import pytest

import bestarm as ba
from bestarm.race.logs.formats import read
from bestarm.race.logs.limits import Side, noise_of, read_limit, read_ranges

RANGE = ba.Bounded(0, 10)


@pytest.mark.parametrize(
    ("side", "text", "limit"),
    [
        ("at_least", "accuracy=-1pp", ba.at_least("accuracy", relative_to_baseline=True, margin=0.01, noise=RANGE)),
        ("at_least", "accuracy=+2pp", ba.at_least("accuracy", relative_to_baseline=True, margin=-0.02, noise=RANGE)),
        ("at_most", "cost=+1pp", ba.at_most("cost", relative_to_baseline=True, margin=0.01, noise=RANGE)),
        ("at_most", "cost = baseline + 5", ba.at_most("cost", relative_to_baseline=True, margin=5.0, noise=RANGE)),
        ("at_least", "score=baseline-0.5", ba.at_least("score", relative_to_baseline=True, margin=0.5, noise=RANGE)),
        ("at_least", "score=baseline", ba.at_least("score", relative_to_baseline=True, noise=RANGE)),
        ("at_most", "cost=1.05x", ba.at_most("cost", relative_to_baseline=1.05, noise=RANGE)),
        ("at_least", "accuracy=70%", ba.at_least("accuracy", 0.7, noise=RANGE)),
        ("at_least", "accuracy=-7pp", ba.at_least("accuracy", relative_to_baseline=True, margin=0.07, noise=RANGE)),
        ("at_least", "accuracy=80%", ba.at_least("accuracy", 0.8, noise=RANGE)),
        ("at_least", "score=3", ba.at_least("score", 3.0, noise=RANGE)),
        ("at_least", "exact_match,strict=50%", ba.at_least("exact_match,strict", 0.5, noise=RANGE)),
    ],
)
def test_limits(side: Side, text: str, limit: ba.Constraint) -> None:
    made = read_limit(side, text).constrain(RANGE)
    assert made.label == limit.label
    assert (made.limit, made.threshold) == (limit.limit, limit.threshold)


def test_a_quantile_says_its_noise() -> None:
    written = read_limit("at_most", "p95(latency)=2")
    assert (written.metric, written.noise) == ("latency", ba.Quantile(0.95))


@pytest.mark.parametrize("text", ["accuracy", "=3", "accuracy=", "accuracy=1pp", "accuracy=-1%%", "accuracy=much"])
def test_what_is_no_limit(text: str) -> None:
    with pytest.raises(ba.InvalidInput, match="must be METRIC=LIMIT, such as accuracy=80%"):
        read_limit("at_least", text)


def test_a_quantile_has_a_limit_of_its_own() -> None:
    with pytest.raises(ba.InvalidInput, match="a quantile needs a limit of its own"):
        read_limit("at_most", "p95(latency)=1.05x")
    with pytest.raises(ba.InvalidInput, match="between p1 and p99"):
        read_limit("at_most", "p0(latency)=1")


@pytest.mark.parametrize("text", ["score", "score=3", "score=5..1", "=0..1", "score=a..b"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ba.InvalidInput, match=r"must be METRIC=LOW\.\.HIGH"):
        read_ranges([text])


def test_the_noise_follows_from_ranges() -> None:
    once = read({"item": [1, 2], "right": [True, False], "score": [3.0, 4.5]}, "baseline")
    twice = read({"item": [1, 1, 2, 2], "right": [1, 0, 0, 0], "score": [3, 4, 5, 6]}, "candidate")
    assert noise_of("right", [once, once], {}, ()) == ba.Bernoulli()
    assert noise_of("right", [once, twice], {}, ()) == ba.Bounded(0, 1)
    assert noise_of("score", [once, twice], {"score": (0.0, 10.0)}, ()) == ba.Bounded(0, 10)
    assert noise_of("score", [once, twice], {}, ["score"]) == ba.Symmetric()
    with pytest.raises(ba.InvalidInput, match=r"has values from 3 to 6, and its range is not known; --range score="):
        noise_of("score", [once, twice], {}, ())
    with pytest.raises(ba.InvalidInput, match="state one of the two"):
        noise_of("score", [once, twice], {"score": (0.0, 10.0)}, ["score"])
    with pytest.raises(ba.InvalidInput, match="no such metric in both logs; they share 'right', 'score'"):
        noise_of("wrong", [once, twice], {}, ())
