"""A study in MLflow: its results, intervals and verdict, as a run with a run below it for each arm."""

from __future__ import annotations

import hashlib
import importlib
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from bestarm.analysis.standing.arms import ArmStanding
from bestarm.analysis.status.status import Status
from bestarm.analysis.status.words import question
from bestarm.study.record.seeds import seeds_of
from bestarm.study.reports.report import study_report
from bestarm.study.study import Study
from bestarm.validation import InvalidInput

EXPERIMENT = "bestarm"
IDENTITY = "bestarm.identity"
"""The tag that all runs of one study have in common."""
LONGEST = 4500
"""Characters of a tag or parameter, below the limits of every version of MLflow."""
MOST_METRICS = 900
"""In one call: MLflow takes 1,000."""


class Elsewhere(Protocol):
    """A study of a service."""

    def copy(self) -> Study:
        """The study as it is now."""


def to_mlflow(study: Study | Elsewhere, *, tracking_uri: str | None = None, experiment: str = EXPERIMENT) -> str:
    """Write what a study knows by now to MLflow, and return the number of its run.

    The run has the state, the answer, tests and cost, the plan and a report. Below it each arm has a run of its own,
    with the mean and the interval of every metric, and why it is in or out. `tracking_uri` is MLflow's own default
    unless given. The step of every metric is the number of tests.

    Calling it again is safe: a study has one run, and what is there already is not written twice.
    """
    if not isinstance(study, Study):
        study = study.copy()
    tracker = _Tracker(study, tracking_uri, experiment)
    status = study.status()
    last = study.log(last=1)
    # Every change has a line in the log. Without news, nothing is written.
    mark = f"{study.record.revision}/{status.tests}/{last[0].time:.6f}" if last else "new"
    moment = int(1000 * (last[0].time if last else study.record.created))
    run = tracker.run(None, study.name)
    for arm in status.arms:
        child = tracker.run(arm.name, arm.name, parent=run.info.run_id)
        tags = {"bestarm.verdict": arm.verdict, "bestarm.reason": arm.reason}
        tracker.write(child, mark, moment, status.tests, _arm_metrics(arm), {}, tags)
        tracker.end(child, status)
    if run.data.tags.get("bestarm.mark") != mark:
        # Before the mark, so that they are written again if this fails.
        tracker.client.log_text(run.info.run_id, study_report(study, forecast=False), "report.html")
        tracker.client.log_dict(run.info.run_id, status.to_dict(), "status.json")
        tracker.client.log_text(run.info.run_id, study.plan.to_toml(), "plan.toml")
    plan = study.plan
    params = {"delta": plan.delta, "policy": plan.policy, "objective": plan.objective.metric}
    params |= seeds_of(plan, study.record).to_dict()
    tracker.write(run, mark, moment, status.tests, _study_metrics(status), params, _study_tags(study, status))
    tracker.end(run, status)
    return str(run.info.run_id)


