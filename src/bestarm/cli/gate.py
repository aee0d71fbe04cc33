"""`bestarm gate`: is the new command no worse than the old one?"""

from __future__ import annotations

from typing import Annotated

import typer

from bestarm.cli.shared.command import command
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


@command(place=6)
def gate(
    candidate: Annotated[str, typer.Argument(metavar="COMMAND", help="In quotes.", show_default=False)],
    baseline: Annotated[
        str, typer.Option(metavar="COMMAND", help="What the candidate is compared with.", show_default=False)
    ],
    at_most: AtMost = None,
    prepare: Prepare = None,
    warmup: Warmup = None,
    timeout: Timeout = None,
    shell: Shell = "default",
    delta: Delta = 0.05,
    runs: Runs = None,
    minutes: Minutes = 5.0,
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
    """Let a command pass only if it is certain not to be worse than another by more than you allow.

    Exit status: 0 if it is certain that the candidate meets every limit, except for pauses rarer than the verdict says;
    3 if it is certain that it does not; 4 if the budget is spent before either is, or if the candidate pauses and the
    baseline does not; 5 if the runs contradict what the guarantee rests on. --at-most pauses=1% makes sure that pauses
    are rare.
    """
    from bestarm.race.contestants import contestants_of
    from bestarm.race.plans import CANDIDATE
    from bestarm.validation import UNSTATED, InvalidInput

    if not at_most:
        raise InvalidInput("--at-most", UNSTATED, "say what passes: --at-most time=1.02x")
    old, new = contestants_of([baseline, candidate], [] if baseline != candidate else ["baseline", "candidate"])
    how = (shell, prepare, warmup, timeout, minutes, ignore_failure, seed)
    options = Options(at_most, old.name, assume, delta, runs, *how)
    exports = {"json": export_json, "csv": export_csv, "markdown": export_markdown}
    question, conditions = options.question(CANDIDATE), options.conditions()
    run_race([old, new], question, conditions, study, db, exports, fresh=fresh, ignore_health=ignore_health)
