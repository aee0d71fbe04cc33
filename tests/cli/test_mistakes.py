"""A mistake is one clear line, and changes nothing."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from tests.cli.live import DOSE, Program, everything, works
from tests.lengths import cases

import bestarm as ba


@cases(20)
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("tell", "dose", "1", "nan"), "value of 'efficacy' = nan: must be a finite number"),
        (("tell", "dose", "1", "inf"), "value of 'efficacy' = inf: must be a finite number"),
        (("tell", "dose", "1", "-inf"), "value of 'efficacy' = -inf: must be a finite number"),
        (("tell", "dose", "1", "1e999"), "value of 'efficacy' = inf: must be a finite number"),
        (("tell", "dose", "1", "much"), "value = 'much': must be a number"),
        (("tell", "dose", "1", ""), "value: is missing"),
        (("tell", "dose", "1", "3,5"), "value = '3,5': must be written with a decimal point"),
        (("tell", "dose", "2", "0.5"), "value of 'harm' = 0.5: must be 0 or 1"),
        (("tell", "dose", "2", "-1"), "value of 'harm' = -1.0: must be 0 or 1"),
        (("tell", "dose", "3", "100.1"), "value of 'purity' = 100.1: must lie between 0 and 100"),
        (("tell", "dose", "3", "-0.1"), "value of 'purity' = -0.1: must lie between 0 and 100"),
        (
            ("tell", "dose", "1", "5", "--correct", "--reason", "x"),
            "test = 1: has no result yet; there is nothing to correct",
        ),
        (("tell", "dose", "4", "5", "--correct", "--reason", "x"), "test = 4: no such test"),
        (("tell", "dose", "4", "1"), "test = 4: no such test in study 'dose'"),
        (("tell", "dose", "0", "1"), "test = '0': must be the number of a test"),
        (("tell", "dose", "-1", "1"), "test = '-1': must be the number of a test"),
        (("tell", "dose", "1.0", "1"), "test = '1.0': must be the number of a test"),
        (("tell", "dose", "9" * 400, "1"), "test = '9999"),
        (("tell", "dose", "9" * 20, "1"), "test = '9999"),
        (("tell", "dose", "\u0661", "1"), "must be the number of a test"),
        (("tell", "dose", "1"), "tell: give TEST VALUE, or --arm ARM --metric METRIC VALUE, or --from FILE"),
        (("tell", "dose", "1", "2", "3"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--arm", "25 mg", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--metric", "harm", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "1"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "--arm", "a", "--metric", "m"), "tell: give TEST VALUE, or --arm"),
        (("tell", "dose", "--csv", "f.csv", "--correct"), "--correct: goes with TEST VALUE"),
        (("tell", "dose", "1", "2", "--reason", "so"), "--reason: goes with --correct"),
        (("tell", "dose", "--csv", "no.csv"), "no.csv: cannot be read: No such file or directory"),
        (("tell", "dose", "--csv", "."), ".: cannot be read: Is a directory"),
        (("tell", "dose", "--arm", "x", "--metric", "harm", "1"), "arm = 'x': no such arm; there are '25 mg'"),
        (("tell", "dose", "--arm", "25 mg", "--metric", "x", "1"), "metric = 'x': no such metric; there are 'eff"),
        (("tell", "dose", "--arm", "25 mg", "--metric", "harm", "2"), "value of 'harm' = 2.0: must be 0 or 1"),
        (("tell", "nose", "1", "1"), "study = 'nose': no such study in 's.db'; there are 'dose'"),
        (("ask", "dose", "-n", "0"), "n = 0: must be a whole number from 1"),
        (("ask", "dose", "-n", "-4"), "n = -4: must be a whole number from 1"),
        (("ask", "\udcff"), "study = '\\udcff': must be text in UTF-8"),
        (("tell", "dose", "1", "1", "--correct", "--reason", "\udcff"), "reason = '\\udcff': must be text in UTF-8"),
        (("log", "dose", "--last", "0"), "last = 0: must be a whole number from 1"),
        (("fail", "dose", "9", "--reason", "x"), "test = 9: no such test"),
        (("abandon", "dose", "9", "--reason", "x"), "test = 9: no such test"),
        (("export", "dose", "--format", "xml"), "format = 'xml': must be csv or json"),
        (("import", "dose", "no.csv"), "no.csv: cannot be read: No such file or directory"),
        (("new", "dose.toml"), "name = 'dose': a study of this name exists already in 's.db'"),
        (("new", "dose.toml", "--name", "a\nb"), "must not contain control characters"),
        (("new", "dose.toml", "--name", ""), "must not be empty"),
        (("new", "no.toml"), "'no.toml' is neither a file nor a built-in instance"),
        (("new", "dose.toml", "--name", "b", "--seed", "-1"), "seed = -1: must be a whole number"),
        (("status", "dose", "--db", "no.db"), "storage = 'no.db': no such file; make a study with `bestarm new`"),
        (("status", "dose", "--db", "."), "storage = '.': is a folder"),
        (("status", "dose", "--db", "dose.toml"), "storage = 'dose.toml': is not a bestarm database"),
        (("new", "dose.toml", "--db", "dose.toml"), "storage = 'dose.toml': is not a bestarm database"),
        (("status", "dose", "--db", "other.db"), "storage = 'other.db': is a database of another program"),
        (("new", "dose.toml", "--db", "other.db"), "storage = 'other.db': is a database of another program"),
        (("status", "dose", "--db", "newer.db"), "storage = 'newer.db': was made by a newer bestarm"),
        (("new", "dose.toml", "--db", "newer.db"), "storage = 'newer.db': was made by a newer bestarm"),
        (("list", "--db", "mysql://me:secret@there/x"), "must be a path, sqlite:///PATH or postgresql://"),
    ],
)
def test_a_mistake_is_one_clear_line_and_changes_nothing(
    bestarm: Program, words: tuple[str, ...], complaint: str
) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    works(bestarm, "new", "dose.toml", "--db", "newer.db")
    with sqlite3.connect("newer.db") as connection:
        connection.execute("UPDATE bestarm_schema SET version = 99")
    with sqlite3.connect("other.db") as connection:
        connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = [everything(name) for name in ("s.db", "newer.db", "other.db")]
    ended = bestarm(*words)
    assert ended.code == 2, ended
    assert ended.out == ""
    assert ended.err.startswith("error: ")
    assert complaint in ended.err
    assert ended.err.count("\n") == 1
    assert len(ended.err) < 300
    assert "secret" not in ended.err
    assert [everything(name) for name in ("s.db", "newer.db", "other.db")] == before
    assert Path("dose.toml").read_text(encoding="utf-8") == DOSE
    assert not Path("no.db").exists()


@pytest.mark.parametrize(
    "words",
    [("status",), ("status", "dose", "--jsn"), ("ask", "dose", "-n", "many"), ("ask", "dose", "-n"), ("fail", "dose")],
)
def test_a_misspelled_command_line_is_refused(bestarm: Program, words: tuple[str, ...]) -> None:
    works(bestarm, "new", "dose.toml")
    before = everything()
    ended = bestarm(*words)
    assert (ended.code, ended.out) == (2, "")
    assert "Traceback" not in ended.err
    assert everything() == before


@pytest.mark.parametrize("command", ["ask", "status", "log", "export"])
def test_a_damaged_file_is_named(bestarm: Program, command: str) -> None:
    works(bestarm, "new", "dose.toml")
    works(bestarm, "ask", "dose", "-n", "3")
    with sqlite3.connect("s.db") as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = Path("s.db").read_bytes()
    Path("s.db").write_bytes(data[:page] + b"\x5a" * (len(data) - page))
    ended = bestarm(command, "dose")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "error: storage = 's.db': is damaged (its pages are malformed); restore it from a copy\n"


def test_a_database_that_fails_is_not_the_users_mistake(bestarm: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise ba.StorageError("storage = 's.db': the disk is full; nothing acknowledged is lost")

    works(bestarm, "new", "dose.toml")
    monkeypatch.setattr(ba.Study, "ask", full)
    ended = bestarm("ask", "dose")
    assert ended == (1, "", "error: storage = 's.db': the disk is full; nothing acknowledged is lost\n")
