"""Backup and restore: a study goes from one database to another and back, whole or not at all."""

from __future__ import annotations

import hashlib
import io
import json
import math
from pathlib import Path
from typing import Any

import pytest
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.base import Storage
from bestarm.storage.errors import NameTaken
from bestarm.storage.opening import open_storage
from bestarm.study.files.backup import Backup, Restored, restore_backup, write_backup, write_backup_of_all


def result(items: int | None, item: int) -> Any:
    """One that was measured without asking."""
    values = {"gain": -0.0, "harm": 0.1}
    return ("a", values) if items is None else ("a", values, item)


def eventful(storage: Storage, order: Any = "issue", items: int | None = None) -> ba.Study:
    """A study in which everything has happened that can."""
    plan = ba.Plan(
        arms=["a", "b", "c"],
        objective=ba.maximize("gain", noise=ba.Bounded(-10.0, 10.0)),
        constraints=[ba.at_most("harm", 0.5, noise=ba.Bounded(-10.0, 10.0))],
        measurements=[ba.measurement("gain", "harm", cost=2.0)],
        items=items,
        order=order,
        reserve=0.1 if items is None else 0.0,
        budget=ba.Budget(tests=500),
        name="eventful µ",
    )
    items_seed = None if items is None else 8
    study = ba.Study.create(plan, storage=storage, seed=7, items_seed=items_seed, holder="inf")
    study.add([result(items, 3)], source="sha256:x", key="z")
    tests = study.ask(9, days=math.inf)
    for k, test in enumerate(tests[:5]):
        study.tell(test, {"gain": 0.1 * k, "harm": 1 / 3})
    study.correct(tests[0], {"gain": 1e-7, "harm": 0.2}, "typing")
    study.set_aside(tests[5], "it is on fire")
    study.fail(tests[6], "power")
    study.abandon(tests[7], "gone")
    if items is None:
        study.add_arms(["d"])
        study.retire("c", "sold out")
    study.extend(100)
    bob = ba.Study.open(study.name, storage=storage, holder="bob")
    bob.release([tests[8]])
    bob.ask(2, lease=1000.0, key="Ärger")
    return study


def backed_up(storage: Storage, name: str) -> tuple[str, Backup]:
    out = io.StringIO()
    record = storage.find_study(name)
    assert record is not None
    made = write_backup(storage, record, out)
    return out.getvalue(), made


def restored(storage: Storage, text: str, name: str | None = None, project: str | None = None) -> Backup:
    [made] = restore_backup(storage, io.BytesIO(text.encode()), "the file", name=name, project=project).studies
    return made


def check_same(one: ba.Study, two: ba.Study) -> None:
    assert two.plan == one.plan
    for field in ("seed", "items_seed", "created", "revision"):
        assert getattr(two.record, field) == getattr(one.record, field)
    assert two.status().to_dict() | {"awaited": None} == one.status().to_dict() | {"awaited": None}
    assert two.log() == one.log()
    assert two.pending() == one.pending()
    histories = [list(study.storage.history(study.record.key)) for study in (one, two)]
    assert histories[0] == histories[1]


@pytest.mark.parametrize(("order", "items"), [("issue", None), ("arrival", None), ("issue", 20)])
def test_a_study_goes_elsewhere_and_on_as_it_would_have(tmp_path: Path, order: str, items: int | None) -> None:
    first = open_storage(tmp_path / "a.db", create=True)
    second = open_storage(tmp_path / "b.db", create=True)
    ba.Study.create(ba.Plan(arms=["x"], objective=ba.maximize("y", noise=ba.Exact())), storage=second, name="other")
    study = eventful(first, order, items)
    text, made = backed_up(first, study.name)
    assert restored(second, text) == made
    again = ba.Study.open(study.name, storage=second, holder="inf")
    check_same(study, again)
    # A repeat is recognized there, too, and so is a file.
    assert list(again.add([result(items, 3)], key="z")) == [1]
    with pytest.raises(ba.InvalidInput, match="recorded in this study already"):
        again.add([result(items, 4)], source="sha256:x")
    for _ in range(5):
        asked = [one.ask(3, days=math.inf) for one in (study, again)]
        assert asked[0] == asked[1]
        for one in (study, again):
            for test in asked[0]:
                one.tell(test, {"gain": 0.1 * (test.id % 7), "harm": 0.25})
    assert repr(study.status().arms) == repr(again.status().arms)
    first.close()
    second.close()


