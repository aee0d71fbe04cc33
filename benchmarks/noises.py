"""What each noise costs in tests, how often it errs, and how fast it is simulated.

    python benchmarks/noises.py

Prints tables as Markdown: the tests of one stream against a threshold; those of whole studies, and of studies whose
values lie far inside their range; errors on the threshold itself; tests simulated per second. Beside the noises of the
package stands `Bounded` as it was in version 0.1.0, by exponential tilts: it is kept here only, as a yardstick.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import bestarm as ba
from bestarm.noises import bernoulli
from bestarm.noises.base import NoiseModel
from bestarm.noises.bets import EVEN_LOG_WEIGHTS
from bestarm.noises.bounded import draw
from bestarm.noises.kernels import NoiseKernels
from bestarm.noises.tilt_costs import tuning_of
from bestarm.policies import all_policies
from bestarm.problem import Plan, Problem
from bestarm.simulation.engine import Job
from bestarm.validation import value

Spread = float | dict[str, float]
STREAM_DELTA = 0.01
STUDY_DELTA = 0.05
PAPER_DELTA = 0.1
SEED = 1
LIMIT = 1_000
"""On the threshold: so many tests a run."""


@value
class Tilts(ba.Bounded):
    """Values in a range by the tilts of version 0.1.0, which saw only their mean. They still serve rates."""

    name = "tilts"
    kernels = NoiseKernels(
        bernoulli.evidence,
        bernoulli.evidence_and_slope,
        bernoulli.scatter,
        draw,
        bernoulli.ceiling,
        bernoulli.guess,
    )
    kept = 0
    learns_scatter = False

    def tuning(self, threshold: float | None) -> tuple[float, ...]:
        return tuning_of(EVEN_LOG_WEIGHTS)


class Truth(NamedTuple):
    """A stream as it really is, and what can truly be stated of it."""

    label: str
    mean: float
    limit: float
    spread: Spread
    deviation: float
    high: float
    """Values lie between 0 and this."""
    is_symmetric: bool = True
    is_sub_gaussian: bool = False
    """Whether its standard deviation is a sub-Gaussian scale too, so that it can be stated as sigma."""
    is_constant: bool = False
    is_below: bool = True
    """Whether to prove that the mean is below the limit; else that it is above it."""


BETA = 10 / (2 * 21**0.5)
"""The standard deviation of 10 X with X of Beta(10, 10)."""

TRUTHS = (
    Truth("normal, sd 1 in [0, 10]; 0.5 away", 5, 5.5, {"normal": 1.0}, 1.0, 10, is_sub_gaussian=True),
    Truth("like Beta(10, 10) in [0, 10]; 0.5 away", 5, 5.5, BETA, BETA, 10, is_sub_gaussian=True),
    Truth("uniform in [0, 10]; 0.5 away", 5, 5.5, {"uniform": 10 / 12**0.5}, 10 / 12**0.5, 10, is_sub_gaussian=True),
    Truth("lognormal, 50 ± 26, timeout 1,000; to be below 55", 50, 55, {"lognormal": 26.0}, 26, 1000, False),
    Truth("the same; to be above 45", 50, 45, {"lognormal": 26.0}, 26, 1000, is_symmetric=False, is_below=False),
    Truth("never varies, 5 in [0, 10]; 0.5 away", 5, 5.5, 0.0, 0.0, 10, is_constant=True),
)
STREAM_HEADER = (
    "| true values; distance to the threshold | σ known | `Symmetric` | `Bounded` | version 0.1.0 | times as many | "
    "`Exact` |"
)
SHARES = (
    ("a rate of 0.001; at most 0.002", ba.Bernoulli(), 0.001, 0.002),
    ("a rate of 0.001; at most 0.01", ba.Bernoulli(), 0.001, 0.01),
    ("0.5% of values beyond the threshold; `Quantile(0.99)`", ba.Quantile(0.99), 0.005, 100.0),
    ("0.1% of values beyond the threshold; `Quantile(0.99)`", ba.Quantile(0.99), 0.001, 100.0),
    ("33% of values beyond the threshold; `Quantile(0.5)`", ba.Quantile(0.5), 0.33, 100.0),
)
SHARE_HEADER = "| rates and quantiles | tests |"
STUDY_HEADER = "| study | noise of the objective | mean tests | wrong answers |"
ERROR_HEADER = "| true values, their mean on the threshold | noise | shown to be below it | shown to be above it |"
SPEED_HEADER = "| study | noise | million tests a second | as a share of Gaussian |"


def rule(header: str, left: int = 1) -> str:
    """The line below a table's header: the first `left` columns to the left, the others to the right."""
    return "| --- " * left + "| ---: " * (header.count("|") - 1 - left) + "|"


