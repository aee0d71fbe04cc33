"""Arguments that several commands take. They stand in this order in every command, after what is its own."""

from __future__ import annotations

from typing import Annotated

import typer

Source = Annotated[str, typer.Argument(metavar="INSTANCE|FILE", help="A built-in instance or a study file.")]
StudyName = Annotated[str, typer.Argument(metavar="STUDY", help="The study's name.")]
TestNumber = Annotated[str, typer.Argument(metavar="TEST", help="The test's number, as `ask` gave it.")]

PolicyName = Annotated[str | None, typer.Option(help="Policy, by name; the study's own by default.")]
BoundName = Annotated[str | None, typer.Option(help="Confidence bound: paper, lil or mixture.")]
Delta = Annotated[float | None, typer.Option(help="Allowed probability of a wrong answer.")]
Runs = Annotated[int, typer.Option(help="How many studies to simulate.")]
Seed = Annotated[int, typer.Option(help="Seed; the same seed gives the same runs.")]
MaxTests = Annotated[int, typer.Option(help="Tests after which a run is given up as unfinished.")]
Executor = Annotated[
    str | None,
    typer.Option(help="Where to compute: threads (default), processes, dask:ADDRESS or ray:ADDRESS."),
]
Workers = Annotated[int | None, typer.Option(help="Threads or processes; all cores by default.")]
Device = Annotated[
    str, typer.Option(help="cpu, cuda (a CUDA card), or auto: a card if there is one and the job is large.")
]

Reason = Annotated[str, typer.Option(metavar="TEXT", help="Why; kept in the log.", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", help="Record values far outside the others without being asked.")]
Key = Annotated[
    str | None,
    typer.Option(
        "--key", metavar="TEXT", help="A unique key: repeated with it, a command counts once.", show_default=False
    ),
]
Worker = Annotated[
    str | None, typer.Option(metavar="NAME", help="The holder's name; user@machine by default.", show_default=False)
]
Token = Annotated[
    str | None,
    typer.Option(
        "--token",
        metavar="TEXT|@FILE",
        help="The service's token, or @FILE; else $BESTARM_TOKEN.",
        hide_input=True,
        show_default=False,
    ),
]
Database = Annotated[
    str | None,
    typer.Option(
        "--db", metavar="URL", help="A file or postgresql://… URL; else $BESTARM_DB, or bestarm.db in this folder."
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
