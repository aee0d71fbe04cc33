"""The best candidates of a tuner as a problem, whichever tuner it was."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from bestarm.answer import Answer
from bestarm.problem import Arm, Constraint, Measurement, Objective, Problem
from bestarm.study.intake.values import Result
from bestarm.texts import quoted
from bestarm.validation import UNSTATED, InvalidInput, value

LONGEST_ARM = 120
"""Characters of an arm's name: enough to tell candidates apart, short enough for a table."""

MOST_CANDIDATES = 10_000


class Tried(NamedTuple):
    """A trial that a tuner has finished, with what it measured there.

    `violations` says by how much each constraint was missed, negative where it held; None if that is not known.
    """

    number: int
    params: Mapping[str, Any]
    value: float
    violations: tuple[float, ...] | None


@dataclasses.dataclass(frozen=True)
class Candidate:
    """Parameters that a tuner tried, and the arm that they became.

    `trials` are the numbers of all trials with these parameters, `value` is the mean of what the tuner measured in
    them, and `looked_feasible` says whether every constraint that it knew of held. Neither is evidence, because the
    candidate was picked for them.
    """

    arm: str
    params: Mapping[str, Any]
    trials: tuple[int, ...]
    value: float
    looked_feasible: bool


@dataclasses.dataclass(frozen=True)
class ByParams:
    """A function of parameters and metric, called by arm and metric instead. It can be sent to other processes."""

    function: Callable[[Mapping[str, Any], str], Result]
    params: Mapping[str, Mapping[str, Any]]

    def __call__(self, arm: str, metric: str) -> Result:
        return self.function(self.params[arm], metric)


@value
class Shortlist(Problem):
    """A problem whose arms are a tuner's candidates, the most promising first."""

    candidates: tuple[Candidate, ...] = ()

    def candidate(self, arm: str) -> Candidate:
        """The candidate that became this arm."""
        if arm in self._by_arm:
            return self._by_arm[arm]
        raise InvalidInput(
            "arm", arm, f"no such arm; the arms are {', '.join(map(repr, self.arm_names))}", self.arm_names
        )

    @functools.cached_property
    def _by_arm(self) -> dict[str, Candidate]:
        return {candidate.arm: candidate for candidate in self.candidates}

    def params(self, arm: str) -> dict[str, Any]:
        """The parameters of this arm."""
        return dict(self.candidate(arm).params)

    def measuring(self, function: Callable[[Mapping[str, Any], str], Result]) -> ByParams:
        """What `identify` takes, from a `function(params, metric)` that makes one fresh measurement."""
        return ByParams(function, {candidate.arm: candidate.params for candidate in self.candidates})


def arm_name(number: int, params: Mapping[str, Any]) -> str:
    """A name with the parameters; the number of the trial makes it unique.

    >>> arm_name(17, {"rate": 0.0123456, "depth": 6})
    'trial 17: rate=0.01235, depth=6'
    """
    shown = ", ".join(f"{_plain(name)}={_plain(choice)}" for name, choice in params.items())
    text = f"trial {number}: {shown}" if shown else f"trial {number}"
    return text if len(text) <= LONGEST_ARM else text[: LONGEST_ARM - 1].rstrip() + "…"


def _plain(part: object) -> str:
    """Text that may stand in a name: on one line, without control characters."""
    text = f"{part:.4g}" if isinstance(part, float) else str(part)
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def trial_number(arm: str) -> int:
    """The number of the trial that became this arm, from the arm's name.

    >>> trial_number("trial 17: rate=0.01235, depth=6")
    17
    """
    found = re.match(r"trial (\d+)(?::|$)", arm) if isinstance(arm, str) else None
    if found is None:
        raise InvalidInput("arm", arm, "must be the name of a tuner's candidate, such as 'trial 17: depth=6'")
    return int(found[1])


def params_of(arm: str, trials: Mapping[int, Mapping[str, Any]], source: str) -> dict[str, Any]:
    """The parameters of an arm among those of a tuner's finished trials."""
    number = trial_number(arm)
    if number not in trials:
        raise InvalidInput("arm", arm, f"{source} has no finished trial {number}")
    return dict(trials[number])


