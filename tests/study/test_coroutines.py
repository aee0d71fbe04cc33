"""`identify_async`: many calls at once in an event loop, by the same rules as `identify`."""

from __future__ import annotations

import asyncio
import functools
import os
import random
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.lengths import cases, lengths
from tests.tools.patience import PATIENCE

import bestarm as ba
from bestarm.storage.sql.storage import SQLStorage

BACKENDS = ["asyncio", "trio"]

RATES = {"good": 0.9, "fair": 0.6, "poor": 0.2}


def problem(**options: Any) -> ba.Problem:
    return ba.Problem(arms=[*RATES], objective=ba.maximize("accuracy", noise=ba.Bernoulli()), **options)


def both(**options: Any) -> ba.Problem:
    """Accuracy and cost in one call, on items."""
    limit = ba.at_most("cost", 5, noise=ba.Bounded(0, 10))
    measured = ba.measurement("accuracy", "cost")
    return problem(constraints=[limit], measurements=[measured], **options)


def drawn(arm: str, metric: str, item: str) -> float:
    return float(random.Random(f"{arm} {item}").random() < RATES[arm])


async def exact(arm: str, metric: str) -> float:
    await anyio.sleep(0)
    return float(arm == "good")


def run(backend: str, act: Callable[[], Awaitable[Any]]) -> Any:
    return anyio.run(act, backend=backend)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("concurrency", [1, 7, 50])
def test_items_and_several_metrics(backend: str, concurrency: int, tmp_path: Path) -> None:
    under_way = most = 0

    async def measure(arm: str, metric: str, item: str) -> dict[str, float]:
        nonlocal under_way, most
        assert metric == "accuracy + cost"
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(0)
        under_way -= 1
        return {"accuracy": drawn(arm, metric, item), "cost": 9.0 if arm == "good" else 1.0}

    act = functools.partial(
        ba.identify_async, both(items=300), measure, concurrency=concurrency, storage=tmp_path / "s.db"
    )
    answer = run(backend, act)
    assert (answer.state, answer.arm) == ("certified", "fair")
    assert most <= concurrency
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert study.answer == answer
    assert study.pending() == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_same_answer_as_identify(backend: str) -> None:
    """One at a time, both ask for the same tests in the same order."""
    asked: list[list[tuple[str, str]]] = [[], []]

    def plain(arm: str, metric: str, item: str) -> float:
        asked[0].append((arm, item))
        return drawn(arm, metric, item)

    async def coroutine(arm: str, metric: str, item: str) -> float:
        asked[1].append((arm, item))
        return drawn(arm, metric, item)

    options: dict[str, Any] = {"seed": 5, "items_seed": 6}
    answer = ba.identify(problem(items=200), plain, **options)
    act = functools.partial(ba.identify_async, problem(items=200), coroutine, concurrency=1, **options)
    assert run(backend, act) == answer
    assert asked[0] == asked[1]


@pytest.mark.parametrize("concurrency", [1, 8, 32])
def test_no_call_for_an_arm_after_it_is_out(concurrency: int) -> None:
    """Beyond those that were under way, and those of the round of which others were: one of each arm."""
    begun: list[str] = []
    out: dict[str, int] = {}

    async def measure(arm: str, metric: str, item: str) -> float:
        begun.append(arm)
        await anyio.sleep(0)
        return drawn(arm, metric, item)

    def watch(study: ba.Study, running: int) -> None:
        for arm in set(RATES) - set(study.status().candidates):
            out.setdefault(arm, begun.count(arm))

    act = functools.partial(
        ba.identify_async, problem(items=500), measure, concurrency=concurrency, watch=watch, seed=1, items_seed=1
    )
    answer = run("asyncio", act)
    assert answer.arm == "good"
    assert "poor" in out
    assert all(begun.count(arm) - count <= concurrency for arm, count in out.items())


