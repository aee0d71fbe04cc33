"""Races that are kept in a database: when they go on, and when they start afresh."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.race.simulated import Drawn, race, skewed

from bestarm.race.contestants import contestants_of
from bestarm.race.plans import Question
from bestarm.race.race import Conditions, Race
from bestarm.race.result import RaceResult
from bestarm.race.run_log import changed, digests_of
from bestarm.validation import InvalidInput

FAST_AND_SLOW = skewed({"fast": 0.1, "slow": 0.2}, scatter=0.01)


def test_a_changed_program_starts_a_race_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("fast", "slow"):
        Path(name).write_text(name)
    commands, db = ["cat fast", "cat slow"], str(tmp_path / "races.db")

    def made() -> tuple[RaceResult, int]:
        runner = Drawn(skewed({"cat fast": 0.3, "cat slow": 0.5}))
        return race(FAST_AND_SLOW, commands, db=db, runner=runner), len(runner.made)

    first, runs = made()
    assert (first.found, first.decided_before, first.replaces, runs > 0) == ("certified", "", "", True)
    again, runs = made()
    assert (again.status.answer, again.replaces, runs) == ("cat fast", "", 0)
    assert re.fullmatch(
        r"Decided on \d{4}-\d\d-\d\d at \d\d:\d\d UTC; no run was made now\. "
        r"No file named in the commands has changed since\. --fresh starts over\.",
        again.decided_before,
    )
    Path("slow").write_text("quicker")
    afresh, runs = made()
    # The first two runs of each command do not count.
    assert (afresh.decided_before, afresh.status.tests) == ("", runs - 2 * len(commands))
    assert afresh.replaces == (
        "Started over as 'cat fast vs cat slow (2)', ./slow changed since this race began; "
        "'cat fast vs cat slow' is kept."
    )
    # The newest counts from now on.
    last, runs = made()
    assert (last.status.study, runs) == ("cat fast vs cat slow (2)", 0)
    assert len(list(tmp_path.glob("*.runs.jsonl"))) == 2


def test_a_race_can_be_started_afresh(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    conditions = Conditions(timeout=10.0)
    names = []
    for timeout in (10.0, 10.0, 20.0):
        conditions = Conditions(timeout=timeout)
        asked = Race(
            contestants_of(["fast", "slow"]),
            Question(runs=6),
            conditions,
            db=db,
            fresh=True,
            runners=[Drawn(FAST_AND_SLOW)],
        )
        names.append(asked.run().status.study)
    assert names == ["fast vs slow", "fast vs slow (2)", "fast vs slow (3)"]


def test_another_delta_is_refused_as_it_was_typed(tmp_path: Path) -> None:
    db = str(tmp_path / "races.db")
    race(FAST_AND_SLOW, ["fast", "slow"], db=db)
    with pytest.raises(
        InvalidInput, match=r"delta = 0.01: this race began with 0.05; --fresh .* --study NAME"
    ) as raised:
        race(FAST_AND_SLOW, ["fast", "slow"], db=db, delta=0.01)
    assert raised.value.field == "--delta"
    with pytest.raises(InvalidInput, match=r"another plan .* --study NAME makes another race"):
        race(FAST_AND_SLOW, ["fast", "slow"], db=db, tolerance=0.1, delta=0.01)


def test_files_are_known_by_what_they_contain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("script.py", "data", "input", "written", "log", "piped"):
        Path(name).write_text(name)
    script = "python3 script.py --data=data <input 2>log >> written && cat piped | sort 'unclosed"
    found = digests_of([["/bin/sh", "-c", script]], are_scripts=True)
    assert found.keys() == {"/bin/sh", "python3", "./script.py", "./data", "./input", "cat", "./piped", "sort"}
    assert digests_of([["cat", "./data", "no-such-file", "."]], are_scripts=False).keys() == {"cat", "./data"}
    Path("data").write_text("other")
    Path("new").write_text("new")
    now = digests_of([["/bin/sh", "-c", script.replace("piped", "new")]], are_scripts=True)
    assert changed(found, now) == ["./data"]


def test_large_files_are_known_by_size_and_time(tmp_path: Path) -> None:
    large = tmp_path / "large"
    with large.open("wb") as file:
        file.truncate(70_000_000)
    before = digests_of([["cat", str(large)]], are_scripts=False)
    assert before[str(large)].startswith("70000000 bytes, changed at ")
