"""Checks of studies whose plan is changed on the way."""

from __future__ import annotations

import threading

from bestarm.storage.base import Amendment, MakeAmendment, StudyRecord
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    MakeStorage,
    ask,
    endless,
    ids,
    must_refuse,
    new_study,
    no_rounds,
    one_round,
    pending_ids,
    study_by_arrival,
    values,
)


def _to(plan: str, detail: str = "another plan", *retired: int) -> MakeAmendment:
    return lambda record: Amendment(plan, detail, retired, "retired")


def _more(record: StudyRecord) -> Amendment:
    return Amendment(record.plan + "+", "more")


def check_an_amended_plan_is_read_by_everybody(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        other = make_storage()
        try:
            assert other.look(study) == study
            storage.amend(study.key, "π", _to('{"plan": "π²"}', "π², not π"), ANN)
            amended = study._replace(plan='{"plan": "π²"}', revision=study.revision + 1)
            for one in (storage, other):
                assert one.look(study) == one.find_study(study.name) == one.study(study.key) == amended
        finally:
            other.close()
        assert [(e.kind, e.holder, e.detail) for e in storage.log(study.key)[1:]] == [("amended", ANN, "π², not π")]


def check_an_amendment_that_cannot_be_made_changes_nothing(make_storage: MakeStorage) -> None:
    def fails(record: StudyRecord) -> Amendment:
        raise KeyError(record.name)

    with new_study(make_storage) as (storage, study):
        before = storage.log(study.key)
        try:
            storage.amend(study.key, "this", fails, ANN)
        except KeyError:
            pass
        else:
            raise AssertionError("what the amendment raises must be raised")
        assert (storage.find_study(study.name), storage.log(study.key)) == (study, before)
        storage.archive(study.key, BOB)
        with must_refuse(study.name, "is archived", "--undo"):
            storage.amend(study.key, "this", _more, ANN)
        with must_refuse("no such study"):
            storage.amend(study.key + 1000, "this", _more, ANN)
        found = storage.find_study(study.name)
        assert found is not None
        assert (found.plan, found.revision) == (study.plan, study.revision)


def check_an_amendment_withdraws_what_is_planned(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        plan = one_round((0, 0), (0, 1), (1, 0), (1, 1))
        assert len(storage.hand_out(study.key, 2, ANN, None, 0, plan)) == 2
        storage.amend(study.key, "more", _more, ANN)
        [third] = storage.hand_out(study.key, 1, BOB, None, 0, one_round((2, 0)))
        assert (third.id, third.arm, third.metric) == (3, 2, 0)
        # Those that are out stay out, and can be told. Their round ends with them.
        assert pending_ids(storage, study) == [1, 2, 3]
        for test in (1, 2):
            storage.tell(study.key, test, 1.0, ANN)
        assert values(storage, study) == [1.0, 1.0]
        assert [int(end) for part in storage.entries(study.key, 0) for end in part.ends] == [0, 1]


def check_an_amendment_may_leave_what_is_planned(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        plan = one_round((0, 0), (0, 1), (1, 0))
        storage.hand_out(study.key, 1, ANN, None, 0, plan)
        storage.amend(study.key, "more", lambda record: _more(record)._replace(withdraws=False), ANN)
        rest = storage.hand_out(study.key, 2, ANN, None, 0, no_rounds)
        assert [(test.arm, test.metric) for test in rest] == [(0, 1), (1, 0)]


def check_a_plan_made_before_an_amendment_is_made_again(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        planned = [[[(0, 0)]], [[(5, 0)]]]

        def plan(count: int) -> list[list[tuple[int, int]]]:
            found = planned.pop(0)
            if len(planned) == 1:
                # Another process changes the plan while we decide.
                storage.amend(study.key, "more", _more, BOB)
            return found

        [test] = storage.hand_out(study.key, 1, ANN, None, 0, plan)
        assert test.arm == 5


def check_tests_of_retired_arms_are_given_up(make_storage: MakeStorage) -> None:
    for make in (new_study, study_by_arrival):
        with make(make_storage) as (storage, study):
            ask(storage, study, 4)  # of arms 0, 1, 0, 1
            storage.tell(study.key, 2, 2.0, ANN)
            storage.amend(study.key, "retire", _to("{}", "without 1", 1), BOB)
            assert pending_ids(storage, study) == [1, 3]
            found = storage.test(study.key, 4)
            assert found is not None
            assert found[1] is not None
            assert (found[1].value, found[1].reason, found[1].holder) == (None, "retired", BOB)
            with must_refuse("no such test"):
                storage.tell(study.key, 99, 1.0, ANN)
            # Telling it says that it is given up.
            assert storage.tell(study.key, 4, 4.0, ANN) == found[1]
            storage.tell(study.key, 1, 1.0, ANN)
            storage.tell(study.key, 3, 3.0, ANN)
            if study.by_arrival:
                assert [int(k) for part in storage.arrivals(study.key, 0) for k in part.ids] == [2, 4, 1, 3]
            else:
                assert ids(storage, study) == [1, 2, 3, 4]


def check_an_amendment_under_one_request_is_made_once(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        for _ in range(2):
            storage.amend(study.key, "more", _more, ANN, request="one")
        with must_refuse("one", "something else"):
            storage.amend(study.key, "much more", _more, ANN, request="one")
        storage.amend(study.key, "more", _more, ANN, request="two")
        found = storage.find_study(study.name)
        assert found is not None
        assert (found.plan, found.revision) == (study.plan + "++", study.revision + 2)


def check_amendments_of_many_threads_are_all_made(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        errors: list[BaseException] = []

        def work() -> None:
            mine = make_storage()
            try:
                for _ in range(5):
                    mine.amend(study.key, "more", _more, ANN)
                    mine.hand_out(study.key, 1, ANN, None, 0, endless)
            except BaseException as error:
                errors.append(error)
            finally:
                mine.close()

        workers = [threading.Thread(target=work) for _ in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        if errors:
            raise errors[0]
        found = storage.find_study(study.name)
        assert found is not None
        assert (found.plan, found.revision) == (study.plan + 20 * "+", study.revision + 20)
        assert pending_ids(storage, study) == [*range(1, 21)]
