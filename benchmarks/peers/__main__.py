"""Peers head to head: how often is the answer wrong or infeasible, and after how many tests?

    python -m benchmarks.peers --out docs/pictures/peers

prints the table of docs/peers.md and draws its picture; run it from the repository, with `bestarm[plot,optuna,ax]`,
Optuna 5 or newer, and SciPy. `--optuna-runs 0 --averaged-runs 0` does without Optuna, `--ax-runs 0` without Ax.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.util
import math
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from benchmarks.peers import by_hand
from benchmarks.peers.problems import UNDECIDED, Ints, is_infeasible, is_wrong, problems
from benchmarks.peers.tuners import AVERAGED_POOLED, AX_BANDIT, AX_MODEL, SINGLE, TUNERS, tune

import bestarm as ba
from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.drawing import save
from bestarm.problem import Plan

SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0)
"""Budgets, as shares of the tests that `certify` takes on average."""
SHOWN = (1 / 4, 1.0)
"""Those in the table; Ax, which takes longest, has only these."""
DRAWN = ("exp1-a", "drug-bernoulli", "cache", "models")

HAND = "equal samples, the best-looking"
METHODS = (HAND, *(name for tuner in TUNERS.values() for name in tuner.names))
STYLES = {HAND: 0, SINGLE: 1, AVERAGED_POOLED: 2, AX_MODEL: 3, AX_BANDIT: 4}
"""What the picture shows, and how; with all of them it would be unreadable."""


@dataclasses.dataclass(frozen=True)
class Score:
    """How the answers of some runs turned out, as shares of the runs."""

    runs: int
    wrong: float
    infeasible: float
    undecided: float

    @classmethod
    def of(cls, plan: Plan, answers: Ints) -> Score:
        found = np.asarray(answers)
        shares = (is_wrong(plan, found), is_infeasible(plan, found), found == UNDECIDED)
        return cls(len(found), *(float(share.mean()) for share in shares))

    @property
    def error(self) -> float:
        """The standard error of `wrong`."""
        return math.sqrt(self.wrong * (1.0 - self.wrong) / self.runs)

    def __str__(self) -> str:
        return f"{percent(self.wrong)} ({percent(self.infeasible)})"


def percent(share: float) -> str:
    return f"{100 * share:.2g}%" if 0.0 < share < 0.0995 else f"{100 * share:.0f}%"


@dataclasses.dataclass(frozen=True)
class Found:
    """Everything about one problem."""

    plan: Plan
    certify: Score
    certify_tests: float
    once: Score
    by_budget: dict[tuple[str, float], Score]
    """By what was done, and the share of `certify`'s tests that it was given."""
    planned_tests: int
    planned_wrong: float
    peeking_tests: float
    peeking: Score

    def budget(self, share: float) -> int:
        return round(self.certify_tests * share)


def compare(plan: Plan, runs: dict[str, int], pool: Executor) -> Found:
    seed = 2026
    certified = ba.simulate(plan, policy="certify", runs=runs["cheap"], seed=seed)
    needed = certified.mean_tests
    budgets = tuple(round(needed * share) for share in SHARES)
    scores = {
        (HAND, share): Score.of(plan, by_hand.equal_samples(plan, tests, runs["cheap"], seed))
        for share, tests in zip(SHARES, budgets, strict=True)
    }
    for key, tuner in TUNERS.items():
        if not runs[key]:
            continue
        print(f"{plan.name}: {', '.join(tuner.names)}", file=sys.stderr, flush=True)
        shares = SHOWN if tuner.package == "ax" else SHARES
        given = tuple(round(needed * share) for share in shares)
        work = [(key, plan.name, given, seed + k) for k in range(runs[key])]
        answers = np.array(list(pool.map(tune, work)))  # [run, budget, name]
        # Fewer budgets than shares where Optuna's trials would be too many.
        for share, found in zip(shares, answers.transpose(1, 2, 0), strict=False):
            scores |= {(name, share): Score.of(plan, row) for name, row in zip(tuner.names, found, strict=True)}
    planned_tests, planned_wrong = by_hand.planned(plan, runs["cheap"], seed)
    peeking_tests, peeked = by_hand.peeking(plan, runs["cheap"], seed)
    return Found(
        plan=plan,
        certify=Score.of(plan, certified.answers),
        certify_tests=needed,
        once=Score.of(plan, by_hand.equal_samples(plan, by_hand.streams(plan), runs["cheap"], seed)),
        by_budget=scores,
        planned_tests=planned_tests,
        planned_wrong=planned_wrong,
        peeking_tests=peeking_tests,
        peeking=Score.of(plan, peeked),
    )


