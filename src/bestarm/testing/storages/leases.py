"""Checks of handing out tests: order, who holds what, for how long, and who may give it up."""

from __future__ import annotations

import itertools
import math
from functools import partial

from bestarm.storage.base import Issued, Outcome, Rounds, Storage
from bestarm.storage.errors import HandedOn
from bestarm.testing.storages.common import (
    ANN,
    BOB,
    LONG,
    SHORT,
    NewStudy,
    endless,
    must_raise,
    must_refuse,
    no_rounds,
    run_in_threads,
)


def check_tests_are_issued_in_order(storage: Storage, study: NewStudy) -> None:
    """Rounds are handed out in pieces. A new round is planned only when all planned tests have been handed out."""
    wanted: list[int] = []

    def plan(count: int) -> Rounds:
        wanted.append(count)
        return [[(0, 1), (1, 0), (2, 2)], [(3, 0)]] if len(wanted) < 3 else []

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


def check_planning_sees_what_was_handed_out(storage: Storage, study: NewStudy) -> None:
    seen: list[list[int]] = []

    def plan(count: int) -> Rounds:
        seen.append([*study.pending_ids(), storage.issued(study.key), *study.ids(gaps=True)])
        return [[(0, 0)]] if len(seen) < 4 else []

    storage.hand_out(study.key, 2, ANN, LONG, 0, plan)
    storage.tell(study.key, 1, 1.0, ANN)
    storage.hand_out(study.key, 5, ANN, LONG, 1, plan)
    assert seen == [[0], [1, 1], [2, 2, 1], [2, 3, 3, 1]]


def check_a_failing_plan_leaves_nothing_handed_out(storage: Storage, study: NewStudy) -> None:
    def plan(count: int) -> Rounds:
        if count < 3:
            raise ZeroDivisionError
        return [[(0, 0)]]

    study.ask(2, lease=SHORT)
    study.fall_silent()
    with must_raise(ZeroDivisionError):
        study.ask(5, BOB, plan=plan)
    assert not [row for row in storage.pending(study.key) if row.holder == BOB and row.expires > 0.0]
    assert study.ask_ids(3, holder=BOB) == [1, 2, 3]


def check_a_plan_that_comes_too_late_is_made_again(storage: Storage, study: NewStudy) -> None:
    calls: list[int] = []

    def plan(count: int) -> Rounds:
        calls.append(count)
        if len(calls) == 1:
            # While one decides, no other has to wait, and another may be faster.
            storage.hand_out(study.key, 1, BOB, LONG, 0, lambda _: [[(1, 0)]])
        return [[(0, 0)]]

    handed = storage.hand_out(study.key, 1, ANN, LONG, 0, plan)
    assert handed == [Issued(2, 0, 0)]
    assert calls == [1, 1]
    assert [(row.id, row.arm, row.holder) for row in storage.pending(study.key)] == [(1, 1, BOB), (2, 0, ANN)]


def check_a_holder_gets_no_more_than_the_limit(storage: Storage, study: NewStudy) -> None:
    def plan(count: int) -> Rounds:
        return [[(0, 0)]] * count

    def hand(holder: str, count: int, request: str = "") -> list[int]:
        handed = storage.hand_out(study.key, count, holder, LONG, 0, plan, most=5, request=request)
        return [test.id for test in handed]

    assert hand(ANN, 3, "first") == [1, 2, 3]
    assert hand(ANN, 30) == [4, 5]
    with must_refuse(ANN, "holds 5 tests"):
        hand(ANN, 1)
    assert hand(ANN, 3, "first") == [1, 2, 3]
    assert hand(BOB, 1) == [6]
    storage.tell(study.key, 1, 1.0, ANN)
    storage.release(study.key, [3], ANN)
    assert hand(ANN, 30) == [3, 7]
    assert storage.count_pending(study.key) == 6
    assert storage.count_pending(study.key, ANN) == 5


def _refused(study: NewStudy, test: int, holder: str) -> str:
    """Who holds the test now. `holder` can neither tell nor drop its outcome."""
    storage, key, refusals = study.storage, study.key, list[HandedOn]()
    for act in (
        lambda: storage.tell(key, test, 9.0, holder),
        lambda: storage.tell_many(key, [(test, 9.0)], holder),
        lambda: storage.drop(key, test, holder, ""),
    ):
        try:
            act()
        except HandedOn as refusal:
            refusals.append(refusal)
    assert [refusal.test for refusal in refusals] == [test] * 3, "a former holder's result must be refused"
    return refusals[0].holder


