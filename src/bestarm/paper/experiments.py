"""The paper's experiments: which simulations each needs, and how its table or figure is made from them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path

from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.drawing import save
from bestarm.paper.instances import SIZES_K, SIZES_N, instance
from bestarm.paper.page import Block, Figure, Grid, Heading, Items, Text
from bestarm.policies.base import Policy
from bestarm.simulation.campaign import Campaign, CampaignResult, Cell
from bestarm.simulation.simulate import Simulation
from bestarm.theory import analyze

ALGORITHM_1 = "feasible-lucb"
POLICIES = (ALGORITHM_1, "feasibility-first", "performance-first", "tf-lucb", "racing")
DELTAS = tuple(10.0**-k for k in range(1, 10))
BOUNDS = ("paper", "lil", "mixture")
TESTS = "tests (mean, sd)"

TABLE_1 = {
    "exp1-a": {"feasibility-first": 0.58, "performance-first": 3.09, "tf-lucb": 1.77, "racing": 1.81},
    "exp1-b": {"feasibility-first": 3.13, "performance-first": 0.84, "tf-lucb": 1.98, "racing": 4.75},
    "exp1-c": {"feasibility-first": 4.00, "performance-first": 3.47, "tf-lucb": 2.78, "racing": 4.06},
}
"""Experiment 1 as printed in the paper: tests relative to Algorithm 1, means over 10 runs."""


@dataclasses.dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper."""

    name: str
    title: str
    cells: Callable[[Sequence[str | type[Policy]]], list[Cell]]
    """The simulations it needs, given the policies."""
    render: Callable[[CampaignResult, Path], list[Block]]
    """Writes its figures into a folder and returns its part of the page."""
    takes_more: bool = True
    """Whether it shows further policies beside the paper's."""

    def campaign(self, policies: Sequence[str | type[Policy]], runs: int, seed: int) -> Campaign:
        return Campaign(tuple(self.cells(policies)), runs, seed)


def _cells(names: Sequence[str], policies: Sequence[str | type[Policy]]) -> list[Cell]:
    return list(Campaign.grid([instance(name) for name in names], policies=policies, runs=1).cells)


def _policies_in(result: CampaignResult) -> list[str]:
    return list(dict.fromkeys(simulation.policy for simulation in result.simulations))


def _mean_sd(simulation: Simulation) -> str:
    return f"{simulation.mean_tests:,.0f} ± {0.0 if simulation.runs == 1 else simulation.sd_tests:,.0f}"


def _series(label: str, x: Sequence[float | str], simulations: Sequence[Simulation]) -> Series:
    deviations = tuple(0.0 if s.runs == 1 else s.sd_tests for s in simulations)
    # A policy looks the same in every figure.
    style = POLICIES.index(label) if label in POLICIES else None
    return Series(label, tuple(x), tuple(s.mean_tests for s in simulations), deviations, style=style)


def _lower_bounds(x: Sequence[float | str], simulations: Sequence[Simulation]) -> Series:
    bounds = tuple(analyze(s.plan, s.plan.delta).lower_bound for s in simulations)
    return Series("lower bound (Theorem 1)", tuple(x), bounds, reference=True)


def _bars(result: CampaignResult, name: str, title: str) -> Panel:
    """A bar for each policy on one instance, and the lower bound."""
    bars = [_series(policy, [name], [result.find(name, policy)]) for policy in _policies_in(result)]
    return Panel(title, "", TESTS, (*bars, _lower_bounds([name], [result.find(name, ALGORITHM_1)])), bars=True)


def _bounds_table(simulations: Sequence[Simulation]) -> Grid:
    """Algorithm 1 between the lower bounds and Theorem 2."""
    rows = []
    for s in simulations:
        theory = analyze(s.plan, s.plan.delta)
        rows.append(
            (
                f"{s.plan.name}, δ = {s.plan.delta:g}",
                f"{theory.lower_bound:,.0f}",
                f"{theory.kl_bound:,.0f}",
                f"{s.mean_tests:,.0f}",
                f"{theory.upper_bound:,.0f}",
                f"{s.mean_tests / theory.lower_bound:.1f}",
                f"{s.mean_tests / theory.kl_bound:.1f}",
                f"{s.wrong} of {s.runs:,}",
            )
        )
    lower, upper = ("Theorem 1", "T* kl(δ, 1 − δ)"), "Theorem 2"
    return Grid(
        ("instance", *lower, "Algorithm 1", upper, *(f"÷ {one}" for one in lower), "wrong answers"), tuple(rows)
    )


