"""`bestarm delete` and `prune`: studies that were put away are removed for good."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, StudyName
from bestarm.cli.shared.command import study_command
from bestarm.cli.shared.files import is_typing
from bestarm.cli.shared.opening import Place, check_text, saying_how_to_give_a_token, whoami
from bestarm.cli.shared.show import counted, moment, new_table, plain_console, print_json, say
from bestarm.errors import UNSTATED, InvalidInput
from bestarm.texts import shown

_DAY = 86_400.0


@study_command(place=242)
def delete(
    name: StudyName,
    confirm: Annotated[
        str | None,
        typer.Option("--confirm", metavar="NAME", help="The study's name once more; asked for otherwise."),
    ] = None,
    *,
    place: Place,
) -> None:
    """Remove an archived study and all its results, for good. `bestarm export --all` keeps a copy."""
    from bestarm.storage.errors import StudyNotArchived
    from bestarm.storage.opening import open_storage
    from bestarm.study.record.checks import find_record

    check_text("study", name)
    client = place.client()
    if client is not None:
        with client, saying_how_to_give_a_token():
            _ask(name, confirm)
            client.delete(name)
    else:
        storage = open_storage(place.db)
        # The study is not opened, so that one that cannot be read can be deleted, too.
        record = find_record(storage, name)
        if record.archived is None:
            raise StudyNotArchived(name)
        _ask(name, confirm)
        storage.delete(record.key, whoami())
    say(f"{name} is deleted.")


def _ask(name: str, confirm: str | None) -> None:
    """The study's name, once more."""
    if confirm is None:
        if not is_typing():
            raise InvalidInput("--confirm", UNSTATED, "must repeat the study's name: there is no terminal to ask on")
        typer.echo(f"All results of {shown(name)} will be lost. Type its name to delete it: ", nl=False, err=True)
        confirm = sys.stdin.readline().rstrip("\n")
        if confirm != name:
            typer.echo("Nothing was deleted.", err=True)
            raise typer.Exit(2)
    if confirm != name:
        raise InvalidInput("--confirm", confirm, f"must be the name of the study, {name!r}; nothing was deleted")


@study_command(place=244)
def prune(
    archived_for: Annotated[
        float, typer.Option("--archived-for", metavar="DAYS", help="Only studies that were put away so long ago.")
    ],
    apply: Annotated[bool, typer.Option("--apply", help="Delete them; otherwise they are only listed.")] = False,
    *,
    place: Place,
    as_json: AsJson = False,
) -> None:
    """List the studies that have been archived for long, or delete them for good."""
    from bestarm.storage.opening import open_storage
    from bestarm.study.files.exchange import iso_time

    if not 1.0 <= archived_for <= 1e6:
        raise InvalidInput("--archived-for", archived_for, "must be a number of days, at least 1")
    before, client = time.time() - archived_for * _DAY, place.client()
    if client is None:
        storage = open_storage(place.db)
        there: list[tuple[int, str, float | None]] = [
            (record.key, record.name, record.archived) for record in storage.studies()
        ]
    else:
        with saying_how_to_give_a_token():
            there = [(line.id, line.name, line.archived) for line in reversed(client.studies(archived=True))]
    found = [(key, name, archived) for key, name, archived in there if archived is not None and archived < before]
    refused: dict[str, str] = {}
    for key, name, _ in found if apply else ():
        try:
            if client is None:
                storage.delete(key, whoami())
            else:
                client.delete(name)
        except InvalidInput as error:
            # Such as one in a project in which the caller has another role.
            refused[name] = str(error)
    found = [one for one in found if one[1] not in refused]
    if as_json:
        studies = [{"id": key, "name": name, "archived": iso_time(archived)} for key, name, archived in found]
        print_json({"deleted": apply, "studies": studies, "refused": refused})
        raise typer.Exit(2 if refused else 0)
    if found:
        table = new_table("study", "archived")
        for _, name, archived in found:
            table.add_row(shown(name), moment(archived))
        plain_console().print(table)
    words = "deleted" if apply else "would be deleted; --apply does it"
    say(f"{counted(len(found), 'study', 'studies')} {words}.")
    for name, reason in refused.items():
        typer.echo(f"{shown(name)} is not deleted: {reason}", err=True)
    if refused:
        raise typer.Exit(2)
