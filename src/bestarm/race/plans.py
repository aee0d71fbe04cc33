"""A race as a study: commands are arms, one run is one test that yields every metric that counts.

Which noise is true of what:

- Commands are compared with each other, and with a multiple of the baseline, run by run: the difference of two runs of
  the same place in the order. If the times of two commands scatter in the same way, however skewed, that difference is
  symmetric. So `Symmetric` is stated, which takes few runs and no range. It says nothing of rare long pauses that have
  not been seen, so a part of delta goes to a bound on them (`bestarm.race.pauses`). `range` does without symmetry, and
  takes many times the runs.
- A mean below a limit of its own is one command's alone, and run times are skewed. So it is `Bounded`: times by the
  timeout, everything else by a multiple of the limit, and larger values count as that.
- A quantile needs nothing (`Quantile`), nor does a share of failures or of pauses (`Bernoulli`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_DOWN, Context
from typing import Literal

from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.exact import Exact
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.problem import Budget, Objective, Plan, at_least, at_most
from bestarm.problem.blocks import MOST_TESTS_OF_BLOCK, Blocks
from bestarm.problem.measurements import Measurement
from bestarm.race.limits import METRICS, Limit, Metric, Metrics, size_words, time_words
from bestarm.race.runs import Run
from bestarm.validation import InvalidInput

Assumed = Literal["symmetry", "range"]
ASSUMED: tuple[Assumed, ...] = ("symmetry", "range")

CANDIDATE = "candidate"
"""The metric of a gate: 1 for the candidate, 0 for the baseline. A gate asks only whether the candidate meets every
limit."""

ROUND, MACHINE = "round", "machine"
"""What a block is on several machines: a round of runs on all of them or, if each is used only once, a machine."""

_SHARE_OF_PAUSES = 0.1
_SHARE_OF_PAUSES_IN_GATES = 0.05
"""The share of the delta of a race or gate, if it rests on symmetry, that the claim about pauses may use."""

_SHARE_OF_RATIOS = 0.1
"""The share of the delta of a race for the intervals of all ratios between commands. After as many runs as a clear
answer takes, there is an interval, too."""

_TIMES_LIMIT = 4.0
"""Values above this multiple of their limit count as this multiple."""
_TIMES_SEEN = 10.0
"""Without a limit, values above this multiple of the largest first run count as this multiple."""


@dataclasses.dataclass(frozen=True)
class Question:
    """The question of a race: everything but its commands."""

    objective: str = "time"
    limits: tuple[Limit, ...] = ()
    baseline: str | None = None
    tolerance: float = 0.0
    assumed: Assumed = "symmetry"
    delta: float = 0.05
    runs: int | None = None
    """The most runs there may be, of all commands together."""
    tolerance_share: float = 0.0
    """If stated, the tolerance is this share of the smallest value of a first run. First runs do not count, so it is
    chosen before the first run that does."""
    reference: str | None = None
    """The command that others are compared with where results are shown; by default the one with the least mean."""
    goal: Literal["minimize", "maximize"] = "minimize"
    """Whether the objective is to be small or large."""
    known: Metrics = dataclasses.field(default_factory=lambda: METRICS, repr=False)
    """By name: the metrics that a run yields, and those of the user's own that its output says."""

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise InvalidInput("delta", self.delta, "must lie strictly between 0 and 1")

    def with_tolerance_of(self, first: Sequence[Run], floor: float) -> Question:
        """The same question with a tolerance that is a share of the smallest value of a first run. Memory below `floor`
        cannot be seen."""
        if not self.tolerance_share:
            return self
        values = [value for run in first if not math.isnan(value := run.value(self.objective))]
        least = max(min(values, default=0.0), floor if self.objective == "memory" else 0.0)
        return dataclasses.replace(self, tolerance=rounded_down(self.tolerance_share * least))

    def ahead_in(self, first: Mapping[str, Sequence[Run]]) -> str | None:
        """The command of which a first run was the best; None in a gate, which asks for no best."""
        sign = 1.0 if self.goal == "minimize" else -1.0
        values = {name: [sign * run.value(self.objective) for run in runs] for name, runs in first.items()}
        return None if self.is_gate else min(values, key=lambda name: min(values[name]))

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.objective, *(limit.metric for limit in self.limits)]))

    @property
    def own(self) -> tuple[Metric, ...]:
        """The metrics that are read from what a command prints."""
        return tuple(metric for metric in self.known.values() if metric.find is not None)

    @property
    def compared(self) -> set[str]:
        """The metrics by which commands are compared with each other or with the baseline."""
        found = {limit.metric for limit in self.limits if limit.is_relative}
        return found if self.is_gate else found | {self.objective}

    @property
    def is_gate(self) -> bool:
        return self.objective == CANDIDATE

    @property
    def symmetric(self) -> set[str]:
        """The metrics whose differences are taken to be symmetric: those that are compared, unless their range is
        stated."""
        named = {metric for metric in self.compared if not self.known[metric].has_range}
        return named if self.assumed == "symmetry" else set()

    @property
    def enlarged(self) -> set[str]:
        """The metrics of which more is better: to be maximized, or at least something."""
        found = {limit.metric for limit in self.limits if limit.side == "at_least"}
        return found | ({self.objective} if self.goal == "maximize" else set())

    @property
    def watched(self) -> set[str]:
        """The metrics in which a run may pause."""
        is_limited = any(limit.metric == "pauses" for limit in self.limits)
        return self.symmetric | ({"time"} if is_limited else set())

    @property
    def delta_of_pauses(self) -> float:
        """What claims on pauses may add to the probability of error, all together. The study gets the rest."""
        if not self.symmetric:
            return 0.0
        share = _SHARE_OF_PAUSES_IN_GATES if self.is_gate else _SHARE_OF_PAUSES
        return share * self.delta

    def delta_of_each_claim(self, commands: int) -> float:
        """What the claim on the pauses of one command may add. In a race, any command may be the one that it is about.
        In a gate it is the candidate or the baseline. Where the claim is about the one that the verdict wrongly favors,
        the study errs already, and that is counted. Where more is better, rare large values of either could make a
        verdict wrong, and the claim is about all commands."""
        is_about_one = self.is_gate and not self.is_about_all
        return self.delta_of_pauses / (1 if is_about_one else commands)

    @property
    def is_about_all(self) -> bool:
        """Whether pauses of any command could make a verdict wrong, and not only those of the one that it favors."""
        return bool(self.symmetric & self.enlarged)

    def delta_of_ratios(self, commands: int, blocks: Blocks | None) -> float:
        """What the intervals of ratios between commands may add to the probability of error, all together."""
        is_asked = self.objective in self.symmetric and commands > 1 and blocks is None
        return _SHARE_OF_RATIOS * self.delta if is_asked else 0.0

    def delta_of_study(self, commands: int = 2, blocks: Blocks | None = None) -> float:
        """What remains for the answer."""
        return round(self.delta - self.delta_of_pauses - self.delta_of_ratios(commands, blocks), 15)


