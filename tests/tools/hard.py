"""Problems chosen to be hard for the guarantee: on them, a policy that cheats a little errs a lot.

Most runs on them do not end within a reasonable number of tests. What counts is how many end with a wrong answer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.gaussian import Gaussian
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.problem import Arm, Plan, at_most, maximize
from bestarm.problem.goals import Goal


def _problem(
    name: str,
    rows: Sequence[Sequence[float]],
    *,
    noise: Noise | None = None,
    threshold: float = 0.0,
    tolerance: float = 0.0,
    slack: float = 0.0,
    costs: Sequence[float] | None = None,
    spread: Any = None,
) -> Plan:
    """Each row is an arm: its performance, then its constraints' means."""
    noise = noise or Gaussian(1.0)
    metrics = [f"constraint {k}" for k in range(1, len(rows[0]))]
    prices = costs or [1.0] * (len(metrics) + 1)
    return Plan(
        name=name,
        arms=tuple(
            Arm(
                f"arm {k}",
                dict(zip(("performance", *metrics), map(float, row), strict=True)),
                spreads=None if spread is None else dict.fromkeys(("performance", *metrics), spread),
            )
            for k, row in enumerate(rows)
        ),
        objective=maximize("performance", noise=noise, cost=prices[0], tolerance=tolerance),
        constraints=tuple(
            at_most(metric, threshold, noise=noise, cost=price, slack=slack)
            for metric, price in zip(metrics, prices[1:], strict=True)
        ),
    )


def hard_problems() -> list[Plan]:
    """All of them, each with its true means."""
    return [
        _problem("barely infeasible", [[0.0, 0.01, -1.0], [-1.0, -1.0, -1.0]]),
        _problem("on the threshold", [[0.5, 0.0], [0.0, -0.5], [-0.5, -0.5]]),
        _problem("all barely infeasible", [[0.0, 0.01], [0.0, 0.0], [-0.2, 0.01]]),
        _problem("all infeasible, many constraints", [[0.0, 0.02, *[-0.3] * 7], [0.1, *[-0.3] * 7, 0.02]]),
        _problem("barely feasible and best", [[1.0, -0.01], [0.0, -1.0]]),
        _problem("close race", [[0.0, -1.0], [0.01, -1.0], [0.02, -1.0], [0.0, -1.0]]),
        _problem("tie with tolerance", [[0.0, -0.5], [0.0, -0.5], [-0.35, -0.5]], tolerance=0.3),
        _problem("slack", [[0.5, 0.31], [0.0, -0.3], [0.2, 0.1]], slack=0.3),
        _problem("unequal costs", [[0.3, 0.01, -0.5], [0.0, -0.5, -0.5]], costs=[1.0, 10.0, 0.1]),
        _problem("wrong leader", [[0.6, -0.05, 0.02], [0.5, -0.6, -0.6], [0.0, -0.6, -0.6]]),
        _problem("rates near 0", [[0.3, 0.021], [0.1, 0.002]], noise=Bernoulli(), threshold=0.02),
        _problem("rates near 1", [[0.99, 0.985], [0.97, 0.9]], noise=Bernoulli(), threshold=0.98),
        _problem("close rates", [[0.51, 0.4], [0.52, 0.4], [0.5, 0.51]], noise=Bernoulli(), threshold=0.5),
        _problem("bounded", [[0.5, 3.05], [0.0, 1.0]], noise=Bounded(-5.0, 5.0), threshold=3.0),
        *_of_unknown_scatter(),
    ]


def _of_unknown_scatter() -> list[Plan]:
    """Problems whose noise states nothing of how much results scatter."""
    close, race = [[0.0, 0.01, -1.0], [-1.0, -1.0, -1.0]], [[0.0, -1.0], [0.01, -1.0], [0.02, -1.0], [0.0, -1.0]]
    scores = [[5.0, 4.02, 3.0], [4.0, 3.0, 3.0]]
    quantile = Plan(
        name="quantile",
        arms=tuple(
            Arm(name, {"performance": performance, "latency": share}, spreads={"performance": 1.0})
            for name, performance, share in (("arm 0", 1.0, 0.055), ("arm 1", 0.0, 0.002))
        ),
        objective=maximize("performance", noise=Symmetric()),
        constraints=(at_most("latency", 200.0, noise=Quantile(0.95)),),
    )
    return [
        _problem("symmetric: barely infeasible", close, noise=Symmetric(), spread=1.0),
        _problem("symmetric: barely infeasible, Laplace", close, noise=Symmetric(), spread={"laplace": 1.0}),
        _problem("symmetric: barely infeasible, uniform", close, noise=Symmetric(), spread={"uniform": 1.0}),
        _problem("symmetric: close race", race, noise=Symmetric(), spread=1.0),
        _problem("bets: barely infeasible", scores, noise=Bounded(0.0, 10.0), threshold=4.0, spread=1.2),
        _problem("bets: barely infeasible, narrow", scores, noise=Bounded(0.0, 10.0), threshold=4.0, spread=0.2),
        _problem("bets: close race", [[5.0, 3.0], [5.02, 3.0]], noise=Bounded(0.0, 10.0), threshold=4.0, spread=1.2),
        quantile,
    ]


def hard_goals() -> list[Plan]:
    """Problems that are hard for another goal than the best arm: ties, and means that barely miss their thresholds."""
    tie = [[1.0, -1.0], [0.0, -1.0], [0.01, -1.0], [-1.0, -1.0]]
    tempting = [[1.0, 0.01], [0.5, -1.0], [0.0, -1.0], [-0.5, -1.0]]
    one_left = [[0.5, 0.01], [0.2, -1.0], [0.1, 1.0]]
    barely = [[0.5, 0.01, -1.0], [0.2, -1.0, 0.01], [0.0, 0.0, 0.02]]
    slack = [[0.5, 0.2], [0.2, -0.2], [0.1, 0.1], [0.0, -0.3]]

    def asked(goal: Goal, top: int, name: str, rows: Sequence[Sequence[float]], **fields: Any) -> Plan:
        return dataclasses.replace(_problem(name, rows, **fields), goal=goal, top=top)

    return [
        asked("top", 2, "top 2: a tie at the edge", tie),
        asked("top", 2, "top 2: tempting arms", tempting),
        asked("top", 2, "top 2: one is feasible", one_left),
        asked("top", 2, "top 2: tolerance and slack", slack, tolerance=0.3, slack=0.2),
        asked("best", 2, "short list of 2: a tie", [[0.0, -1.0], [0.02, -1.0], [0.0, -1.0], [0.01, -1.0]]),
        asked("best", 2, "short list of 2: tempting arms", tempting),
        asked("best", 2, "short list of 2: the best barely feasible", [[1.0, -0.01], *tempting[1:]]),
        asked("any feasible", 1, "any feasible: one", [[0.5, 0.01], [0.2, -0.1], [0.1, 0.02]]),
        asked("any feasible", 1, "any feasible: none", barely),
        asked("any feasible", 1, "any feasible: slack", slack[:1] + slack[2:3], slack=0.2),
        asked(
            "every feasible", 1, "every feasible: on both sides", [[0.0, 0.01], [0.0, -0.01], [0.0, 0.02], [0.0, -0.02]]
        ),
        asked("every feasible", 1, "every feasible: none, two constraints", barely),
        asked("every feasible", 1, "every feasible: all, two constraints", [[0.0, -0.01, -0.01]] * 4),
        asked("every feasible", 1, "every feasible: slack", [*slack, [0.0, 0.0], [0.0, -0.01]], slack=0.2),
    ]
