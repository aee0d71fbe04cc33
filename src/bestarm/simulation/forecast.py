"""`forecast`: how many tests a study will take and what it will cost, from guessed means, before the first test."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from concurrent.futures import Executor
from html import escape
from typing import Any, NamedTuple

import numpy as np

from bestarm.answer import finite
from bestarm.kernel.state import UNFINISHED, Floats, Ints
from bestarm.policies.base import Policy
from bestarm.problem import Plan, Problem
from bestarm.simulation.answers import MOST_ROWS, Rows, answer_rows, titled
from bestarm.simulation.engine import Job
from bestarm.simulation.simulate import RunsProgress, Simulation, checked_limits, limit_words, planned, simulate_jobs
from bestarm.texts import html_table, in_columns, shown
from bestarm.theory.bounds import lower_bound
from bestarm.theory.complexity import complexity
from bestarm.theory.fixed_sample import fixed_sample_tests
from bestarm.theory.information import Flags, truth
from bestarm.validation import Parameter

MOST_WORLDS = 50
DEFAULT_MAX_TESTS = 10**8
"""Less than for a simulation: worlds drawn from ranges can be near ties, which take forever."""


@dataclasses.dataclass(frozen=True, eq=False)
class Forecast:
    """What studies of a problem with guessed means take. `tests`, `cost` and `finished` are by run, world after world.

    `plan` is what was asked, ranges included. `answers` has the share of the runs that gave each answer, "none" for
    "no feasible arm". Runs that are `unfinished` were cut off by `max_tests` or the plan's budget. They gave no answer
    and count as if they had ended there, so with them the means are too low. `per_stream` [arm, metric] is mean tests.
    `lower_bound` (Theorem 1) and `fixed_sample_tests` are means over the worlds, infinite if one of them is; the lower
    bound is NaN if it is not known how much tests tell. Printed, it is a short table.
    """

    plan: Plan
    policy: str
    seed: int
    max_tests: int
    worlds: int
    tests: Ints
    cost: Floats
    finished: Flags
    answers: dict[str, float]
    error_rate: float
    per_stream: Floats
    lower_bound: float
    fixed_sample_tests: float

    def __str__(self) -> str:
        return f"{shown(forecast_title(self))}\n{in_columns(forecast_rows(self))}\n{forecast_words(self)}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return forecast_html(self)

    @property
    def delta(self) -> float:
        return self.plan.delta

    @property
    def runs(self) -> int:
        return len(self.tests)

    @property
    def unfinished(self) -> int:
        return self.runs - int(self.finished.sum())

    @property
    def mean_tests(self) -> float:
        return float(self.tests.mean())

    @property
    def median_tests(self) -> float:
        return float(np.median(self.tests))

    @property
    def p90_tests(self) -> float:
        """Nine studies in ten take no more tests."""
        return float(np.quantile(self.tests, 0.9))

    @property
    def mean_cost(self) -> float:
        return float(self.cost.mean())

    @property
    def median_cost(self) -> float:
        return float(np.median(self.cost))

    @property
    def p90_cost(self) -> float:
        """Nine studies in ten cost no more."""
        return float(np.quantile(self.cost, 0.9))

    @property
    def per_metric(self) -> dict[str, float]:
        """Mean tests of each metric."""
        return dict(zip(self.plan.metrics, self.per_stream.sum(axis=0).tolist(), strict=True))

    @property
    def per_arm(self) -> dict[str, float]:
        """Mean tests of each arm. One test may measure several metrics."""
        leads = [bundle[0] for bundle in self.plan.bundles]
        return dict(zip(self.plan.arm_names, self.per_stream[:, leads].sum(axis=1).tolist(), strict=True))

    def summary(self) -> dict[str, Any]:
        """The figures of `bestarm forecast --json`; those that are infinite or not computed are None."""
        return {
            "instance": self.plan.name,
            "policy": self.policy,
            "delta": self.delta,
            "runs": self.runs,
            "mean_tests": self.mean_tests,
            "median_tests": self.median_tests,
            "p90_tests": self.p90_tests,
            "mean_cost": self.mean_cost,
            "lower_bound": finite(self.lower_bound),
            "fixed_sample_tests": finite(self.fixed_sample_tests),
            "unfinished": self.unfinished,
            "answers": self.answers,
            "per_metric": self.per_metric,
            "per_arm": self.per_arm,
        }


class World(NamedTuple):
    """A possible truth: the plan with a number for every mean, and the seed of its runs."""

    plan: Plan
    seed: int


def forecast(
    problem: Problem,
    *,
    policy: str | type[Policy] | None = None,
    options: Mapping[str, Parameter] | None = None,
    bound: str | None = None,
    delta: float | None = None,
    runs: int = 1000,
    seed: int = 0,
    max_tests: int = DEFAULT_MAX_TESTS,
    executor: str | Executor | None = None,
    workers: int | None = None,
    device: str = "cpu",
    progress: RunsProgress | None = None,
) -> Forecast:
    """Simulate `runs` studies of `problem`, where the means of the arms are guesses: numbers or ranges (low, high).

    With ranges, the runs are spread evenly over up to 50 worlds. In each world, every such mean is drawn uniformly
    from its range. The arguments are those of `simulate`; without ranges, the runs are, too.

    >>> import bestarm as ba
    >>> arms = [ba.Arm("old", {"yield": 1.0}), ba.Arm("new", {"yield": (1.5, 3.0)})]
    >>> result = forecast(ba.Problem(arms=arms, objective=ba.maximize("yield", noise=ba.Gaussian(1.0))), runs=50)
    >>> result.worlds, result.answers, result.unfinished
    (50, {'new': 1.0}, 0)
    """
    plan, chosen = planned(problem, policy, options, delta=delta, bound=bound)
    runs, seed, max_tests, workers = checked_limits(runs, seed, max_tests, workers)
    max_tests = min(max_tests, plan.max_tests)

    worlds = draw_worlds(plan, min(runs, MOST_WORLDS), seed)
    jobs = [Job.of(world.plan, chosen, seed=world.seed, max_tests=max_tests, keep_counts=True) for world in worlds]
    sizes = [len(part) for part in np.array_split(np.arange(runs), len(worlds))]
    starts = np.cumsum([0, *sizes])
    counts = np.zeros(jobs[0].shape, np.int64)

    def take_counts(part: slice, tests: Ints) -> None:
        np.add(counts, tests.sum(axis=0), out=counts)

    answers, tests, cost, sets, *_ = simulate_jobs(
        *(jobs, sizes, take_counts), executor=executor, workers=workers, device=device, progress=progress
    )

    def simulation(of: Plan, part: slice) -> Simulation:
        listed = None if sets is None else sets[part]
        outcomes = answers[part], tests[part], cost[part]
        return Simulation(of, chosen.name, seed, max_tests, *outcomes, None, math.nan, listed)

    everything = simulation(plan, slice(None))
    wrong = sum(simulation(world.plan, slice(starts[k], starts[k + 1])).wrong for k, world in enumerate(worlds))
    return Forecast(
        plan=plan,
        policy=chosen.name,
        seed=seed,
        max_tests=max_tests,
        worlds=len(worlds),
        tests=tests,
        cost=cost,
        finished=answers != UNFINISHED,
        answers={name: count / runs for name, count in everything.answer_counts.items()},
        error_rate=wrong / runs,
        per_stream=counts / runs,
        lower_bound=float(np.mean([_theorem_1(world.plan) for world in worlds])),
        fixed_sample_tests=float(np.mean([fixed_sample_tests(world.plan, plan.delta) for world in worlds])),
    )


def draw_worlds(plan: Plan, count: int, seed: int) -> list[World]:
    """`count` worlds, each depending only on the seed and its number; just one if no mean is a range."""
    low, high = _ends(plan)
    if (low == high).all():
        return [World(_with_means(plan, low), seed)]
    worlds = []
    for number in range(count):
        rng = np.random.default_rng((seed, number))
        # Draw for means without a range, too, so that another mean's range does not change the draws.
        share = rng.random(low.shape)
        means = np.clip((1.0 - share) * low + share * high, low, high)
        worlds.append(World(_with_means(plan, means), int(rng.integers(2**63, dtype=np.uint64))))
    return worlds


def _ends(plan: Plan) -> tuple[Floats, Floats]:
    """The lowest and the highest guess for each mean [arm, metric]."""
    needed = "a forecast needs a guess for every metric, a number or a range [LOW, HIGH]"
    guesses = [plan.means_of(index, needed) for index in range(len(plan.arms))]
    ends = np.array([[guess if isinstance(guess, tuple) else (guess, guess) for guess in row] for row in guesses])
    return ends[..., 0], ends[..., 1]


def _with_means(plan: Plan, means: Floats) -> Plan:
    if plan.cells is not None:
        means = plan.together(means, [{*(arm.means or {})} for arm in plan.arms])
    rows = zip(plan.arm_names, means.tolist(), strict=True)
    return Plan.of(plan.with_means({name: plan.by_part(row) for name, row in rows}))


def _theorem_1(plan: Plan) -> float:
    """The same number as in `theory.analyze`, without the rest, which takes longer."""
    facts = truth(plan)
    return math.nan if facts.uncomputed else lower_bound(complexity(facts).total, plan.delta)


def forecast_title(result: Forecast) -> str:
    return f"{result.plan.name}: what it will take"


def forecast_html(result: Forecast) -> str:
    figures = titled(forecast_title(result), html_table(forecast_rows(result)))
    words = f"<p>{escape(forecast_words(result))}</p>"
    streams = stream_rows(result)
    if len(streams) > MOST_ROWS:
        return figures + words
    return figures + words + titled(stream_title(result), html_table(streams, stream_heads(result)))


def forecast_rows(result: Forecast) -> Rows:
    """What studies of a problem with guessed means take."""
    worlds = "means as given" if result.worlds == 1 else f"{result.worlds} draws of means"
    rows = [
        ("simulated studies", f"{result.runs:,} (seed {result.seed}), {worlds}"),
        ("policy, delta, bound", f"{result.policy}, {result.delta:g}, {result.plan.bound}"),
        ("tests: mean", f"{result.mean_tests:,.0f}"),
        ("tests: half of the studies, 9 in 10", _half_and_most(result, result.median_tests, result.p90_tests)),
        ("cost: mean", f"{result.mean_cost:,.0f}"),
        ("cost: half of the studies, 9 in 10", _half_and_most(result, result.median_cost, result.p90_cost)),
        ("tests any method needs (Theorem 1)", _number(result.lower_bound)),
        ("tests, if their number is fixed", _number(result.fixed_sample_tests)),
    ]
    if result.unfinished:
        rows.append(
            ("unfinished", f"{result.unfinished:,} (stopped after {limit_words(result.plan, result.max_tests)})")
        )
    rows += answer_rows({answer: 100 * share for answer, share in result.answers.items()}, "{:.3g}%")
    rows.append(("wrong answers", f"{100 * result.error_rate:.3g}%"))
    return rows


def stream_heads(result: Forecast) -> tuple[str, ...]:
    return (result.plan.noun.one, *result.plan.metrics, "all")


def stream_title(result: Forecast) -> str:
    plan = result.plan
    once = "" if plan.blocks is None else f" (those in one {plan.blocks.name} count as one, except in the last cell)"
    return f"Mean tests by {plan.noun.one} and metric{once}"


def stream_rows(result: Forecast) -> list[tuple[str, ...]]:
    """Mean tests of each arm and metric, and in all; the last row is that of all arms."""
    # One test may measure several metrics.
    by_arm = zip(result.per_arm.items(), result.per_stream.tolist(), strict=True)
    rows = [(name, *(f"{number:,.0f}" for number in (*tests, together))) for (name, together), tests in by_arm]
    return [*rows, ("all", *(f"{number:,.0f}" for number in (*result.per_metric.values(), result.mean_tests)))]


def forecast_words(result: Forecast) -> str:
    """The forecast in a sentence or two."""
    half, most = _within(result, 0.5, result.median_tests), _within(result, 0.9, result.p90_tests)
    words = f"Half of such studies end within {half} tests, 9 in 10 within {most}."
    if result.unfinished:
        limit, why, means = limit_words(result.plan, result.max_tests), "", "with more the means would be larger"
        if result.plan.budget is None:
            why, means = " and were given up, as happens near a tie or a threshold", "the means are too low"
        words += f" {result.unfinished:,} of {result.runs:,} had no answer after {limit}{why}."
        words += f" They count as ended there, so {means}."
    if math.isnan(result.lower_bound):
        words += " The lower bound is not computed; `bestarm theory` says why."
    return words


def _half_and_most(result: Forecast, half: float, most: float) -> str:
    return f"{_within(result, 0.5, half)}, {_within(result, 0.9, most)}"


def _within(result: Forecast, share: float, number: float) -> str:
    """Within what number of tests, or cost, this share of the studies ends, as far as it has an answer by then."""
    return f"{number:,.0f}" if result.finished.mean() >= share else f"more than {number:,.0f}"


def _number(number: float) -> str:
    if math.isnan(number):
        return "not computed"
    return "infinite" if math.isinf(number) else f"{number:,.0f}"
