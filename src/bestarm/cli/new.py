"""`bestarm new`: start a study."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import load_plan
from bestarm.cli.shared.show import counted, plain_console, print_json
from bestarm.texts import shown


@study_command(place=110)
def new(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A study file (TOML or JSON), or a built-in instance.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; the file's own by default.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", help="Seed of the policy's random choices.", show_default="random"),
    ] = None,
    items_seed: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            help="Seed of the random order of items. Used again after arms were improved on the same items, it voids "
            "the guarantee.",
            show_default="random",
        ),
    ] = None,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Start a study from a study file."""
    from bestarm.problem.items import count_of
    from bestarm.study import Study
    from bestarm.study.record.seeds import seeds_of

    study = Study.create(load_plan(source), name=name, seed=seed, items_seed=items_seed, storage=db)
    plan = study.plan
    seeds = seeds_of(plan, study.record).to_dict()
    bundles = [metrics for metrics in plan.yields.values() if len(metrics) > 1]
    if as_json:
        data: dict[str, object] = {"study": study.name, "db": study.storage.url}
        data |= {"arms": plan.arm_names, "metrics": plan.measured, **seeds}
        if bundles:
            data["measurements"] = bundles
        if plan.items is not None:
            data["items"] = count_of(plan.items)
        print_json(data)
        return
    console = plain_console()
    what = f"{counted(len(plan.arms), 'arm')}, {counted(len(plan.measured), 'metric')}"
    what += "".join(f" ({' + '.join(metrics)} in one test)" for metrics in bundles)
    if plan.items is not None:
        what += f", {counted(count_of(plan.items), 'item')}"
    console.print(
        f"{shown(study.name)}: {what}, policy {plan.policy}, delta {plan.delta:g}; kept in {study.storage.url}"
    )
    options = " ".join(f"--{field.replace('_', '-')} {seed}" for field, seed in seeds.items())
    console.print(f"To repeat its random choices: {options}")
    called, metrics = shlex.quote(study.name), plan.yields[0]
    values = " ".join(shlex.quote(f"{metric}=VALUE") for metric in metrics) if len(metrics) > 1 else "VALUE"
    # A URL may hold a password, so it is not repeated.
    where = "" if db is None else " --db URL" if "://" in db else f" --db {shlex.quote(db)}"
    steps = (
        (f"bestarm ask {called} -n 4{where}", "which tests to make"),
        (f"bestarm tell {called} TEST {values}{where}", "what came out"),
        (f"bestarm status {called}{where}", "where it stands"),
    )
    console.print("Next:")
    for command, purpose in steps:
        console.print(f"  {shown(command):<{max(len(step) for step, _ in steps)}}  # {purpose}", soft_wrap=True)
