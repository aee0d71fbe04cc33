"""How forecasts from the middle of a study turn out: how often what they foretell happens.

    python benchmarks/forecast.py --studies 100

Each study of a problem is simulated to its end. Then it is stopped at a random share of its length, what remains is
forecast, and the forecast is compared with what happened. Prints two tables as Markdown. The first, by problem and
stage: how many studies ended within the tests that half of the continuations, and nine in ten, take; how often it was
too early to say; how long the forecasts were compared with what happened; and how long what is shown where nothing is
simulated was. The second, reliability: of all that was said to come with a probability of about p, how much came.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import numpy as np

import bestarm as ba
from bestarm.analysis.standing.knowledge import open_questions_of
from bestarm.analysis.status.outlook import Outlook
from bestarm.policies import policy_for
from bestarm.policies.decisions import Stop
from bestarm.policies.kernels import KernelPolicy
from bestarm.simulation.answers import named_answers
from bestarm.simulation.engine import Job
from bestarm.study.forecast.continuations import simulate_continuations

MOST_TESTS = 20_000
STAGES = {"first third": (0.0, 1 / 3), "second third": (1 / 3, 2 / 3), "last third": (2 / 3, 1.0)}
BINS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)
DELTA = 0.05

_normal, _rate, _range = ba.Gaussian(1.0), ba.Bernoulli(), ba.Bounded(0.0, 10.0)
_harm = ba.at_most("harm", 0.0, noise=_normal)
_passes = ba.at_least("passes", 0.9, noise=_rate)
_crash = ba.at_most("crash", 0.2, noise=_rate)


def _problem(
    objective: ba.Objective, *limits: ba.Constraint, means: list[list[float]], spread: float = 0.0
) -> ba.Problem:
    """The arms' means in the order of the metrics; a spread is that of all metrics whose noise does not say it."""
    metrics = [objective.metric, *(limit.metric for limit in limits)]
    noises = [objective.noise, *(limit.noise for limit in limits)]
    spreads = {metric: spread for metric, noise in zip(metrics, noises, strict=True) if noise.learns_scatter}
    arms = [ba.Arm(f"arm {k}", dict(zip(metrics, row, strict=True)), spreads=spreads) for k, row in enumerate(means)]
    return ba.Problem(arms=arms, objective=objective, constraints=limits)


_fixed: dict[str, ba.Problem] = {
    "Gaussian, a limit": _problem(
        ba.maximize("gain", noise=_normal), _harm, means=[[0.0, -1.0], [0.6, -0.7], [1.2, -0.5], [1.5, 0.6]]
    ),
    "exp1-a": ba.instance("exp1-a"),
    "Gaussian, a rate ≥ 0.9": _problem(
        ba.maximize("gain", noise=_normal), _passes, means=[[0.0, 0.98], [1.0, 0.99], [2.0, 0.97], [3.0, 0.6]]
    ),
    "rates": _problem(ba.maximize("hit", noise=_rate), _crash, means=[[0.5, 0.02], [0.8, 0.05], [0.9, 0.6]]),
    "symmetric, a rate": _problem(
        ba.minimize("latency", noise=ba.Symmetric()), _crash, means=[[9.0, 0.02], [7.0, 0.05], [6.0, 0.6]], spread=2.0
    ),
    "bounded": _problem(
        ba.maximize("score", noise=_range),
        ba.at_most("strain", 5.0, noise=_range),
        means=[[4.0, 3.0], [5.0, 3.5], [6.5, 4.0], [7.0, 6.0]],
        spread=1.5,
    ),
    "300 items, rates": dataclasses.replace(
        _problem(ba.maximize("right", noise=_rate), means=[[0.5], [0.6], [0.75]]),
        items=300,
        item_spreads={"right": 1.0},
    ),
    "200 items, symmetric": dataclasses.replace(
        _problem(
            ba.maximize("gain", noise=ba.Symmetric()),
            ba.at_most("strain", 1.0, noise=ba.Symmetric()),
            means=[[0.0, 0.2], [0.5, 0.4], [0.8, 0.6], [1.0, 1.5]],
            spread=1.0,
        ),
        items=200,
        item_spreads={"gain": 1.0, "strain": 0.5},
    ),
    "300 items, four metrics a call": dataclasses.replace(
        _problem(
            ba.maximize("right", noise=_rate),
            ba.at_most("latency", 2.0, noise=ba.Quantile(0.95)),
            ba.at_most("toxic", 0.05, noise=_rate),
            ba.at_most("price", 5.0, noise=ba.Bounded(0.0, 20.0)),
            means=[
                [0.55, 0.005, 0.01, 2.0],
                [0.62, 0.01, 0.01, 2.2],
                [0.7, 0.02, 0.02, 2.5],
                [0.74, 0.01, 0.02, 3.0],
                [0.76, 0.07, 0.01, 3.0],
                [0.8, 0.15, 0.01, 4.0],
            ],
            spread=1.0,
        ),
        measurements=(ba.Measurement(("right", "latency", "toxic", "price")),),
        items=300,
        item_spreads={"right": 1.0, "price": 0.5},
    ),
    "no feasible arm": _problem(
        ba.maximize("gain", noise=_normal), _passes, means=[[0.0, 0.6], [1.0, 0.7], [2.0, 0.75]]
    ),
    "near tie": _problem(ba.maximize("gain", noise=_normal), means=[[0.0], [0.9], [1.0]]),
    "10 arms": _problem(ba.maximize("gain", noise=_normal), means=[*([0.1 * k] for k in range(9)), [1.3]]),
}


