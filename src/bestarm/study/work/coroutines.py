"""Calls of a coroutine function in an event loop, of asyncio or of trio, for work that goes on in a thread."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.from_thread
import anyio.to_thread
from anyio.abc import TaskGroup

from bestarm.study.work.failures import NotStarted, ProgramMistake

T = TypeVar("T")


class Calls:
    """Calls of `function` that a thread asks for and the event loop makes."""

    def __init__(self, function: Callable[..., Any], group: TaskGroup) -> None:
        self._function = function
        self._group = group
        self._closed = False

    def submit(self, names: tuple[str, ...]) -> Future[Any]:
        """From the thread: begin a call."""
        future: Future[Any] = Future()
        anyio.from_thread.run_sync(self._begin, names, future)
        return future

    def check_open(self) -> None:
        """From the thread: raise an error if no more calls are made. Work that waits for others would not notice."""
        if self._closed:
            raise NotStarted("the calls were cancelled")

    def close(self) -> None:
        """In the event loop: begin no more calls."""
        self._closed = True

    def _begin(self, names: tuple[str, ...], future: Future[Any]) -> None:
        if self._closed:
            future.set_exception(NotStarted("the calls were cancelled"))
        else:
            self._group.start_soon(self._call, names, future)

    async def _call(self, names: tuple[str, ...], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            made = self._function(*names)
            if not inspect.isawaitable(made):
                what = "write `async def`, or let bestarm.identify(…, workers=32) call it"
                raise ProgramMistake(f"the function is no coroutine function: {what}")
            future.set_result(await made)
        except Exception as error:
            future.set_exception(error)
        except BaseException:
            future.set_exception(NotStarted("the call was cancelled"))
            raise


async def in_event_loop(act: Callable[[Calls], T], function: Callable[..., Any]) -> T:
    """What `act` returns, which works in a thread and has calls of `function` made here.

    Cancelled, it cancels the calls under way, and waits until `act` has taken note of that.
    """
    outcome: Future[T] = Future()
    try:
        async with anyio.create_task_group() as group:
            calls, over = Calls(function, group), anyio.Event()

            async def work() -> None:
                # It ends by itself once its calls have ended. Cancelling it would leave its thread behind.
                with anyio.CancelScope(shield=True):
                    settle = functools.partial(_settle, outcome, act, calls)
                    # Studies that are worked on at once must not wait for each other's threads.
                    await anyio.to_thread.run_sync(settle, limiter=anyio.CapacityLimiter(1))
                over.set()

            group.start_soon(work)
            try:
                await over.wait()
            finally:
                calls.close()
                group.cancel_scope.cancel()
    except BaseExceptionGroup as group_of_one:
        # What calls raise is told to the study. What comes through is Ctrl-C.
        raise group_of_one.exceptions[0] from None
    return outcome.result()


def _settle(outcome: Future[T], act: Callable[[Calls], T], calls: Calls) -> None:
    try:
        outcome.set_result(act(calls))
    except BaseException as error:
        outcome.set_exception(error)
