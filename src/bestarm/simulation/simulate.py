"""`simulate`: many runs of one policy on one problem, and their summary."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from typing import Any, NamedTuple

import numpy as np

from bestarm.kernel.state import UNFINISHED, Flags, Floats, Ints
from bestarm.policies import find_policy
from bestarm.policies.base import Policy
from bestarm.problem import Plan, Problem
from bestarm.problem.budget import amount_words
from bestarm.problem.goals import answers_sets
from bestarm.simulation.answers import Rows, answer_rows, named_answers, titled, wrong_answers
from bestarm.simulation.checkpoints import Curves, checked_checkpoints, curves_of
from bestarm.simulation.device import open_schedule
from bestarm.simulation.engine import Job
from bestarm.simulation.record import MOST_RUNS
from bestarm.texts import html_table, in_columns, quoted, shown
from bestarm.validation import InvalidInput, Parameter, pandas

DEFAULT_MAX_TESTS = 10**9
CHUNK_SECONDS = 0.2
"""How long a chunk of runs should take: short enough for a smooth progress bar and a quick end on Ctrl-C."""

RunsProgress = Callable[[int, int], None]
"""Called with (runs done, tests done) as chunks come in."""


@dataclasses.dataclass(frozen=True)
class Simulation:
    """The outcome of `runs` simulated studies. Arrays are by run.

    `answers` holds the number of the arm that was answered (of a set the one that led), -1 for "no feasible arm" and
    -2 for a run that `max_tests` ended. `tests_per_stream` is [run, arm, metric], or None if it was not kept. Printed,
    it is a short table.
    """

    plan: Plan
    policy: str
    seed: int
    max_tests: int
    answers: Ints
    tests: Ints
    cost: Floats
    tests_per_stream: Ints | None
    seconds: float
    sets: Flags | None = None
    """[run, arm]: 1 for the arms of the answer, where answers are sets: short lists, the `top` best arms, or every
    feasible arm. For these, -1 for arms that were rejected, and the same in runs that did not end."""
    checkpoints: tuple[int, ...] = ()
    leaders: Ints | None = None
    """[run, checkpoint]: the arm that was recommended after so many tests, -1 for "no feasible arm"; `curves` sums it
    up."""

    def __str__(self) -> str:
        return f"{shown(simulation_title(self))}\n{in_columns(simulation_rows(self))}"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return titled(simulation_title(self), html_table(simulation_rows(self)))

    @property
    def runs(self) -> int:
        return len(self.answers)

    @property
    def mean_tests(self) -> float:
        return float(self.tests.mean())

    @property
    def sd_tests(self) -> float:
        """Standard deviation of the number of tests (NaN for a single run)."""
        return float(self.tests.std(ddof=1)) if self.runs > 1 else float("nan")

    @property
    def se_tests(self) -> float:
        """Standard error of `mean_tests`."""
        return self.sd_tests / math.sqrt(self.runs)

    @property
    def mean_cost(self) -> float:
        return float(self.cost.mean())

    @property
    def unfinished(self) -> int:
        """How many runs reached `max_tests` without an answer."""
        return int((self.answers == UNFINISHED).sum())

    @property
    def wrong(self) -> int:
        """How many runs gave a wrong answer. Unfinished runs gave none."""
        return wrong_answers(self.plan, self.answers, self.sets)

    @property
    def error_rate(self) -> float:
        """The share of all runs that gave a wrong answer."""
        return self.wrong / self.runs

    @property
    def tests_per_second(self) -> float:
        """Simulated tests per second of wall time, without compiling."""
        return float(self.tests.sum()) / self.seconds

    @property
    def answer_counts(self) -> dict[str, int]:
        """How often each answer was given, "none" for "no feasible arm"; unfinished runs gave none."""
        given = Counter(name for name in self.answer_names() if name is not None)
        order = {"none": -1, **{name: place for place, name in enumerate(self.plan.arm_names)}}
        return dict(sorted(given.items(), key=lambda item: (order.get(item[0], len(order)), item[0])))

    @property
    def curves(self) -> Curves:
        """How often what is recommended at each checkpoint is wrong, and how much is lost by it."""
        if self.leaders is None:
            raise InvalidInput("curves need checkpoints: simulate(…, checkpoints=[200, 400, 800])")
        return curves_of(self.plan, self.checkpoints, self.leaders)

    def answer_names(self) -> list[str | None]:
        """Each run's answer in words: an arm's name, those of a set, "none", or None if unfinished."""
        return named_answers(self.plan, self.answers, self.sets)

    def frame(self) -> Any:
        """A pandas data frame, a row per run: answer, tests, cost and, if kept, the tests of each stream."""
        pd = pandas()
        table = pd.DataFrame({"answer": self.answer_names(), "tests": self.tests, "cost": self.cost})
        table.index.name = "run"
        if self.tests_per_stream is None:
            return table
        names = pd.MultiIndex.from_product([self.plan.arm_names, self.plan.metrics]).to_flat_index()
        streams = pd.DataFrame(self.tests_per_stream.reshape(self.runs, -1), columns=names)
        streams.index.name = "run"
        return table.join(streams)

    def summary(self) -> dict[str, Any]:
        """The figures of `bestarm simulate --json`."""
        return {
            "instance": self.plan.name,
            "policy": self.policy,
            **({"options": dict(self.plan.options)} if self.plan.options else {}),
            "bound": self.plan.bound,
            "delta": self.plan.delta,
            "runs": self.runs,
            "seed": self.seed,
            "mean_tests": self.mean_tests,
            "sd_tests": None if self.runs == 1 else self.sd_tests,
            "se_tests": None if self.runs == 1 else self.se_tests,
            "mean_cost": self.mean_cost,
            "error_rate": self.error_rate,
            "unfinished": self.unfinished,
            "answers": self.answer_counts,
            "tests_per_second": self.tests_per_second,
            **({"checkpoints": [*self.curves.rows()]} if self.checkpoints else {}),
        }


def _whole_number(name: str, number: object, least: int, most: int) -> int:
    if isinstance(number, bool) or not isinstance(number, int | np.integer) or not least <= number <= most:
        raise InvalidInput(name, number, f"must be a whole number from {least} to {most}", shown=quoted(number))
    return int(number)


def checked_limits(
    runs: int, seed: int, max_tests: int, workers: int | None = None
) -> tuple[int, int, int, int | None]:
    """The same as Python's own numbers. Raises `InvalidInput` unless they are whole numbers in their ranges."""
    return (
        _whole_number("runs", runs, 1, MOST_RUNS),
        _whole_number("seed", seed, 0, 2**63 - 1),
        _whole_number("max_tests", max_tests, 1, 10**12),
        None if workers is None else _whole_number("workers", workers, 1, 10**6),
    )


