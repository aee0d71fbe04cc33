"""`bestarm demo`: the paper's drug study, live, on simulated patients."""

from __future__ import annotations

import dataclasses
import random
import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from bestarm.analysis.report import html_report, question
from bestarm.answer import Answer
from bestarm.paper.instances import instance
from bestarm.plan import Plan
from bestarm.policies import find_policy
from bestarm.policies.base import Policy, Stop
from bestarm.policies.confidence import present_answer
from bestarm.policies.setting import new_setting
from bestarm.study.conclusion import conclusion
from bestarm.study.standing import ArmStanding, MetricStanding, standings
from bestarm.validation import InvalidInput

_SIGNS = {"feasible": "✓", "infeasible": "✗", "worse": "▽", "open": "·"}
_STYLES = {"feasible": "bold blue", "infeasible": "red", "worse": "dim", "open": "yellow"}


def _cell(metric: MetricStanding) -> str:
    if not metric.tests:
        return "untested"
    sign = {"holds": "✓", "violated": "✗", "open": " "}.get(metric.verdict or "", "")
    return f"{metric.mean:.3f}±{(metric.high - metric.low) / 2:.3f}{sign}"


def _summary(plan: Plan, policy: Policy, rows: list[ArmStanding], seconds: float) -> str:
    undecided = sum(row.verdict == "open" for row in rows)
    leader, confidence = present_answer(policy.setting, policy.streams)
    leads = "no dose looks feasible" if leader is None else f"{plan.arm_names[leader]} leads"
    tests = int(policy.streams.counts.sum())
    return (
        f"{tests:,} tests in {seconds:.1f} s; {undecided} of {len(rows)} doses undecided; "
        f"{leads}, confidence {100 * confidence:.0f} %"
    )


def _view(plan: Plan, policy: Policy, seconds: float) -> Group:
    rows = standings(plan, policy)
    table = Table()
    table.add_column("dose")
    for metric, constraint in zip(plan.metrics, [None, *plan.constraints], strict=True):
        table.add_column(metric if constraint is None else f"{metric}\n< {constraint.threshold:g}", justify="right")
    table.add_column("tests", justify="right")
    table.add_column("verdict")
    for row in rows:
        table.add_row(
            row.name,
            *map(_cell, row.metrics),
            f"{sum(m.tests for m in row.metrics):,}",
            Text(f"{_SIGNS[row.verdict]} {row.verdict}", style=_STYLES[row.verdict]),
        )
    return Group(table, _summary(plan, policy, rows, seconds))


def _patient(lots: random.Random, rate: float) -> float:
    """One simulated patient: 1 if the event happened."""
    return 1.0 if lots.random() < rate else 0.0


def run(report: Path, policy_name: str | None, delta: float, seed: int, rate: int) -> None:
    if rate < 0:
        raise InvalidInput(f"rate = {rate}: must be 0 (as fast as it goes) or a positive number of tests per second")
    if not report.parent.is_dir():
        raise InvalidInput(f"report = {str(report)!r}: the folder {str(report.parent)!r} does not exist")
    plan = dataclasses.replace(instance("drug-bernoulli"), name="drug dose", delta=delta)
    chosen = find_policy(policy_name or plan.policy)
    policy = chosen(new_setting(plan, plan.delta, plan.bound), len(plan.arms), len(plan.metrics), seed=seed)
    console = Console()
    console.print(f"[bold]{question(plan)}[/bold]")
    console.print(
        f"Each test asks one simulated patient one question. The policy {chosen.name} picks the next tests and "
        f"stops when the answer is wrong with probability at most {delta:g}.\n"
    )
    answer = _study(console, plan, policy, random.Random(seed), rate if console.is_terminal else 0)
    console.print(f"\n[bold green]{answer}[/bold green]")
    page = html_report(
        plan,
        answer,
        standings(plan, policy),
        policy=chosen.name,
        source=f"Measured on simulated patients (seed {seed}) with the event rates listed under each arm below.",
    )
    try:
        report.write_text(page, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"report = {str(report)!r}: cannot be written: {error.strerror}") from None
    console.print(f"Report: {report}")


def _study(console: Console, plan: Plan, policy: Policy, lots: random.Random, rate: int) -> Answer:
    means = plan.true_means()
    tests, start, shown = 0, time.monotonic(), -1.0
    every = 0.25 if console.is_terminal else 0.5
    with Live(console=console, auto_refresh=False) as live:
        while not isinstance(proposal := policy.propose(), Stop):
            for arm, metric in proposal:
                policy.tell(arm, metric, _patient(lots, means[arm, metric]))
                tests += 1
            now = time.monotonic() - start
            if now - shown > every:
                shown = now
                if console.is_terminal:
                    live.update(_view(plan, policy, now), refresh=True)
                else:
                    console.print(_summary(plan, policy, standings(plan, policy), now))
            if rate and tests / rate > now + 0.02:
                time.sleep(tests / rate - now)
        live.update(_view(plan, policy, time.monotonic() - start), refresh=True)
    answer = conclusion(plan, policy)
    assert answer is not None, "the policy has stopped"
    return answer
