"""`bestarm arms`: arms that come later, and arms that are retired."""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.arguments import Database, Reason, StudyName, Token, Worker
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.opening import check_text, open_study
from bestarm.cli.shared.show import plain_console, shown

DEEDS = ("add", "retire")


@study_command(place=194)
def arms(
    what: Annotated[str, typer.Argument(metavar="add|retire", help="Let arms take part, or take one out.")],
    name: StudyName,
    arms: Annotated[list[str], typer.Argument(metavar="ARM…", help="Their names.")],
    reason: Reason = "",
    worker: Worker = None,
    token: Token = None,
    db: Database = None,
) -> None:
    """Let arms take part that came later, or retire an arm. The study's plan must have a reserve for that."""
    from bestarm.validation import InvalidInput

    if what not in DEEDS:
        raise InvalidInput("arms", what, "must be add or retire", DEEDS)
    names = [check_text("arm", arm) for arm in arms]
    study = open_study(name, db, worker, token)
    if what == "add":
        study.add_arms(names)
    for arm in names if what == "retire" else ():
        study.retire(arm, check_text("reason", reason))
    listed = ", ".join(map(shown, names))
    said = "takes part" if len(names) == 1 else "take part"
    if what == "retire":
        said = "is retired" if len(names) == 1 else "are retired"
    plain_console().print(f"{listed} {said} in {shown(study.name)}.", soft_wrap=True)
