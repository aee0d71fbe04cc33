"""`bestarm theory`: how hard a problem is."""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from bestarm.cli.shared.arguments import AsJson, Delta, Source
from bestarm.cli.shared.command import command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.show import literal, print_json

if TYPE_CHECKING:
    from bestarm.problem import Plan
    from bestarm.theory import Theory


@command(place=20)
def theory(source: Source, delta: Delta = None, as_json: AsJson = False) -> None:
    """How hard a problem is: complexity terms, lower and upper bounds, the best allocation of tests."""
    from bestarm.theory import analyze

    plan = load_plan(source)
    if delta is not None:
        plan = dataclasses.replace(plan, delta=delta)
    result = analyze(plan, plan.delta)
    if as_json:
        print_json(result.summary())
    else:
        console = Console()
        console.print(_overall(plan, result))
        console.print(_arms(result))
        console.print(_allocation(result))
        for note in result.not_computed:
            console.print(literal(note), highlight=False, soft_wrap=True)


def _overall(plan: Plan, theory: Theory) -> Table:
    table = Table(title=f"{literal(plan.name)}: what it costs to know", show_header=False, title_justify="left")
    table.add_column()
    table.add_column(justify="right")
    table.add_row("answer", "no feasible arm" if theory.answer is None else literal(theory.answer))
    table.add_row("delta", f"{plan.delta:g}")
    table.add_row("H, the paper's complexity", _number(theory.H))
    table.add_row("tests any method needs (Theorem 1)", _number(theory.lower_bound))
    table.add_row("tests Algorithm 1 may need (Theorem 2)", _number(theory.upper_bound))
    table.add_row("T*, cost per unit of log(1/delta)", _number(theory.characteristic_time))
    table.add_row("cost any method needs, T* kl(delta, 1 - delta)", _number(theory.kl_bound))
    return table


def _arms(theory: Theory) -> Table:
    table = Table(title="How hard the arms are", title_justify="left")
    table.add_column("arm")
    for heading in ("feasible", "set"):
        table.add_column(heading, justify="center")
    for heading in ("theta", "phi", "H"):
        table.add_column(heading, justify="right")
    for arm in theory.arms:
        sizes = (_number(arm.theta), _number(arm.phi), _number(arm.H))
        table.add_row(literal(arm.name), "yes" if arm.feasible else "no", arm.set, *sizes)
    return table


def _allocation(theory: Theory) -> Table:
    table = Table(title="How an oracle spreads its tests, in %", title_justify="left")
    table.add_column("arm")
    for metric in theory.metrics:
        table.add_column(literal(metric), justify="right")
    for arm, shares in zip(theory.arms, theory.allocation, strict=True):
        table.add_row(literal(arm.name), *(_percent(share) for share in shares))
    return table


def _number(number: float) -> str:
    if math.isnan(number):
        return "not computed"
    if math.isinf(number):
        return "infinite"
    return f"{number:,.0f}" if number >= 10_000 else f"{number:,.4g}"


def _percent(share: float) -> str:
    return "–" if math.isnan(share) or share == 0.0 else f"{100 * share:.2f}"
