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
from bestarm.study.decider import Decider

Draw = Callable[[np.random.Generator, int], Floats]
console = Console(width=140)


class Balanced(ba.Gaussian):
    """Symmetry is stated, and nothing else."""

    is_symmetric = True

    @property
    def stated_scatter(self) -> float | None:
        return None


DRAWS: dict[str, tuple[NoiseModel, Draw]] = {
    "normal, σ stated": (ba.Gaussian(1.0), lambda rng, n: rng.standard_normal(n)),
    "normal, symmetry stated": (Balanced(1.0), lambda rng, n: rng.standard_normal(n)),
    "uniform, symmetry stated": (Balanced(1.0), lambda rng, n: rng.uniform(-1.0, 1.0, n)),
    "Laplace, symmetry stated": (Balanced(1.0), lambda rng, n: rng.laplace(size=n)),
    "Student t₃, symmetry stated": (Balanced(1.0), lambda rng, n: rng.standard_t(3, n)),
    "yes or no, rate 0.1": (ba.Bernoulli(), lambda rng, n: (rng.random(n) < 0.1).astype(float)),
    "exponential, range stated": (ba.Bounded(0.0, 50.0), lambda rng, n: rng.exponential(size=n).clip(0.0, 50.0)),
}


def one_metric(arms: int, noise: NoiseModel) -> ba.Plan:
    return ba.Plan(arms=[f"arm {k}" for k in range(arms)], objective=ba.maximize("yield", noise=noise))


def health_of(
    plan: ba.Plan,
    arms: Ints,
    metrics: Ints,
    values: Floats,
    holders: list[str] | None = None,
    false_alarms: float = FALSE_ALARMS,
) -> Health:
    watch = Watch(plan, false_alarms=false_alarms)
    watch.extend(np.arange(1, len(arms) + 1), arms, metrics, values, holders or [])
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
    """Exact 99 % upper limit of a probability."""
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


def false_alarms(studies: int) -> None:
    rows: list[tuple[object, ...]] = []
    for name, (noise, draw) in DRAWS.items():
        plan = one_metric(4, noise)
        rng = np.random.default_rng(1)
        stated = loose = 0
        for _ in range(10 * studies):
            arms, values = rng.integers(0, 4, 240), draw(rng, 240)
            holders = rng.choice(["ann", "bob"], 240).tolist()
            nothing = np.zeros(240, np.int64)
            stated += bool(health_of(plan, arms, nothing, values, holders).warnings)
            loose += bool(health_of(plan, arms, nothing, values, holders, 0.2).warnings)
        rows.append((name, "at random", 10 * studies, stated, f"{limit(stated, 10 * studies):.5f}", loose))
    for name in ("exp1-a", "exp1-c"):
        plan = ba.instance(name)
        records = [played(plan, seed) for seed in range(studies)]
        stated = sum(bool(health_of(plan, *record).warnings) for record in records)
        loose = sum(bool(health_of(plan, *record, None, 0.2).warnings) for record in records)
        rows.append((f"{name}, σ stated", "certify", studies, stated, f"{limit(stated, studies):.5f}", loose))
    show(
        "False alarms: everything is as stated",
        ("results", "tests chosen", "studies", "alarms (promise 0.001)", "99 % upper limit", "alarms (promise 0.2)"),
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
    normal, balanced = ba.Gaussian(1.5), Balanced(1.0)
    cases: list[tuple[str, str, NoiseModel, Callable[..., Floats]]] = [
        ("drift", "drift of 1 σ", normal, lambda rng, n, k, b: rng.standard_normal(n) + np.arange(n) / n),
        ("drift", "step of 1 σ half-way", normal, lambda rng, n, k, b: rng.standard_normal(n) + (np.arange(n) > n / 2)),
        ("dependence", "correlation 0.3", normal, _correlated(0.3)),
        ("dependence", "correlation 0.5", normal, _correlated(0.5)),
        ("worker", "one of two measures 0.5 σ more", normal, lambda rng, n, k, b: rng.standard_normal(n) + 0.5 * b),
        ("worker", "one of two measures 1 σ more", normal, lambda rng, n, k, b: rng.standard_normal(n) + b),
        ("skewness", "exponential", balanced, lambda rng, n, k, b: rng.exponential(size=n)),
        ("skewness", "lognormal, 0.5", balanced, lambda rng, n, k, b: rng.lognormal(sigma=0.5, size=n)),
    ]
    sizes = ((3, 100), (3, 300), (10, 100), (10, 300))
    rows: list[tuple[object, ...]] = [
        (words, *(f"{_in_turn(one_metric(k, noise), kind, k, n, studies, spoil):.0%}" for k, n in sizes))
        for kind, words, noise, spoil in cases
    ]
    header = ("what is wrong", *(f"{k} arms × {n}" for k, n in sizes))
    show(f"Found in {studies:,} studies of one metric, arms in turn, results of each arm", header, rows)


TABLES = {"false-alarms": false_alarms, "scatter": scatter, "drift": drift, "others": others}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--studies", type=int, default=1000, help="studies in each row; ten times as many at random")
    options.add_argument("--only", choices=sorted(TABLES), action="append", help="default: all tables")
    choice = options.parse_args()
    for name in choice.only or TABLES:
        TABLES[name](choice.studies)


if __name__ == "__main__":
    main()
