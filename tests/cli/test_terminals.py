"""What others wrote does not steer the terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import sqlite3
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.outside import PLAN
from tests.program import bestarm
from typer.testing import CliRunner

import bestarm as ba
from bestarm.cli.app import app
from bestarm.texts import shown


def test_control_characters_are_escaped() -> None:
    assert shown("a\x1b[31mb\nc\u202ed\x9be\u2028") == r"a\x1b[31mb\nc\u202ed\x9be\u2028"
    assert shown("150 mg – größer 日本") == "150 mg – größer 日本"


@given(st.text())
def test_what_is_shown_is_safe_and_stays_so(text: str) -> None:
    safe = shown(text)
    assert not set(safe) & {*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\u2066", "\u2028"}
    assert shown(safe) == safe


HOSTILE = "a\x1b]0;owned\x07\x1b[31m\n\u202e[/red]"


def test_foreign_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    """Such names are refused when a study is made. Another user's database may hold them all the same."""
    url = tmp_path / "s.db"
    study = ba.Study.create(
        dataclasses.replace(PLAN, arms=(ba.Arm("HOSTILE"), ba.Arm("b"))), storage=str(url), holder="HOSTILE"
    )
    study.add([("HOSTILE", "p", 1.0), ("HOSTILE", "c", -1.0)])
    study.ask(2)
    ba.Study.create(PLAN, storage=str(url), name="other")
    with contextlib.closing(sqlite3.connect(url)) as connection:
        for table, column in (("bestarm_events", "holder"), ("bestarm_events", "detail"), ("bestarm_queue", "holder")):
            connection.execute(f"UPDATE {table} SET {column} = ?", (HOSTILE,))
        connection.execute("UPDATE bestarm_outcomes SET holder = ?, reason = ?", (HOSTILE, HOSTILE))
        connection.execute("UPDATE bestarm_studies SET name = ?, plan = '{' WHERE name = 'other'", (HOSTILE,))
        connection.commit()
    for words in (
        ["list"],
        ["status", "s"],
        ["log", "s"],
        ["ask", "s"],
        ["release", "s", "--held-by", "x"],
        ["status", HOSTILE],
    ):
        ended = bestarm(*words, BESTARM_DB=str(url))
        for said in (ended.out, ended.err):
            assert "Traceback" not in said
            assert not set(said) & {"\x1b", "\x07", "\u202e", "\r"}, words
    export = bestarm("export", "s", "--db", str(url), "--format", "json")
    assert json.loads(export.out)["tests"][0]["outcomes"][0]["who"] == HOSTILE


def test_markup_in_names_is_escaped(tmp_path: Path) -> None:
    plan = dataclasses.replace(
        PLAN, name="[/red]", arms=tuple(dataclasses.replace(arm, name=f"[/{arm.name}]") for arm in PLAN.arms)
    )
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml())
    for words in (
        ["theory", str(path)],
        ["simulate", str(path), "--runs", "2"],
        ["forecast", str(path), "--runs", "2"],
    ):
        ended = CliRunner().invoke(app, words)
        assert ended.exit_code == 0, ended.exception
        assert "[/b]" in ended.output