@pytest.mark.parametrize("backend", BACKENDS)
def test_cancelled_it_gives_tests_back_and_goes_on(backend: str, tmp_path: Path) -> None:
    begun: list[str] = []
    scope: Any = None

    async def hanging(arm: str, metric: str) -> float:
        begun.append(arm)
        if len(begun) > 4:
            if len(begun) == 9:
                scope.cancel()
            await anyio.sleep_forever()
        return float(arm == "good")

    async def interrupted() -> None:
        nonlocal scope
        with anyio.fail_after(PATIENCE), anyio.CancelScope() as scope:
            await ba.identify_async(problem(), hanging, concurrency=5, storage=tmp_path / "s.db")
        assert scope.cancelled_caught

    run(backend, interrupted)
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    assert study.status().tests == 4
    # At once, and not when a lease is over.
    tests = study.ask(5)
    assert [test.id for test in tests] == [5, 6, 7, 8, 9]
    study.release(tests)
    act = functools.partial(ba.identify_async, problem(), exact, storage=tmp_path / "s.db")
    assert run(backend, act).arm == "good"


def test_a_task_that_is_cancelled(tmp_path: Path) -> None:
    """By asyncio itself, twice, as an impatient Ctrl-C does it."""
    started: Any = None

    async def hanging(arm: str, metric: str) -> float:
        started.set()
        try:
            await asyncio.sleep(2 * PATIENCE)
        finally:
            await asyncio.sleep(0)
        return 0.0

    async def cancel() -> None:
        nonlocal started
        started = asyncio.Event()
        task = asyncio.create_task(ba.identify_async(problem(), hanging, storage=tmp_path / "s.db"))
        await started.wait()
        task.cancel()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert ba.Study.open("study", storage=tmp_path / "s.db").ask(1)[0].id == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_ctrl_c(backend: str, tmp_path: Path) -> None:
    async def measure(arm: str, metric: str) -> float:
        os.kill(os.getpid(), signal.SIGINT)
        await anyio.sleep_forever()
        return 0.0

    act = functools.partial(ba.identify_async, problem(), measure, concurrency=1, storage=tmp_path / "s.db")
    with pytest.raises(KeyboardInterrupt):
        run(backend, act)
    assert ba.Study.open("study", storage=tmp_path / "s.db").ask(1)[0].id == 1


def test_an_error_of_ours_cancels_what_is_under_way(tmp_path: Path) -> None:
    cancelled: list[str] = []

    async def hanging(arm: str, metric: str) -> float:
        try:
            await anyio.sleep_forever()
        finally:
            cancelled.append(arm)
        return 0.0

    def watch(study: ba.Study, running: int) -> None:
        raise RuntimeError(f"{running} under way")

    async def act() -> None:
        with anyio.fail_after(PATIENCE):
            await ba.identify_async(problem(), hanging, concurrency=4, watch=watch, storage=tmp_path / "s.db")

    with pytest.raises(RuntimeError, match="4 under way"):
        run("asyncio", act)
    assert len(cancelled) in range(5)  # those that had begun
    assert [test.id for test in ba.Study.open("study", storage=tmp_path / "s.db").ask(4)] == [1, 2, 3, 4]


def test_what_is_waited_for_elsewhere_can_be_cancelled(tmp_path: Path) -> None:
    """Nothing is under way here: another holder has the only test that the budget allows."""
    other = ba.Study.create(problem(), storage=tmp_path / "s.db", budget=1)
    [held] = other.ask(1)

    async def act() -> None:
        with anyio.move_on_after(0.2) as scope:
            await ba.identify_async(problem(), exact, budget=1, storage=tmp_path / "s.db")
        assert scope.cancelled_caught

    run("asyncio", act)
    other.tell(held, 1.0)


