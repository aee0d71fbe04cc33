"""Do the health checks stay silent when they should, and speak when they should?

    python benchmarks/health.py                    # all tables
    python benchmarks/health.py --studies 100      # a quick look
    python benchmarks/health.py --only drift

Each table says in how many of so many simulated studies something was found, and in how many it was the thing that was
wrong.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.table import Table
from scipy.stats import beta

import bestarm as ba
from bestarm.analysis.health.notes import Health
from bestarm.analysis.health.watch import FALSE_ALARMS, Watch
from bestarm.kernel.state import Floats, Ints
from bestarm.noises.base import NoiseModel
from bestarm.storage.base import Entries
from bestarm.study.record.decider import Decider

console = Console(width=140)


class Kind(NamedTuple):
    """Results that are as stated: of so many arms, [arm, time]."""

    name: str
    noise: NoiseModel
    draw: Callable[[np.random.Generator, int, int], Floats]
    arms: int = 6
    items: int | None = None
    repeats: bool = False
    results: int = 40
    """Of each arm."""


def _even(name: str, noise: NoiseModel, draw: Callable[[np.random.Generator, tuple[int, int]], Floats]) -> Kind:
    return Kind(name, noise, lambda rng, arms, n: draw(rng, (arms, n)))


def _growing(rng: np.random.Generator, arms: int, n: int) -> Floats:
    found: Floats = rng.standard_normal((arms, n)) * np.square(np.arange(1, n + 1) / n)
    return found


def _shrinking(rng: np.random.Generator, arms: int, n: int) -> Floats:
    found: Floats = rng.standard_normal((arms, n)) * np.square(np.arange(n, 0, -1) / n)
    return found


def _bursts(rng: np.random.Generator, arms: int, n: int) -> Floats:
    """Times at which all arms scatter ten times as much."""
    found: Floats = rng.standard_normal((arms, n)) * np.repeat(rng.choice([0.1, 1.0], (n + 9) // 10), 10)[:n]
    return found


def _turning(rng: np.random.Generator, arms: int, n: int) -> Floats:
    """A mean of 0.2, first by 0 and 1, then by values near 0.2: the shape changes, the mean does not."""
    late = np.arange(n) > n / 2
    found: Floats = np.where(late, rng.uniform(0.1, 0.3, (arms, n)), (rng.random((arms, n)) < 0.2).astype(float))
    return found


def _common(spread: float) -> Callable[[np.random.Generator, int, int], Floats]:
    """What an item does to all arms alike, and the rest."""
    own = math.sqrt(1.0 - spread * spread)
    return lambda rng, arms, n: spread * rng.standard_normal(n) + own * rng.standard_normal((arms, n))


def _common_rate(rng: np.random.Generator, arms: int, n: int) -> Floats:
    """Easy items and hard ones."""
    return (rng.random((arms, n)) < rng.choice([0.05, 0.95], n)).astype(float)


KINDS = [
    _even("normal, σ stated", ba.Gaussian(1.0), lambda rng, size: rng.standard_normal(size)),
    _even("normal, symmetry stated", ba.Symmetric(), lambda rng, size: rng.standard_normal(size)),
    _even("uniform, symmetry stated", ba.Symmetric(), lambda rng, size: rng.uniform(-1.0, 1.0, size)),
    _even("Student t₃, symmetry stated", ba.Symmetric(), lambda rng, size: rng.standard_t(3, size)),
    _even("−1 or 1, symmetry stated", ba.Symmetric(), lambda rng, size: rng.choice([-1.0, 1.0], size)),
    _even("yes or no, rate 0.1", ba.Bernoulli(), lambda rng, size: (rng.random(size) < 0.1).astype(float)),
    _even("exponential, range stated", ba.Bounded(0.0, 50.0), lambda rng, size: rng.exponential(size=size).clip(0, 50)),
    Kind("scatter grows, σ stated", ba.Gaussian(1.0), _growing, 10, results=100),
    Kind("scatter shrinks, σ stated", ba.Gaussian(1.0), _shrinking, 10, results=100),
    Kind("bursts of scatter, σ stated", ba.Gaussian(1.0), _bursts, 10, results=100),
    Kind("scatter grows, symmetry stated", ba.Symmetric(), _growing, 10, results=100),
    Kind("scatter shrinks, symmetry stated", ba.Symmetric(), _shrinking, 10, results=100),
    Kind("bursts of scatter, symmetry stated", ba.Symmetric(), _bursts, 10, results=100),
    Kind("shape changes, range stated", ba.Bounded(0.0, 1.0), _turning, results=100),
    Kind("8 arms on 400 items, σ stated", ba.Gaussian(1.0), _common(0.9), 8, 400),
    Kind("10 arms on 400 items, σ stated", ba.Gaussian(1.0), _common(0.99), 10, 400),
    Kind("30 arms on 400 items, σ stated", ba.Gaussian(1.0), _common(0.9), 30, 400),
    Kind("30 arms on 400 items, symmetry stated", ba.Symmetric(), _common(0.99), 30, 400),
    Kind("10 arms on repeated items, range stated", ba.Bounded(-20.0, 20.0), _common(0.99), 10, 400, True),
    Kind("10 arms on 400 items, yes or no", ba.Bernoulli(), _common_rate, 10, 400),
]


def one_metric(arms: int, noise: NoiseModel, items: int | None = None, *, repeats: bool = False) -> ba.Plan:
    objective = ba.maximize("yield", noise=noise)
    return ba.Plan(arms=[f"arm {k}" for k in range(arms)], objective=objective, items=items, repeats=repeats)


def health_of(
    plan: ba.Plan,
    arms: Ints,
    metrics: Ints,
    values: Floats,
    holders: list[str] | None = None,
    false_alarms: float = FALSE_ALARMS,
    plates: Floats | None = None,
) -> Health:
    watch = Watch(plan, false_alarms=false_alarms)
    watch.extend(np.arange(1, len(arms) + 1), arms, metrics, values, holders or [], plates)
    return watch.health()


def played(plan: ba.Plan, seed: int, scatter: float = 1.0, drift: float = 0.0) -> tuple[Ints, Ints, Floats]:
    """A study decided by `certify` up to its end: `scatter` times the stated noise; the objective rises by `drift` with
    each result."""
    decider, rng = Decider(plan, seed), np.random.default_rng(seed)
    decider._compile(wait=True)
    rows: list[tuple[int, int, float]] = []
    while decider.stop is None:
        tests = np.array(decider.next_round())
        number = len(rows) + np.arange(len(tests))
        means = np.array([plan.arms[arm].means[plan.metrics[metric]] for arm, metric in tests.tolist()])
        values = means + scatter * rng.standard_normal(len(tests)) + drift * number * (tests[:, 1] == 0)
        ends = (number == number[-1]).astype(np.int8)
        decider.enter(Entries(number + 1, tests[:, 0], tests[:, 1], values, ends, 0.0 * values, 0 * number))
        rows += zip(tests[:, 0].tolist(), tests[:, 1].tolist(), values.tolist(), strict=True)
    arms, metrics, results = zip(*rows, strict=True)
    return np.array(arms), np.array(metrics), np.array(results)


def limit(found: int, studies: int) -> float:
    """Exact 99% upper limit of a probability."""
    return 1.0 if found == studies else float(beta.ppf(0.99, found + 1, studies - found))


def show(title: str, header: tuple[str, ...], rows: list[tuple[object, ...]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in header:
        table.add_column(column)
    for row in rows:
        table.add_row(*map(str, row))
    console.print(table)


def is_found(health: Health, kind: str) -> bool:
    return any(note.kind == kind for note in health.notes)


# ---------------------------------------------------------------------------------------------- the tables


def _luckiest(rng: np.random.Generator, table: Floats) -> tuple[Ints, Floats]:
    """Half of the tests in turn, the others of the arm with the largest mean so far, as policies do."""
    arms, n = table.shape
    sums, counts = table[:, 0].copy(), np.ones(arms, np.int64)
    chosen = [*range(arms)]
    values = table[:, 0].tolist()
    while len(chosen) < arms * n and counts.max() < n:
        arm = int((sums / counts).argmax()) if rng.random() < 0.5 else int(counts.argmin())
        value = table[arm, counts[arm]]
        chosen.append(arm)
        values.append(value)
        sums[arm] += value
        counts[arm] += 1
    return np.array(chosen), np.array(values)


def false_alarms(studies: int) -> None:
    """Half of the studies test arms in turn, half prefer the lucky ones. In groups of 24, with two workers."""
    rows: list[tuple[object, ...]] = []
    total = broken_in_all = 0
    for kind in KINDS:
        plan = one_metric(kind.arms, kind.noise, kind.items, repeats=kind.repeats)
        rng = np.random.default_rng(1)
        broken = doubtful = loose = 0
        for study in range(studies):
            table = kind.draw(rng, kind.arms, kind.results)
            arms, values = np.arange(table.size) % kind.arms, table.T.ravel()
            if study % 2:
                arms, values = _luckiest(rng, table)
            holders = rng.choice(["ann", "bob"], len(arms)).tolist()
            plates = np.floor(np.arange(float(len(arms))) / 24.0)
            nothing = np.zeros(len(arms), np.int64)
            health = health_of(plan, arms, nothing, values, holders, plates=plates)
            broken += any(note.severity == "broken" for note in health.notes)
            doubtful += any(note.severity == "doubtful" for note in health.notes)
            if study < studies // 5:
                health = health_of(plan, arms, nothing, values, holders, 0.2, plates=plates)
                loose += any(note.severity == "broken" for note in health.notes)
        size = f"{kind.arms} × {kind.results}"
        rows.append((kind.name, size, studies, broken, doubtful, f"{loose} of {studies // 5}"))
        print(*rows[-1], flush=True)
        total, broken_in_all = total + studies, broken_in_all + broken
    rows.append((f"all: at most {limit(broken_in_all, total):.5f}, with 99%", "", total, broken_in_all, "", ""))
    for name in ("exp1-a", "exp1-c"):
        plan = ba.instance(name)
        records = [played(plan, seed) for seed in range(studies // 5)]
        stated = sum(bool(health_of(plan, *record).warnings) for record in records)
        loose = sum(bool(health_of(plan, *record, None, 0.2).warnings) for record in records)
        rows.append(
            (f"{name}, σ stated, certify decides", "5 arms", len(records), stated, 0, f"{loose} of {len(records)}")
        )
    show(
        "False alarms: everything is as stated",
        ("results", "arms × results", "studies", "broken (promise 0.001)", "doubtful", "broken (promise 0.2)"),
        rows,
    )


def scatter(studies: int) -> None:
    rows: list[tuple[object, ...]] = []
    for name in ("exp1-a", "exp1-b", "exp1-c"):
        plan = ba.instance(name)
        for times in (1.5, 3.0):
            records = [played(plan, seed, times) for seed in range(studies)]
            found = sum(is_found(health_of(plan, *record), "scatter") for record in records)
            tests = np.mean([len(record[0]) for record in records])
            rows.append((name, f"{times:g}", studies, f"{tests:,.0f}", f"{found / studies:.1%}"))
    show(
        "σ stated too small; certify decides; found at the end of the study",
        ("instance", "true σ ÷ stated", "studies", "mean tests", "found"),
        rows,
    )


def drift(studies: int) -> None:
    """The objective of every arm rises by one σ over the length that the study has without the drift."""
    rows: list[tuple[object, ...]] = []
    plans = {"exp1-b": ba.instance("exp1-b")}
    for gaps in ((0.2,), (0.1, 0.25), (0.15, 0.15, 0.15), (0.2, 0.2, 0.2, 0.2)):
        best = ba.Arm("best", {"yield": 0.0})
        others = [ba.Arm(f"{k + 2}", {"yield": -gap}) for k, gap in enumerate(gaps)]
        name = f"{len(gaps) + 1} arms, gaps {', '.join(f'{gap:g} σ' for gap in gaps)}"
        plans[name] = ba.Plan(arms=[best, *others], objective=ba.maximize("yield", noise=ba.Gaussian(1.0)))
    for name, plan in plans.items():
        lengths, found = [], []
        for seed in range(studies):
            record = played(plan, seed, drift=1.0 / len(played(plan, seed)[0]))
            lengths.append(len(record[0]))
            found.append(is_found(health_of(plan, *record), "drift"))
        share, long = np.array(found), np.array(lengths) >= 1000
        rows.append(
            (
                name,
                *(studies, f"{np.mean(lengths):,.0f}", f"{share.mean():.0%}"),
                f"{share[long].mean():.0%} of {long.sum()}",
            )
        )
    header = ("problem", "studies", "mean tests", "found", "found, of studies of 1,000 tests and more")
    show("A drift of one σ over the study's length; certify decides", header, rows)


def _in_turn(plan: ba.Plan, kind: str, arms: int, each: int, studies: int, spoil: Callable[..., Floats]) -> float:
    rng = np.random.default_rng(2)
    total = arms * each
    order, nothing = np.arange(total) % arms, np.zeros(total, np.int64)
    found = 0
    for _ in range(studies):
        is_bob = rng.random(total) < 0.5
        holders = [("ann", "bob")[bob] for bob in is_bob.tolist()]
        values = spoil(rng, total, arms, is_bob)
        found += is_found(health_of(plan, order, nothing, values, holders), kind)
    return found / studies


def _correlated(rho: float) -> Callable[..., Floats]:
    def values(rng: np.random.Generator, total: int, arms: int, is_bob: Ints) -> Floats:
        drawn = rng.standard_normal(total)
        for k in range(arms, total):
            drawn[k] = rho * drawn[k - arms] + math.sqrt(1.0 - rho * rho) * drawn[k]
        return drawn

    return values


def others(studies: int) -> None:
    """Arms are tested in turn."""
    order: list[tuple[str, str, Callable[..., Floats]]] = [
        ("drift", "drift of 1 σ", lambda rng, n, k, b: rng.standard_normal(n) + np.arange(n) / n),
        ("drift", "step of 1 σ half-way", lambda rng, n, k, b: rng.standard_normal(n) + (np.arange(n) > n / 2)),
        ("dependence", "correlation 0.3", _correlated(0.3)),
        ("dependence", "correlation 0.5", _correlated(0.5)),
        ("worker", "one of two measures 0.5 σ more", lambda rng, n, k, b: rng.standard_normal(n) + 0.5 * b),
        ("worker", "one of two measures 1 σ more", lambda rng, n, k, b: rng.standard_normal(n) + b),
    ]
    noises = {"σ": ba.Gaussian(1.0), "1.5 σ": ba.Gaussian(1.5), "symmetry": ba.Symmetric()}
    cases: list[tuple[str, str, str, NoiseModel, Callable[..., Floats]]] = [
        (kind, words, stated, noise, spoil) for kind, words, spoil in order for stated, noise in noises.items()
    ]
    exponential, lognormal = (
        (lambda rng, n, k, b: rng.exponential(size=n)),
        (lambda rng, n, k, b: rng.lognormal(0, 0.5, n)),
    )
    cases += [
        ("skewness", "exponential", "symmetry", ba.Symmetric(), exponential),
        ("skewness", "lognormal, 0.5", "symmetry", ba.Symmetric(), lognormal),
    ]
    sizes = ((3, 100), (3, 300), (10, 100), (10, 300))
    rows: list[tuple[object, ...]] = [
        (words, stated, *(f"{_in_turn(one_metric(k, noise), kind, k, n, studies, spoil):.0%}" for k, n in sizes))
        for kind, words, stated, noise, spoil in cases
    ]
    header = ("what is wrong", "stated", *(f"{k} arms × {n}" for k, n in sizes))
    show(f"Found in {studies:,} studies of one metric, arms in turn, results of each arm", header, rows)


def together(studies: int) -> None:
    """Plates of 24 tests, three of each of eight arms, that share an effect."""
    rows: list[tuple[object, ...]] = []
    noises = {"σ stated": ba.Gaussian(1.0), "1.5 σ stated": ba.Gaussian(1.5), "symmetry stated": ba.Symmetric()}
    for name, noise in noises.items():
        plan = one_metric(8, noise)
        for plates in (10, 20, 30):
            rng, total = np.random.default_rng(4), 24 * plates
            arms, nothing = np.arange(total) % 8, np.zeros(total, np.int64)
            of_test = np.repeat(np.arange(plates) * 1.0, 24)
            found = []
            for effect in (0.6, 1.0):
                drawn = [
                    rng.standard_normal(total) + effect * rng.standard_normal(plates)[of_test.astype(int)]
                    for _ in range(studies)
                ]
                seen = [health_of(plan, arms, nothing, values, plates=of_test) for values in drawn]
                found.append(f"{sum(is_found(health, 'together') for health in seen)} of {studies}")
            rows.append((name, plates, *found))
    header = ("noise", "plates of 24", "plate effect of 0.6 σ", "plate effect of 1 σ")
    show("Results entered together resemble each other", header, rows)


TABLES = {"false-alarms": false_alarms, "scatter": scatter, "drift": drift, "others": others, "together": together}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--studies", type=int, default=500, help="studies in each row")
    options.add_argument("--only", choices=sorted(TABLES), action="append", help="default: all tables")
    choice = options.parse_args()
    for name in choice.only or TABLES:
        TABLES[name](choice.studies)


if __name__ == "__main__":
    main()
