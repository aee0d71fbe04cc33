"""`bestarm new`, `extend`, `arms` and `archive`: start a study, change it, and put it away."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bestarm.cli.shared.arguments import AsJson, Project, Reason, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Access, Place, check_text, load_plan, saying_how_to_give_a_token, whoami
from bestarm.cli.shared.show import counted, plain_console, print_json, say
from bestarm.errors import InvalidInput
from bestarm.texts import Noun, shown

if TYPE_CHECKING:
    from bestarm.cli.shared.opening import AnyStudy

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
    project: Project = None,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """Start a study from a study file."""
    from bestarm.problem.items import count_of
    from bestarm.study import Study
    from bestarm.study.record.seeds import Seeds, seeds_of

    stated: dict[str, Any] = {"name": name, "seed": seed, "items_seed": items_seed}
    stated |= {} if project is None else {"project": check_text("project", project)}
    given, client = load_plan(source), place.client()
    study: AnyStudy
    if client is None:
        study = Study.create(given, storage=place.db, **stated)
        drawn, kept = seeds_of(study.plan, study.record), study.storage.url
    else:
        with saying_how_to_give_a_token():
            study = client.create(given, **stated)
        now = study.status()
        assert now.seed is not None
        drawn, kept = Seeds(now.seed, now.items_seed), place.url
    plan, seeds = study.plan, drawn.to_dict()
    bundles = [metrics for metrics in plan.yields.values() if len(metrics) > 1]
    if as_json:
        data: dict[str, object] = {"study": study.name, "db": kept}
        data |= {"arms": plan.arm_names, "metrics": plan.measured, **seeds}
        if bundles:
            data["measurements"] = bundles
        if plan.blocks is not None:
            data["blocks"] = {"name": plan.blocks.name, "size": plan.blocks.size}
        elif plan.items is not None:
            data["items"] = count_of(plan.items)
        print_json(data)
        return
    what = f"{plan.noun.counted(len(plan.arms))}, {counted(len(plan.measured), 'metric')}"
    what += "".join(f" ({' + '.join(metrics)} in one test)" for metrics in bundles)
    if plan.blocks is not None:
        what += f", {Noun.of(plan.blocks.name).many} of {plan.blocks.size}"
    elif plan.items is not None:
        what += f", {counted(count_of(plan.items), 'item')}"
    console = plain_console()
    console.print(f"{shown(study.name)}: {what}, policy {plan.policy}, delta {plan.delta:g}; kept in {kept}")
    options = " ".join(f"--{field.replace('_', '-')} {seed}" for field, seed in seeds.items())
    console.print(f"To repeat its random choices: {options}")
    called, metrics = shlex.quote(study.name), plan.yields[0]
    values = " ".join(shlex.quote(f"{metric}=VALUE") for metric in metrics) if len(metrics) > 1 else "VALUE"
    # A URL may hold a password, so it is not repeated.
    where = "" if (db := place.db) is None else " --db URL" if "://" in db else f" --db {shlex.quote(db)}"
    steps = (
        (f"bestarm ask {called} {'-n 4' if plan.blocks is None else '--block'}{where}", "which tests to make"),
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
    blocks: Annotated[int | None, typer.Option(metavar="N", help="How many more blocks, such as plates.")] = None,
    hours: Annotated[float | None, typer.Option(metavar="H", help="How many more hours.")] = None,
    *,
    access: Access,
) -> None:
    """Allow more tests: the study goes on where its budget ended, with the same guarantee."""
    study = access.open(name)
    now = study.extend(tests, cost, blocks=blocks, hours=hours)
    say(f"{study.name} may now use {now.words(study.plan.blocks)} in all.")


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


@study_command(place=196)
def reserve(
    name: StudyName,
    share: Annotated[float, typer.Argument(metavar="SHARE", help="From 0, which keeps nothing, to below 1.")],
    *,
    access: Access,
) -> None:
    """Change the share of delta that is kept for arms that come later or are retired, before the first test."""
    study = access.open(name)
    study.set_reserve(share)
    say(f"{study.name} keeps {100 * share:g}% of delta for arms that come later or are retired.")


@study_command(place=240)
def archive(
    name: StudyName,
    undo: Annotated[bool, typer.Option("--undo", help="Bring it back.")] = False,
    *,
    place: Place,
) -> None:
    """Put a study away: it can be read and not changed."""
    from bestarm.storage.opening import is_service, open_storage
    from bestarm.study.record.checks import find_record

    if is_service(place.url):
        place.open(name).archive(undo=undo)
    else:
        # The study is not opened, so that one that cannot be read can be put away too.
        storage = open_storage(place.db)
        storage.archive(find_record(storage, check_text("study", name)).key, whoami(), undo=undo)
    say(f"{name} is {'back' if undo else 'archived; `bestarm archive --undo` brings it back'}.")