def _render_table1(result: CampaignResult, folder: Path) -> list[Block]:
    others = [policy for policy in _policies_in(result) if policy != ALGORITHM_1]
    ratios, counts = [], []
    for name, published in TABLE_1.items():
        base = result.find(name, ALGORITHM_1)
        ratio = [result.find(name, p).mean_tests / base.mean_tests for p in others]
        theirs = [f" [{published[p]:.2f}]" if p in published else "" for p in others]
        cells = [f"{r:.2f}{said}" for r, said in zip(ratio, theirs, strict=True)]
        ratios.append((name, "1.00", *cells))
        counts.append((name, _mean_sd(base), *(_mean_sd(result.find(name, p)) for p in others)))
    header = ("instance", ALGORITHM_1, *others)
    chart = Chart("Experiment 1", tuple(_bars(result, name, name) for name in TABLE_1))
    save(chart, folder / "table1")
    return [
        Text("Tests relative to Algorithm 1 [the paper's, over 10 runs]:"),
        Grid(header, tuple(ratios)),
        Text("Tests, mean ± standard deviation:"),
        Grid(header, tuple(counts)),
        Figure("table1", "Experiment 1: tests of each policy; error bars are standard deviations."),
        _bounds_table([result.find(name, ALGORITHM_1) for name in TABLE_1]),
    ]


def _figure2_cells(policies: Sequence[str | type[Policy]]) -> list[Cell]:
    names = [*(f"exp2-n{n}" for n in SIZES_N), *(f"exp2-k{k}" for k in SIZES_K)]
    sweep = Campaign.grid([instance("exp2-delta")], policies=policies, deltas=DELTAS, runs=1)
    return _cells(names, policies) + list(sweep.cells)


def _render_figure2(result: CampaignResult, folder: Path) -> list[Block]:
    sweeps: list[tuple[str, str, list[float], Callable[[str, float], Simulation], bool]] = [
        ("number of constraints", "N", list(map(float, SIZES_N)), lambda p, n: result.find(f"exp2-n{n:.0f}", p), False),
        ("number of arms", "K", list(map(float, SIZES_K)), lambda p, k: result.find(f"exp2-k{k:.0f}", p), False),
        ("confidence", "δ", list(DELTAS), lambda p, d: result.find("exp2-delta", p, delta=d), True),
    ]
    policies, panels, measured = _policies_in(result), [], []
    for title, letter, x, find, reverse in sweeps:
        ours = [find(ALGORITHM_1, value) for value in x]
        lines = [_series(policy, x, [find(policy, value) for value in x]) for policy in policies]
        panels.append(
            Panel(title, letter, TESTS, (*lines, _lower_bounds(x, ours)), log_x=True, log_y=True, reversed_x=reverse)
        )
        measured += ours
    save(Chart("Experiment 2", tuple(panels)), folder / "figure2")
    return [
        Figure("figure2", "Experiment 2: tests against N, K and δ; error bars are standard deviations."),
        *_fewer_than_algorithm_1(result),
        _bounds_table(measured),
    ]


def _fewer_than_algorithm_1(result: CampaignResult) -> list[Block]:
    """Which of the paper's policies take fewer tests than Algorithm 1, and where: the paper says that none does."""
    ours = [s for s in result.simulations if s.policy == ALGORITHM_1]
    blocks: list[Block] = []
    for policy in POLICIES[1:]:
        pairs = [(result.find(s.plan.name, policy, delta=s.plan.delta), s) for s in ours]
        fewer = [(theirs, s) for theirs, s in pairs if theirs.mean_tests < s.mean_tests]
        if fewer:
            cells = [f"{s.plan.name}, δ = {s.plan.delta:g}: {_ratio(theirs, s)}" for theirs, s in fewer]
            blocks += [
                Text(
                    f"In our runs {policy} takes fewer tests than Algorithm 1 in {len(fewer)} of {len(ours)} cells. "
                    "The paper says of Experiment 2: “our method achieves the best performance when compared to all "
                    f"other methods.” Tests of {policy} ÷ those of Algorithm 1 there, with standard errors:"
                ),
                Items(tuple(cells)),
            ]
    return blocks