def rounded_down(number: float) -> float:
    """The number with three digits, never more than it is.

    >>> rounded_down(0.0056789), rounded_down(0.0)
    (0.00567, 0.0)
    """
    return float(Context(prec=3, rounding=ROUND_DOWN).create_decimal(repr(number)))


_LEAST_RUNS = 10
_MOST_RUNS = 1000
_SECONDS = 3.0


def runs_of_one(seconds: float, question: Question, most: float = math.inf) -> int:
    """How often to run one command alone that takes so long, unless that is stated: for three seconds, and ten times
    at least.

    >>> [runs_of_one(seconds, Question()) for seconds in (2.0, 0.1, 0.001)]
    [10, 30, 1000]
    """
    usual = min(max(math.ceil(_SECONDS / max(seconds, 1e-9)), _LEAST_RUNS), _MOST_RUNS)
    return int(min(usual, most, question.runs or math.inf))


def is_benchmark(question: Question, commands: int, blocks: Blocks | None = None, db: str | None = None) -> bool:
    """Whether nothing is asked: one command alone, without limits, is only measured. Nothing is decided that a database
    could keep."""
    is_alone = commands == 1 and not question.limits
    if is_alone and blocks is not None:
        raise InvalidInput("--on", "several machines", "one command alone is measured on one machine")
    if is_alone and db is not None:
        reason = "keeps races; one command alone is measured anew each time, and --export-json keeps its runs"
        raise InvalidInput("--db", db, reason)
    return is_alone


def ceilings_of(question: Question, timeout: float, largest: Mapping[str, float]) -> dict[str, float]:
    """By metric: what larger values count as. `largest` has the largest value of the first runs."""
    ceilings: dict[str, float] = {}
    stated = [limit for limit in question.limits if not limit.is_relative and not limit.kind.is_share]
    for limit in stated:
        if limit.quantile is None and not limit.kind.has_range:
            ceilings[limit.metric] = max(ceilings.get(limit.metric, 0.0), _TIMES_LIMIT * limit.value)
        if limit.metric == "time" and not limit.value < timeout:
            shown = time_words(limit.value)
            reason = f"must be longer than the limit, {shown}: a run that takes longer counts as the timeout"
            raise InvalidInput("--timeout", time_words(timeout), reason)
    if question.assumed == "range":
        for metric in question.compared:
            if question.known[metric].has_range:
                continue
            # Never 0: a range has two ends.
            ceilings.setdefault(metric, max(_TIMES_SEEN * largest.get(metric, 0.0), 1e-3))
    for limit in stated:
        if limit.metric in ceilings:
            # A value that is cut off must still exceed the limit of a quantile.
            ceilings[limit.metric] = max(ceilings[limit.metric], _TIMES_LIMIT * limit.value)
    if "time" in ceilings:
        ceilings["time"] = timeout
    return ceilings