def shortlist(
    tried: Iterable[Tried],
    objective: Objective,
    constraints: Sequence[Constraint],
    measurements: Iterable[Measurement] = (),
    *,
    top: int,
    constrained: bool,
    source: str = "study",
) -> Shortlist:
    """The `top` candidates as a problem; `source` is the user's name for where they come from.

    Trials with equal parameters are one candidate, judged by their means. As two arms they would be exactly equally
    good, and no number of tests could tell which is better. First come candidates that looked feasible, the best first.
    If there are too few, those follow that missed their constraints by least. Last come those whose constraints were
    not measured: that must not count as safe.
    """
    if isinstance(top, bool) or not isinstance(top, int) or not 1 <= top <= MOST_CANDIDATES:
        raise InvalidInput("top", top, f"must be a whole number from 1 to {MOST_CANDIDATES:,}", shown=quoted(top))
    same: dict[str, list[Tried]] = {}
    for trial in sorted(tried, key=lambda trial: trial.number):
        if math.isfinite(trial.value):
            same.setdefault(repr(sorted(trial.params.items())), []).append(trial)
    if not same:
        raise InvalidInput(f"{source}: has no finished trial with a finite value; there is nothing to choose from")
    sign = 1.0 if objective.goal == "maximize" else -1.0
    ranked = sorted((_judge(trials, sign, constrained) for trials in same.values()), key=lambda pair: pair[0])
    chosen = tuple(candidate for _, candidate in ranked[:top])
    return Shortlist(
        arms=tuple(Arm(candidate.arm) for candidate in chosen),
        objective=objective,
        constraints=tuple(constraints),
        measurements=tuple(measurements),
        candidates=chosen,
    )


def _judge(trials: Sequence[Tried], sign: float, constrained: bool) -> tuple[tuple[int, float], Candidate]:
    """A candidate, and its place in the order of promise."""
    first = trials[0]
    mean = sum(trial.value for trial in trials) / len(trials)
    misses = [trial.violations for trial in trials if trial.violations is not None]
    if not constrained:
        rank = (0, -sign * mean)
    elif not misses:
        rank = (2, -sign * mean)
    else:
        excess = sum(max(0.0, sum(column) / len(column)) for column in zip(*misses, strict=True))
        rank = (1, excess) if excess > 0.0 else (0, -sign * mean)
    candidate = Candidate(
        arm=arm_name(first.number, first.params),
        params=dict(first.params),
        trials=tuple(trial.number for trial in trials),
        value=mean,
        looked_feasible=rank[0] == 0,
    )
    return rank, candidate


def check_goal(objective: Objective, minimizes: bool) -> None:
    """Raise `InvalidInput` if the tuner optimized in the other direction."""
    goal = "minimize" if minimizes else "maximize"
    if not isinstance(objective, Objective):
        raise InvalidInput("objective", objective, f"must be made with bestarm.{goal}(...)")
    if objective.goal != goal:
        raise InvalidInput("objective.goal", objective.goal, f"the tuner was to {goal}")


def check_constraints(constraints: Iterable[Constraint] | None, *, constrained: bool) -> tuple[Constraint, ...]:
    """The constraints to certify. If the tuner had some, none must be stated explicitly, as []."""
    if constraints is None:
        if constrained:
            raise InvalidInput(
                "constraints",
                UNSTATED,
                "are missing, and the tuner's study has some; name those to certify, such as "
                "[bestarm.at_most('crash rate', 0.01, noise=bestarm.Bernoulli())], or give [] to certify none",
            )
        return ()
    listed: tuple[Any, ...] = (None,)
    if isinstance(constraints, Iterable) and not isinstance(constraints, Mapping):
        listed = tuple(constraints)
    if not all(isinstance(constraint, Constraint) for constraint in listed):
        raise InvalidInput(
            "constraints", constraints, "must be a list of what bestarm.at_most(...) and bestarm.at_least(...) make"
        )
    return listed


def verdicts(answer: Answer, known: Mapping[int, Mapping[str, Any]]) -> tuple[dict[str, Any], dict[int, str]]:
    """What to write back: the answer, and a line for each candidate by the number of its trial.

    `known` has the parameters of the tuner's trials. An answer about other trials is refused.
    """
    if not isinstance(answer, Answer):
        raise InvalidInput("answer", answer, "must be the answer of a study; a study that is still running has none")
    lines = {}
    for arm, reason in answer.reasons.items():
        number = trial_number(arm)
        if number not in known or arm_name(number, known[number]) != arm:
            raise InvalidInput("answer", UNSTATED, f"arm {arm!r} is not a trial of this tuner's study")
        lines[number] = reason
    summary = {
        "state": answer.state,
        "guarantee": answer.guarantee,
        "void_because": list(answer.void_because),
        "trial": None if answer.arm is None else trial_number(answer.arm),
        "conclusion": str(answer),
        "delta": answer.delta,
        "confidence": answer.confidence,
        "tests": answer.tests,
        "cost": answer.cost,
        "candidates": [trial_number(arm) for arm in answer.candidates],
        "feasible": [trial_number(arm) for arm in answer.feasible],
    }
    return summary, lines