def _ratio(one: Simulation, other: Simulation) -> str:
    """How many times as many tests, with its standard error."""
    ratio = one.mean_tests / other.mean_tests
    error = 0.0 if one.runs == 1 else math.hypot(one.se_tests / one.mean_tests, other.se_tests / other.mean_tests)
    return f"{ratio:.3f} ± {ratio * error:.3f}"


_DRUGS = {"drug": "Gaussian, variance 1", "drug-bernoulli": "Bernoulli outcomes"}


def _render_drug(result: CampaignResult, folder: Path) -> list[Block]:
    policies = _policies_in(result)
    panels = tuple(_bars(result, name, title) for name, title in _DRUGS.items())
    save(Chart("Drug discovery", panels), folder / "drug")
    rows = tuple((name, *(_mean_sd(result.find(name, p)) for p in policies)) for name in _DRUGS)
    return [
        Text("Tests, mean ± standard deviation:"),
        Grid(("instance", *policies), rows),
        Figure("drug", "Drug discovery: tests of each policy; error bars are standard deviations."),
        _bounds_table([result.find(name, ALGORITHM_1) for name in _DRUGS]),
    ]


_ABLATED = (ALGORITHM_1, "tf-lucb")
_ABLATION = ("exp1-a", "exp1-b", "exp1-c", "drug")


def _bounds_cells(policies: Sequence[str | type[Policy]]) -> list[Cell]:
    return list(Campaign.grid([instance(name) for name in _ABLATION], policies=_ABLATED, bounds=BOUNDS, runs=1).cells)


def _render_bounds(result: CampaignResult, folder: Path) -> list[Block]:
    rows, panels, variants = [], [], [(policy, bound) for policy in _ABLATED for bound in BOUNDS]
    for name in _ABLATION:
        found = {f"{policy}, {bound}": result.find(name, policy, bound=bound) for policy, bound in variants}
        series = [_series(label, [name], [simulation]) for label, simulation in found.items()]
        reference = _lower_bounds([name], [result.find(name, ALGORITHM_1, bound="paper")])
        panels.append(Panel(name, "", TESTS, (*series, reference), bars=True))
        rows.append((name, *map(_mean_sd, found.values())))
    save(Chart("Confidence bounds", tuple(panels)), folder / "bounds")
    header = ("instance", *(f"{policy}, {bound}" for policy, bound in variants))
    return [
        Grid(header, tuple(rows)),
        Figure(
            "bounds", "Algorithm 1 and TF-LUCB-C under three confidence bounds; error bars are standard deviations."
        ),
    ]


EXPERIMENTS = {
    experiment.name: experiment
    for experiment in (
        Experiment("table1", "Experiment 1", lambda p: _cells(list(TABLE_1), p), _render_table1),
        Experiment("figure2", "Experiment 2", _figure2_cells, _render_figure2),
        Experiment("drug", "Drug discovery", lambda p: _cells(list(_DRUGS), p), _render_drug),
        Experiment("bounds", "Confidence bounds", _bounds_cells, _render_bounds, takes_more=False),
    )
}


def page_part(experiment: Experiment, result: CampaignResult, folder: Path) -> list[Block]:
    runs = result.campaign.runs
    seconds = sum(simulation.seconds for simulation in result.simulations)
    took = f"{runs:,} runs each, seed {result.campaign.seed}; {seconds:,.0f} s of one core's time."
    further = [policy for policy in _policies_in(result) if policy not in POLICIES]
    if further:
        took += f" Not in the paper: {', '.join(further)}."
    return [Heading(experiment.title), Text(took), *experiment.render(result, folder)]