def row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


# --------------------------------------------------------------------------------------------------------- one stream


def one_stream(noise: NoiseModel, mean: float, limit: float, spread: Spread | None, is_below: bool = True) -> Problem:
    """One arm with one constraint. Its objective never varies: that takes one test, which is not counted below."""
    side = ba.at_most if is_below else ba.at_least
    means = {"nothing": 0.0, "metric": mean}
    arm = ba.Arm("arm", means) if spread is None else ba.Arm("arm", means, spreads={"metric": spread})
    return ba.Problem(
        arms=[arm],
        objective=ba.maximize("nothing", noise=ba.Exact()),
        constraints=[side("metric", limit, noise=noise)],
    )


def tests_of(problem: Problem, runs: int, seed: int) -> float:
    found = ba.simulate(problem, delta=STREAM_DELTA, runs=runs, seed=seed, max_tests=10**8)
    assert found.unfinished == 0
    return found.mean_tests - 1


def tests_of_truth(truth: Truth, noise: NoiseModel, runs: int, seed: int) -> float:
    spread = None if isinstance(noise, ba.Exact) else truth.spread
    return tests_of(one_stream(noise, truth.mean, truth.limit, spread, truth.is_below), runs, seed)


def streams(runs: int) -> Iterator[str]:
    yield STREAM_HEADER
    yield rule(STREAM_HEADER)
    for truth in TRUTHS:
        bets = tests_of_truth(truth, ba.Bounded(0, truth.high), runs, SEED)
        tilts = tests_of_truth(truth, Tilts(0, truth.high), runs, SEED)
        yield row(
            (
                truth.label,
                f"{tests_of_truth(truth, ba.Gaussian(truth.deviation), runs, SEED):,.0f}"
                if truth.is_sub_gaussian
                else "",
                f"{tests_of_truth(truth, ba.Symmetric(), runs, SEED):,.0f}" if truth.is_symmetric else "",
                f"{bets:,.0f}",
                f"{tilts:,.0f}",
                f"{tilts / bets:.1f}",
                f"{tests_of_truth(truth, ba.Exact(), runs, SEED):,.0f}" if truth.is_constant else "",
            )
        )
    yield ""
    yield SHARE_HEADER
    yield rule(SHARE_HEADER)
    for label, noise, mean, limit in SHARES:
        yield row((label, f"{tests_of(one_stream(noise, mean, limit, None), runs, SEED):,.0f}"))


# ------------------------------------------------------------------------------------------------------ whole studies


def with_noise(plan: Plan, noise: NoiseModel, spread: float | None) -> Plan:
    """The plan with this noise in every metric."""
    spreads = {} if spread is None else {"spreads": dict.fromkeys(plan.metrics, spread)}
    return dataclasses.replace(
        plan,
        arms=tuple(ba.Arm(arm.name, arm.means, **spreads) for arm in plan.arms),  # type: ignore[arg-type]
        objective=dataclasses.replace(plan.objective, noise=noise),
        constraints=tuple(dataclasses.replace(constraint, noise=noise) for constraint in plan.constraints),
    )


def scores(noise: NoiseModel) -> Problem:
    """Five prompts, scored from 0 to 10 with a standard deviation of 1.2, which may break the rules in 5% of cases."""
    quality = {"prompt 1": 7.4, "prompt 2": 7.3, "prompt 3": 7.2, "prompt 4": 6.9, "prompt 5": 6.5}
    return ba.Problem(
        arms=[ba.Arm(name, {"score": mean, "broken": 0.02}, spreads={"score": 1.2}) for name, mean in quality.items()],
        objective=ba.maximize("score", noise=noise),
        constraints=[ba.at_most("broken", 0.05, noise=ba.Bernoulli())],
    )