def check_tests_of_silent_holders_are_handed_on(storage: Storage, study: NewStudy) -> None:
    study.ask(4, holder=ANN, lease=SHORT)
    storage.tell(study.key, 2, 2.0, ANN)
    study.fall_silent()
    again = storage.hand_out(study.key, 2, BOB, LONG, 0, no_rounds)
    assert [test.id for test in again] == [1, 3]
    assert [(test.id, test.holder, test.attempts) for test in storage.pending(study.key)] == [
        (1, BOB, 2),
        (3, BOB, 2),
        (4, ANN, 1),
    ]
    assert [(e.test, e.holder) for e in storage.log(study.key) if e.kind == "handed on"] == [(1, ANN), (3, ANN)]
    # Which of two attempts counts was decided when the second began, not by which is faster.
    assert _refused(study, 1, ANN) == BOB
    storage.release(study.key, [1], ANN)
    storage.fail(study.key, 1, ANN, "too late")
    storage.renew(study.key, [1], ANN, LONG)
    storage.set_aside(study.key, 1, ANN, "failed", "too late")
    assert storage.hand_out(study.key, 1, "carl", LONG, 0, no_rounds)[0].id == 4
    assert storage.tell(study.key, 1, 1.0, BOB) is None
    assert storage.tell(study.key, 1, 9.0, ANN) == Outcome(1.0, None, BOB)
    # She may tell what she has not lost, and what she gets again.
    storage.release(study.key, [3], BOB)
    assert study.hand_again(1, ANN) == [3]
    assert _refused(study, 3, BOB) == ANN
    assert storage.tell(study.key, 3, 3.0, ANN) is None
    # Others may tell for the holder.
    assert storage.tell(study.key, 4, 4.0, "dora") is None
    assert study.values() == [1.0, 2.0, 3.0, 4.0]


def check_silent_holders_get_a_second_chance(storage: Storage, study: NewStudy) -> None:
    """A holder who was asleep, or could not reach the database, keeps their tests if they are back when others ask."""
    study.ask(2, holder=ANN, lease=LONG)
    storage.renew(study.key, [1, 2], ANN, SHORT)
    study.fall_silent()
    # She is heard from at the last moment, before her tests were handed on.
    storage.renew(study.key, [1], ANN, LONG)
    assert study.hand_again(9, BOB) == [2]
    # Asking for no tests hands nothing on, and one look is not enough.
    study.ask(1, holder="carl", lease=SHORT)
    assert storage.hand_out(study.key, 0, BOB, LONG, 0, no_rounds) == []
    assert {test.id: test.holder for test in storage.pending(study.key)} == {1: ANN, 2: BOB, 3: "carl"}


def check_tests_without_a_heartbeat_stay_with_their_holder(storage: Storage, study: NewStudy) -> None:
    storage.hand_out(study.key, 2, ANN, None, 0, endless, due=SHORT)
    [first, second] = storage.pending(study.key)
    assert (first.holder, first.expires, first.aside) == (ANN, math.inf, None)
    assert first.due is not None
    assert 0 < first.due - first.since <= 1.0
    assert second.since >= storage.log(study.key)[0].time
    study.fall_silent()
    assert storage.hand_out(study.key, 9, BOB, LONG, 0, no_rounds) == []
    # Until it is said that the result will not come.
    storage.release(study.key, [1], BOB)
    storage.fail(study.key, 2, BOB, "the power is out")
    assert study.hand_again(9, BOB) == [1, 2]
    log = [(e.kind, e.test, e.holder) for e in storage.log(study.key) if e.kind in ("released", "failed")]
    assert log == [("released", 1, BOB), ("failed", 2, BOB)]
    assert _refused(study, 1, ANN) == BOB


def check_tests_set_aside_wait_for_a_decision(storage: Storage, study: NewStudy) -> None:
    """A failed attempt is not silently made again before it is said how it counts."""
    study.ask(4, holder=ANN, lease=SHORT)
    storage.set_aside(study.key, 1, ANN, "failed", "exit status 3")
    storage.set_aside(study.key, 2, ANN, "timed out", "")
    storage.set_aside(study.key, 3, ANN, "refused", "7 is not a rate")
    # Only the holder who made the attempt can say how it ended.
    storage.set_aside(study.key, 4, BOB, "lost", "")
    study.fall_silent()
    storage.renew(study.key, [1, 2, 3], ANN, SHORT)
    assert study.hand_again(9, BOB) == [4]
    said = [(test.id, test.aside, test.reason, test.holder) for test in storage.pending(study.key)]
    assert said == [
        (1, "failed", "exit status 3", ANN),
        (2, "timed out", "", ANN),
        (3, "refused", "7 is not a rate", ANN),
        (4, None, "", BOB),
    ]
    noted = [(e.test, e.detail) for e in storage.log(study.key) if e.kind == "set aside" and e.holder == ANN]
    assert noted == [(1, "failed: exit status 3"), (2, "timed out"), (3, "refused: 7 is not a rate")]
    assert storage.tell(study.key, 1, 1.0, BOB) is None
    storage.fail(study.key, 2, BOB, "unrelated")
    storage.release(study.key, [3], BOB)
    again = storage.hand_out(study.key, 9, BOB, LONG, 0, no_rounds)
    assert [test.id for test in again] == [2, 3]
    assert [(test.id, test.aside, test.reason) for test in storage.pending(study.key)] == [
        (2, None, ""),
        (3, None, ""),
        (4, None, ""),
    ]