@pytest.mark.parametrize("order", ["issue", "arrival"])
def test_from_sqlite_to_postgresql_and_back(postgres_server: PostgresServer, tmp_path: Path, order: str) -> None:
    here, there, back = (
        open_storage(url, create=True)
        for url in (str(tmp_path / "a.db"), postgres_server.new_database(), str(tmp_path / "b.db"))
    )
    study = eventful(here, order)
    text, made = backed_up(here, study.name)
    assert restored(there, text) == made
    check_same(study, ba.Study.open(study.name, storage=there))
    moved, digest = backed_up(there, study.name)
    assert (moved, digest) == (text, made)
    assert restored(back, moved) == made
    assert backed_up(back, study.name) == (text, made)
    # What comes next is numbered after what there is.
    for storage in (there, back):
        other = ba.Study.open(study.name, storage=storage, holder="eve")
        other.tell(other.ask(1)[0], {"gain": 0.0, "harm": 0.0})
        other.status()
    for storage in (here, there, back):
        storage.close()


def test_long_studies_are_copied_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("bestarm.storage.sql.copies._PAGE", "bestarm.study.files.backup._BATCH"):
        monkeypatch.setattr(name, 3)
    here, there = (open_storage(tmp_path / name, create=True) for name in ("a.db", "b.db"))
    study = eventful(here, "arrival")
    text, made = backed_up(here, study.name)
    monkeypatch.undo()
    assert backed_up(here, study.name) == (text, made)
    monkeypatch.setattr("bestarm.study.files.backup._BATCH", 3)
    assert restored(there, text) == made
    assert backed_up(there, study.name) == (text, made)
    here.close()
    there.close()


def test_under_another_name(tmp_path: Path) -> None:
    storage = open_storage(tmp_path / "a.db", create=True)
    study = eventful(storage)
    text, _ = backed_up(storage, study.name)
    with pytest.raises(NameTaken, match=r"exists already in "):
        restored(storage, text)
    assert restored(storage, text, "copy").name == "copy"
    copy = ba.Study.open("copy", storage=storage)
    assert copy.plan == ba.Plan.of(study.plan, name="copy")
    assert copy.status().tests == study.status().tests
    storage.close()


def all_of(storage: Storage) -> str:
    out = io.StringIO()
    made = write_backup_of_all(storage, out)
    assert [one.name for one in made.studies] == [record.name for record in storage.studies()]
    assert made.rows == sum(one.rows for one in made.studies)
    return out.getvalue()


def restored_all(storage: Storage, text: str) -> Restored:
    return restore_backup(storage, io.BytesIO(text.encode()), "the file", by="eve")


def three_studies(storage: Storage) -> list[ba.Study]:
    """One of each kind."""
    made = [eventful(storage, order, items) for order, items in (("issue", None),)]
    for name, order, items in (("by arrival", "arrival", None), ("on items", "issue", 20)):
        kept = open_storage(":memory:", create=True)
        text, _ = backed_up(kept, eventful(kept, order, items).name)
        restored(storage, text, name)
        made.append(ba.Study.open(name, storage=storage))
    return made


def test_all_studies_go_elsewhere_and_back(database_url: str, tmp_path: Path) -> None:
    here, there, back = (
        open_storage(url, create=True) for url in (str(tmp_path / "a.db"), database_url, str(tmp_path / "b.db"))
    )
    studies = three_studies(here)
    text = all_of(here)
    made = restored_all(there, text)
    assert ([one.name for one in made.studies], made.there, made.differ) == ([one.name for one in studies], [], [])
    for study in studies:
        check_same(study, ba.Study.open(study.name, storage=there))
    assert all_of(there) == text
    restored_all(back, all_of(there))
    assert all_of(back) == text
    assert [(act.kind, act.who, act.subject) for act in there.acts()] == [
        ("study imported", "eve", study.name) for study in studies
    ]
    # Each goes on.
    for study in (ba.Study.open(one.name, storage=back, holder="eve") for one in studies):
        [test] = study.ask(1)
        study.tell(test, {"gain": 0.0, "harm": 0.0})
    for storage in (here, there, back):
        storage.close()


