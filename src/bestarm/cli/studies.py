"""`bestarm new`, `extend`, `arms` and `archive`: start a study, change it, and put it away."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database, Reason, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Access, check_text, load_plan, whoami
from bestarm.cli.shared.show import counted, plain_console, print_json, say
from bestarm.errors import InvalidInput
from bestarm.texts import shown

_CHANGES = {"add": ("takes part", "take part"), "retire": ("is retired", "are retired")}


@study_command(place=110)
def new(
    source: Annotated[str, typer.Argument(metavar="FILE", help="A study file (TOML or JSON), or a built-in instance.")],
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it; the file's own by default.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="N", help="Seed of the policy's random choices.", show_default="random")
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
    what = f"{counted(len(plan.arms), 'arm')}, {counted(len(plan.measured), 'metric')}"
    what += "".join(f" ({' + '.join(metrics)} in one test)" for metrics in bundles)
    if plan.items is not None:
        what += f", {counted(count_of(plan.items), 'item')}"
    console = plain_console()
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


@study_command(place=192)
def extend(
    name: StudyName,
    tests: Annotated[int | None, typer.Option(metavar="N", help="How many more tests.")] = None,
    cost: Annotated[float | None, typer.Option(metavar="C", help="How much more cost.")] = None,
    *,
    access: Access,
) -> None:
    """Allow more tests: the study goes on where its budget ended, with the same guarantee."""
    study = access.open(name)
    now = study.extend(tests, cost)
    allowed = [f"{now.tests:,.0f} tests"] if now.tests is not None else []
    allowed += [f"a cost of {now.cost:,.10g}"] if now.cost is not None else []
    say(f"{study.name} may now use {' or '.join(allowed)} in all.")


@study_command(place=194)
def arms(
    what: Annotated[str, typer.Argument(metavar="add|retire", help="Let arms take part, or take one out.")],
    name: StudyName,
    arms: Annotated[list[str], typer.Argument(metavar="ARM…", help="Their names.")],
    reason: Reason = "",
    *,
    access: Access,
) -> None:
    """Let arms take part that came later, or retire an arm. The study's plan must have a reserve for that."""
    if what not in _CHANGES:
        raise InvalidInput("arms", what, "must be add or retire", _CHANGES)
    names = [check_text("arm", arm) for arm in arms]
    study = access.open(name)
    if what == "add":
        study.add_arms(names)
    else:
        for arm in names:
            study.retire(arm, check_text("reason", reason))
    say(f"{', '.join(names)} {_CHANGES[what][len(names) > 1]} in {study.name}.")


@study_command(place=240)
def archive(
    name: StudyName,
    undo: Annotated[bool, typer.Option("--undo", help="Bring it back.")] = False,
    db: Database = None,
) -> None:
    """Put a study away: it can be read and not changed."""
    from bestarm.storage.opening import open_storage
    from bestarm.study.record.checks import find_record

    storage = open_storage(db)
    # The study is not opened, so that one that cannot be read can be put away too.
    record = find_record(storage, check_text("study", name))
    storage.archive(record.key, whoami(), undo=undo)
    say(f"{record.name} is {'back' if undo else 'archived; `bestarm archive --undo` brings it back'}.")