def ceilings_in(plan: Plan, known: Metrics = METRICS) -> dict[str, float]:
    """The ceilings of an existing study."""
    tops = ((part.metric, part.noise.value_range[1]) for part in plan.parts)
    return {name: top for name, top in tops if math.isfinite(top) and not (name in known and known[name].has_range)}


def plan_of(
    name: str, arms: Sequence[str], question: Question, ceilings: Mapping[str, float], blocks: Blocks | None = None
) -> Plan:
    """The study that decides a race, in blocks on several machines."""

    def comparing(metric: str) -> Noise:
        known = question.known[metric]
        if known.has_range:
            return Bounded(known.low, known.high)
        return Symmetric() if question.assumed == "symmetry" else Bounded(0.0, ceilings[metric])

    def noise_of(limit: Limit) -> Noise:
        if limit.quantile is not None:
            return Quantile(limit.quantile)
        if limit.kind.is_share:
            return Bernoulli()
        is_alone = not limit.is_relative and not limit.kind.has_range
        return Bounded(0.0, ceilings[limit.metric]) if is_alone else comparing(limit.metric)

    if question.is_gate:
        objective = Objective(CANDIDATE, "maximize", Exact())
    else:
        objective = Objective(
            question.objective, question.goal, comparing(question.objective), tolerance=question.tolerance
        )
    metrics = question.metrics
    is_paired = question.assumed == "symmetry" and blocks is None
    return Plan(
        arms=arms,
        arm_word="command",
        objective=objective,
        constraints=[
            (at_most if limit.side == "at_most" else at_least)(
                *(limit.metric, limit.value),
                noise=noise_of(limit),
                relative_to_baseline=limit.is_relative,
                # A margin makes a limit easier; a limit is written as the baseline plus something.
                margin=(limit.margin if limit.side == "at_most" else -limit.margin) or None,
            )
            for limit in question.limits
        ],
        measurements=[Measurement(metrics)] if len(metrics) > 1 else (),
        # An item is only a place in the order, which the runs of all commands share.
        items=1 if is_paired else None,
        repeats=is_paired,
        blocks=blocks,
        name=name,
        delta=question.delta_of_study(len(arms), blocks),
        budget=None if question.runs is None else Budget(tests=question.runs),
        baseline=question.baseline,
        goal="any feasible" if question.is_gate else "best",
    )


def blocks_of(commands: int, machines: int, runs_per_machine: int | None) -> Blocks | None:
    """The blocks of a race on several machines.

    >>> for stated in (blocks_of(2, 3, None), blocks_of(2, 8, 10), blocks_of(2, 1, None)):
    ...     print(None if stated is None else (stated.name, stated.size))
    ('round', 6)
    ('machine', 20)
    None
    """
    if machines == 1 and runs_per_machine is None:
        return None
    size = commands * (runs_per_machine or machines)
    if size > MOST_TESTS_OF_BLOCK:
        field, value = ("--on", machines) if runs_per_machine is None else ("--runs-per-machine", runs_per_machine)
        reason = f"is too much for {commands:,} commands: at most {MOST_TESTS_OF_BLOCK:,} runs are compared together"
        raise InvalidInput(field, value, reason)
    # A block has room for a baseline, even if it is one of two commands.
    return Blocks(ROUND if runs_per_machine is None else MACHINE, size=max(size, 3))


def check_memory_floor(question: Question, before: float, now: float) -> None:
    """Raise `InvalidInput` if a limit cannot be decided, since memory below a floor cannot be seen: `before`, when the
    race began, and `now`."""
    if "memory" not in question.metrics:
        return
    if now > before:
        reason = f"could be seen when this race began, and now {size_words(now)} cannot; --fresh starts over"
        raise InvalidInput("memory", size_words(before), reason)
    for limit in question.limits:
        if limit.metric == "memory" and not limit.is_relative and not limit.value > before:
            advice = "; --fresh starts over, and sees more" if now < before else ""
            reason = f"must be more than {size_words(before)}: memory below that cannot be seen{advice}"
            raise InvalidInput("--at-most", f"memory={size_words(limit.value)}", reason)


def timeout_for(slowest: float, limits: Sequence[Limit]) -> float:
    """The default timeout: long enough that it only stops a command that hangs.

    >>> timeout_for(0.012, []), timeout_for(0.37, [])
    (1.0, 5.0)
    """
    stated = [_TIMES_LIMIT * limit.value for limit in limits if limit.metric == "time" and not limit.is_relative]
    least = max(_TIMES_SEEN * slowest, 1.0, *stated)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= least * (1.0 - 1e-9))
