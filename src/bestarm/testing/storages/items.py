"""Checks of tests on items: a test keeps its item when it is handed on and read again."""

from __future__ import annotations

from bestarm.storage.base import Issued, Rounds, Storage
from bestarm.storage.columns import Given
from bestarm.storage.errors import BlockTaken, BlockUnfinished, HoldsEnough
from bestarm.testing.storages.common import ANN, BOB, LONG, SHORT, NewStudy, must_refuse, no_rounds, one_round
from bestarm.validation import InvalidInput


def _items(study: NewStudy, *, after: int = 0) -> list[int | None]:
    """The items of tests that have an outcome, as readers of entries, or of arrivals, find them."""
    found: list[int | None] = []
    read = study.storage.arrivals if study.record.by_arrival else study.storage.entries
    for part in read(study.key, after):
        assert len(part.items) in (0, len(part.ids)), "items are of all tests, or of none"
        items: list[int] = part.items.tolist() if len(part.items) else [-1] * len(part.ids)
        found += [None if item < 0 else item for item in items]
    return found


def check_tests_keep_their_items(storage: Storage, study: NewStudy) -> None:
    plan = one_round((0, 0, 7), (1, 0, 7), (0, 0, 0), (1, 1))
    tests = [Issued(1, 0, 0, 7), Issued(2, 1, 0, 7), Issued(3, 0, 0, 0), Issued(4, 1, 1)]
    assert storage.hand_out(study.key, 4, ANN, LONG, 0, plan, request="r1") == tests
    assert storage.hand_out(study.key, 4, ANN, LONG, 0, no_rounds, request="r1") == tests
    assert [row.item for row in storage.pending(study.key)] == [7, 7, 0, None]
    assert storage.test(study.key, 3) == (tests[2], None)
    assert [issued for issued, _ in storage.find_tests(study.key, [1, 2, 3, 4]).values()] == tests
    assert [(test.id, test.item) for test in storage.history(study.key)] == [(1, 7), (2, 7), (3, 0), (4, None)]
    storage.tell(study.key, 2, 2.0, ANN)
    storage.tell_many(study.key, [(1, 1.0, 1.5), (3, 3.0)], ANN)
    storage.drop(study.key, 4, ANN, "broke")
    storage.correct(study.key, 2, 2.5, BOB, "typing")
    assert _items(study) == [7, 7, 0, None]
    # A reader who is past those on items finds none.
    assert [len(part.items) for part in storage.entries(study.key, 3)] == [0]
    assert [(test.id, test.item) for test in storage.history(study.key)] == [(1, 7), (2, 7), (3, 0), (4, None)]
    noted = [(event.kind, event.test, event.item) for event in storage.log(study.key)]
    expected = {1: 7, 2: 7, 3: 0, 4: None}
    assert noted[1:5] == [("asked", test, item) for test, item in expected.items()]
    assert all(item == expected[test] for kind, test, item in noted if test and kind in ("told", "corrected"))


def check_items_go_with_their_tests_to_the_next_holder(storage: Storage, study: NewStudy) -> None:
    storage.hand_out(study.key, 3, ANN, SHORT, 0, one_round((0, 0, 5), (1, 0, 5), (2, 0, 4)))
    storage.fail(study.key, 1, ANN, "broke")
    assert storage.hand_out(study.key, 1, BOB, LONG, 0, no_rounds) == [Issued(1, 0, 0, 5)]
    storage.set_aside(study.key, 1, BOB, "failed", "broke")
    assert storage.pending(study.key)[0].item == 5
    storage.release(study.key, [1], BOB)
    study.fall_silent()
    tests = [Issued(1, 0, 0, 5), Issued(2, 1, 0, 5), Issued(3, 2, 0, 4)]
    assert storage.hand_out(study.key, 3, BOB, LONG, 0, no_rounds) == tests


def check_planned_items_are_there_after_reopening(storage: Storage, study: NewStudy) -> None:
    plan = one_round((0, 0, 0), (1, 0, 0), (0, 1), (2, 0, 3))
    assert storage.hand_out(study.key, 1, ANN, LONG, 0, plan) == [Issued(1, 0, 0, 0)]
    storage.close()
    other = study.open_again()
    assert other.hand_out(study.key, 1, BOB, LONG, 0, no_rounds) == [Issued(2, 1, 0, 0)]
    rest = [Issued(3, 0, 1), Issued(4, 2, 0, 3)]
    assert other.hand_out(study.key, 9, BOB, LONG, 0, no_rounds) == rest
    other.tell_many(study.key, [(k, float(k)) for k in (1, 2, 3, 4)], ANN)
    [part] = other.entries(study.key, 0)
    assert part.items.tolist() == [0, 0, -1, 3]
    assert part.ends.tolist() == [0, 0, 0, 1]


def check_results_on_items_are_given_once(storage: Storage, study: NewStudy) -> None:
    rows: list[Given] = [(0, 0, 1.0), (0, 0, 2.0, (), 9), (1, 0, 3.0, (3.5,), 0), (1, 1, 4.0, (4.5,), None)]
    assert list(storage.give(study.key, rows, ANN, "", request="r1")) == [1, 2, 3, 4]
    assert list(storage.give(study.key, rows, BOB, "", request="r1")) == [1, 2, 3, 4]
    others: list[tuple[int, Given]] = [(1, (0, 0, 2.0, (), 8)), (2, (1, 0, 3.0, (3.5,))), (3, (1, 1, 4.0, (4.5,), 0))]
    for place, other in others:
        with must_refuse("r1", "something else"):
            storage.give(study.key, [*rows[:place], other, *rows[place + 1 :]], ANN, "", request="r1")
    assert _items(study) == [None, 9, 0, None]
    [part] = storage.entries(study.key, 0)
    assert part.more.tolist() == [(), (), (3.5,), (4.5,)]
    given = [(event.item, event.more) for event in storage.log(study.key) if event.kind == "given"]
    assert given == [(None, ()), (9, ()), (0, (3.5,)), (None, (4.5,))]
    assert [test.item for test in storage.history(study.key)] == [None, 9, 0, None]


