"""Hand-over from Ax: `from_ax` takes the best trials of an Ax client, `to_ax` writes the verdict back."""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

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

ATTRIBUTE = "bestarm"
"""The entry in each candidate's run metadata that holds the verdict."""


def _experiment(client: Any) -> Any:
    """The experiment of a `Client` or an `AxClient`, or the experiment itself if that is given."""
    try:
        kind = importlib.import_module("ax.core.experiment").Experiment
    except ImportError:
        raise InvalidInput("the hand-over from Ax needs Ax: pip install 'bestarm[ax]'") from None
    if isinstance(client, kind):
        return client
    # `Client` shows its experiment only as a table for people to look at, whose shape Ax does not promise.
    # Not through the property, which raises if the client has no experiment.
    inside = getattr(client, "__dict__", {})
    experiment = inside.get("_maybe_experiment") or inside.get("_experiment")
    if isinstance(experiment, kind):
        return experiment
    raise InvalidInput("client", client, "must be an ax.Client with a configured experiment, or an experiment")


def _finished(experiment: Any) -> dict[int, Any]:
    trials = {index: trial for index, trial in experiment.trials.items() if trial.status.is_completed}
    for index, trial in trials.items():
        if len(trial.arms) != 1:
            raise InvalidInput("client", UNSTATED, f"trial {index} has {len(trial.arms)} arms; must have one")
    return trials


def _params(client: Any) -> dict[int, dict[str, Any]]:
    return {index: dict(trial.arms[0].parameters) for index, trial in _finished(_experiment(client)).items()}


def _tried(experiment: Any, metric: str, constraints: Sequence[Constraint]) -> Iterator[Tried]:
    rows = experiment.lookup_data().df.to_dict(orient="records")
    # Where a trial reported progress, the last mean that Ax was told counts.
    observed = {(int(row["trial_index"]), str(row["metric_name"])): float(row["mean"]) for row in rows}
    for index, trial in _finished(experiment).items():
        if (index, metric) not in observed:
            continue
        # In units of the noise, so that misses of different metrics can be added up.
        row = tuple(
            (1.0 if constraint.is_upper else -1.0)
            * (observed.get((index, constraint.metric), math.nan) - constraint.limit)
            / constraint.noise.unit
            for constraint in constraints
        )
        known = all(map(math.isfinite, row))
        yield Tried(index, dict(trial.arms[0].parameters), observed[index, metric], row if known else None)


def from_ax(
    client: Any,
    objective: Objective,
    constraints: Iterable[Constraint] | None = None,
    *,
    measurements: Iterable[Measurement] = (),
    top: int = 8,
) -> Shortlist:
    """A problem: which of the `top` best candidates of an Ax client is really the best one, and feasible?

    Metrics have the same names as in Ax. `objective` and `constraints` add how single measurements scatter, and the
    thresholds to certify. What Ax was told of these metrics decides which candidates are taken. A constraint on a
    metric that Ax does not know is certified as well. If the experiment has outcome constraints, `constraints` must be
    given, if only as [].

    `measurements` says which metrics one run of a candidate yields together, as for any `Problem`.

    Give the objective a `tolerance`: a tuner's best candidates tend to be almost equal, and without a tolerance a study
    goes on until it can tell them apart.
    """
    experiment = _experiment(client)
    config = experiment.optimization_config
    if config is None:
        raise InvalidInput("client", UNSTATED, "has no objective; call its configure_optimization(...) first")
    names = list(config.objective.metric_names)
    if len(names) != 1:
        raise InvalidInput(
            "client", UNSTATED, f"has the objectives {', '.join(names)}; must have one, the others can be constraints"
        )
    check_goal(objective, bool(config.objective.minimize))
    if objective.metric != names[0]:
        raise InvalidInput("objective.metric", objective.metric, f"must be {names[0]!r}, the objective in Ax")
    certified = check_constraints(constraints, constrained=bool(config.outcome_constraints))
    plain = [part for part in certified if not part.relative_to_baseline and part.per is None]
    measured = [constraint for constraint in plain if constraint.metric in experiment.metrics]
    tried = _tried(experiment, names[0], measured)
    constrained = bool(measured)
    return shortlist(tried, objective, certified, measurements, top=top, constrained=constrained, source="client")


def ax_params(client: Any, arm: str) -> dict[str, Any]:
    """The parameters of an arm, by its name alone: for a worker that has the Ax client and not the `Shortlist`."""
    return params_of(arm, _params(client), "the experiment")


def to_ax(client: Any, answer: Answer) -> None:
    """Write the verdict back: `bestarm` in the run metadata of every candidate, with its own reason.

    It is saved with the experiment, for example by `client.save_to_json_file(...)`. It replaces an earlier verdict: a
    trial that had one and is no longer a candidate gets None. If the answer is about trials of another experiment,
    nothing is written.
    """
    summary, lines = verdicts(answer, _params(client))
    for number, trial in _finished(_experiment(client)).items():
        if number in lines:
            trial.update_run_metadata({ATTRIBUTE: {"reason": lines[number], **summary}})
        elif ATTRIBUTE in trial.run_metadata:
            trial.update_run_metadata({ATTRIBUTE: None})