def test_what_is_there_stays_as_it_is(tmp_path: Path) -> None:
    here, there = (open_storage(tmp_path / name, create=True) for name in ("a.db", "b.db"))
    assert restored_all(there, all_of(here)) == Restored([], [], [])
    studies = three_studies(here)
    text = all_of(here)
    one, _ = backed_up(here, studies[1].name)
    restored(there, one)
    made = restored_all(there, text)
    assert [one.name for one in made.studies] == [studies[0].name, studies[2].name]
    assert (made.there, made.differ) == ([studies[1].name], [])
    again = restored_all(there, text)
    assert (again.studies, again.there, again.differ) == ([], [one.name for one in studies], [])
    ba.Study.open(studies[0].name, storage=there).extend(1)
    now = all_of(there)
    assert restored_all(there, text).differ == [studies[0].name]
    assert all_of(there) == now
    with pytest.raises(ba.InvalidInput, match=r"name = 'x': is for the file of one study"):
        restored(there, text, "x")
    here.close()
    there.close()


def test_of_all_studies_none_is_restored_if_one_cannot_be(tmp_path: Path) -> None:
    here, there = (open_storage(tmp_path / name, create=True) for name in ("a.db", "b.db"))
    three_studies(here)
    text = all_of(here)
    lines = text.splitlines()
    heads = [k for k, line in enumerate(lines) if line.startswith('{"kind":"bestarm study"')]
    last = lines[heads[2] : -1]
    bad = {
        text[: len(text) // 2]: "is not complete",
        text[:-1]: "is not complete",
        "\n".join(lines[:-1]) + "\n": "is not complete",
        text + lines[-1] + "\n": "something follows its last line",
        text.replace("typing", "tipping", 1): "is damaged",
        # One study left out, and one twice.
        "\n".join([*lines[: heads[1]], *lines[heads[2] :]]) + "\n": "is damaged",
        _all_signed([*lines[:-1], *last]): "a study of this name exists already",
        _all_signed([*lines[:-1], lines[0]]): "is not a backup",
        _all_signed([*lines[: heads[2]], *_signed([last[0]]).splitlines()]): "there is no study of the name",
        _all_signed([*lines[: heads[2]], *_signed([last[0], *last[3:-1]]).splitlines()]): "contradict each other",
        _all_signed([*lines[: heads[2]], *_signed([*last[:-1], "[1]"]).splitlines()]): "does not fit",
        _all_signed([*lines[: heads[2]], *_signed(["[]"]).splitlines()]): "is not a backup",
    }
    for changed, words in bad.items():
        with pytest.raises(ba.InvalidInput, match=words):
            restored_all(there, changed)
        assert there.studies() == []
        assert there.acts() == []
    restored_all(there, text)
    assert all_of(there) == text
    here.close()
    there.close()


def _all_signed(lines: list[str]) -> str:
    """As `_signed`, for a file of all studies."""
    body, end = _signed(lines).rsplit("\n", 2)[:2]
    studies = sum(line.startswith('{"rows"') for line in lines)
    return f"{body}\n" + json.dumps({"studies": studies, **json.loads(end)}) + "\n"


def test_the_project_comes_along(tmp_path: Path) -> None:
    """Unless another is stated. Earlier versions wrote none."""
    storage = open_storage(tmp_path / "a.db", create=True)
    study = eventful(storage)
    study.move("lab-a")
    text, _ = backed_up(storage, study.name)
    head, columns, row, *rest = text.splitlines()[:-1]
    place = json.loads(columns)["columns"].index("project")
    listed, values = json.loads(columns), json.loads(row)
    assert (listed["columns"].pop(place), values.pop(place)) == ("project", "lab-a")
    old = _signed([head, json.dumps(listed), json.dumps(values), *rest])
    wrong = _signed([head, columns, row.replace('"lab-a"', '"@"'), *rest])
    for k, (file, stated, expected) in enumerate(
        [(text, None, "lab-a"), (text, "lab-b", "lab-b"), (old, None, "default"), (old, "lab-b", "lab-b")]
    ):
        restored(storage, file, f"copy {k}", stated)
        copy = ba.Study.open(f"copy {k}", storage=storage)
        assert (copy.project, copy.record.project) == (expected, expected)
        assert list(storage.history(copy.record.key)) == list(storage.history(study.record.key))
    with pytest.raises(ba.InvalidInput, match="the file: cannot be restored: project = '@': must be text"):
        restored(storage, wrong, "bad")
    with pytest.raises(ba.InvalidInput, match=r"^project = 'a/b': must be text"):
        restored(storage, text, "bad", "a/b")
    assert len(storage.studies()) == 5
    storage.close()


def _signed(lines: list[str]) -> str:
    """A file with the right digest and number of rows, whatever is in it."""
    body = "".join(f"{line}\n" for line in lines)
    digest = hashlib.sha256(body.encode()).hexdigest()
    rows = sum(line.startswith("[") for line in lines)
    return body + json.dumps({"rows": rows, "digest": f"sha256:{digest}"}) + "\n"


def _with(lines: list[str], column: str, value: object) -> str:
    """The line of the study's own entry, with another value in it."""
    row = json.loads(lines[2])
    row[json.loads(lines[1])["columns"].index(column)] = value
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


def test_what_is_not_whole_or_makes_no_sense_leaves_nothing_behind(tmp_path: Path) -> None:
    here, there = (open_storage(tmp_path / name, create=True) for name in ("a.db", "b.db"))
    text, _ = backed_up(here, eventful(here).name)
    lines = text.splitlines()
    body = lines[:-1]
    tests = next(k for k, line in enumerate(lines) if line.startswith('{"table":"tests"'))
    outcomes = next(k for k, line in enumerate(lines) if line.startswith('{"table":"outcomes"'))
    bad = {
        "": "is empty",
        "arm,metric,value\n": "is not a backup",
        "[]\n": "is not a backup",
        text.replace('"format":1', '"format":2', 1): "another version",
        "\n".join(lines[:-1]) + "\n": "is not complete",
        text[:-1]: "is not complete",
        text[: len(text) // 2]: "is not complete",
        text.replace("typing", "tipping"): "is damaged",
        "\n".join([*lines[:5], *lines[6:]]) + "\n": "is damaged",
        text.replace('{"rows": ', '{"rows": 1'): "miscounts",
        text.replace('{"rows": ', '{"rows": 1e999, "digits": '): "miscounts",
        _signed([*body, '[{"number":"1' + "0" * 400 + '"}]']): "does not fit|makes no sense",
        _signed([*body, '[{"number":1' + "0" * 400 + "}]"]): "makes no sense",
        _signed([*body, "[" + "[]," * 600_000 + "[]]"]): "too many values|makes no sense",
        _signed([*body[:2], _with(body, "name", "another")]): "is not the name in its plan",
        _signed([*body[:2], _with(body, "name", "")]): "is not the name in its plan",
        _signed([*body[:2], _with(body, "revision", 2**31 - 1)]): "revision = 2,147,483,647|revision = 2147483647",
        _signed(body[:1]): "there is no study",
        _signed([body[0], *body[3:]]): "own entry first",
        _signed([body[0], body[2]]): "a row comes before its table",
        _signed([*body[: tests + 1], *body[outcomes:]]): "contradict each other|refer to what is not there",
        _signed([*body[: tests + 2], *body[tests + 1 :]]): "contradict each other",
        _signed([*body, '{"table":"tokens","columns":["name"]}', '["x"]']): "is not a part of a study",
        _signed([*body, '{"table":"tests","columns":["test"]}', "[1]"]): "other columns",
        _signed([*body[:tests], body[tests], '[1,1,0,"x",0,0,1.0,null]']): "does not fit",
        _signed([*body[:tests], body[tests], "[1,1,0,99999999999,0,0,1.0,null]"]): "does not fit",
        _signed([*body[:tests], body[tests], "[1,1]"]): "does not fit",
        _signed([*body, '{"nothing":1}']): "makes no sense",
        _signed([*body[:2], body[2].replace('\\"delta\\"', '\\"dalta\\"')]): "its plan cannot be read",
    }
    for changed, words in bad.items():
        with pytest.raises(ba.InvalidInput, match=words):
            restored(there, changed)
        assert there.studies() == []
    restored(there, text)
    assert len(there.studies()) == 1
    here.close()
    there.close()
