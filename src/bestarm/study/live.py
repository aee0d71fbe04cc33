"""What a study here and one on a server have in common, for those who work with either."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from bestarm.analysis.status.outlook import Outlook
from bestarm.analysis.status.status import Status
from bestarm.analysis.status.waiting import Awaited
from bestarm.answer import Answer
from bestarm.problem import Plan
from bestarm.storage.base import Aside, Pending
from bestarm.study.intake.names import Test
from bestarm.study.intake.values import Result


class LiveStudy(Protocol):
    """Methods and properties of `Study`, which say what they do, and of `RemoteStudy`."""

    @property
    def name(self) -> str: ...

    @property
    def plan(self) -> Plan: ...

    @property
    def holder(self) -> str: ...

    @property
    def done(self) -> bool: ...

    @property
    def answer(self) -> Answer | None: ...

    def ask(self, n: int = 1) -> list[Test]: ...

    def ask_block(
        self, *, days: float | None = None, lease: float | None = None, key: str | None = None
    ) -> list[Test]: ...

    def tell(self, test: Test | int, value: Result) -> None: ...

    def tell_many(self, results: Iterable[tuple[Test | int, Result]]) -> None: ...

    def fail(self, test: Test | int, reason: str) -> None: ...

    def abandon(self, test: Test | int, reason: str) -> None: ...

    def set_aside(self, test: Test | int, reason: str = "", *, kind: Aside = "failed") -> None: ...

    def release(self, tests: Iterable[Test | int]) -> None: ...

    def awaited(self) -> Awaited | None: ...

    def pending(self) -> list[tuple[Test, Pending]]: ...

    def status(self) -> Status: ...

    def _forecast(self, runs: int, seed: int, is_wanted: Callable[[], bool]) -> Outlook | None: ...
