"""Checks of handing out: order, leases, and who may let go."""

from __future__ import annotations

import time

from bestarm.study.storage import Issued, Outcome, Rounds
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    LONG,
    SHORT,
    MakeStorage,
    ask,
    ids,
    new_study,
    no_rounds,
    pending_ids,
    values,
)


def check_tests_are_issued_in_order(make_storage: MakeStorage) -> None:
    """Rounds are handed out in pieces, and asked for only when what is planned has been handed out."""
    wanted: list[int] = []

    def plan(count: int) -> Rounds:
        wanted.append(count)
        return [[(0, 1), (1, 0), (2, 2)], [(3, 0)]] if len(wanted) < 3 else []

    with new_study(make_storage) as (storage, study):

        def ask(count: int) -> list[Issued]:
            return storage.hand_out(study.key, count, ANN, LONG, 0, plan)

        assert ask(2) == [Issued(1, 0, 1), Issued(2, 1, 0)]
        assert ask(1) == [Issued(3, 2, 2)]
        assert wanted == [2]
        assert ask(3) == [Issued(4, 3, 0), Issued(5, 0, 1), Issued(6, 1, 0)]
        assert wanted == [2, 2]
        assert ask(9) == [Issued(7, 2, 2), Issued(8, 3, 0)]
        assert wanted == [2, 2, 7]
        assert storage.issued(study.key) == 8
        assert [(test.id, test.holder, test.attempts) for test in storage.pending(study.key)] == [
            (k, ANN, 1) for k in range(1, 9)
        ]
        assert [test.ends for test in storage.history(study.key)] == [False, False, True, True] * 2


def check_planning_sees_what_was_handed_out(make_storage: MakeStorage) -> None:
    seen: list[list[int]] = []
    with new_study(make_storage) as (storage, study):

        def plan(count: int) -> Rounds:
            seen.append([*pending_ids(storage, study), storage.issued(study.key), *ids(storage, study, gaps=True)])
            return [[(0, 0)]] if len(seen) < 4 else []

        storage.hand_out(study.key, 2, ANN, LONG, 0, plan)
        storage.tell(study.key, 1, 1.0, ANN)
        storage.hand_out(study.key, 5, ANN, LONG, 1, plan)
        assert seen == [[0], [1, 1], [2, 2, 1], [2, 3, 3, 1]]


def check_a_failing_plan_changes_nothing(make_storage: MakeStorage) -> None:
    def plan(count: int) -> Rounds:
        if count < 3:
            raise ZeroDivisionError
        return [[(0, 0)]]

    with new_study(make_storage) as (storage, study):
        ask(storage, study, 2, lease=SHORT)
        time.sleep(2 * SHORT)
        before = storage.log(study.key), storage.pending(study.key)
        try:
            storage.hand_out(study.key, 5, BOB, LONG, 0, plan)
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("what the plan raises must come through")
        assert (storage.log(study.key), storage.pending(study.key)) == before
        assert [test.id for test in ask(storage, study, 3, holder=BOB)] == [1, 2, 3]


def check_a_lease_that_ran_out_is_handed_out_again(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        ask(storage, study, 4, holder=ANN, lease=SHORT)
        storage.tell(study.key, 2, 2.0, ANN)
        time.sleep(2 * SHORT)
        again = storage.hand_out(study.key, 2, BOB, LONG, 0, no_rounds)
        assert [test.id for test in again] == [1, 3]
        assert [(test.id, test.holder, test.attempts) for test in storage.pending(study.key)] == [
            (1, BOB, 2),
            (3, BOB, 2),
            (4, ANN, 1),
        ]
        # The first holder is late, and welcome once; then the second is.
        assert storage.tell(study.key, 1, 1.0, ANN) is None
        assert storage.tell(study.key, 1, 9.0, BOB) == Outcome(1.0, None, ANN)
        assert storage.tell(study.key, 3, 3.0, BOB) is None
        assert storage.tell(study.key, 3, 9.0, ANN) == Outcome(3.0, None, BOB)
        # What is left goes before anything new.
        assert [test.id for test in ask(storage, study, 2, holder=BOB)] == [4, 5]
        assert values(storage, study) == [1.0, 2.0, 3.0]


def check_a_live_lease_has_one_holder(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        mine, yours = ask(storage, study, 3, holder=ANN), ask(storage, study, 3, holder=BOB)
        assert {test.id for test in mine} | {test.id for test in yours} == {1, 2, 3, 4, 5, 6}
        assert storage.hand_out(study.key, 5, BOB, LONG, 0, no_rounds) == []


def check_only_the_holder_can_let_go(make_storage: MakeStorage) -> None:
    with new_study(make_storage) as (storage, study):
        ask(storage, study, 6, holder=ANN)
        before = {test.id: test.expires for test in storage.pending(study.key)}
        storage.renew(study.key, [1, 2, 10**6], ANN, 2 * LONG)
        storage.renew(study.key, [3, 4], BOB, 2 * LONG)
        gained = [test.expires - before[test.id] for test in storage.pending(study.key)]
        assert min(gained[:2]) > 0.9 * LONG
        assert gained[2:] == [0.0] * 4
        # From now on, for so long: that may also be sooner than before.
        storage.renew(study.key, [5, 6], ANN, SHORT)
        time.sleep(2 * SHORT)
        # Who has lost a test cannot renew it.
        storage.renew(study.key, [5], ANN, LONG)
        assert [test.id for test in storage.hand_out(study.key, 9, BOB, LONG, 0, no_rounds)] == [5, 6]
        storage.release(study.key, [1, 2, 3, 4, 10**6], BOB)
        storage.fail(study.key, 3, BOB, "no")
        storage.fail(study.key, 5, ANN, "too late")
        storage.release(study.key, [5, 6], ANN)
        assert storage.hand_out(study.key, 9, "carl", LONG, 0, no_rounds) == []
        storage.release(study.key, [1, 2], ANN)
        storage.fail(study.key, 3, ANN, "exit status 1")
        assert [test.id for test in storage.hand_out(study.key, 9, "carl", LONG, 0, no_rounds)] == [1, 2, 3]
        failed = [(e.test, e.holder, e.detail) for e in storage.log(study.key) if e.kind == "failed"]
        assert failed == [(3, BOB, "no"), (5, ANN, "too late"), (3, ANN, "exit status 1")]


def check_outcomes_end_leases(make_storage: MakeStorage) -> None:
    """A test with an outcome is not handed out again, whatever becomes of its lease."""
    with new_study(make_storage) as (storage, study):
        ask(storage, study, 4)
        storage.tell(study.key, 1, 1.0, ANN)
        storage.drop(study.key, 2, ANN, "")
        storage.tell(study.key, 3, 1.0, BOB)
        storage.fail(study.key, 1, ANN, "after all")
        storage.release(study.key, [1, 2, 3, 4], ANN)
        again = storage.hand_out(study.key, 9, BOB, LONG, 3, no_rounds)
        assert [test.id for test in again] == [4]
        assert pending_ids(storage, study) == [4]
