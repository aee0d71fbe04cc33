"""A race as a study: commands are arms, one run is one test that yields every metric that counts.

Which noise is true of what:

- Commands are compared with each other, and with a multiple of the baseline, run by run: the difference of two runs of
  the same place in the order. Of two commands whose times scatter in the same way, however skewed, that difference is
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
from typing import Literal

from bestarm.noises import Noise
from bestarm.noises.bernoulli import Bernoulli
from bestarm.noises.bounded import Bounded
from bestarm.noises.exact import Exact
from bestarm.noises.quantile import Quantile
from bestarm.noises.symmetric import Symmetric
from bestarm.problem import NEWEST_RULES, Budget, Constraint, Objective, Plan
from bestarm.problem.measurements import Measurement
from bestarm.race.limits import SHARES, Limit, time_words
from bestarm.validation import InvalidInput

Assumed = Literal["symmetry", "range"]
ASSUMED: tuple[Assumed, ...] = ("symmetry", "range")

CANDIDATE = "candidate"
"""The metric of a gate: 1 for the candidate, 0 for the baseline. A gate asks only whether the candidate meets every
limit. By rules 1 it asks for the best command by this metric: the candidate if and only if it meets every limit."""

_SHARE_OF_PAUSES = 0.1
_SHARE_OF_PAUSES_IN_GATES = 0.05
"""The share of the delta of a race or gate, if it rests on symmetry, that the claim about pauses may use."""

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
    rules: int = NEWEST_RULES
    """The rules by which the study decides."""

    def __post_init__(self) -> None:
        if not 0.0 < self.delta < 1.0:
            raise InvalidInput("delta", self.delta, "must lie strictly between 0 and 1")

    @property
    def metrics(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys([self.objective, *(limit.metric for limit in self.limits)]))

    @property
    def compared(self) -> set[str]:
        """The metrics by which commands are compared with each other or with the baseline."""
        found = {limit.metric for limit in self.limits if limit.is_relative}
        return found if self.is_gate else found | {self.objective}

    @property
    def is_gate(self) -> bool:
        return self.objective == CANDIDATE

    @property
    def rests_on_symmetry(self) -> bool:
        """Whether commands are compared by differences that are taken to be symmetric."""
        return self.assumed == "symmetry" and bool(self.compared)

    @property
    def watched(self) -> set[str]:
        """The metrics in which a run may pause."""
        is_limited = any(limit.metric == "pauses" for limit in self.limits)
        return (self.compared if self.rests_on_symmetry else set()) | ({"time"} if is_limited else set())

    @property
    def delta_of_pauses(self) -> float:
        """What claims on pauses may add to the probability of error, all together. The study gets the rest."""
        if not self.rests_on_symmetry:
            return 0.0
        share = _SHARE_OF_PAUSES_IN_GATES if self.is_gate else _SHARE_OF_PAUSES
        return 0.5 * self.delta if self.errs_by_half else share * self.delta

    def delta_of_each_claim(self, commands: int) -> float:
        """What the claim on the pauses of one command may add. In a race, any command may be the one that it is about.
        In a gate it is the candidate or the baseline. Where the claim is about the one that the verdict wrongly favors,
        the study errs already, and that is counted."""
        return self.delta_of_pauses / (1 if self.is_gate and not self.errs_by_half else commands)

    @property
    def errs_by_half(self) -> bool:
        """Whether the study errs with half of its delta at most: by rules 1, the certificates of a gate's candidate
        have half of delta, and so has its rejection. Only one of them can be wrong, so the other half is free."""
        return self.is_gate and self.rules == 1

    @property
    def delta_of_study(self) -> float:
        return self.delta if self.errs_by_half else round(self.delta - self.delta_of_pauses, 15)


def ceilings_of(question: Question, timeout: float, largest: Mapping[str, float]) -> dict[str, float]:
    """By metric: what larger values count as. `largest` has the largest value of the first runs."""
    ceilings: dict[str, float] = {}
    stated = [limit for limit in question.limits if not limit.is_relative and limit.metric not in SHARES]
    for limit in stated:
        if limit.quantile is None:
            ceilings[limit.metric] = max(ceilings.get(limit.metric, 0.0), _TIMES_LIMIT * limit.value)
        if limit.metric == "time" and not limit.value < timeout:
            shown = time_words(limit.value)
            reason = f"must be longer than the limit, {shown}: a run that takes longer counts as the timeout"
            raise InvalidInput("--timeout", time_words(timeout), reason)
    if question.assumed == "range":
        for metric in question.compared:
            # Never 0: a range has two ends.
            ceilings.setdefault(metric, max(_TIMES_SEEN * largest.get(metric, 0.0), 1e-3))
    for limit in stated:
        if limit.metric in ceilings:
            # A value that is cut off must still exceed the limit of a quantile.
            ceilings[limit.metric] = max(ceilings[limit.metric], _TIMES_LIMIT * limit.value)
    if "time" in ceilings:
        ceilings["time"] = timeout
    return ceilings


def ceilings_in(plan: Plan) -> dict[str, float]:
    """The ceilings of an existing study."""
    tops = ((part.metric, part.noise.value_range[1]) for part in plan.parts)
    return {metric: top for metric, top in tops if math.isfinite(top)}


def plan_of(name: str, arms: Sequence[str], question: Question, ceilings: Mapping[str, float]) -> Plan:
    """The study that decides a race."""

    def comparing(metric: str) -> Noise:
        return Symmetric() if question.assumed == "symmetry" else Bounded(0.0, ceilings[metric])

    def noise_of(limit: Limit) -> Noise:
        if limit.quantile is not None:
            return Quantile(limit.quantile)
        if limit.metric in SHARES:
            return Bernoulli()
        return comparing(limit.metric) if limit.is_relative else Bounded(0.0, ceilings[limit.metric])

    if question.is_gate:
        objective = Objective(CANDIDATE, "maximize", Exact())
    else:
        objective = Objective(
            question.objective, "minimize", comparing(question.objective), tolerance=question.tolerance
        )
    metrics = question.metrics
    is_paired = question.assumed == "symmetry"
    return Plan(
        arms=arms,
        objective=objective,
        constraints=[
            Constraint(limit.metric, noise_of(limit), limit.value, relative_to_baseline=limit.is_relative or None)
            for limit in question.limits
        ],
        measurements=[Measurement(metrics)] if len(metrics) > 1 else (),
        # An item is only a place in the order, which the runs of all commands share.
        items=1 if is_paired else None,
        repeats=is_paired,
        name=name,
        delta=question.delta_of_study,
        budget=None if question.runs is None else Budget(tests=question.runs),
        baseline=question.baseline,
        goal="any feasible" if question.is_gate and question.rules > 1 else "best",
        rules=question.rules,
    )


def question_as_stored(question: Question, kept: Plan) -> Question:
    """The question that an existing study answers, by its rules. Studies of earlier versions limit the mean of memory
    and output, not the median."""
    limits = tuple(
        dataclasses.replace(limit, quantile=None) if limit.quantile == 0.5 and not part.noise.is_share else limit
        for limit, part in zip(question.limits, kept.constraints, strict=False)
    )
    stored = dataclasses.replace(question, rules=kept.rules)
    return dataclasses.replace(stored, limits=limits) if len(limits) == len(question.limits) else stored


def timeout_for(slowest: float, limits: Sequence[Limit]) -> float:
    """The default timeout: long enough that it only stops a command that hangs.

    >>> timeout_for(0.012, []), timeout_for(0.37, [])
    (1.0, 5.0)
    """
    stated = [_TIMES_LIMIT * limit.value for limit in limits if limit.metric == "time" and not limit.is_relative]
    least = max(_TIMES_SEEN * slowest, 1.0, *stated)
    power = 10.0 ** math.floor(math.log10(least))
    return next(step * power for step in (1.0, 2.0, 5.0, 10.0) if step * power >= least * (1.0 - 1e-9))
