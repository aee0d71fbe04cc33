"""`bestarm extend`, `arms` and `archive`: a larger budget, arms that come later or retire, a study put away."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, Reason, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import Access, check_text, whoami
from bestarm.cli.shared.show import say
from bestarm.errors import InvalidInput

_CHANGES = {"add": ("takes part", "take part"), "retire": ("is retired", "are retired")}


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
