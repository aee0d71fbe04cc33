"""Studies that are deleted: nothing of them remains but an act, and no other study is taken for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from io import BytesIO, StringIO
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.storage.problem import measure, problem

import bestarm as ba
from bestarm.storage.errors import StudyArchived, StudyNotArchived
from bestarm.storage.sql import schema
from bestarm.storage.sql.storage import SQLStorage
from bestarm.study.files.backup import restore_backup, write_backup
from bestarm.validation import NotFound


@pytest.fixture
def storage(database_url: str) -> Iterator[SQLStorage]:
    with closing(SQLStorage(database_url, create=True)) as made:
        yield made


def new_study(storage: SQLStorage, name: str, *, tests: int = 4, order: str = "arrival") -> ba.Study:
    """With rows in every table: results, a correction, a failure, a former holder, a source, tests that are out."""
    stated = problem()
    plan = ba.Plan(stated.arms, stated.objective, stated.constraints, name=name, delta=0.05, order=order)  # type: ignore[arg-type]
    study = ba.Study.create(plan, storage=storage, holder="ann")
    asked = study.ask(tests + 2)
    for test in asked[:tests]:
        study.tell(test, measure(test))
    if tests:
        study.correct(asked[0], measure(asked[0]) + 1.0, "typing")
        study.fail(asked[tests], "the well dried")
    return study


def rows(storage: SQLStorage, key: int) -> dict[str, int]:
    """How many rows each table has about a study."""
    return {
        name: storage._database.scalar(sa.select(sa.func.count()).select_from(table).where(table.c.study == key))
        for name, table in schema.metadata.tables.items()
        if "study" in table.c
    }


def test_nothing_remains_but_an_act(storage: SQLStorage) -> None:
    study, other = new_study(storage, "cache"), new_study(storage, "other")
    key, before = study.record.key, rows(storage, other.record.key)
    assert sum(rows(storage, key).values()) > 12
    with pytest.raises(StudyNotArchived, match="'cache': is not archived"):
        storage.delete(key, "bob")
    assert study.status().tests == 4
    study.move("lab-a")
    study.archive()
    storage.delete(key, "bob")
    assert {name for name, count in rows(storage, key).items() if count} == {"bestarm_acts"}
    assert rows(storage, other.record.key) == before
    [act] = storage.acts()
    assert (act.kind, act.who, act.subject, act.study) == ("study deleted", "bob", "cache", key)
    assert act.detail.startswith("6 tests, 4 with an outcome; made 20")
    assert act.detail.endswith("; in the project lab-a")
    # A repeat, as after a lost connection, changes nothing.
    storage.delete(key, "bob")
    assert storage.acts() == [act]
    assert [record.name for record in storage.studies()] == ["other"]
    with pytest.raises(ba.InvalidInput, match="no such study"):
        storage.delete(key + 100, "bob")


def test_no_study_is_taken_for_one_that_was_deleted(storage: SQLStorage) -> None:
    """Neither by its name nor by its number."""
    old = new_study(storage, "cache", tests=0)
    old.archive()
    backup = StringIO()
    write_backup(storage, old.record, backup)
    storage.delete(old.record.key, "bob")
    new = new_study(storage, "cache", tests=0)
    assert new.record.key > old.record.key
    for act in (lambda: old.ask(1), lambda: old.tell(1, 0.5)):
        with pytest.raises(ba.InvalidInput, match=r"is no longer in|no such"):
            act()
    assert new.status().tests == 0
    with pytest.raises(NotFound, match="is no longer in"):
        old.status()
    new.archive()
    storage.delete(new.record.key, "bob")
    # What is restored from a backup gets a number of its own, too.
    restore_backup(storage, BytesIO(backup.getvalue().encode()), "cache.backup", by="eve")
    restored = storage.find_study("cache")
    assert restored is not None
    assert restored.key > new.record.key
    acts = [(act.kind, act.who, act.study) for act in storage.acts()]
    deleted = [("study deleted", "bob", study.record.key) for study in (old, new)]
    assert acts == [*deleted, ("study imported", "eve", restored.key)]


def test_a_file_holds_nothing_of_it_any_more(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    with closing(SQLStorage(str(path), create=True)) as storage:
        study = new_study(storage, "cache", tests=50)
        said = [b"the well dried", b"typing", b'"risk"']
    assert all(words in path.read_bytes() for words in said)
    with closing(SQLStorage(str(path))) as storage:
        storage.archive(study.record.key, "ann")
        storage.delete(study.record.key, "bob")
    assert [words for words in said if words in path.read_bytes()] == []


@pytest.mark.parametrize("order", ["issue", "arrival"])
def test_workers_notice(order: str, storage: SQLStorage) -> None:
    """Results that arrive while the study is put away and deleted are refused, or are gone with it."""
    study = new_study(storage, "cache", tests=0, order=order)
    study.release([test for test, _ in study.pending()])
    began = threading.Event()
    refused: list[Exception] = []

    def work() -> None:
        mine = ba.Study.open("cache", storage=storage, holder="worker")
        try:
            while not mine.done:
                for test in mine.ask(1):
                    mine.tell(test, measure(test))
                    began.set()
        except ba.InvalidInput as error:
            refused.append(error)
        finally:
            began.set()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    began.wait()
    with suppress(StudyArchived):
        study.archive()
    storage.delete(study.record.key, "bob")
    for thread in threads:
        thread.join()
    assert {name for name, count in rows(storage, study.record.key).items() if count} == {"bestarm_acts"}
    assert all("archived" in str(error) or "no longer in" in str(error) or "no such" in str(error) for error in refused)
