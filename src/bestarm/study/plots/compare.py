"""Several studies or simulations beside each other: how many tests they took, and what they answered."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bestarm.analysis.charts.intervals import short, short_names
from bestarm.analysis.charts.style import GRAY, PALETTE, in_thousands, legend_below, new_figure, plain, tidy
from bestarm.answer import DECIDED
from bestarm.kernel.state import Floats
from bestarm.simulation.campaign import CampaignResult
from bestarm.simulation.simulate import Simulation
from bestarm.study.study import Study
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

_NONE, _UNFINISHED, _OTHERS = "no feasible arm", "no answer", "other arms"
_FAR_APART = 30.0
"""With numbers of tests that differ by this factor, the axis is logarithmic."""


@dataclasses.dataclass(frozen=True)
class _Row:
    """One line of the picture: numbers of tests, and shares of answers by name. `is_open`: the tests go on."""

    plan: str
    policy: str
    tests: Floats
    answers: Mapping[str, float]
    is_open: bool = False


def compare(*things: Study | Simulation | CampaignResult, labels: Sequence[str] | None = None) -> Any:
    """Tests and answers of several studies, simulations, or all simulations of a campaign, a line for each.

    For a simulation, the dot is the mean number of tests and the line has 80% of the runs; the bar has the share of
    runs with each answer. For a study, it is the tests so far (a hollow dot if it goes on) and its answer or leader.
    """
    rows = [row for thing in things for row in _rows(thing)]
    if not rows:
        raise InvalidInput("compare: name the studies or simulations to compare")
    names = line_names([(row.plan, row.policy) for row in rows], labels)
    figure, (left, right) = new_figure(10, 1.3 + 0.4 * len(rows), across=2)
    _draw_tests(left, rows)
    handles = _draw_answers(right, rows)
    for axes in (left, right):
        axes.set_yticks(range(len(rows)), [plain(name) for name in names])
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.tick_params(left=False)
        axes.spines["left"].set_visible(False)
    right.tick_params(labelleft=False)
    legend_below(figure, handles)
    return figure


def line_names(names: Sequence[tuple[str, str]], labels: Sequence[str] | None) -> list[str]:
    """The labels of lines, or else what tells them apart: a study's name, a policy, or both."""
    if labels is not None and len(labels) != len(names):
        raise InvalidInput(
            "labels", list(labels), f"must be {len(names)}, one for each line", shown=quoted(list(labels))
        )
    return short_names(_distinct(names) if labels is None else list(labels))


def _rows(thing: Any) -> Iterable[_Row]:
    if isinstance(thing, CampaignResult):
        return [_simulated(simulation) for simulation in thing.simulations]
    if isinstance(thing, Simulation):
        return [_simulated(thing)]
    if not hasattr(thing, "status") or not hasattr(thing, "plan"):
        raise InvalidInput("compare", thing, "must be a study or a simulation", shown=quoted(thing))
    status = thing.status()
    answer = status.leader or (_NONE if status.state in DECIDED else _UNFINISHED)
    tests = np.array([float(status.tests)])
    return [_Row(thing.name, thing.plan.policy, tests, {answer: 1.0}, status.state == "running")]


def _simulated(simulation: Simulation) -> _Row:
    names = {"none": _NONE}
    shares = {names.get(arm, arm): count / simulation.runs for arm, count in simulation.answer_counts.items()}
    if simulation.unfinished:
        shares[_UNFINISHED] = simulation.unfinished / simulation.runs
    return _Row(simulation.plan.name, simulation.policy, simulation.tests.astype(float), shares)


def _distinct(names: Sequence[tuple[str, str]]) -> list[str]:
    """What tells lines apart that have a study's name and a policy each: the policy, or the name, or both."""
    plans, policies = ([*column] for column in zip(*names, strict=True))
    if len({*policies}) == 1 and len({*plans}) == len(names):
        return plans
    if len({*plans}) == 1 and len({*policies}) == len(names):
        return policies
    both = [f"{plan}, {policy}" for plan, policy in names]
    return both if len({*both}) == len(names) else [f"{number}: {label}" for number, label in enumerate(both, start=1)]


def _draw_tests(axes: Any, rows: Sequence[_Row]) -> None:
    for place, row in enumerate(rows):
        low, high = np.quantile(row.tests, (0.1, 0.9))
        axes.plot([low, high], [place, place], color=PALETTE[0], linewidth=2.5, solid_capstyle="round")
        inside = "white" if row.is_open else PALETTE[0]
        mean = float(row.tests.mean())
        axes.plot(mean, place, color=PALETTE[0], marker="o", markersize=7, markerfacecolor=inside, linestyle="none")
    every = np.concatenate([row.tests for row in rows])
    is_far = every.min() > 0 and every.max() > _FAR_APART * every.min()
    if is_far:
        axes.set_xscale("log")
    else:
        axes.set_xlim(0, max(float(every.max()) * 1.05, 1.0))
        axes.locator_params(axis="x", nbins=5)
        in_thousands(axes.xaxis)
    axes.set_title("tests", fontsize=11)
    tidy(axes, grid="x")


def _draw_answers(axes: Any, rows: Sequence[_Row]) -> dict[str, Any]:
    """The bars, and the handles of their legend."""
    total: Counter[str] = Counter()
    for row in rows:
        total.update(row.answers)
    special = [name for name in (_NONE, _UNFINISHED) if name in total]
    arms = [name for name, _ in total.most_common() if name not in special]
    if len(arms) > len(PALETTE):
        arms = arms[: len(PALETTE) - 1]
    handles: dict[str, Any] = {}
    for place, row in enumerate(rows):
        others = sum(share for name, share in row.answers.items() if name not in arms and name not in special)
        left = 0.0
        for name in (*arms, _OTHERS, *special):
            share = others if name == _OTHERS else row.answers.get(name, 0.0)
            if share <= 0.0:
                continue
            # For a running study, it is the leader's.
            alpha = 0.45 if row.is_open else 1.0
            color = PALETTE[arms.index(name)] if name in arms else GRAY
            hatch = {_OTHERS: "..", _NONE: "////", _UNFINISHED: "xx"}.get(name, "")
            width = 100.0 * share
            style = {"hatch": hatch, "edgecolor": "white", "color": color, "alpha": alpha}
            bar = axes.barh(place, width, left=left, height=0.55, **style)
            handles.setdefault(plain(short(name)), bar)
            left += width
    axes.set_xlim(0, 100)
    axes.set_title("answers, % of the runs" if any(len(row.tests) > 1 for row in rows) else "answer", fontsize=11)
    if all(len(row.tests) == 1 for row in rows):
        axes.set_xticks([])
    tidy(axes, grid="x")
    return handles