def sizes(noise: NoiseModel) -> Problem:
    """Four compressors and the size of what they leave, as a share. It is the same every time."""
    ratios = {"compressor 1": 0.31, "compressor 2": 0.32, "compressor 3": 0.34, "compressor 4": 0.40}
    spreads = {} if isinstance(noise, ba.Exact) else {"spreads": {"size ratio": 0.0}}
    return ba.Problem(
        arms=[ba.Arm(name, {"size ratio": ratio}, **spreads) for name, ratio in ratios.items()],  # type: ignore[arg-type]
        objective=ba.minimize("size ratio", noise=noise),
    )


def accuracies(noise: NoiseModel) -> Problem:
    """Five models and their accuracy on a fresh split, which stays far from the ends of its range."""
    means = {"model 1": 0.96, "model 2": 0.955, "model 3": 0.95, "model 4": 0.945, "model 5": 0.94}
    return ba.Problem(
        arms=[ba.Arm(name, {"accuracy": mean}, spreads={"accuracy": {"normal": 0.01}}) for name, mean in means.items()],
        objective=ba.maximize("accuracy", noise=noise),
    )


def studies(runs: int) -> Iterator[str]:
    yield STUDY_HEADER
    yield rule(STUDY_HEADER, 2)
    problems: list[tuple[str, Problem, str, float]] = []
    for name in ("exp1-a", "exp1-b", "exp1-c", "drug"):
        plan = ba.instance(name)
        problems += [
            (name, plan, "`Gaussian(1.0)`, which is true", PAPER_DELTA),
            (name, with_noise(plan, ba.Symmetric(), 1.0), "`Symmetric()`", PAPER_DELTA),
        ]
    problems.append(("drug-bernoulli", ba.instance("drug-bernoulli"), "`Bernoulli()`", PAPER_DELTA))
    noise: NoiseModel
    for kind, noise in (
        ("`Gaussian(1.2)`, which is true", ba.Gaussian(1.2)),
        ("`Symmetric()`", ba.Symmetric()),
        ("`Bounded(0, 10)`", ba.Bounded(0, 10)),
        ("`Bounded(0, 10)` of version 0.1.0", Tilts(0, 10)),
    ):
        problems.append(("scores", scores(noise), kind, STUDY_DELTA))
    for kind, noise in (
        ("`Symmetric()`", ba.Symmetric()),
        ("`Bounded(0, 1)`", ba.Bounded(0, 1)),
        ("`Bounded(0, 1)` of version 0.1.0", Tilts(0, 1)),
        ("`Exact()`", ba.Exact()),
    ):
        problems.append(("sizes", sizes(noise), kind, STUDY_DELTA))
    yield from of_studies(problems, runs)


def studies_of_accuracies(runs: int) -> Iterator[str]:
    yield STUDY_HEADER
    yield rule(STUDY_HEADER, 2)
    ranges = [(low, ba.Bounded(low, 1)) for low in (0.8, 0.5, 0)]
    noises: list[tuple[str, NoiseModel]] = [("`Symmetric()`", ba.Symmetric())]
    noises += [(f"`Bounded({low:g}, 1)`", noise) for low, noise in ranges]
    yield from of_studies([("accuracies", accuracies(noise), kind, STUDY_DELTA) for kind, noise in noises], runs)


