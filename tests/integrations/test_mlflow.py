"""Studies in the real MLflow, kept in a database file."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.program import bestarm

import bestarm as ba
from bestarm.integrations import to_mlflow
from bestarm.web.server import running

# What MLflow and what it uses deprecate or leave open is theirs to mend.
pytestmark = [
    pytest.mark.filterwarnings(f"ignore::{kind}")
    for kind in (
        *("DeprecationWarning", "FutureWarning", "UserWarning", "ResourceWarning"),
        "pytest.PytestUnraisableExceptionWarning",
    )
]
YIELDS = {"old": 1.0, "new, \"better\" and 'safe'": 2.0}


@pytest.fixture(scope="module")
def tracking(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A client of an MLflow of its own. To make its tables takes seconds, so they are made once."""
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        patch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{folder / 'mlflow.db'}")
        patch.chdir(folder)
        yield mlflow.MlflowClient(tracking_uri=os.environ["MLFLOW_TRACKING_URI"])
    gc.collect()


def study_of(name: str, storage: str | Path = ":memory:") -> ba.Study:
    problem = ba.Problem(
        arms=[*YIELDS],
        objective=ba.maximize("yield (t)", noise=ba.Gaussian(0.1)),
        constraints=[ba.at_most("loss", 0.5, noise=ba.Bounded(0, 1))],
        measurements=[ba.measurement("yield (t)", "loss", cost=3)],
    )
    return ba.Study.create(problem, name=name, delta=0.05, storage=storage)


def go_on(study: ba.Study, tests: int = 10**9) -> None:
    while not study.done and study.status().tests < tests:
        for test in study.ask(2):
            study.tell(test, {"yield (t)": YIELDS[test.arm], "loss": 0.1})


def runs_of(client: Any, experiment: str) -> dict[str | None, Any]:
    found = client.search_runs([client.get_experiment_by_name(experiment).experiment_id])
    runs = {run.data.tags.get("bestarm.arm"): run for run in found}
    assert len(runs) == len(found)
    return runs


def history(client: Any, run: Any) -> dict[str, list[tuple[int, float]]]:
    return {
        key: [(row.step, row.value) for row in client.get_metric_history(run.info.run_id, key)]
        for key in run.data.metrics
    }


def test_results_intervals_and_verdict_are_there_once(tracking: Any) -> None:
    study = study_of("doses")
    first = to_mlflow(study, experiment="once")
    assert {run.info.status for run in runs_of(tracking, "once").values()} == {"RUNNING"}
    go_on(study, tests=4)
    at_four = study.status()
    assert to_mlflow(study, experiment="once") == first
    go_on(study)
    assert to_mlflow(study, experiment="once") == first
    before = {arm: history(tracking, run) for arm, run in runs_of(tracking, "once").items()}
    assert to_mlflow(study, experiment="once") == first
    runs = runs_of(tracking, "once")
    assert {arm: history(tracking, run) for arm, run in runs.items()} == before

    status, answer = study.status(), study.answer
    assert set(runs) == {None, *YIELDS}
    assert {run.info.status for run in runs.values()} == {"FINISHED"}
    top = runs.pop(None)
    assert top.info.run_name == "doses"
    assert before[None]["tests"] == [(0, 0.0), (4, 4.0), (status.tests, float(status.tests))]
    assert before[None]["cost"][-1] == (status.tests, status.cost)
    assert top.data.params == {"delta": "0.05", "policy": "certify", "objective": "yield (t)", "seed": "0"}
    assert top.data.tags["bestarm.verdict"] == str(answer)
    assert top.data.tags["bestarm.answer"] == status.answer
    names = {row.path for row in tracking.list_artifacts(first)}
    assert names == {"report.html", "status.json", "plan.toml"}
    for arm, then in zip(status.arms, at_four.arms, strict=True):
        tags = runs[arm.name].data.tags
        assert tags["mlflow.parentRunId"] == first
        assert (tags["bestarm.verdict"], tags["bestarm.reason"]) == (arm.verdict, arm.reason)
        rows = before[arm.name]
        for now, earlier, key in zip(arm.metrics, then.metrics, ("yield _t_", "loss"), strict=True):
            assert rows[key] == [(4, earlier.mean), (status.tests, now.mean)]
            assert rows[f"{key}/low"][-2:] == [(4, earlier.low), (status.tests, now.low)]
            assert rows[f"{key}/high"][-2:] == [(4, earlier.high), (status.tests, now.high)]
            assert rows[f"{key}/tests"][-1] == (status.tests, now.tests)


def test_another_study_or_experiment_has_its_own_run_and_corrections_are_tracked(tracking: Any) -> None:
    study = study_of("short")
    go_on(study)
    run = to_mlflow(study, experiment="more")
    assert to_mlflow(study_of("short"), experiment="more") != run
    assert to_mlflow(study, experiment="elsewhere") != run
    # A correction changes the past, and what is tracked.
    test = next(event.test for event in study.log() if event.kind == "told")
    assert test is not None
    study.correct(test, {"loss": 0.2}, "misread")
    assert to_mlflow(study, experiment="more") == run
    marks = {run.info.run_id: run.data.tags["bestarm.mark"] for run in runs_by_id(tracking, "more")}
    assert marks[run].startswith("1/")


def runs_by_id(client: Any, experiment: str) -> list[Any]:
    return list(client.search_runs([client.get_experiment_by_name(experiment).experiment_id]))


def test_the_command(tracking: Any, tmp_path: Path) -> None:
    go_on(study_of("doses", tmp_path / "s.db"))
    said = [bestarm("track", "doses", "--experiment", "by command", "--db", "s.db", cwd=tmp_path).out for _ in range(2)]
    assert said[0] == said[1]
    [line] = said[0].splitlines()
    assert line.startswith("Tracked: run ")
    assert runs_of(tracking, "by command")[None].info.run_id in line
    # From a service it is the same study.
    with running(str(tmp_path / "s.db")) as url:
        assert bestarm("track", "doses", "--experiment", "by command", "--url", url).out == said[0]
    refused = bestarm("track", "doses", "--to", "nowhere://x", "--db", "s.db", cwd=tmp_path)
    assert refused.code == 2
    assert "MLflow says" in refused.err
