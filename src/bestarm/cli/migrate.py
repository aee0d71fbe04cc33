"""`bestarm migrate`: whether a database has the tables of this version, and upgrading them."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer

from bestarm.cli.shared.arguments import AsJson, Database
from bestarm.cli.shared.command import LIVE_STUDIES, command
from bestarm.cli.shared.show import print_json, say
from bestarm.errors import UNSTATED, InvalidInput


@command(place=258, panel=LIVE_STUDIES)
def migrate(
    url: Annotated[
        str | None,
        typer.Argument(metavar="[DB]", help="A file or postgresql://… URL, as with --db.", show_default=False),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Say what there is; status 1 if an upgrade is needed.")
    ] = False,
    apply: Annotated[
        bool, typer.Option("--apply", help="Upgrade it; a copy of an SQLite file is kept beside it.")
    ] = False,
    db: Database = None,
    as_json: AsJson = False,
) -> None:
    """Upgrade the tables of a database that an earlier version made: all of them, or nothing."""
    from bestarm.storage.errors import NoStudiesYet, OldTables
    from bestarm.storage.opening import default_url
    from bestarm.storage.sql import database, schema

    if check == apply:
        raise InvalidInput("migrate", UNSTATED, "must have one of --check and --apply")
    if url is not None and db is not None:
        raise InvalidInput("--db", UNSTATED, "is given as DB, too; leave out one")
    found: int | None = schema.VERSION
    made = None
    try:
        opened = database.Database(url or db or default_url(), upgrade="always" if apply else "never")
    except OldTables as error:
        found, words = error.found, f"{error}."
    except NoStudiesYet as error:
        found, words = None, f"{error}."
    else:
        with contextlib.closing(opened):
            words = f"{opened.url}: its schema is version {schema.VERSION}, which is that of this program."
            if (made := opened.upgraded) is not None:
                found = made.found
                words = f"{opened.url}: upgraded from version {found} to {schema.VERSION}."
                words += "" if made.copy is None else f" {made.copy} has it as it was."
    if as_json:
        data = {"found": found, "needed": schema.VERSION, "upgraded": made is not None}
        print_json(data | {"copy": None if made is None else made.copy})
    else:
        say(words)
    if check and found not in (None, schema.VERSION):
        raise typer.Exit(1)