class _Tracker:
    """The runs of one study in one experiment."""

    def __init__(self, study: Study, tracking_uri: str | None, experiment: str) -> None:
        try:
            package = importlib.import_module("mlflow")
        except ImportError:
            raise InvalidInput("tracking with MLflow needs it: pip install 'bestarm[mlflow]'") from None
        self._entities = importlib.import_module("mlflow.entities")
        try:
            self.client = package.MlflowClient(tracking_uri=tracking_uri)
            found = self.client.get_experiment_by_name(experiment)
            self._experiment = found.experiment_id if found else self.client.create_experiment(experiment)
        except package.exceptions.MlflowException as error:
            raise InvalidInput("tracking_uri", tracking_uri, f"MLflow says: {error}") from None
        text = f"{study.name}, created {study.record.created:.6f}"
        self._identity = hashlib.sha256(text.encode()).hexdigest()
        self._runs = self._existing()

    def run(self, arm: str | None, name: str, parent: str | None = None) -> Any:
        """The run of the study, or of an arm. A new one if there is none."""
        if arm in self._runs:
            return self._runs[arm]
        tags = {IDENTITY: self._identity}
        if arm is not None:
            tags |= {"bestarm.arm": arm, "mlflow.parentRunId": str(parent)}
        return self.client.create_run(self._experiment, run_name=name, tags=tags)

    def _existing(self) -> dict[str | None, Any]:
        """The runs of this study, by arm; that of the study itself has none."""
        found: dict[str | None, Any] = {}
        token = None
        while True:
            page = self.client.search_runs(
                [self._experiment], filter_string=f"tags.`{IDENTITY}` = '{self._identity}'", page_token=token
            )
            found |= {run.data.tags.get("bestarm.arm"): run for run in page}
            token = page.token
            if not token:
                return found

    def write(
        self,
        run: Any,
        mark: str,
        moment: int,
        step: int,
        metrics: Mapping[str, float],
        params: Mapping[str, object],
        tags: Mapping[str, str],
    ) -> None:
        """Write all of it, unless its mark is there already."""
        if run.data.tags.get("bestarm.mark") == mark:
            return
        kinds = self._entities
        rows = [kinds.Metric(key, value, moment, step) for key, value in metrics.items() if math.isfinite(value)]
        for place in range(0, len(rows), MOST_METRICS):
            self.client.log_batch(run.info.run_id, metrics=rows[place : place + MOST_METRICS])
        # A parameter cannot be changed. These do not change, but those of an older version may have been others.
        new = [kinds.Param(key, str(value)[:LONGEST]) for key, value in params.items() if key not in run.data.params]
        said = {key: text[:LONGEST] for key, text in tags.items()} | {"bestarm.mark": mark}
        self.client.log_batch(run.info.run_id, params=new, tags=[kinds.RunTag(key, text) for key, text in said.items()])

    def end(self, run: Any, status: Status) -> None:
        """A run goes on as long as its study does; one that was ended goes on if the study does."""
        wanted = "RUNNING" if status.state == "running" else "FINISHED"
        if run.info.status == wanted:
            return
        if wanted == "FINISHED":
            self.client.set_terminated(run.info.run_id, status=wanted)
        else:
            self.client.update_run(run.info.run_id, status=wanted)


def metric_names(names: Iterable[str]) -> dict[str, str]:
    """Names that MLflow allows, each once.

    >>> metric_names(["p99(time)", "p99[time]", "cost"])
    {'p99(time)': 'p99_time_', 'p99[time]': 'p99_time_ 2', 'cost': 'cost'}
    """
    found: dict[str, str] = {}
    for name in names:
        plain = allowed = re.sub(r"[^\w\-. /]", "_", name, flags=re.ASCII)[:200]
        number = 1
        while allowed in found.values():
            number += 1
            allowed = f"{plain} {number}"
        found[name] = allowed
    return found


def _study_metrics(status: Status) -> dict[str, float]:
    known = {"tests": float(status.tests), "cost": status.cost, "confidence": status.confidence}
    known |= {"progress": status.progress, "candidates": float(len(status.candidates))}
    return known if status.regret_at_most is None else {**known, "regret at most": status.regret_at_most}


def _study_tags(study: Study, status: Status) -> dict[str, str]:
    answer = study.answer
    return {
        "bestarm.study": study.name,
        "bestarm.state": status.state,
        "bestarm.guarantee": status.guarantee,
        "bestarm.void_because": "; ".join(status.void_because),
        "bestarm.answer": status.answer or "",
        "bestarm.leader": status.leader or "",
        "bestarm.verdict": status.headline if answer is None else str(answer),
        "bestarm.known": status.known,
        "bestarm.warnings": " ".join(status.health.warnings),
        "mlflow.note.content": question(study.plan),
    }


def _arm_metrics(arm: ArmStanding) -> dict[str, float]:
    names = metric_names(row.metric for row in arm.metrics)
    found: dict[str, float] = {}
    for row in arm.metrics:
        name = names[row.metric]
        found |= {name: row.mean, f"{name}/low": row.low, f"{name}/high": row.high, f"{name}/tests": float(row.tests)}
    return found
