"""Tests that a study wants meet samples that wait, whichever comes first."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from tests.tools.patience import PATIENCE

from bestarm.integrations.matching import Matching
from bestarm.study.intake.names import Test
from bestarm.study.work.failures import NotStarted

ITEMS = {str(place): place for place in range(10)}


def wanted(matching: Matching, arm: str, item: str) -> Any:
    return matching.submit(Test(1, arm, "score", ("score",), item), 0)


def matching_of(*arms: str, slots: int = 2) -> Matching:
    matching = Matching(slots, ITEMS.__getitem__)
    matching.begin({arm: set(ITEMS) for arm in arms})
    return matching


async def settled(act: Callable[[], object], *waiting: Awaitable[Any]) -> list[Any]:
    """What those who wait are told, once all wait and then something happens in another thread."""
    tasks = [asyncio.ensure_future(each) for each in waiting]
    await asyncio.sleep(0)
    assert not any(task.done() for task in tasks)
    thread = threading.Thread(target=act)
    thread.start()
    told = [await task for task in tasks]
    thread.join()
    return told


def test_a_sample_waits_until_it_is_wanted() -> None:
    matching = matching_of("a")
    assert asyncio.run(settled(lambda: wanted(matching, "a", "0"), matching.admit("a", "0"))) == [None]


def test_a_test_waits_until_its_sample_comes() -> None:
    matching = matching_of("a")
    future = wanted(matching, "a", "0")
    assert asyncio.run(matching.admit("a", "0")) is None
    assert not future.done()
    matching.finish("a", "0", {"score": 1.0})
    assert future.result(0) == {"score": 1.0}
    matching.finish("a", "0", {"score": 2.0})  # a second one is ignored


def test_a_failure_is_passed_on() -> None:
    matching = matching_of("a")
    future = wanted(matching, "a", "0")
    asyncio.run(matching.admit("a", "0"))
    matching.finish("a", "0", ValueError("no reply"))
    with pytest.raises(ValueError, match="no reply"):
        future.result(0)


def test_what_an_evaluation_leaves_unfinished_has_failed() -> None:
    matching = matching_of("a")
    future = wanted(matching, "a", "0")
    asyncio.run(matching.admit("a", "0"))
    matching.end("a", "it crashed")
    with pytest.raises(RuntimeError, match="it crashed"):
        future.result(0)


def test_a_decided_arm_ends_and_the_others_go_on() -> None:
    matching = matching_of("a", "b")
    told = settled(lambda: matching.decide({"a": "worse"}), matching.admit("a", "0"))
    assert asyncio.run(told) == ["worse"]
    wanted(matching, "b", "0")
    assert asyncio.run(matching.admit("b", "0")) is None


def test_wanted_tests_of_a_decided_arm_are_still_made() -> None:
    """It was handed out before, and later results wait for it."""
    matching = matching_of("a")
    future = wanted(matching, "a", "3")
    matching.decide({"a": "worse"})
    assert matching.wanted_arms() == {"a"}
    assert [asyncio.run(matching.admit("a", item)) for item in ("0", "3", "4")] == ["worse", None, "worse"]
    assert matching.wanted_arms() == set()
    matching.finish("a", "3", {"score": 1.0})
    assert future.result(0) == {"score": 1.0}


@pytest.mark.parametrize("seed", range(8))
def test_wanted_samples_are_run(seed: int) -> None:
    """In rounds of evaluations, as `identify_with_inspect` has them, while arms are decided at any moment."""
    rng = random.Random(seed)
    slots = rng.randint(1, 4)
    matching = Matching(slots, ITEMS.__getitem__)
    made: list[tuple[str, str]] = []
    decided: dict[str, str] = {}

    def study() -> None:
        order = [(arm, item) for arm in "abc" for item in ITEMS]
        while order:
            handed_out = [
                order.pop(rng.randrange(min(len(order), 12))) for _ in range(min(len(order), rng.randint(1, 5)))
            ]
            futures = [wanted(matching, *key) for key in handed_out]
            decided.clear()
            decided.update({arm: "worse" for arm in "abc" if rng.random() < 0.4})
            matching.decide(decided)
            for future in futures:
                assert future.result(PATIENCE) == {"score": 0.5}
            made.extend(handed_out)
        matching.close("done")

    async def evaluation(arm: str, items: list[str]) -> None:
        free = asyncio.Semaphore(slots)

        async def sample(item: str) -> None:
            async with free:
                if await matching.admit(arm, item) is None:
                    await asyncio.sleep(0)
                    matching.finish(arm, item, {"score": 0.5})

        await asyncio.gather(*(sample(item) for item in items))
        matching.end(arm, "ended")

    async def evaluations(left: dict[str, list[str]]) -> None:
        matching.begin({arm: set(items) for arm, items in left.items()})
        await asyncio.gather(*(evaluation(arm, items) for arm, items in left.items()))

    thread = threading.Thread(target=study)
    thread.start()
    while thread.is_alive():
        needless = decided.keys() - matching.wanted_arms()
        left = {arm: [item for item in ITEMS if (arm, item) not in made] for arm in "abc" if arm not in needless}
        asyncio.run(evaluations({arm: items for arm, items in left.items() if items}))
    thread.join()
    assert sorted(made) == sorted((arm, item) for arm in "abc" for item in ITEMS)


def test_a_sample_that_has_passed_ends_the_round_and_is_there_in_the_next() -> None:
    matching = matching_of("a", "b")
    matching.decide({"a": "worse"})
    assert asyncio.run(matching.admit("a", "0")) == "worse"
    matching.decide({})
    futures = []
    [reason] = asyncio.run(settled(lambda: futures.append(wanted(matching, "a", "0")), matching.admit("b", "0")))
    assert "another evaluation first" in reason
    matching.begin({arm: set(ITEMS) for arm in "ab"})
    assert asyncio.run(matching.admit("a", "0")) is None
    assert not futures[0].done()


@pytest.mark.parametrize(("waiting", "wish", "gone"), [(("0", "1"), "2", "0"), (("7", "8"), "2", "8")])
def test_unwanted_samples_make_room(waiting: tuple[str, str], wish: str, gone: str) -> None:
    matching = matching_of("a")

    async def look() -> list[str]:
        tasks = {item: asyncio.ensure_future(matching.admit("a", item)) for item in waiting}
        await asyncio.sleep(0)
        wanted(matching, "a", wish)
        while not any(task.done() for task in tasks.values()):
            await asyncio.sleep(0)
        left = [item for item, task in tasks.items() if task.done() and task.result() is not None]
        matching.close("done")
        await asyncio.gather(*tasks.values())
        return left

    assert asyncio.run(look()) == [gone]


def test_closing_gives_back_unmade_tests_and_ends_all_samples() -> None:
    matching = matching_of("a")
    future = wanted(matching, "a", "5")
    assert asyncio.run(settled(lambda: matching.close("the end"), matching.admit("a", "0"))) == ["the end"]
    for given_back in (future, wanted(matching, "a", "6")):
        with pytest.raises(NotStarted, match="the end"):
            given_back.result(0)


def test_a_cancelled_sample_leaves_no_trace() -> None:
    matching = matching_of("a")

    async def cancel() -> None:
        task = asyncio.ensure_future(matching.admit("a", "0"))
        await asyncio.sleep(0)
        future = wanted(matching, "a", "0")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        with pytest.raises(NotStarted):
            future.result(0)

    asyncio.run(cancel())