def drawn_gaussian(random: np.random.Generator) -> ba.Problem:
    """Another problem each time. A tolerance and a slack keep near ties from taking forever."""
    means = np.column_stack([random.normal(0.0, 1.0, 4), random.normal(-0.3, 0.7, 4)]).tolist()
    objective = ba.maximize("gain", noise=_normal, tolerance=0.2)
    return _problem(objective, dataclasses.replace(_harm, slack=0.2), means=means)


def drawn_rates(random: np.random.Generator) -> ba.Problem:
    means = np.column_stack([random.beta(2.0, 2.0, 4), random.beta(1.0, 4.0, 4)]).tolist()
    objective = ba.maximize("hit", noise=_rate, tolerance=0.1)
    return _problem(objective, dataclasses.replace(_crash, slack=0.08), means=means)


PROBLEMS: dict[str, Callable[[np.random.Generator], ba.Problem]] = {
    **{name: functools.partial(lambda problem, _: problem, problem) for name, problem in _fixed.items()},
    "drawn, Gaussian": drawn_gaussian,
    "drawn, rates": drawn_rates,
}


COLUMNS = (
    *("problem", "stage", "studies", "too early", "within the median", "within 9 in 10", "9 in 10: far more"),
    *("median / left", "9 in 10 / left", "not simulated / left", "within 2 times"),
)


class Case(NamedTuple):
    """A forecast, and what happened."""

    stage: str
    left: int
    answer: str
    outlook: Outlook
    estimate: float
    """How many tests were said to remain from the open certificates alone."""


def stopped(plan: ba.Plan, run: int, share: float) -> tuple[KernelPolicy, int, str] | None:
    """A simulated study after a share of its tests, how many it had still to make, and its answer. None if it did not
    get so far: every stream needs a result."""
    policy = policy_for(plan, plan.policy)
    assert issubclass(policy, KernelPolicy)
    job = Job.of(plan, policy, seed=77, max_tests=MOST_TESTS)
    chunk, trace = job.trace(run)
    sizes = {bundle[0]: len(bundle) for bundle in plan.bundles}
    total = int(chunk.outcomes.tests[0])
    study = policy(job.setting, *job.shape, seed=77, run=run)
    study.compile()
    places = np.zeros(job.shape, np.int64)
    made, first, size, tests = 0, 0, study.streams.counts.size, study.streams.counts.shape[0] * len(plan.bundles)
    while made < share * total or not made:
        rows, ends = trace.streams[first : first + size].astype(np.int64), np.zeros(size, np.int8)
        ends[-1] = 1
        if plan.items is not None:
            spots = []
            for arm, metric in rows.tolist():
                spots.append(places[arm, metric])
                places[arm, metric] += 1
            rows = np.column_stack([rows, spots])
        decision = study.advance(rows, trace.values[first : first + size], ends)
        made, first = made + tests, first + size
        if decision is None or isinstance(decision, Stop):
            return None
        tests, size = len(decision), sum(sizes[metric] for _, metric in decision)
    answer = named_answers(plan, chunk.outcomes.answers, chunk.sets)[0]
    return study, total - made, answer or ""