def of_studies(problems: Sequence[tuple[str, Problem, str, float]], runs: int) -> Iterator[str]:
    first: dict[str, float] = {}
    for name, problem, kind, delta in problems:
        # What takes hundreds of thousands of tests need not be simulated as often.
        times_run = max(runs // 10, 1) if isinstance(problem.objective.noise, Tilts) else runs
        found = ba.simulate(problem, delta=delta, runs=times_run, seed=SEED, max_tests=10**8)
        assert found.unfinished == 0
        times = found.mean_tests / first.setdefault(name, found.mean_tests)
        tests = f"{found.mean_tests:,.0f}" + (f" (× {times:,.2f})" if times != 1.0 else "")
        yield row((name, kind, tests, f"{found.wrong} of {times_run:,}"))


# ------------------------------------------------------------------------------------------------- on the threshold


ON_THE_THRESHOLD: tuple[tuple[str, NoiseModel, float, float, Spread | None], ...] = (
    ("normal", ba.Gaussian(1.0), 5.0, 5.0, 1.0),
    ("normal, σ stated as ⅓ of the truth", ba.Gaussian(1.0), 5.0, 5.0, 3.0),
    ("normal", ba.Symmetric(), 5.0, 5.0, 1.0),
    ("uniform", ba.Symmetric(), 5.0, 5.0, {"uniform": 1.0}),
    ("Laplace", ba.Symmetric(), 5.0, 5.0, {"laplace": 1.0}),
    ("exponential: not symmetric", ba.Symmetric(), 5.0, 5.0, {"exponential": 1.0}),
    ("lognormal, 5 ± 2.5: not symmetric", ba.Symmetric(), 5.0, 5.0, {"lognormal": 2.5}),
    ("like Beta(10, 10) in [0, 10]", ba.Bounded(0, 10), 5.0, 5.0, BETA),
    ("uniform in [0, 10]", ba.Bounded(0, 10), 5.0, 5.0, {"uniform": 10 / 12**0.5}),
    ("skewed: 0.5 ± 0.5 in [0, 10]", ba.Bounded(0, 10), 0.5, 0.5, 0.5),
    ("a rate of 0.1", ba.Bernoulli(), 0.1, 0.1, None),
    ("10% beyond the threshold; `Quantile(0.9)`", ba.Quantile(0.9), 0.1, 100.0, None),
)


def errors(runs: int) -> Iterator[str]:
    """Shown to be on one side, with the mean exactly on the threshold: at most δ = 5% of runs may do so, each way."""
    yield ERROR_HEADER
    yield rule(ERROR_HEADER, 2)
    for label, noise, mean, limit, spread in ON_THE_THRESHOLD:
        problem = one_stream(noise, mean, limit, spread)
        found = ba.simulate(problem, delta=STUDY_DELTA, runs=runs, seed=SEED, max_tests=LIMIT)
        shares = [found.answer_counts.get(answer, 0) / runs for answer in ("arm", "none")]
        yield row((label, f"`{type(noise).__name__}`", *(f"{share:.2%}" for share in shares)))


# -------------------------------------------------------------------------------------------------------------- speed


def million_tests_a_second(problem: Problem, delta: float, tests: int) -> float:
    """On one core. Time of this process alone counts, so that a busy machine measures the same."""
    job = Job(problem, all_policies()["certify"], delta, "paper", 1, 10**9)
    probe = job.simulate(0, 2).outcomes.tests.mean()
    start = time.process_time()
    outcomes = job.simulate(0, max(1, round(tests / probe))).outcomes
    return float(outcomes.tests.sum()) / (time.process_time() - start) / 1e6


def speed(rounds: int, tests: int = 4_000_000) -> Iterator[str]:
    yield SPEED_HEADER
    yield rule(SPEED_HEADER, 2)
    plan = ba.instance("exp1-c")
    for name, delta, problems in (
        ("exp1-c", PAPER_DELTA, {"Gaussian": plan, "Symmetric": with_noise(plan, ba.Symmetric(), 1.0)}),
        (
            "scores",
            STUDY_DELTA,
            {
                "Gaussian": scores(ba.Gaussian(1.2)),
                "Symmetric": scores(ba.Symmetric()),
                "Bounded": scores(ba.Bounded(0, 10)),
            },
        ),
    ):
        # All in turn, so that what slows the machine for a while slows all of them.
        rates = [
            {kind: million_tests_a_second(problem, delta, tests) for kind, problem in problems.items()}
            for _ in range(rounds)
        ]
        for kind in problems:
            rate = statistics.median(found[kind] for found in rates)
            share = statistics.median(found[kind] / found["Gaussian"] for found in rates)
            yield row((name, kind, f"{rate:.2f}", f"{share:.2f}"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000, help="simulated runs behind each mean (default: 1,000)")
    parser.add_argument("--paths", type=int, default=10_000, help="runs on the threshold (default: 10,000)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds of measured speed (default: 5)")
    parser.add_argument("--only", choices=("streams", "studies", "accuracies", "errors", "speed"), help="one table")
    options = parser.parse_args()
    for name, title, lines in (
        ("streams", "One stream: tests until 1 : 100 of evidence", streams(options.runs)),
        ("studies", "Whole studies", studies(options.runs)),
        ("accuracies", "Whole studies of values far inside their range", studies_of_accuracies(options.runs)),
        ("errors", f"On the threshold: errors within {LIMIT:,} tests, of which 5% are allowed", errors(options.paths)),
        ("speed", "certify, simulated on one core", speed(options.rounds)),
    ):
        if options.only not in (None, name):
            continue
        print(f"\n{title}\n", flush=True)
        for line in lines:
            print(line, flush=True)


if __name__ == "__main__":
    main()
