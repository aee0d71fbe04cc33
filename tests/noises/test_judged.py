"""Evidence about a set whose items a judge has scored: it holds whatever the judge says, and a good one saves much."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from tests.lengths import cases
from tests.noises.test_crossing import NOTHING, one_metric
from tests.noises.test_set_crossing import check

import bestarm as ba
from bestarm.evidence.intervals import interval_end
from bestarm.evidence.items import _with_score
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.state import Floats, Setting, Streams, new_streams
from bestarm.noises.dispatch import ceiling, evidence, most_kept, record
from bestarm.noises.registry import known_for
from bestarm.noises.sets.judged import JudgedSet, estimate
from bestarm.noises.streams import ABOVE, BELOW, stream_of


@kernel
def largest_evidence(
    setting: Setting, streams: Streams, labels: Floats, scores: Floats, mean: float, c: float, ever: Floats
) -> None:
    """[path, side]: the largest evidence at any place."""
    for path in range(labels.shape[0]):
        streams.counts[0, 0] = 0
        streams.sums[0, 0] = 0.0
        streams.means[0, 0] = 0.0
        for k in range(streams.kept.shape[2]):
            streams.kept[0, 0, k] = 0.0
        for place in range(labels.shape[1]):
            _with_score(setting, streams, 0, 0, labels[path, place], scores[path, place], mean)
            s = stream_of(setting, streams, 0, 0)
            ever[path, 0] = max(ever[path, 0], evidence(s, ABOVE, c))
            ever[path, 1] = max(ever[path, 1], evidence(s, BELOW, c))


JUDGES: dict[str, Callable[[np.random.Generator, Floats], Floats]] = {
    "perfect": lambda random, labels: labels,
    "always wrong": lambda random, labels: 1.0 - labels,
    "worthless": lambda random, labels: random.uniform(size=len(labels)),
    "the same for all": lambda random, labels: np.full(len(labels), 0.7),
    "biased up": lambda random, labels: np.where(random.uniform(size=len(labels)) < 0.1, 1.0, labels),
    "biased down": lambda random, labels: np.where(random.uniform(size=len(labels)) < 0.1, 0.0, labels),
    "sure of one": lambda random, labels: np.where(np.arange(len(labels)) == 0, 1.0, 0.0),
}


def judged(low: float, high: float, items: int, ties: int) -> Setting:
    return one_metric(JudgedSet(low, high, items, ties))


@cases(7)
@pytest.mark.parametrize("labels", ["rate", "rare", "graded"])
@pytest.mark.parametrize("judge", JUDGES)
def test_it_errs_as_seldom_as_it_says(judge: str, labels: str) -> None:
    """A mean that equals c is on no side of it. Fails by chance with probability 1e-6 at most."""
    random, items, paths = np.random.default_rng(41), 60, 500
    place = np.arange(items)
    shapes = {"rate": place % 5 > 0, "rare": place % 20 == 0, "graded": random.uniform(size=items)}
    one = shapes[labels].astype(float)
    scores = JUDGES[judge](random, one)
    orders = random.permuted(np.tile(place, (paths, 1)), axis=1)
    c, mean, found = math.fsum(one) / items, math.fsum(scores) / items, []
    for column, side in enumerate((ABOVE, BELOW)):
        setting, ever = judged(0.0, 1.0, items, -side), np.full((paths, 2), NOTHING)
        run = compiled(largest_evidence, known=known_for(setting))
        run(setting, new_streams(1, 1, most_kept(setting)), one[orders], scores[orders], mean, c, ever)
        found.append(ever[:, column])
    check(np.stack(found, axis=1), 1e-6)


def told(labels: Floats, scores: Floats, n: int, low: float = 0.0, high: float = 1.0) -> tuple[Setting, Streams]:
    setting = judged(low, high, len(labels), BELOW)
    streams = new_streams(1, 1, most_kept(setting))
    for place in range(n):
        _with_score(setting, streams, 0, 0, labels[place], scores[place], float(scores.mean()))
    return setting, streams


def world(agreement: float, items: int = 500) -> tuple[Floats, Floats]:
    random = np.random.default_rng(43)
    labels = np.where(random.uniform(size=items) < 0.7, 1.0, 0.0)
    return labels, np.where(random.uniform(size=items) < agreement, labels, 1.0 - labels)


def test_interpreted_as_compiled() -> None:
    labels, scores = world(0.9, 50)
    setting, mean = judged(0.0, 1.0, 50, BELOW), float(scores.mean())
    both = []
    for run in (largest_evidence, compiled(largest_evidence, known=known_for(setting))):
        streams, ever = new_streams(1, 1, most_kept(setting)), np.full((1, 2), NOTHING)
        run(setting, streams, labels[np.newaxis], scores[np.newaxis], mean, 0.65, ever)
        both.append((ever.tolist(), streams.kept.tolist(), streams.means.tolist()))
    assert both[0] == both[1]


@pytest.mark.parametrize("n", [1, 7, 120, 499])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (-1.0, 1.0), (3.0, 10.0)])
def test_evidence_is_log_convex_and_below_its_ceiling(n: int, low: float, high: float) -> None:
    labels, scores = (low + (high - low) * column for column in world(0.9))
    setting, streams = told(labels, scores, n, low, high)
    s = stream_of(setting, streams, 0, 0)
    ends = [interval_end(s, side, 4.0) for side in (ABOVE, BELOW)]
    assert low <= ends[0] <= estimate(s) <= ends[1] <= high
    for side, end in zip((ABOVE, BELOW), ends, strict=True):
        if low < end < high:
            assert evidence(s, side, end - side * 1e-9) > 4.0 - 1e-4
            assert evidence(s, side, end + side * 1e-5 * (high - low)) < 4.0
        assert all(evidence(s, side, c) <= ceiling(s, side, c) + 1e-9 for c in np.linspace(low, high, 41))
    inside = np.linspace(ends[0], ends[1], 41)[1:-1]
    for side in (ABOVE, BELOW):
        found = np.array([evidence(s, side, c) for c in inside])
        assert (side * np.diff(found) <= 1e-9).all()
        assert (np.diff(found, 2) >= -1e-9).all()


def test_sides_are_mirror_images() -> None:
    labels, scores = world(0.9)
    s = stream_of(*told(labels, scores, 80), 0, 0)
    mirrored = stream_of(*told(1.0 - labels, 1.0 - scores, 80), 0, 0)
    for c in (0.3, 0.6, 0.75):
        assert evidence(s, ABOVE, c) == pytest.approx(evidence(mirrored, BELOW, 1.0 - c), abs=1e-9)


def test_the_last_item_settles_it() -> None:
    labels, scores = world(0.5, 40)
    s = stream_of(*told(labels, scores, 40), 0, 0)
    mean = float(labels.mean())
    assert interval_end(s, ABOVE, 3.0) == interval_end(s, BELOW, 3.0) == estimate(s) == mean
    assert evidence(s, BELOW, mean) > 1e5 > 0.0 > evidence(s, ABOVE, mean)


def test_a_good_judge_narrows_the_interval() -> None:
    widths = []
    for agreement in (0.5, 0.9, 0.97):
        s = stream_of(*told(*world(agreement), 150), 0, 0)
        widths.append(interval_end(s, BELOW, 4.0) - interval_end(s, ABOVE, 4.0))
    alone = one_metric(ba.Bernoulli().of_set(500))
    streams = new_streams(1, 1, most_kept(alone))
    for label in world(0.5)[0][:150]:
        record(alone, streams, 0, 0, float(label))
    s = stream_of(alone, streams, 0, 0)
    without = interval_end(s, BELOW, 4.0) - interval_end(s, ABOVE, 4.0)
    assert widths[2] < 0.6 * without
    assert widths[1] < 0.85 * without
    assert widths[0] < 1.12 * without
