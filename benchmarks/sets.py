"""What the evidence about finite sets costs in tests, and how often it errs where its assumption fails.

    python benchmarks/sets.py

Prints three tables as Markdown. The first: how many items it takes until the mean over a set is known to lie on one
side of a limit, with the evidence for items without end and with that for the set. The second: how many more items it
takes for bounded values than with bets against each item's own expectation. The third: how often (in percent) false
evidence ever reaches 20, which it may in 5% of all sets, for values of many shapes; the larger of both sides.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np

import bestarm as ba
from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.state import Floats, Ints, Setting, Streams, new_streams
from bestarm.noises.base import NoiseModel
from bestarm.noises.bets import EVEN_LOG_WEIGHTS, STAKE
from bestarm.noises.dispatch import ceiling, evidence, most_kept, record
from bestarm.noises.streams import ABOVE, BELOW, stream_of
from bestarm.policies.setting import new_setting

SIZES = (20, 100, 500)
Shape = Callable[[np.random.Generator, tuple[int, int]], Floats]


def _t(random: np.random.Generator, size: tuple[int, int]) -> Floats:
    return random.standard_t(3, size) / math.sqrt(3.0)


SHAPES: dict[str, tuple[Shape, tuple[float, float] | None]] = {
    "normal": (lambda random, size: random.standard_normal(size), None),
    "uniform": (lambda random, size: random.uniform(-(3**0.5), 3**0.5, size), (-(3**0.5), 3**0.5)),
    "two values, alike often": (lambda random, size: random.choice([-1.0, 1.0], size), (-1.0, 1.0)),
    "Laplace": (lambda random, size: random.laplace(0.0, 0.5**0.5, size), None),
    "t, 3 degrees of freedom": (_t, None),
    "scores 1 to 5": (lambda random, size: random.choice([-3.0, -2.0, -1.0, 0.0, 1.0], size), (-3.0, 1.0)),
    "5% ones": (lambda random, size: np.where(random.uniform(size=size) < 0.05, 1.0, 0.0), (0.0, 1.0)),
    "differences: 90% 0, 5% 1, 5% −1": (
        lambda random, size: random.choice([-1.0, 0.0, 1.0], size, p=[0.05, 0.9, 0.05]),
        (-1.0, 1.0),
    ),
    "exponential": (lambda random, size: random.exponential(size=size), None),
    "lognormal, 50 ± 26": (lambda random, size: random.lognormal(math.log(50.0 / 1.127), 0.489, size), None),
}
"""Values, and the range that can truly be stated of them."""


@kernel
def reach(
    setting: Setting, streams: Streams, values: Floats, limits: Floats, level: float, side: int, when: Ints
) -> None:
    """By path: after how many items the evidence that the mean is on this side of the limit first reaches the level."""
    for path in range(values.shape[0]):
        streams.counts[0, 0] = 0
        streams.sums[0, 0] = 0.0
        streams.means[0, 0] = 0.0
        for k in range(streams.kept.shape[2]):
            streams.kept[0, 0, k] = 0.0
        for step in range(values.shape[1]):
            record(setting, streams, 0, 0, values[path, step])
            s = stream_of(setting, streams, 0, 0)
            if ceiling(s, side, limits[path]) >= level and evidence(s, side, limits[path]) >= level:
                when[path] = step + 1
                break


def first_places(noise: NoiseModel, values: Floats, limits: Floats, level: float, side: int) -> Ints:
    """0 where the level is never reached."""
    setting = new_setting(ba.Problem(arms=["a"], objective=ba.maximize("m", noise=noise)), 0.05, "paper")
    when = np.zeros(len(values), np.int64)
    streams = new_streams(1, 1, most_kept(setting))
    compiled(reach)(setting, streams, np.ascontiguousarray(values), limits, level, side, when)
    return when


GAPS = ["0.15 sd away", "0.3 sd", "0.6 sd"]


def table(head: list[str], rows: list[list[str]]) -> None:
    print("|", " | ".join(head), "|")
    print("| ---", "| ---:" * (len(head) - 1), "|")
    for row in rows:
        print("|", " | ".join(row), "|")
    print()


def tests_needed(random: np.random.Generator, sets: int) -> list[list[str]]:
    """The first table: sets with a mean some standard deviations below the limit."""
    rows = []
    for items in SIZES[1:]:
        rates = random.permuted(np.tile(np.arange(items) < 0.1 * items, (sets, 1)), axis=1).astype(float)
        normal = random.standard_normal((sets, items))
        scores = (0.5 + 0.05 * random.standard_normal((sets, items))).clip(0.0, 1.0)
        cases: list[tuple[str, NoiseModel, Floats]] = [
            ("normal, σ known", ba.Gaussian(1.0), normal),
            ("normal, σ not known", ba.Symmetric(), normal),
            ("a rate of 10%", ba.Bounded(0.0, 1.0), rates),
            ("in [0, 1], sd 0.05", ba.Bounded(0.0, 1.0), scores),
        ]
        for label, noise, values in cases:
            row = [f"{label}; {items} items"]
            for gap in (0.15, 0.3, 0.6):
                limits = values.mean(axis=1) + gap * values.std(axis=1)
                found = []
                for one in (noise, noise.of_set(items)):
                    when = first_places(one, values, limits, math.log(100.0), BELOW)
                    # Without an answer all items are measured.
                    found.append(float(np.where(when == 0, items, when).mean()))
                row.append(f"{found[0]:.0f} → {found[1]:.0f}")
            rows.append(row)
    return rows


def own_expectations(values: Floats, limits: Floats, level: float) -> Ints:
    """`first_places` below the limits, for values in [0, 1], with bets against each item's own expectation."""
    found = np.zeros(len(values), np.int64)
    items = values.shape[1]
    left = items - np.arange(items)
    for path, (x, c) in enumerate(zip(1.0 - values, 1.0 - limits, strict=True)):
        before = np.cumsum(x) - x
        expected = ((items * c - before) / left).clip(0.0, 1.0)
        gains = np.log1p(np.outer(x, STAKE)) - np.log1p(np.outer(expected, STAKE))
        evidence = np.logaddexp.reduce(np.cumsum(gains, axis=0) + EVEN_LOG_WEIGHTS, axis=1)
        # Whatever is missing, and when all is done.
        sure = (evidence >= level) | (before + x >= items * c)
        found[path] = int(sure.argmax()) + 1 if sure.any() else items
    return found


