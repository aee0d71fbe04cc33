"""`bestarm track`: a study's results and verdict in MLflow."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_local_study
from bestarm.cli.shared.show import plain_console, shown


@study_command(place=235)
def track(
    name: StudyName,
    to: Annotated[
        str | None,
        typer.Option("--to", metavar="URI", help="MLflow's tracking URI; else $MLFLOW_TRACKING_URI, or its default."),
    ] = None,
    experiment: Annotated[str, typer.Option(metavar="NAME", help="The experiment in MLflow.")] = "bestarm",
    db: Database = None,
) -> None:
    """Write results, intervals and the verdict to MLflow. Repeating it is safe."""
    from bestarm.integrations.mlflow import to_mlflow

    run = to_mlflow(open_local_study(name, db), tracking_uri=to, experiment=experiment)
    plain_console().print(shown(f"Tracked: run {run} of experiment {experiment}"), soft_wrap=True)
