"""Checks that a call repeated under the same request is done once."""

from __future__ import annotations

from bestarm.storage.base import Storage
from bestarm.testing.storages.common import ANN, BOB, LONG, NewStudy, endless, must_refuse


def check_results_under_one_request_are_given_once(storage: Storage, study: NewStudy) -> None:
    two = [(0, 0, 1.0), (1, 0, 2.0)]
    assert list(storage.give(study.key, two, ANN, "", request="r1")) == [1, 2]
    assert list(storage.give(study.key, two, ANN, "a file", request="r2")) == [3, 4]
    log = storage.log(study.key)
    assert list(storage.give(study.key, two, BOB, "", request="r1")) == [1, 2]
    # A source that is known by its request is not a mistake.
    assert list(storage.give(study.key, two, ANN, "a file", request="r2")) == [3, 4]
    with must_refuse("a file", "already"):
        storage.give(study.key, two, ANN, "a file", request="r3")
    for other in (two[:1], [(0, 0, 1.0), (1, 0, 2.5)], [(0, 0, 1.0), (0, 0, 2.0)]):
        with must_refuse("r1", "something else"):
            storage.give(study.key, other, ANN, "", request="r1")
    assert storage.log(study.key) == log
    # Requests belong to their study, and outlive the process that made them.
    second = study.another()
    assert list(storage.give(second.key, two, ANN, "", request="r1")) == [1, 2]
    again = study.open_again()
    assert list(again.give(study.key, two, ANN, "", request="r1")) == [1, 2]
    # Even if the study has been archived since.
    again.archive(study.key, BOB)
    assert list(again.give(study.key, two, ANN, "", request="r1")) == [1, 2]
    assert study.values() == [1.0, 2.0, 1.0, 2.0]


def check_tests_under_one_request_are_handed_out_once(storage: Storage, study: NewStudy) -> None:
    def ask(request: str, holder: str = ANN, count: int = 2) -> list[int]:
        return [test.id for test in storage.hand_out(study.key, count, holder, LONG, 0, endless, request=request)]

    assert ask("r1") == [1, 2]
    assert ask("r1") == [1, 2]
    assert ask("r1", BOB) == [3, 4]
    assert ask("r2") == [5, 6]
    # Tests that were told or freed meanwhile are no longer theirs to make.
    storage.release(study.key, [2], ANN)
    assert ask("r1") == [1]
    assert ask("r3", BOB, 1) == [2]
    assert ask("r1") == [1]
    # It does not depend on whether there is anything to plan, either.
    again = storage.hand_out(study.key, 2, ANN, LONG, 0, lambda _: [], request="r1")
    assert [test.id for test in again] == [1]
    storage.tell(study.key, 1, 1.0, ANN)
    assert study.pending_ids() == [2, 3, 4, 5, 6]


def check_everything_of_a_holder_is_freed_once(storage: Storage, study: NewStudy) -> None:
    study.ask(3, ANN)
    storage.tell(study.key, 2, 1.0, ANN)
    assert storage.release_held_by(study.key, ANN, BOB, request="r1") == [1, 3]
    assert study.ask_ids(2, ANN) == [1, 3]
    # The tests that they hold now are not the ones that were meant.
    assert storage.release_held_by(study.key, ANN, BOB, request="r1") == []
    assert all(row.expires > 0.0 for row in storage.pending(study.key))
    assert storage.release_held_by(study.key, ANN, BOB, request="r2") == [1, 3]
    assert storage.release_held_by(study.key, "a stranger", BOB) == []


def check_what_is_noted_under_one_request_is_noted_once(storage: Storage, study: NewStudy) -> None:
    study.ask(3, ANN)
    for _ in range(2):
        storage.set_aside(study.key, 1, ANN, "failed", "broke", request="r1")
        storage.fail(study.key, 2, BOB, "power", request="r2")
        storage.release(study.key, [3], BOB, request="r3")
        # Another holder has them by now. Repeating an earlier call does not take them away again.
        study.ask(2, "cleo")
    noted = [event.kind for event in storage.log(study.key) if event.kind not in ("created", "asked")]
    assert noted == ["set aside", "failed", "released"]
    holders = {test.id: test.holder for test in storage.pending(study.key) if test.expires > 0.0}
    assert (holders[2], holders[3]) == ("cleo", "cleo")


def check_a_study_is_made_once_under_a_request(storage: Storage, study: NewStudy) -> None:
    made = storage.create_study(study.name + " twice", "{}", seed=1, request="r1")
    assert storage.create_study(made.name, "{}", seed=1, request="r1") == made
    with must_refuse("exists already"):
        storage.create_study(made.name, "{}", seed=1, request="r2")
    with must_refuse("exists already"):
        storage.create_study(made.name, "{}", seed=1)
    assert [record.name for record in storage.studies()].count(made.name) == 1