def cases(name: str, first: int, studies: int, runs: int) -> list[Case]:
    """The studies of a problem from number `first` on."""
    found = []
    for run in range(first, first + studies):
        random = np.random.default_rng((5, run))
        plan = ba.Plan.of(PROBLEMS[name](random), delta=DELTA)
        stage = list(STAGES)[run % len(STAGES)]
        middle = stopped(plan, run, random.uniform(*STAGES[stage]))
        if middle is not None:
            study, left, answer = middle
            outlook = simulate_continuations(unknown(plan), study, runs=runs, seed=run)
            estimate = open_questions_of(plan, study, study.findings(), study.present_answer().leader)[1]
            found.append(Case(stage, left, answer, outlook, estimate))
    return found


def unknown(plan: ba.Plan) -> ba.Plan:
    """What a live study is told: neither the true means nor how results scatter."""
    arms = tuple(dataclasses.replace(arm, means=None, spreads=None) for arm in plan.arms)
    return dataclasses.replace(plan, arms=arms, item_spreads=None)


def share(happened: list[bool]) -> str:
    return f"{100 * sum(happened) / len(happened):.0f}%" if happened else "–"


def row(name: str, stage: str, found: list[Case]) -> str:
    said = [case for case in found if case.outlook.state == "simulated"]
    # "1 in 10: far more" foretells nothing.
    foretold = [case for case in said if math.isfinite(case.outlook.p90_tests)]

    def ratio(cases: list[Case], tests: Callable[[Outlook], float]) -> str:
        return f"{np.median([tests(case.outlook) / max(case.left, 1) for case in cases]):.1f}" if cases else "–"

    cells = (
        share([case.outlook.state == "too early" for case in found]),
        share([case.left <= case.outlook.median_tests for case in said]),
        share([case.left <= case.outlook.p90_tests for case in foretold]),
        share([math.isinf(case.outlook.p90_tests) for case in said]),
        ratio(said, lambda outlook: outlook.median_tests),
        ratio(foretold, lambda outlook: outlook.p90_tests),
        f"{np.median([case.estimate / max(case.left, 1) for case in found]):.1f}" if found else "–",
        share([0.5 <= case.estimate / max(case.left, 1) <= 2.0 for case in found]),
    )
    return f"| {name} | {stage} | {len(found)} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=90, help="of each problem")
    parser.add_argument("--first", type=int, default=0, help="number of the first study; others are other studies")
    parser.add_argument("--runs", type=int, default=100, help="continuations of each")
    parser.add_argument("--problems", nargs="*", default=list(PROBLEMS), choices=list(PROBLEMS), metavar="NAME")
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    print("| " + " | ".join(COLUMNS) + " |\n| --- | --- |" + " ---: |" * (len(COLUMNS) - 2))
    every: list[Case] = []
    counted = functools.partial(cases, first=given.first, studies=given.studies, runs=given.runs)
    with ProcessPoolExecutor(given.processes) as processes:
        for name, found in zip(given.problems, processes.map(counted, given.problems), strict=True):
            every += found
            for stage in STAGES:
                print(row(name, stage, [case for case in found if case.stage == stage]), flush=True)
    for stage in STAGES:
        print(row("all", stage, [case for case in every if case.stage == stage]))
    print(row("all", "all", every))
    reliability(every)


def reliability(every: list[Case]) -> None:
    """Of the answers that were given a probability, how many came."""
    print("\n| said | answers | mean said | came |\n| --- | ---: | ---: | ---: |")
    said = []
    for case in every:
        if case.outlook.state == "simulated":
            answers = case.outlook.answers
            said += [(probability, name == case.answer) for name, probability in answers.items()]
            if case.answer not in answers:
                said.append((0.0, True))
    for low, high in itertools.pairwise(BINS):
        inside = [(p, came) for p, came in said if low <= p < high or p == high == 1.0]
        if inside:
            mean = sum(p for p, _ in inside) / len(inside)
            print(f"| {low:.0%} to {high:.0%} | {len(inside)} | {mean:.0%} | {share([came for _, came in inside])} |")


if __name__ == "__main__":
    main()
