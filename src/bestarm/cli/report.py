"""`bestarm report`: a study's report in a file."""

from __future__ import annotations

import re
from pathlib import Path

from bestarm.analysis.report import study_report
from bestarm.cli.exchange import written_whole
from bestarm.cli.opening import open_study
from bestarm.cli.show import plain_console, shown


def report(name: str, output: Path | None, forecast: bool, db: str | None) -> None:
    study = open_study(name, db)
    file = output or Path(re.sub(r"[^\w.-]+", "-", study.name).strip("-.") + ".html")
    page = study_report(study, forecast=forecast)
    with written_whole(file) as stream:
        stream.write(page)
    plain_console().print(shown(f"Report: {file}"), soft_wrap=True)