class Runs(NamedTuple):
    """What came of runs of several jobs, job after job, and the seconds that they took."""

    answers: Ints
    tests: Ints
    cost: Floats
    sets: Flags | None
    leaders: Ints
    seconds: float


def simulate_jobs(
    jobs: Sequence[Job],
    sizes: Sequence[int],
    take_counts: Callable[[slice, Ints], None],
    *,
    executor: str | Executor | None,
    workers: int | None,
    device: str,
    progress: RunsProgress | None,
) -> Runs:
    """The first runs of each job, as many as `sizes` says. `take_counts` is given the tests per stream of some runs."""
    runs, starts = sum(sizes), np.cumsum([0, *sizes])
    answers, tests, cost = np.zeros(runs, np.int64), np.zeros(runs, np.int64), np.zeros(runs)
    sets = np.zeros((runs, jobs[0].shape[0]), np.int8) if answers_sets(jobs[0].problem.asks) else None
    leaders = np.zeros((runs, len(jobs[0].checkpoints)), np.int64)
    done = 0
    missing = [[(0, size)] for size in sizes]
    # One schedule for all jobs, so that no worker waits for the last run of one that takes long.
    with open_schedule(
        *(jobs, missing), device=device, executor=executor, workers=workers, chunk_seconds=CHUNK_SECONDS
    ) as schedule:
        if len(jobs) == 1 and (executor is None or executor == "threads"):
            schedule.compile()  # before the clock starts
        start = time.perf_counter()
        for piece, chunk in schedule:
            first = int(starts[piece.job]) + piece.first
            part = slice(first, first + piece.runs)
            answers[part], tests[part], cost[part] = chunk.outcomes[:3]
            take_counts(part, chunk.outcomes.counts)
            if sets is not None and chunk.sets is not None:
                sets[part] = chunk.sets
            if jobs[0].checkpoints:
                leaders[part] = chunk.outcomes.leaders
            done += piece.runs
            if progress is not None:
                progress(done, int(tests.sum()))
    return Runs(answers, tests, cost, sets, leaders, max(time.perf_counter() - start, 1e-9))


