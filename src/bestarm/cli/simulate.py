"""`bestarm simulate`."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from bestarm.cli.app import print_json
from bestarm.cli.progress import progress_bar, runs_progress
from bestarm.cli.show import literal
from bestarm.plan import Plan
from bestarm.simulation.simulate import Simulation, simulate


def run(
    plan: Plan,
    policy: str | None,
    bound: str | None,
    runs: int,
    delta: float | None,
    seed: int,
    max_tests: int,
    executor: str | None,
    workers: int | None,
    device: str,
    as_json: bool,
) -> None:
    with progress_bar() as bar:
        result = simulate(
            plan,
            policy=policy,
            bound=bound,
            delta=delta,
            runs=runs,
            seed=seed,
            max_tests=max_tests,
            executor=executor,
            workers=workers,
            device=device,
            keep_streams=False,
            progress=runs_progress(bar, runs),
        )
    if as_json:
        print_json(result.summary())
    else:
        Console().print(_table(result))


def _table(result: Simulation) -> Table:
    table = Table(title=literal(f"{result.plan.name}: {result.policy}"), show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    spread = "" if result.runs == 1 else f" ± {result.se_tests:,.1f} (sd {result.sd_tests:,.0f})"
    table.add_row("runs", f"{result.runs:,} (seed {result.seed})")
    table.add_row("delta, bound", f"{result.plan.delta:g}, {result.plan.bound}")
    table.add_row("mean tests", f"{result.mean_tests:,.1f}{spread}")
    table.add_row("mean cost", f"{result.mean_cost:,.1f}")
    table.add_row("wrong answers", f"{result.wrong:,} ({100 * result.error_rate:.3g} %)")
    if result.unfinished:
        table.add_row(
            "unfinished", f"{result.unfinished:,} (stopped at {result.max_tests:,} tests; means include them)"
        )
    counts = sorted(result.answer_counts.items(), key=lambda item: -item[1])
    for k, (answer, count) in enumerate(counts):
        table.add_row(
            "answers" if k == 0 else "", f"{'no feasible arm' if answer == 'none' else literal(answer)}: {count:,}"
        )
    table.add_row("speed", f"{result.tests_per_second / 1e6:,.1f} million tests per second")
    return table