def check_a_live_lease_has_one_holder(storage: Storage, study: NewStudy) -> None:
    mine, yours = study.ask(3, holder=ANN), study.ask(3, holder=BOB)
    assert {test.id for test in mine} | {test.id for test in yours} == {1, 2, 3, 4, 5, 6}
    assert storage.hand_out(study.key, 5, BOB, LONG, 0, no_rounds) == []


def check_anyone_can_release_and_only_the_holder_can_renew(storage: Storage, study: NewStudy) -> None:
    study.ask(6, holder=ANN)
    before = {test.id: test.expires for test in storage.pending(study.key)}
    storage.renew(study.key, [1, 2, 10**6], ANN, 2 * LONG)
    storage.renew(study.key, [3, 4], BOB, 2 * LONG)
    gained = [test.expires - before[test.id] for test in storage.pending(study.key)]
    assert min(gained[:2]) > 0.9 * LONG
    assert gained[2:] == [0.0] * 4
    storage.release(study.key, [1, 10**6], BOB)
    storage.fail(study.key, 3, BOB, "no")
    storage.release(study.key, [2], ANN)
    # A lease on a test without a holder cannot be extended.
    storage.renew(study.key, [1, 2, 3], ANN, LONG)
    assert study.hand_again(9, "carl") == [1, 2, 3]
    failed = [(e.test, e.holder, e.detail) for e in storage.log(study.key) if e.kind == "failed"]
    assert failed == [(3, BOB, "no")]
    # Giving back one's own test is not noted.
    assert [(e.test, e.holder) for e in storage.log(study.key) if e.kind == "released"] == [(1, BOB)]


def check_pending_tests_can_be_read_in_pieces(storage: Storage, study: NewStudy) -> None:
    study.ask(7)
    storage.tell(study.key, 2, 1.0, ANN)
    everything = storage.pending(study.key)
    assert [test.id for test in everything] == [1, 3, 4, 5, 6, 7]
    assert storage.pending(study.key, limit=1) == everything[:1]
    assert storage.pending(study.key, after=3, limit=2) == everything[2:4]
    assert storage.pending(study.key, after=7) == []


def check_outcomes_end_leases(storage: Storage, study: NewStudy) -> None:
    """A test with an outcome is not handed out again, whatever happens to its lease."""
    study.ask(4)
    storage.tell(study.key, 1, 1.0, ANN)
    storage.drop(study.key, 2, ANN, "")
    storage.tell(study.key, 3, 1.0, BOB)
    storage.fail(study.key, 1, ANN, "after all")
    storage.release(study.key, [1, 2, 3, 4], ANN)
    again = storage.hand_out(study.key, 9, BOB, LONG, 3, no_rounds)
    assert [test.id for test in again] == [4]
    assert study.pending_ids() == [4]


def check_many_threads_at_once(storage: Storage, study: NewStudy) -> None:
    """Half share one storage, half open their own: nothing is lost, told twice, or held by two."""
    threads, goal = 8, 200
    handed: list[list[int]] = [[] for _ in range(threads)]
    accepted: list[list[int]] = [[] for _ in range(threads)]

    def work(k: int) -> None:
        mine, holder = storage if k % 2 else study.open_again(), f"thread {k}"
        while mine.issued(study.key) < goal:
            tests = [test.id for test in mine.hand_out(study.key, 3, holder, LONG, 0, endless)]
            handed[k] += tests
            for test in tests[1:]:
                if mine.tell(study.key, test, float(test), holder) is None:
                    accepted[k].append(test)
            # This thread and its neighbor both tell some tests, alone and in batches. One of them counts.
            for test in {tests[0], tests[0] + 1} & set(range(1, mine.issued(study.key) + 1)):
                if mine.tell(study.key, test, float(test), holder) is None:
                    accepted[k].append(test)
            mine.tell_many(study.key, [(test, float(test)) for test in tests], holder)

    run_in_threads(*(partial(work, k) for k in range(threads)))
    everyone = sorted(itertools.chain(*handed))
    assert everyone == list(range(1, storage.issued(study.key) + 1)), "a test was handed to two, or to none"
    told = sorted(itertools.chain(*accepted))
    assert len(told) == len(set(told)), "a result was accepted twice"
    assert study.values() == [float(test) for test in everyone]
    assert storage.pending(study.key) == []