def check_items_of_arrivals(storage: Storage, study: NewStudy) -> None:
    study = study.another(by_arrival=True)
    storage.hand_out(study.key, 3, ANN, LONG, 0, one_round((0, 0, 2), (1, 0, 1), (1, 1)))
    for test in (3, 1):
        storage.tell(study.key, test, float(test), ANN)
    storage.give(study.key, [(0, 0, 4.0, (), 6)], BOB, "")
    storage.tell(study.key, 2, 2.0, ANN)
    assert _items(study) == [None, 2, 6, 1]
    assert [(test.id, test.item) for test in storage.history(study.key)] == [(3, None), (1, 2), (4, 6), (2, 1)]
    first = next(iter(storage.arrivals(study.key, 0)))
    assert _items(study, after=int(first.arrivals[1])) == [6, 1]


def check_places_are_given_under_the_lock(storage: Storage, study: NewStudy) -> None:
    """What is recorded is what `places` returns, after all that was issued before. A repeat does not call it."""
    calls: list[int] = []
    given = [(0, 0, 1.0, (2.0,), 7), (1, 0, 3.0, (4.0,), 8)]

    def places() -> list[int]:
        calls.append(storage.issued(study.key))
        return [0, 5]

    def refuse() -> list[int]:
        raise InvalidInput("item", "x", "is taken")

    storage.hand_out(study.key, 1, ANN, LONG, 0, one_round((0, 0)))
    with must_refuse("item", "taken"):
        storage.give(study.key, given, BOB, "file.csv", request="k", places=refuse)
    assert storage.issued(study.key) == 1
    for _ in range(2):
        assert list(storage.give(study.key, given, BOB, "file.csv", request="k", places=places)) == [2, 3]
    assert calls == [1]
    assert [(test.item, test.outcomes[-1].more) for test in storage.history(study.key) if test.given] == [
        (0, (2.0,)),
        (5, (4.0,)),
    ]
    # The numbers of the items tell results under one key apart, not their places.
    with must_refuse("key", "k"):
        storage.give(study.key, [(0, 0, 1.0, (2.0,), 9), given[1]], BOB, "", request="k", places=places)
    assert storage.issued(study.key) == 3


def check_blocks_are_not_mixed(storage: Storage, study: NewStudy) -> None:
    """Tests that come free while the next block is planned are handed out alone, and so is each block."""
    block = [(0, 0, 10), (1, 0, 11), (2, 0, 12)]
    ann = storage.hand_out(study.key, 3, ANN, LONG, 0, one_round(*block), one_plan=True)

    def plan_while_others_release(count: int) -> Rounds:
        storage.release(study.key, [2, 3], ANN)
        return [[*block]]

    freed = storage.hand_out(study.key, 3, BOB, LONG, 0, plan_while_others_release, one_plan=True)
    assert freed == ann[1:]
    second = storage.hand_out(study.key, 2, BOB, LONG, 0, one_round(*block), one_plan=True)
    assert [test.id for test in second] == [4, 5]
    with must_refuse("holder", kind=HoldsEnough):
        storage.hand_out(study.key, 3, BOB, LONG, 0, no_rounds, most=6, one_plan=True)
    storage.release(study.key, [2, 4, 5], BOB)
    for expected in ([2], [4, 5], [6]):
        assert [test.id for test in storage.hand_out(study.key, 3, ANN, LONG, 0, no_rounds, one_plan=True)] == expected


def check_only_free_tests_are_handed_out_where_none_may_be_new(storage: Storage, study: NewStudy) -> None:
    """What was planned before stays where it is, and can be handed out later."""
    storage.hand_out(study.key, 2, ANN, LONG, 0, one_round((0, 0), (1, 0), (2, 0)))
    assert storage.hand_out(study.key, 5, BOB, LONG, 0, no_rounds, none_new=True) == []
    storage.release(study.key, [2], ANN)
    assert [test.id for test in storage.hand_out(study.key, 5, BOB, LONG, 0, no_rounds, none_new=True)] == [2]
    assert storage.issued(study.key) == 2
    assert [test.id for test in storage.hand_out(study.key, 5, BOB, LONG, 0, no_rounds)] == [3]


def check_a_named_block_is_given_once(storage: Storage, study: NewStudy) -> None:
    rows: list[Given] = [(0, 0, 1.0, (), 0), (1, 0, 2.0, (), 10)]
    for _ in range(2):
        given = storage.give(study.key, rows, ANN, "", [0], request="r1", names=["Monday", "Tuesday"])
        assert list(given) == [1, 2]
    with must_refuse("item", "Tuesday", kind=BlockTaken):
        storage.give(study.key, rows, ANN, "file.csv", [0], names=["Wednesday", "Tuesday"])
    # Nothing of what was refused is there.
    assert list(storage.give(study.key, rows, ANN, "file.csv", [0], names=["Wednesday", "Thursday"])) == [3, 4]
    storage.hand_out(study.key, 1, ANN, LONG, 0, one_round((0, 0, 20), (1, 0, 21)), one_plan=True)
    with must_refuse("not been handed out", kind=BlockUnfinished):
        storage.give(study.key, rows[:1], ANN, "", names=["Friday"])
    assert [test.id for test in storage.hand_out(study.key, 1, ANN, LONG, 0, no_rounds, one_plan=True)] == [6]
    assert list(storage.give(study.key, rows[:1], ANN, "", names=["Friday"])) == [7]
