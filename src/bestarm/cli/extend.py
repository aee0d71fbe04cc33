"""`bestarm extend`: a larger budget for a study."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, StudyName, Token, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import open_study
from bestarm.cli.shared.show import plain_console, shown


@study_command(place=192)
def extend(
    name: StudyName,
    tests: Annotated[int | None, typer.Option(metavar="N", help="So many tests more.", show_default=False)] = None,
    cost: Annotated[
        float | None, typer.Option(metavar="C", help="How much more cost to allow.", show_default=False)
    ] = None,
    worker: Worker = None,
    token: Token = None,
    db: Database = None,
) -> None:
    """Allow more tests: the study goes on where its budget ended, with the same guarantee."""
    study = open_study(name, db, worker, token)
    now = study.extend(tests, cost)
    allowed = [f"{now.tests:,.0f} tests"] if now.tests is not None else []
    allowed += [f"a cost of {now.cost:,.10g}"] if now.cost is not None else []
    plain_console().print(f"{shown(study.name)} may now use {' or '.join(allowed)} in all.", soft_wrap=True)
