"""What simulated studies would answer after fixed numbers of tests: error and regret."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from bestarm.analysis.charts.chart import Chart, Panel, Series
from bestarm.analysis.charts.drawing import draw
from bestarm.kernel.state import Floats
from bestarm.simulation.checkpoints import Curves
from bestarm.simulation.simulate import Simulation
from bestarm.study.plots.compare import line_names
from bestarm.texts import quoted
from bestarm.validation import InvalidInput

_MOST_TICKS = 8
"""On a logarithmic axis every number of tests has its tick."""


def curves(*simulations: Simulation, labels: Sequence[str] | None = None) -> Any:
    """Error and regret of what each run would answer after fixed numbers of tests, a line for each simulation.

    Each needs `checkpoints`. Bars are standard errors; what is zero in all runs is not drawn.

    >>> import bestarm as ba
    >>> made = [
    ...     ba.simulate(ba.instance("exp1-a"), policy=policy, runs=100, checkpoints=[200, 400, 800])
    ...     for policy in ("certify", "racing")
    ... ]
    >>> [axes.get_title() for axes in ba.plot.curves(*made).axes]
    ['Wrong answers', 'Regret']
    """
    for one in simulations:
        if not isinstance(one, Simulation) or not one.checkpoints:
            raise InvalidInput("curves", one, "must be a simulation with checkpoints", shown=quoted(one))
    if not simulations:
        raise InvalidInput("curves: name the simulations to draw")
    names = line_names([(one.plan.name, one.policy) for one in simulations], labels)
    return draw(curves_chart({name: one.curves for name, one in zip(names, simulations, strict=True)}))


def curves_chart(made: dict[str, Curves]) -> Chart:
    """The curves as data, by label."""
    ticks = {tests for one in made.values() for tests in one.tests}
    errors = [_series(name, one, 100.0 * one.error, 100.0 * one.error_se) for name, one in made.items()]
    regrets = [_series(name, one, one.regret, one.regret_se) for name, one in made.items()]
    return Chart(
        title="Answers after fixed numbers of tests",
        panels=tuple(
            Panel(title, "tests", unit, tuple(series), log_x=len(ticks) <= _MOST_TICKS, log_y=True)
            for title, unit, series in (("Wrong answers", "% of the runs", errors), ("Regret", "mean", regrets))
        ),
    )


def _series(name: str, made: Curves, y: Floats, se: Floats) -> Series:
    # The axis is logarithmic.
    shown = tuple(value if value > 0.0 else math.nan for value in y.tolist())
    return Series(name, tuple(map(float, made.tests)), shown, tuple(se.tolist()))
