"""Hand-over from Optuna: `from_optuna` takes a study's best trials, `to_optuna` writes the verdict back."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from bestarm.answer import Answer
from bestarm.integrations.shortlist import (
    Shortlist,
    Tried,
    check_constraints,
    check_goal,
    params_of,
    shortlist,
    verdicts,
)
from bestarm.problem import Constraint, Measurement, Objective
from bestarm.validation import UNSTATED, InvalidInput

if TYPE_CHECKING:
    import optuna

ATTRIBUTE = "bestarm"
"""The study's user attribute that holds the verdict; those of its candidates are `bestarm:trial NUMBER`."""


def _check(study: optuna.Study) -> None:
    try:
        package = importlib.import_module("optuna")
    except ImportError:
        raise InvalidInput("the hand-over from Optuna needs Optuna: pip install 'bestarm[optuna]'") from None
    if not isinstance(study, package.study.Study):
        raise InvalidInput("study", study, "must be an optuna.study.Study")


def _finished(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    state = importlib.import_module("optuna").trial.TrialState.COMPLETE
    return list(study.get_trials(deepcopy=False, states=(state,)))


def _constraints(trial: optuna.trial.FrozenTrial) -> dict[str, float]:
    """What the trial found of each constraint: it holds at 0 and below."""
    if hasattr(trial, "constraints"):
        return dict(trial.constraints)
    # Before Optuna 5 what a sampler's `constraints_func` returned had no public name.
    return {str(k): value for k, value in enumerate(trial.system_attrs.get("constraints") or ())}


def _tried(trials: Sequence[optuna.trial.FrozenTrial]) -> Iterator[Tried]:
    found = [_constraints(trial) for trial in trials]
    names = list(dict.fromkeys(name for constraints in found for name in constraints))
    for trial, constraints in zip(trials, found, strict=True):
        row = tuple(float(constraints.get(name, math.nan)) for name in names)
        yield Tried(trial.number, trial.params, float(trial.values[0]), row if all(map(math.isfinite, row)) else None)


def from_optuna(
    study: optuna.Study,
    objective: Objective,
    constraints: Iterable[Constraint] | None = None,
    *,
    measurements: Iterable[Measurement] = (),
    top: int = 8,
) -> Shortlist:
    """A problem: which of the `top` best candidates of an Optuna study is really the best one, and feasible?

    Optuna knows neither how its values scatter nor what they are called. `objective` and `constraints` say so, as for
    any `Problem`. What the trials found of Optuna's own constraints decides which candidates are taken. `constraints`
    decides which thresholds are certified. If the study has constraints, it must be given, if only as [].

    `measurements` says which metrics one run of a candidate yields together, as for any `Problem`.

    Give the objective a `tolerance`: a tuner's best candidates tend to be almost equal, and without a tolerance a study
    goes on until it can tell them apart.
    """
    _check(study)
    if len(study.directions) > 1:
        raise InvalidInput(
            "study", UNSTATED, f"has {len(study.directions)} objectives; must have one; the others can be constraints"
        )
    check_goal(objective, study.direction.name == "MINIMIZE")
    tried = list(_tried(_finished(study)))
    constrained = any(trial.violations != () for trial in tried)
    certified = check_constraints(constraints, constrained=constrained)
    return shortlist(tried, objective, certified, measurements, top=top, constrained=constrained)


def optuna_params(study: optuna.Study, arm: str) -> dict[str, Any]:
    """The parameters of an arm, by its name alone: for a worker that has the Optuna study and not the `Shortlist`."""
    _check(study)
    return params_of(arm, {trial.number: trial.params for trial in _finished(study)}, f"study {study.study_name!r}")


def to_optuna(study: optuna.Study, answer: Answer) -> None:
    """Write the verdict back, as user attributes of the Optuna study: `bestarm`, and `bestarm:trial NUMBER` for each.

    Optuna does not allow changes to a finished trial, so its verdict is an attribute of the study, too. It replaces
    an earlier verdict: a trial that had one and is no longer a candidate gets None. If the answer is about trials of
    another study, nothing is written.
    """
    _check(study)
    summary, lines = verdicts(answer, {trial.number: trial.params for trial in _finished(study)})
    said = {f"{ATTRIBUTE}:trial {number}": line for number, line in lines.items()}
    for key in study.user_attrs:
        if key.startswith(f"{ATTRIBUTE}:trial ") and key not in said:
            study.set_user_attr(key, None)
    for key, line in said.items():
        study.set_user_attr(key, line)
    study.set_user_attr(ATTRIBUTE, summary)
