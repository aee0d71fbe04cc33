"""Gates on logs of the same model twice, and of one that is just as much worse as the limit allows: how often they err.

Logs are drawn from a population: how hard an item is, is common to both, and each log answers it afresh. A gate that
certifies a candidate on its limit errs, and one that refutes a candidate within it. It prints how many do, with a
Clopper-Pearson limit, and how the forecasts of items to come turn out. Run: `python benchmarks/logs.py --gates 200`.
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import beta

import bestarm as ba
from bestarm.kernel.state import Floats
from bestarm.problem import Constraint
from bestarm.race.logs.gate import gate_logs

DELTA = 0.05
MARGIN = 0.02

Draw = Callable[[np.random.Generator, int, float], Floats]
"""Values of so many items [log, item, epoch], where the candidate is worse by so much in the mean."""


def rates(random: np.random.Generator, items: int, worse: float, epochs: int = 1) -> Floats:
    """Right or wrong. Most items are right or wrong for both logs."""
    hard = random.beta(0.25, 0.15, items)
    chance = np.stack([hard, hard * (1.0 - worse / (0.25 / 0.4))])
    return (random.random((2, items, epochs)) < chance[:, :, None]).astype(float)


def epochs(random: np.random.Generator, items: int, worse: float) -> Floats:
    return rates(random, items, worse, epochs=4)


def points(random: np.random.Generator, items: int, worse: float) -> Floats:
    """Points from 0 to 1 by a judge, in steps of a tenth."""
    mean = np.stack([base := random.uniform(0.2, 0.95, items), base - worse])
    return random.binomial(10, mean)[:, :, None] / 10.0


def seconds(random: np.random.Generator, items: int, worse: float) -> Floats:
    """A score of no range, with normal scatter."""
    base = random.lognormal(0.0, 0.7, items)
    return np.stack([base, base - worse])[:, :, None] + 0.1 * random.standard_normal((2, items, 1))


class World(NamedTuple):
    """A kind of values, and the noise that is stated for them."""

    name: str
    draw: Draw
    noise: Any


WORLDS = [
    World("right or wrong", rates, ba.Bernoulli()),
    World("right or wrong, 4 epochs", epochs, ba.Bounded(0, 1)),
    World("points from 0 to 1", points, ba.Bounded(0, 1)),
    World("no range, symmetric", seconds, ba.Symmetric()),
]

TRUTHS = [
    ("the same, limit −2pp", 0.0, MARGIN),
    ("the same, limit 0", 0.0, 0.0),
    ("on its limit of −2pp", MARGIN, MARGIN),
]


def frames(values: Floats) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """The two logs."""
    _, items, times = values.shape
    names = np.repeat(np.arange(items), times).tolist()
    old, new = ({"item": names, "score": log.ravel().tolist()} for log in values)
    return old, new


def limit_of(world: World, margin: float) -> Constraint:
    return ba.at_least("score", relative_to_baseline=True, margin=margin or None, noise=world.noise)


def count(world: World, worse: float, margin: float, gates: int, items: int) -> Counter[str]:
    found: Counter[str] = Counter()
    for number in range(gates):
        random = np.random.default_rng((number, items))
        old, new = frames(world.draw(random, items, worse))
        limit = limit_of(world, margin)
        found[gate_logs(old, new, [limit], delta=DELTA, seed=number, continuations=0).found] += 1
    return found


def errors(gates: int, items: int) -> None:
    print(f"\n{gates:,} gates each, {items:,} items, δ = {DELTA:g}\n")
    print("| values | the candidate is | certified | refuted | undecided | void | wrong | 99% limit |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for world in WORLDS:
        for truth, worse, margin in TRUTHS:
            found = count(world, worse, margin, gates, items)
            # On the limit either verdict may be called wrong; the more frequent one counts.
            wrong = found["refuted"] if worse < margin else max(found["certified"], found["refuted"])
            most = float(beta.ppf(0.99, wrong + 1, gates - wrong)) if wrong < gates else 1.0
            shares = " | ".join(str(found[word]) for word in ("certified", "refuted", "undecided", "void"))
            print(f"| {world.name} | {truth} | {shares} | {wrong} | {most:.3f} |", flush=True)


def forecasts(gates: int, items: int) -> None:
    """Of undecided gates: whether the items that were really needed lie within the forecast."""
    asked, within_half, within_most, given_up, unlikely_right, unlikely = 0, 0, 0, 0, 0, 0
    for number in range(gates):
        random = np.random.default_rng((number, 7))
        worse = float(random.choice([-0.03, -0.01, 0.01, 0.05]))
        values = rates(random, 20 * items, worse)
        limit = limit_of(WORLDS[0], MARGIN)
        few = gate_logs(*frames(values[:, :items]), [limit], seed=number)
        if few.found != "undecided" or few.more_items is None:
            continue
        more = few.more_items
        asked += 1
        earlier = {"items": few.pairs.items, "digest": few.pairs.digests[-1]}
        all_items = gate_logs(*frames(values), [limit], seed=number, after=earlier, continuations=0)
        took = all_items.used - items if all_items.found in ("certified", "refuted") else np.inf
        if more.half == np.inf:
            unlikely += 1
            unlikely_right += took == np.inf
            continue
        within_half += took <= more.half
        within_most += took <= more.most
        given_up += took == np.inf
    print(f"\n{asked} undecided gates on {items} items:")
    named = asked - unlikely
    print(f"{named} forecasts name a number: within it {within_half}, within that for nine in ten {within_most}")
    print(f"{unlikely} say that more items are unlikely to settle it: {unlikely_right} were open at 20 times as many")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gates", type=int, default=200)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--only", choices=["errors", "forecasts"])
    options = parser.parse_args()
    if options.only != "forecasts":
        errors(options.gates, options.items)
    if options.only != "errors":
        forecasts(options.gates, options.items)