def cost_of_one_expectation(random: np.random.Generator, sets: int) -> list[list[str]]:
    """The second table."""
    rows = []
    for items in SIZES[1:]:
        cases = {f"a rate of {100 * rate:g}%": np.arange(items) < rate * items for rate in (0.02, 0.1, 0.5)}
        for label, ones in cases.items():
            values = random.permuted(np.tile(ones, (sets, 1)), axis=1).astype(float)
            rows.append((f"{label}; {items} items", values))
        for sd in (0.02, 0.2):
            values = (0.5 + sd * random.standard_normal((sets, items))).clip(0.0, 1.0)
            rows.append((f"in [0, 1], sd {sd:g}; {items} items", values))
    lines = []
    for name, values in rows:
        line = [name]
        for gap in (0.15, 0.3, 0.6):
            limits = values.mean(axis=1) + gap * values.std(axis=1)
            best = float(own_expectations(values, limits, math.log(100.0)).mean())
            when = first_places(ba.Bounded(0.0, 1.0).of_set(values.shape[1]), values, limits, math.log(100.0), BELOW)
            line.append(f"{100 * (float(when.mean()) / best - 1):.1f}%")
        lines.append(line)
    return lines


def errors(random: np.random.Generator, sets: int) -> list[list[str]]:
    """The third table."""
    rows = []
    for label, (draw, limits) in SHAPES.items():
        rates: dict[str, list[str]] = {"gaussian": [], "symmetric": [], "bounded": []}
        for items in SIZES:
            values = draw(random, (sets, items))
            means = values.mean(axis=1)
            sigma = float(values.std())
            noises: list[NoiseModel] = [ba.Gaussian(sigma), ba.Symmetric()]
            noises += [ba.Bounded(*limits)] if limits is not None else []
            for noise in noises:
                worst = 0
                for side in (ABOVE, BELOW):
                    of_set = noise.of_set(items, ties=-side)
                    worst = max(worst, int((first_places(of_set, values, means, math.log(20.0), side) > 0).sum()))
                rates[noise.name].append(f"{100 * worst / sets:.1f}")
        rows.append([label, *(" / ".join(some) or "–" for some in rates.values())])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=10_000)
    sets = parser.parse_args().sets
    first = "values; size of the set"
    table([first, *GAPS], tests_needed(np.random.default_rng(1), min(sets, 2_000)))
    table([first, *GAPS], cost_of_one_expectation(np.random.default_rng(3), min(sets, 500)))
    table(["values", "`Gaussian`", "`Symmetric`", "`Bounded`"], errors(np.random.default_rng(2), sets))


if __name__ == "__main__":
    main()
