"""How a study went, test by test: which arms could still be the answer, and how far each certificate was."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from bestarm.analysis.charts.intervals import COLORS, short
from bestarm.analysis.charts.style import GRAY, PALETTE, in_thousands, legend_below, new_figure, plain, tidy
from bestarm.analysis.standing.knowledge import Moment, OpenQuestion
from bestarm.study.study import Study

_MOST_NAMED = 6
"""The most certificates with a color and a name. The others are gray."""
_STYLES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 1)))


def open_arms(study: Study) -> Any:
    """How many arms could still be the answer, test by test, and how many were out, as infeasible or as worse.

    Arms that have been retired are left out, and those that came later are there from the start.
    """
    course = study.course(points=60)
    figure, (axes,) = new_figure(9, 3.6)
    tests = [moment.tests for moment in course]
    present = {arm.name for arm in study.plan.arms if not arm.retired}
    arms = len(present)
    candidates = [len(present & {*moment.candidates}) for moment in course]
    infeasible = [len(present & {*moment.infeasible} - {*moment.candidates}) for moment in course]
    with_infeasible = [some + more for some, more in zip(candidates, infeasible, strict=True)]
    bands: list[tuple[str, str, Sequence[int], Sequence[int], str]] = [
        ("can be the answer", COLORS["feasible"], [0] * len(course), candidates, ""),
        ("infeasible", COLORS["infeasible"], candidates, with_infeasible, "////"),
        ("worse", COLORS["worse"], with_infeasible, [arms] * len(course), "...."),
    ]
    handles = {}
    for label, color, low, high, hatch in bands:
        style = {
            "facecolor": color,
            "alpha": 0.35 if label == "can be the answer" else 0.6,
            "hatch": hatch,
            "edgecolor": "white",
            "linewidth": 0.0,
        }
        band = axes.fill_between([*tests, _end(tests)], [*low, low[-1]], [*high, high[-1]], step="post", **style)
        if max(top - bottom for top, bottom in zip(high, low, strict=True)) > 0:
            handles[label] = band
    axes.step([*tests, _end(tests)], [*candidates, candidates[-1]], where="post", color="#222222", linewidth=1.2)
    axes.set_ylim(0, arms * 1.02)
    axes.set_ylabel("arms")
    axes.yaxis.get_major_locator().set_params(integer=True)
    _tests_axis(axes, tests)
    tidy(axes, grid="x")
    legend_below(figure, handles)
    return figure


def evidence(study: Study) -> Any:
    """The share of its evidence that each certificate had, test by test. At 100% it is closed.

    A line ends where its certificate is closed, or no longer needed because another arm leads.
    """
    course = study.course(points=60)
    figure, (axes,) = new_figure(9, 4.2)
    tests = [moment.tests for moment in course]
    lines = _lines(course)
    # Those that are still open, and then those that took longest, have names.
    is_open = {_key(question) for question in course[-1].open}
    ranked = sorted(lines, key=lambda key: (key not in is_open, -lines[key][-1][0], -len(lines[key])))
    handles: dict[str, Any] = {}
    for rank, key in reversed([*enumerate(ranked)]):
        named = rank < _MOST_NAMED
        (line,) = axes.plot(
            [at for at, _ in lines[key]],
            [100.0 * share for _, share in lines[key]],
            color=PALETTE[rank] if named else GRAY,
            linestyle=_STYLES[rank] if named else "-",
            linewidth=1.8 if named else 0.8,
            alpha=1.0 if named else 0.5,
            marker="o" if len(lines[key]) == 1 else None,
            markersize=4,
        )
        if named:
            handles[_shown(key)] = line
        elif "other certificates" not in handles:
            handles["other certificates"] = line
        at, share = lines[key][-1]
        if share >= 1.0:
            axes.plot(at, 100.0, color=line.get_color(), marker="o", markersize=5, linestyle="none")
    handles = {label: handles[label] for label in reversed(handles)}
    axes.axhline(100.0, color="#222222", linewidth=1.2, linestyle="--")
    axes.set_ylim(0, 105)
    axes.set_ylabel("evidence, % of what closes it")
    _tests_axis(axes, tests)
    tidy(axes)
    if not lines:
        said = "every metric of every arm needs a result first" if not course[-1].is_decided else "decided at once"
        axes.text(0.5, 0.5, said, transform=axes.transAxes, horizontalalignment="center", color="#555555")
    legend_below(figure, handles)
    return figure


Key = tuple[str, str, str | None, str | None]
"""Identifies a certificate, regardless of its evidence."""


def _key(question: OpenQuestion) -> Key:
    return question.kind, question.arm, question.metric, question.against


def _shown(key: Key) -> str:
    kind, arm, metric, against = key
    if kind == "rival":
        return plain(f"{short(arm)} against {short(against or '')}")
    if metric is None:
        return plain(short(arm))
    return plain(f"{short(metric)} of {short(arm)}{' violated' if kind == 'infeasible' else ''}")


def _lines(course: Iterable[Moment]) -> dict[Key, list[tuple[float, float]]]:
    """By certificate: after how many tests it had which share, with NaN where another one was needed instead."""
    lines: dict[Key, list[tuple[float, float]]] = {}
    before: dict[Key, float] = {}
    last: Moment | None = None
    for moment in course:
        now = {_key(question): question.share for question in moment.open}
        for key in before:
            if key not in now and last is not None:
                # Unless another arm leads, it is gone because it is closed.
                is_closed = moment.leader == last.leader
                lines[key].append((moment.tests, 1.0 if is_closed else math.nan))
        for key, share in now.items():
            lines.setdefault(key, []).append((moment.tests, share))
        before, last = now, moment
    return {key: _trimmed(points) for key, points in lines.items()}


def _trimmed(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    while len(points) > 1 and math.isnan(points[-1][1]):
        points = points[:-1]
    return points


def _end(tests: Sequence[int]) -> float:
    """Where the picture ends: a little beyond the last test, so that what was known then can be seen."""
    return max(tests[-1] * 1.02, tests[-1] + 0.5, 1.0)


def _tests_axis(axes: Any, tests: Sequence[int]) -> None:
    axes.set_xlim(0, _end(tests))
    axes.set_xlabel("tests")
    in_thousands(axes.xaxis)