def table(found: Sequence[Found]) -> Iterator[str]:
    """Markdown: a row for each thing to do, a column for each problem."""

    def row(title: str, cells: Sequence[str]) -> str:
        return f"| {title} | {' | '.join(cells)} |"

    yield row("", [item.plan.name for item in found])
    yield f"| --- |{' ---: |' * len(found)}"
    yield row("arms × metrics", [f"{len(item.plan.arms)} × {len(item.plan.metrics)}" for item in found])
    yield row("δ", [f"{item.plan.delta:g}" for item in found])
    yield row("**`certify`**, mean tests", [f"**{item.certify_tests:,.0f}**" for item in found])
    yield row("wrong (infeasible)", [f"**{item.certify}**" for item in found])
    yield row("*measure each once*: tests", [f"{by_hand.streams(item.plan):,}" for item in found])
    yield row("wrong (infeasible)", [str(item.once) for item in found])
    for share in SHOWN:
        title = "as many tests as `certify`" if share == 1.0 else f"{share:g} of `certify`'s tests"
        yield row(f"*{title}*", [f"{item.budget(share):,}" for item in found])
        for method in METHODS:
            if any((method, share) in item.by_budget for item in found):
                yield row(method, [str(item.by_budget.get((method, share), "–")) for item in found])
    yield row(
        "*equal samples, Bonferroni, size planned with the true means*: tests",
        [f"{item.planned_tests:,}" for item in found],
    )
    yield row("its multiple of `certify`'s", [f"{item.planned_tests / item.certify_tests:.1f}" for item in found])
    yield row("its wrong conclusions", [percent(item.planned_wrong) for item in found])
    yield row("*the same, a look after every round*: mean tests", [f"{item.peeking_tests:,.0f}" for item in found])
    yield row("wrong (infeasible)", [str(item.peeking) for item in found])


def chart(found: Sequence[Found]) -> Chart:
    panels = []
    for item in (item for item in found if item.plan.name in DRAWN):
        tests = tuple(float(item.budget(share)) for share in SHARES)
        series = []
        for method in STYLES:
            done = [share for share in SHARES if (method, share) in item.by_budget]
            if done:
                scores = [item.by_budget[method, share] for share in done]
                at = tuple(float(item.budget(share)) for share in done)
                wrong, bars = (tuple(100 * getattr(score, part) for score in scores) for part in ("wrong", "error"))
                series.append(Series(method, at, wrong, bars, style=STYLES[method]))
        series.append(Series("certify stops here (mean)", (tests[-1],), (100 * item.certify.wrong,), (0.0,), style=5))
        level = (100 * item.plan.delta,) * 2
        series.append(Series("δ", (tests[0], tests[-1]), level, reference=True))
        panels.append(Panel(item.plan.name, "tests", "wrong answers, %", tuple(series), log_x=True))
    return Chart("Wrong answers by tests", tuple(panels))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--runs", type=int, default=2000, help="of what is cheap: certify, and what people do by hand")
    options.add_argument("--optuna-runs", type=int, default=20, help="of Optuna with one measurement a trial")
    options.add_argument("--averaged-runs", type=int, default=100, help="of Optuna with averages")
    options.add_argument("--ax-runs", type=int, default=50, help="of Ax with equal samples, and of its bandit")
    options.add_argument("--problem", action="append", choices=list(problems()), help="default: all")
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--out", type=Path, help="where to write the picture: a path without its ending")
    choice = options.parse_args()
    runs = {
        "cheap": choice.runs,
        "single": choice.optuna_runs,
        "averaged": choice.averaged_runs,
        "ax": choice.ax_runs,
        "bandit": choice.ax_runs,
    }
    for package in sorted({tuner.package for key, tuner in TUNERS.items() if runs[key]}):
        if importlib.util.find_spec(package) is None:
            options.error(f"{package} is not installed: pip install 'bestarm[{package}]', or give its runs as 0")
    start = time.perf_counter()
    with ProcessPoolExecutor(choice.workers, mp_context=get_context("spawn")) as pool:
        chosen = [plan for name, plan in problems().items() if name in (choice.problem or problems())]
        found = [compare(plan, runs, pool) for plan in chosen]
    print("\n".join(table(found)))
    print(f"\n{runs}, {time.perf_counter() - start:.0f} s")
    if choice.out is not None and any(item.plan.name in DRAWN for item in found):
        save(chart(found), choice.out)


if __name__ == "__main__":
    main()
