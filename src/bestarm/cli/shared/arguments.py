"""Arguments that several commands take. They stand in this order in every command, after what is its own."""

from __future__ import annotations

from typing import Annotated

import typer

StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")]

Project = Annotated[
    str | None,
    typer.Option(metavar="PROJECT", help="The project that it belongs to.", show_default="default"),
]

Delta = Annotated[float | None, typer.Option(help="Allowed probability of a wrong answer.")]

Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the log.")]
Yes = Annotated[bool, typer.Option("--yes", help="Record values far outside the others without being asked.")]
Key = Annotated[str | None, typer.Option(metavar="TEXT", help="A unique key: repeated with it, a command counts once.")]
Worker = Annotated[str | None, typer.Option(metavar="NAME", help="The holder's name; user@machine by default.")]
Token = Annotated[
    str | None,
    typer.Option(metavar="TEXT|@FILE", help="The service's token, or @FILE; else $BESTARM_TOKEN.", hide_input=True),
]
CaFile = Annotated[
    str | None,
    typer.Option(
        "--ca-file",
        metavar="FILE",
        help="The certificate of the authority that a service's own comes from, in PEM; else $BESTARM_CA_FILE.",
    ),
]
Database = Annotated[
    str | None,
    typer.Option(metavar="URL", help="A file or postgresql://… URL; else $BESTARM_DB, or bestarm.db in this folder."),
]
Where = Annotated[
    str | None,
    typer.Option(
        "--db",
        "--url",
        metavar="URL",
        help="A file, postgresql://… or the https://… of a service; else $BESTARM_DB, or bestarm.db in this folder.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]

ConfigFile = Annotated[
    str | None,
    typer.Option(
        "--config",
        metavar="FILE",
        envvar="BESTARM_CONFIG",
        allow_from_autoenv=False,
        help="A TOML file with these options by name; the command line and the environment take precedence.",
    ),
]
PrintConfig = Annotated[
    bool,
    typer.Option(
        "--print-config", allow_from_autoenv=False, help="Print the options that hold and where each comes from; stop."
    ),
]

ColumnNames = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="COLUMN=MEANING", help="What a column means: --map question=item --map right=accuracy."
    ),
]

IgnoredColumns = Annotated[
    list[str] | None,
    typer.Option("--ignore", metavar="COLUMN", help="A column that the study does not know, to leave out."),
]
