"""What `make torture` does, in small, and that it would find what must not be."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import re
import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bestarm as ba
from bestarm.storage.base import Storage
from tests.lengths import lengths
from tests.tools.patience import PATIENCE
from tests.torture import crashes, damage, files, kills
from tests.torture.__main__ import main, parts
from tests.torture.deeds import DEEDS, Deed, Facts, plan
from tests.torture.results import BEGIN, END, HEADINGS, Row, table, write
from tests.torture.seen import Seen
from tests.torture.trials import Here, Trials, opened

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "reliability.md"
BY_NAME = {deed.name: deed for deed in DEEDS}


def trials(url: str, *deeds: Deed) -> Trials:
    return Trials(Row("fault", "database"), url, random.Random(1), deeds or DEEDS)


def soon(seconds: float = PATIENCE) -> float:
    return time.monotonic() + seconds


@pytest.mark.torture
def test_every_deed_is_found_once_done_and_once_repeated(database_url: str) -> None:
    """One after the other, in one study."""
    here, tried = trials(database_url), set()
    for _ in DEEDS:
        deed, mark = here.next()
        with opened(database_url) as storage:
            place = Here(storage, here.name, mark)
            facts = deed.prepare(place, here.rng, mark)

            def found(storage: Storage = storage, deed: Deed = deed, facts: Facts = facts) -> int:
                return deed.found(Seen.of(ba.Study.open(here.name, storage=storage)), facts)

            assert found() == 0, deed.name
            place.study.request = f"key {mark}"
            deed.do(place, facts)
            assert found() == 1, deed.name
            here.repeat(deed, facts, mark)
            assert found() == 1, deed.name
        here.settle(deed, facts, mark, answered=True)
        assert here.row.complaints == [], deed.name
        tried.add(deed.name)
    here.finish()
    assert here.row.complaints == []
    assert tried == set(BY_NAME)


@pytest.mark.torture
def test_kills_lose_nothing(database_url: str) -> None:
    """Every call once, so that each is tried whenever this is."""
    here = trials(database_url)
    kills.run(here, len(DEEDS), soon())
    assert here.row.complaints == []
    assert here.row.times == len(DEEDS)
    assert set(here.row.by_deed) == set(BY_NAME)
    assert here.row.silent


@pytest.mark.torture
def test_cut_lines_lose_nothing(tmp_path: Path) -> None:
    here = Trials(Row("cut", "HTTP"), str(tmp_path / "studies.db"), random.Random(2), crashes.REMOTE)
    crashes.break_requests(here, len(crashes.REMOTE), soon(), silent=False)
    assert here.row.complaints == []
    assert here.row.times == len(crashes.REMOTE)


def test_campaigns_lose_nothing(tmp_path: Path) -> None:
    row = Row("campaign", "files")
    files.run(row, tmp_path, random.Random(3), 10, soon())
    assert row.complaints == []
    assert row.times == 10


# ------------------------------------------------------------------------------- it finds what must not be


def spoiled(name: str, do: Callable[[Any, Facts], object]) -> Deed:
    return dataclasses.replace(BY_NAME[name], do=do)


@pytest.mark.parametrize(
    ("deed", "kind"),
    [
        (spoiled("tell", lambda place, facts: None), "lost"),
        (spoiled("add", lambda place, facts: [BY_NAME["add"].do(place, facts | {"key": k}) for k in "ab"]), "twice"),
        (spoiled("tell many", lambda place, facts: place.study.tell(*facts["results"][0])), "torn"),
    ],
    ids=["lost", "twice", "torn"],
)
def test_what_must_not_be_is_found(deed: Deed, kind: str, tmp_path: Path) -> None:
    here = trials(str(tmp_path / "studies.db"), deed)
    _, mark = here.next()
    with opened(here.url) as storage:
        place = Here(storage, here.name, mark)
        facts = deed.prepare(place, here.rng, mark)
        deed.do(place, facts)
    here.settle(deed, facts, mark, answered=True)
    assert getattr(here.row, kind) == 1
    assert here.row.is_bad
    assert re.match(rf"fault, database: {kind}: study 1, {deed.name} ", here.row.complaints[0])


def test_what_is_lost_later_is_found(tmp_path: Path) -> None:
    here = trials(str(tmp_path / "studies.db"), BY_NAME["correct"])
    deed, mark = here.next()
    with opened(here.url) as storage:
        place = Here(storage, here.name, mark)
        facts = deed.prepare(place, here.rng, mark)
        deed.do(place, facts)
    here.settle(deed, facts, mark, answered=True)
    with opened(here.url) as storage:
        storage._database.engine.dispose()  # type: ignore[attr-defined]
        with storage._database.transaction() as connection:  # type: ignore[attr-defined]
            connection.exec_driver_sql("DELETE FROM bestarm_outcomes WHERE correction = 1")
    here.finish()
    assert here.row.lost == 1


# ------------------------------------------------------------------------------------------ damaged databases


@pytest.mark.parametrize("times", lengths(20, 60))
def test_damaged_files_are_read_right_or_refused(times: int, tmp_path: Path) -> None:
    row = Row("bytes", "SQLite")
    came = damage.run(row, tmp_path, random.Random(4), times, soon())
    assert row.complaints == []
    assert came["refused"] > 0
    assert came["read right"] > 0


STATES = {"entered": "1", "waiting": "(SELECT max(test) FROM bestarm_tests)", "pending": "2"}
"""Tests of a study: one whose result has entered, one whose result waits for another, and that other."""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("column", "number"),
    [("arm", 3), ("arm", -1), ("arm", 2**31 - 1), ("metric", 2), ("metric", -1), ("item", 40), ("item", -1)],
)
def test_a_record_of_what_is_not_there_is_refused(tmp_path: Path, state: str, column: str, number: int) -> None:
    """Compiled code would write wherever such a number points to."""
    problem = dataclasses.replace(plan("damaged", "certify", "issue"), items=40)
    path = tmp_path / "studies.db"
    study = ba.Study.create(problem, storage=path, seed=0)
    first, second, third = study.ask(3)
    study.tell(first, 1.0)
    study.tell(third, 1.0)
    study.storage.close()
    with contextlib.closing(sqlite3.connect(path)) as file, file:
        assert file.execute(f"UPDATE bestarm_tests SET {column} = {number} WHERE test = {STATES[state]}").rowcount == 1
    study = ba.Study.open("damaged", storage=path)
    for look in (study.status, study.pending, study.awaited, lambda: study.ask(1), lambda: study.tell(second, 1.0)):
        with contextlib.suppress(ba.InvalidInput):
            look()
    with pytest.raises(ba.InvalidInput, match=r"is damaged \(") as refused:
        study.status()
    assert "\n" not in str(refused.value)


# --------------------------------------------------------------------------------------------------- the page


def test_the_table_is_written_between_its_marks(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n\n{BEGIN}\nold\n{END}\n\nafter\n")
    text = table([Row("a", "b", times=1234, lost=2)])
    write(page, text)
    assert page.read_text() == f"before\n\n{BEGIN}\n{text}\n{END}\n\nafter\n"
    assert text.splitlines()[2] == "| a | b | 1,234 | – | – | – | 2 | 0 | 0 | 0 |"
    page.write_text("nothing")
    with pytest.raises(ValueError, match="has no place for the table"):
        write(page, text)


def test_the_page_has_a_measured_table_in_which_nothing_is_lost() -> None:
    text = PAGE.read_text(encoding="utf-8")
    measured = text.partition(BEGIN)[2].partition(END)[0]
    lines = [line.strip("| ").split(" | ") for line in measured.splitlines() if line.startswith("|")]
    assert tuple(lines[0]) == HEADINGS
    assert {len(line) for line in lines} == {len(HEADINGS)}
    tried = {(fault, database) for fault, database, *_ in lines[2:]}
    assert tried == {(part.row.fault, part.row.database) for part in parts(Path(), object(), 1000, 0)}  # type: ignore[arg-type]
    for _, _, times, *_, lost, twice, torn, stuck in lines[2:]:
        assert int(times.replace(",", "")) > 0
        assert (lost, twice, torn, stuck) == ("0", "0", "0", "0")
    assert re.search(r"Measured on \d{4}-\d\d-\d\d in [\d,]+ s, seed \d+\.", measured)


def test_the_commands_that_the_page_names_exist(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text, make = PAGE.read_text(encoding="utf-8"), (ROOT / "Makefile").read_text()
    assert "make torture" in text
    assert "python -m tests.torture" in text
    assert "-m tests.torture" in make
    assert "make torture" in (ROOT / ".ci" / "run").read_text() if (ROOT / ".ci" / "run").exists() else True
    monkeypatch.setattr(sys, "argv", ["torture", "--help"])
    with pytest.raises(SystemExit, match=r"^0$"):
        main()
    shown = capsys.readouterr().out
    for option in ("--kills", "--minutes", "--short", "--seed", "--only", "--write"):
        assert option in shown
