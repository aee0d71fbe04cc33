"""`bestarm race`: which of these commands is best, within limits?"""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.command import PAIR, command
from bestarm.cli.shared.racing import (
    Assume,
    AtMost,
    Delta,
    ExportCsv,
    ExportJson,
    ExportMarkdown,
    Fresh,
    IgnoreFailure,
    Minutes,
    Options,
    Prepare,
    RaceDatabase,
    Runs,
    Seed,
    Shell,
    StudyOption,
    Timeout,
    Warmup,
    run_race,
)
from bestarm.cli.shared.verdicts import IgnoreHealth


@command(place=5)
def race(
    commands: Annotated[list[str], typer.Argument(metavar="COMMAND…", help="Each in quotes.", show_default=False)],
    minimize: Annotated[str, typer.Option(metavar="METRIC", help="time, user, system, memory or output.")] = "time",
    baseline: Annotated[
        str | None,
        typer.Option(metavar="COMMAND", help="What limits such as time=1.02x are relative to.", show_default=False),
    ] = None,
    at_most: AtMost = None,
    names: Annotated[
        list[str] | None,
        typer.Option("--name", metavar="NAME", help="Names of the commands, in order.", show_default=False),
    ] = None,
    parameter_list: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter-list", "-L", metavar=PAIR, help="Fill in {NAME} with each of A,B,C.", show_default=False
        ),
    ] = None,
    prepare: Prepare = None,
    warmup: Warmup = None,
    timeout: Timeout = None,
    shell: Shell = "default",
    delta: Delta = 0.05,
    runs: Runs = None,
    minutes: Minutes = 5.0,
    tolerance: Annotated[
        str | None,
        typer.Option(metavar="AMOUNT", help="How close to the best is good enough: 5ms.", show_default="none"),
    ] = None,
    assume: Assume = "symmetry",
    ignore_failure: IgnoreFailure = False,
    ignore_health: IgnoreHealth = False,
    seed: Seed = None,
    study: StudyOption = None,
    db: RaceDatabase = None,
    fresh: Fresh = False,
    export_json: ExportJson = None,
    export_csv: ExportCsv = None,
    export_markdown: ExportMarkdown = None,
) -> None:
    """Find the best of several commands, within limits, with as few runs as possible.

    Exit status: 0 if an answer is certified, except for pauses rarer than the verdict says; 3 if it is certain that no
    command meets every limit; 4 if the budget is spent before anything is certain, or if the answer pauses and the
    others do not; 5 if the runs contradict what the guarantee rests on.
    """
    from bestarm.race.contestants import contestants_of, with_baseline
    from bestarm.race.limits import METRICS, read_objective

    contestants = contestants_of(commands, names or [], parameter_list or [])
    contestants, base = with_baseline(contestants, baseline)
    objective = read_objective(minimize)
    near = 0.0 if tolerance is None else METRICS[objective].read("--tolerance", tolerance)
    how = (shell, prepare, warmup, timeout, minutes, ignore_failure, seed)
    options = Options(at_most or [], base, assume, delta, runs, *how)
    exports = {"json": export_json, "csv": export_csv, "markdown": export_markdown}
    question, conditions = options.question(objective, near), options.conditions()
    run_race(contestants, question, conditions, study, db, exports, fresh=fresh, ignore_health=ignore_health)
