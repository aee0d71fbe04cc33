"""The program, in a folder of its own."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from tests.cli.live import DASH, DOSE, Program
from tests.program import bestarm as run


@pytest.fixture
def bestarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Program:
    """Runs the program in a folder of its own, with the studies in its `s.db`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "dose.toml").write_text(DOSE, encoding="utf-8")
    (tmp_path / "dash.toml").write_text(DASH, encoding="utf-8")
    return functools.partial(run, BESTARM_DB="s.db", COLUMNS="200")