@cases(5)
@pytest.mark.parametrize("seed", range(40))
def test_services_that_fail(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model: each call fails so often before it succeeds, with an error that may be declared. No result depends on
    it, every attempt is in the log, nothing hangs, and an answer is reached after what is not declared, too."""
    monkeypatch.setattr("bestarm.study.work.pace._FIRST_PAUSE", 1e-6)
    monkeypatch.setattr("bestarm.study.work.pace._LONGEST_PAUSE", 1e-3)
    rng = random.Random(seed)
    retries = rng.randint(1, 3)
    concurrency = rng.choice([1, 4, 20])
    fails: dict[tuple[str, str], int] = {}
    attempts: dict[tuple[str, str], int] = {}

    class Busy(Exception):
        status_code = 429

    async def measure(arm: str, metric: str, item: str) -> float:
        key = (arm, item)
        fails.setdefault(key, rng.choice([0, 0, 0, rng.randint(0, retries), retries + (rng.random() < 0.1)]))
        attempts[key] = attempts.get(key, 0) + 1
        await anyio.sleep(0)
        if attempts[key] <= fails[key]:
            raise rng.choice([Busy("too many"), ConnectionResetError("gone")])
        return drawn(arm, metric, item)

    where: dict[str, Any] = {"storage": tmp_path / "s.db", "concurrency": concurrency, "items_seed": seed}
    where |= {"retries": retries, "retry_on": ba.TRANSIENT}
    while True:
        error = None
        try:
            answer = run(rng.choice(BACKENDS), lambda: ba.identify_async(problem(items=60), measure, **where))
            break
        except ba.MeasurementFailed as stopped:
            error = stopped
        assert f"was not made {retries + 1} times, the last time: " in str(error)
        assert error.study is not None
        assert error.study.unresolved() == []
    study = ba.Study.open("study", storage=tmp_path / "s.db")
    kinds = [event.kind for event in study.log()]
    failures = sum(min(count, fails[key]) for key, count in attempts.items())
    assert kinds.count("failed") == failures
    assert "released" not in kinds
    frame = study.frame()
    assert all(row.value == drawn(str(row.arm), "", str(row.item)) for row in frame.itertuples())
    # Some that failed were not needed any more.
    assert len(frame) == sum(count > fails[key] for key, count in attempts.items())
    assert answer.state in ("certified", "budget_spent")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_limit_of_calls_is_kept_without_holding_tests(backend: str) -> None:
    """Tests wait in the study, not here: no more are held than are under way."""
    held = []

    async def measure(arm: str, metric: str) -> float:
        await anyio.sleep(0)
        return float(arm == "good")

    def watch(study: ba.Study, running: int) -> None:
        held.append(len(study.pending()) - running)

    act = functools.partial(ba.identify_async, problem(), measure, per_minute=3000, watch=watch, storage=":memory:")
    assert run(backend, act).arm == "good"
    assert max(held) <= 0


@pytest.mark.parametrize("studies", lengths(12, 50))
def test_several_studies_at_once(studies: int) -> None:
    async def act() -> list[ba.Answer]:
        made = (ba.identify_async(problem(), exact, name=f"study {k}", storage=storage) for k in range(studies))
        return [*await asyncio.gather(*made)]

    storage = SQLStorage(":memory:", create=True)
    assert {answer.arm for answer in run("asyncio", act)} == {"good"}


def test_the_event_loop_goes_on_meanwhile() -> None:
    """The study waits for the event loop, which could not come about if the study held it."""
    turns = 0

    def watch(study: ba.Study, running: int) -> None:
        before = turns
        anyio.from_thread.run(anyio.lowlevel.checkpoint)
        assert turns > before

    async def act() -> ba.Answer:
        nonlocal turns

        async def turn() -> None:
            nonlocal turns
            while True:
                turns += 1
                await anyio.sleep(0)

        async with anyio.create_task_group() as group:
            group.start_soon(turn)
            answer = await ba.identify_async(problem(), exact, watch=watch)
            group.cancel_scope.cancel()
        return answer

    assert run("asyncio", act).arm == "good"


def test_bad_arguments() -> None:
    for wrong in (0, -1, True, 1.5, 10**6):
        with pytest.raises(ba.InvalidInput, match=r"concurrency = .*: must be a whole number from 1 to 10,000"):
            asyncio.run(ba.identify_async(problem(), exact, concurrency=wrong))  # type: ignore[arg-type]
    with pytest.raises(ba.InvalidInput, match=r"delta = 0\.95: .* was 0\.05 meant"):
        asyncio.run(ba.identify_async(problem(), exact, delta=0.95))
    with pytest.raises(ba.InvalidInput, match="per_minute = 0"):
        asyncio.run(ba.identify_async(problem(), exact, per_minute=0))
    with pytest.raises(ba.MeasurementFailed, match=r"is no coroutine function: write `async def`, or let best"):
        asyncio.run(ba.identify_async(problem(), lambda arm, metric: 1.0))  # type: ignore[arg-type]
