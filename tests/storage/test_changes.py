"""Whether anything has been written, as the dashboard asks twice a second."""

from __future__ import annotations

import multiprocessing

import bestarm as ba
from bestarm.storage.opening import open_storage
from bestarm.study import Study


def new_study(url: str) -> Study:
    return Study.create(ba.instance("exp1-a"), storage=url)


def test_the_mark_changes_when_something_is_written(database_url: str) -> None:
    other = new_study(database_url)
    storage = open_storage(database_url)
    seen = storage.change_mark()
    assert seen is not None
    other.status()
    assert storage.change_mark() == seen
    for change in (lambda: other.ask(2), lambda: other.tell(1, 0.5), lambda: other.archive()):
        change()
        before, seen = seen, storage.change_mark()
        assert seen not in (before, None)
        assert storage.change_mark() == seen
    storage.close()
    # Closed storages open again; what was written meanwhile is not known.
    assert storage.change_mark() not in (seen, None)
    storage.close()
    other.storage.close()


def test_of_what_the_storage_itself_writes_too(database_url: str) -> None:
    study = new_study(database_url)
    seen = study.storage.change_mark()
    study.ask()
    assert study.storage.change_mark() not in (seen, None)
    study.storage.close()


def test_a_database_in_memory_cannot_be_told() -> None:
    assert new_study(":memory:").storage.change_mark() is None


def test_a_child_does_not_use_its_parents_connection(database_url: str) -> None:
    study = new_study(database_url)
    mark = study.storage.change_mark()
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    child = context.Process(target=lambda: answers.put(study.storage.change_mark()))
    child.start()
    child.join()
    assert answers.get() is None
    assert study.storage.change_mark() == mark
    study.storage.close()
