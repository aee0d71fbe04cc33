"""Checks of studies whose plan is changed on the way."""

from __future__ import annotations

from bestarm.storage.base import Amendment, MakeAmendment, Storage, StudyRecord
from bestarm.storage.errors import BlockUnfinished
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    NewStudy,
    endless,
    must_raise,
    must_refuse,
    no_rounds,
    one_round,
    run_in_threads,
)


def _to(plan: str, detail: str = "another plan", *retired: int) -> MakeAmendment:
    return lambda record: Amendment(plan, detail, retired, "retired")


def _more(record: StudyRecord) -> Amendment:
    return Amendment(record.plan + "+", "more")


def check_an_amended_plan_is_read_by_all(storage: Storage, study: NewStudy) -> None:
    other = study.open_again()
    before = study.record
    assert other.look(before) == before
    storage.amend(study.key, "π", _to('{"plan": "π²"}', "π², not π"), ANN)
    amended = before._replace(plan='{"plan": "π²"}', revision=before.revision + 1)
    for one in (storage, other):
        assert one.look(before) == one.find_study(study.name) == one.study(study.key) == amended
    assert [(e.kind, e.holder, e.detail) for e in storage.log(study.key)[1:]] == [("amended", ANN, "π², not π")]


def check_an_amendment_that_cannot_be_made_changes_nothing(storage: Storage, study: NewStudy) -> None:
    def fails(record: StudyRecord) -> Amendment:
        raise KeyError(record.name)

    before = study.seen()
    with must_raise(KeyError):
        storage.amend(study.key, "this", fails, ANN)
    assert study.seen() == before
    storage.archive(study.key, BOB)
    with must_refuse(study.name, "is archived", "--undo"):
        storage.amend(study.key, "this", _more, ANN)
    with must_refuse("no such study"):
        storage.amend(study.key + 1000, "this", _more, ANN)
    assert study.found()._replace(archived=None) == study.record


def check_an_amendment_withdraws_what_is_planned(storage: Storage, study: NewStudy) -> None:
    plan = one_round((0, 0), (0, 1), (1, 0), (1, 1))
    assert len(storage.hand_out(study.key, 2, ANN, None, 0, plan)) == 2
    storage.amend(study.key, "more", _more, ANN)
    [third] = storage.hand_out(study.key, 1, BOB, None, 0, one_round((2, 0)))
    assert (third.id, third.arm, third.metric) == (3, 2, 0)
    # Those that are out stay out, and can be told. Their round ends with them.
    assert study.pending_ids() == [1, 2, 3]
    for test in (1, 2):
        storage.tell(study.key, test, 1.0, ANN)
    assert study.values() == [1.0, 1.0]
    assert [int(end) for part in storage.entries(study.key, 0) for end in part.ends] == [0, 1]


def check_an_amendment_may_leave_what_is_planned(storage: Storage, study: NewStudy) -> None:
    plan = one_round((0, 0), (0, 1), (1, 0))
    storage.hand_out(study.key, 1, ANN, None, 0, plan)
    storage.amend(study.key, "more", lambda record: _more(record)._replace(withdraws=False), ANN)
    rest = storage.hand_out(study.key, 2, ANN, None, 0, no_rounds)
    assert [(test.arm, test.metric) for test in rest] == [(0, 1), (1, 0)]


def check_an_amendment_may_wait_for_what_is_planned(storage: Storage, study: NewStudy) -> None:
    def change(record: StudyRecord) -> Amendment:
        return _more(record)._replace(waits=True)

    storage.hand_out(study.key, 1, ANN, None, 0, one_round((0, 0, 20), (1, 0, 21)))
    before = study.seen()
    with must_refuse("not been handed out", kind=BlockUnfinished):
        storage.amend(study.key, "more", change, ANN)
    assert study.seen() == before
    storage.hand_out(study.key, 1, ANN, None, 0, no_rounds)
    storage.amend(study.key, "more", change, ANN)
    assert study.found().plan.endswith("+")


def check_a_plan_made_before_an_amendment_is_made_again(storage: Storage, study: NewStudy) -> None:
    planned = [[[(0, 0)]], [[(5, 0)]]]

    def plan(count: int) -> list[list[tuple[int, int]]]:
        found = planned.pop(0)
        if len(planned) == 1:
            # Another process changes the plan while we decide.
            storage.amend(study.key, "more", _more, BOB)
        return found

    [test] = storage.hand_out(study.key, 1, ANN, None, 0, plan)
    assert test.arm == 5


def check_tests_of_retired_arms_are_given_up(storage: Storage, study: NewStudy) -> None:
    for each in (study, study.another(by_arrival=True)):
        key = each.key
        each.ask(4)  # of arms 0, 1, 0, 1
        storage.tell(key, 2, 2.0, ANN)
        storage.amend(key, "retire", _to("{}", "without 1", 1), BOB)
        assert each.pending_ids() == [1, 3]
        given_up = each.outcome(4)
        assert (given_up.value, given_up.reason, given_up.holder) == (None, "retired", BOB)
        with must_refuse("no such test"):
            storage.tell(key, 99, 1.0, ANN)
        # Telling it says that it is given up.
        assert storage.tell(key, 4, 4.0, ANN) == given_up
        storage.tell(key, 1, 1.0, ANN)
        storage.tell(key, 3, 3.0, ANN)
        assert each.ids() == [1, 2, 3, 4]
    assert [int(k) for part in storage.arrivals(key, 0) for k in part.ids] == [2, 4, 1, 3]


def check_an_amendment_under_one_request_is_made_once(storage: Storage, study: NewStudy) -> None:
    for _ in range(2):
        storage.amend(study.key, "more", _more, ANN, request="one")
    with must_refuse("one", "something else"):
        storage.amend(study.key, "much more", _more, ANN, request="one")
    storage.amend(study.key, "more", _more, ANN, request="two")
    assert study.found() == study.record._replace(plan=study.record.plan + "++", revision=2)


def check_amendments_of_many_threads_are_all_made(storage: Storage, study: NewStudy) -> None:
    def work() -> None:
        mine = study.open_again()
        for _ in range(5):
            mine.amend(study.key, "more", _more, ANN)
            mine.hand_out(study.key, 1, ANN, None, 0, endless)

    run_in_threads(*[work] * 4)
    assert study.found() == study.record._replace(plan=study.record.plan + 20 * "+", revision=20)
    assert study.pending_ids() == [*range(1, 21)]