def simulate(
    problem: Problem,
    *,
    policy: str | type[Policy] | None = None,
    options: Mapping[str, Parameter] | None = None,
    bound: str | None = None,
    delta: float | None = None,
    runs: int = 1000,
    seed: int = 0,
    max_tests: int = DEFAULT_MAX_TESTS,
    keep_streams: bool = True,
    checkpoints: Iterable[int] | None = None,
    executor: str | Executor | None = None,
    workers: int | None = None,
    device: str = "cpu",
    progress: RunsProgress | None = None,
) -> Simulation:
    """Simulate `runs` independent studies of `problem`, whose arms must have their true means.

    Run number r has the same outcome whatever the device and the number of workers, runs or chunks.

    Parameters
    ----------
    problem
        A `Problem` or a `Plan`. A plan's policy, bound and delta apply unless given here.
    policy
        The name of a policy or a subclass of `Policy`.
    options
        The policy's parameters, by name; those that are not stated have the policy's defaults.
    max_tests
        A run that has not stopped after this many tests ends as unfinished.
    keep_streams
        Whether to keep every run's number of tests per stream: runs × arms × metrics numbers of 8 bytes.
    checkpoints
        After how many tests to record what each run recommends, such as [200, 400, 800]; `curves` of the result has the
        error and the regret of an answer after that many tests.
    executor
        "threads" (the default), "processes", "dask:ADDRESS", "ray:ADDRESS" or any `concurrent.futures.Executor`.
        Policies in plain Python use more than one core only with processes.
    workers
        How many threads or processes; by default the number of cores.
    device
        "cpu", "cuda" for a CUDA card, or "auto" for a card if there is one and the job is large enough to pay.

    >>> import bestarm as ba
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="feasibility-first", runs=20, seed=1)
    >>> result.answer_counts
    {'arm 5': 20}
    >>> result = ba.simulate(ba.instance("exp1-a"), policy="racing", runs=200, seed=1, checkpoints=[100, 1000])
    >>> result.curves.error.tolist()
    [0.77, 0.25]
    """
    plan, chosen = planned(problem, policy, options, delta=delta, bound=bound)
    runs, seed, max_tests, workers = checked_limits(runs, seed, max_tests, workers)
    at = checked_checkpoints(plan, checkpoints, max_tests)
    job = Job.of(plan, chosen, seed=seed, max_tests=max_tests, keep_counts=keep_streams, checkpoints=at)
    counts = np.zeros((runs, *job.shape), np.int64) if keep_streams else None

    def take_counts(part: slice, tests: Ints) -> None:
        if counts is not None:
            counts[part] = tests

    answers, tests, cost, sets, leaders, seconds = simulate_jobs(
        *([job], [runs], take_counts), executor=executor, workers=workers, device=device, progress=progress
    )
    outcomes = (answers, tests, cost, counts, seconds, sets, at, leaders if at else None)
    return Simulation(plan, chosen.name, seed, max_tests, *outcomes)


def planned(
    problem: Problem, policy: str | type[Policy] | None, options: Mapping[str, Parameter] | None, **changes: Any
) -> tuple[Plan, type[Policy]]:
    """What to simulate: a plan and the class of its policy, a plan's own unless another is given."""
    given = None if policy is None else find_policy(policy)
    plan = Plan.of(problem, policy=None if given is None else given.name, options=options, **changes)
    return plan, given or find_policy(plan.policy)


def limit_words(plan: Plan, max_tests: int) -> str:
    """Where a simulated study ends that has no answer."""
    amounts = {} if plan.budget is None else plan.budget.amounts
    tests = min(max_tests, plan.max_tests)
    if plan.blocks is None or plan.max_blocks * plan.blocks.size > tests:
        amounts = {"tests": tests} | {name: number for name, number in amounts.items() if name != "tests"}
    return " or ".join(amount_words(name, number, plan.blocks) for name, number in amounts.items())


def simulation_title(result: Simulation) -> str:
    return f"{result.plan.name}: {result.policy}"


def simulation_rows(result: Simulation) -> Rows:
    """Tests, cost, errors and answers of simulated studies."""
    spread = "" if result.runs == 1 else f" ± {result.se_tests:,.1f} (sd {result.sd_tests:,.0f})"
    options = ", ".join(f"{name} = {given}" for name, given in result.plan.options.items())
    rows = [
        ("runs", f"{result.runs:,} (seed {result.seed})"),
        ("delta, bound", f"{result.plan.delta:g}, {result.plan.bound}"),
        *([("options", options)] if options else []),
        ("mean tests", f"{result.mean_tests:,.1f}{spread}"),
        ("mean cost", f"{result.mean_cost:,.1f}"),
        ("wrong answers", f"{result.wrong:,} ({100 * result.error_rate:.3g}%)"),
    ]
    if result.unfinished:
        limit = f"stopped at {limit_words(result.plan, result.max_tests)}; means include them"
        rows.append(("unfinished", f"{result.unfinished:,} ({limit})"))
    rows += answer_rows(result.answer_counts, "{:,}")
    for row in result.curves.rows() if result.checkpoints else ():
        losses = f"{100 * row['error_rate']:.3g}% wrong, {100 * row['infeasible']:.3g}% infeasible"
        rows.append((f"after {row['tests']:,} tests", f"{losses}, regret {row['regret']:.3g}"))
    if not math.isnan(result.seconds):
        rows.append(("speed", f"{result.tests_per_second / 1e6:,.1f} million tests per second"))
    return rows
