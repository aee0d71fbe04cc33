"""`bestarm new`: start a study."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.show import counted, plain_console, print_json, shown


@study_command(place=110)
def new(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A study file (TOML or JSON), or a built-in instance.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; the file's own by default.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed, for policies that make random choices.")] = 0,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Start a study from a study file."""
    from bestarm.study import Study

    study = Study.create(load_plan(source), name=name, seed=seed, storage=db)
    plan = study.plan
    if as_json:
        print_json({"study": study.name, "db": study.storage.url, "arms": plan.arm_names, "metrics": plan.metrics})
        return
    console = plain_console()
    what = f"{counted(len(plan.arms), 'arm')}, {counted(len(plan.metrics), 'metric')}"
    console.print(
        f"{shown(study.name)}: {what}, policy {plan.policy}, delta {plan.delta:g}; kept in {study.storage.url}"
    )
    called = shlex.quote(study.name)
    # A URL may hold a password, so it is not repeated.
    where = "" if db is None else " --db URL" if "://" in db else f" --db {shlex.quote(db)}"
    steps = (
        (f"bestarm ask {called} -n 4{where}", "which tests to make"),
        (f"bestarm tell {called} TEST VALUE{where}", "what came out"),
        (f"bestarm status {called}{where}", "where it stands"),
    )
    console.print("Next:")
    for command, purpose in steps:
        console.print(f"  {shown(command):<{max(len(step) for step, _ in steps)}}  # {purpose}", soft_wrap=True)
