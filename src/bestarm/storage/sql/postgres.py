"""Connections to PostgreSQL that do not wait forever: a server, or the way to it, may fall silent without hanging up.

The system's own limits (`tcp_user_timeout`, keepalives) notice what is not acknowledged. A machine in between may
acknowledge everything and pass nothing on. So a client that waits for an answer asks now and then, over a second
connection, whether the server is still working on it. Slow answers may be slow, and lost ones are noticed.
"""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg
import sqlalchemy as sa

from bestarm.storage.errors import BUSY_SECONDS
from bestarm.validation import InvalidInput

T = TypeVar("T")

ANSWER_SECONDS = 15.0
"""Seconds of silence after which a server is asked whether it is still there."""

_PATIENCE = 10
"""The factor by which to wait longer if the server is there and cannot say what it is doing for us."""

_LIMITS: dict[str, int] = {
    "connect_timeout": 10,
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}
"""Defaults for the client. Options in the URL take precedence."""

_SERVER_LIMITS = {
    "lock_timeout": f"{BUSY_SECONDS:g}s",
    # A client that is gone must not keep the others out. A client that is deciding what to do next is idle too.
    "idle_in_transaction_session_timeout": "120s",
    "tcp_keepalives_idle": "30s",
    "tcp_keepalives_interval": "10s",
    "tcp_keepalives_count": "3",
}
"""Limits on the server's side, for our sessions. What is set on the server or in the URL takes precedence."""

_TRUSTED_SECONDS = 5.0
"""Seconds for which an unused connection is taken to work unless the server has hung up."""

_FULL = "too many clients|connection slots"


def connect_arguments(address: sa.URL) -> dict[str, Any]:
    """The limits on the client's side that neither the URL nor the environment sets."""
    given = set(address.query)
    if os.environ.get("PGCONNECT_TIMEOUT"):
        given.add("connect_timeout")
    return {name: limit for name, limit in _LIMITS.items() if name not in given}


def take_answer_limit(address: sa.URL) -> tuple[sa.URL, float]:
    """The address without our own option `answer_timeout`, and the seconds that it gives."""
    said = address.query.get("answer_timeout")
    if said is None:
        return address, ANSWER_SECONDS
    try:
        seconds = float(str(said))
    except ValueError:
        seconds = 0.0
    if not 0.0 < seconds <= 86400.0:
        raise InvalidInput(
            "answer_timeout", said, "must be a number of seconds, above 0 and at most 86400; it stands in the URL"
        )
    return address.difference_update_query(["answer_timeout"]), seconds


class Unanswered(psycopg.OperationalError):
    """The server has not answered, and nothing is known about it."""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that stops waiting for an answer when the server is not working on it."""

    answer_seconds = ANSWER_SECONDS
    _arguments: tuple[tuple[Any, ...], dict[str, Any]] | None = None
    """How to reach the server a second time; None for a connection that only asks whether it is there."""

    def wait(self, gen: Any, *args: Any, **more: Any) -> Any:
        return super().wait(self._watched(gen), *args, **more)

    def _watched(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        """Passes on what the driver waits for, and checks the clock each time nothing came."""
        try:
            wanted = next(gen)
            begun = looked = time.monotonic()
            doubted = False
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    begun, looked, doubted = now, now, False
                elif doubted:
                    # The server says that it has answered, and the answer still has not come.
                    self._give_up()
                elif now - looked > self.answer_seconds:
                    doubted = not self._may_come(now - begun)
                    looked = time.monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            result: T = end.value
            return result

    def _may_come(self, silent: float) -> bool:
        """Whether the answer may still come, after this many seconds of silence."""
        if self._arguments is None:
            return False
        works = self._works()
        return silent < _PATIENCE * self.answer_seconds if works is None else works

    def _give_up(self) -> None:
        self.pgconn.finish()
        raise Unanswered("the server does not answer")

    def _works(self) -> bool | None:
        """Whether the server is working on our statement. None if that cannot be known."""
        assert self._arguments is not None
        args, more = self._arguments
        # If the URL has several servers, the one that we are connected to.
        there = {"host": self.info.host, "port": self.info.port, "autocommit": True}
        try:
            with contextlib.closing(type(self).connect(*args, **more | there)) as other:
                other.answer_seconds, other._arguments = self.answer_seconds, None
                rows = other.execute(
                    "SELECT state FROM pg_stat_activity WHERE pid = %s", [self.info.backend_pid], prepare=False
                ).fetchall()
        except psycopg.Error as error:
            # A server with no room for a second connection is still there.
            return None if any(words in str(error) for words in _FULL.split("|")) else False
        # Behind a pooler the process number is different.
        return str(rows[0][0]).startswith("active") if rows else None


def watch_connections(engine: sa.Engine, answer_seconds: float) -> None:
    """Have the engine make such connections."""

    @sa.event.listens_for(engine, "do_connect")
    def connect(_dialect: Any, _record: Any, args: Any, more: Any) -> Any:
        made = WatchedConnection.connect(*args, **more)
        made.answer_seconds, made._arguments = answer_seconds, (tuple(args), dict(more))
        return made

    @sa.event.listens_for(engine, "checkin")
    def note(_connection: Any, record: Any) -> None:
        record.info["used"] = time.monotonic()

    @sa.event.listens_for(engine, "checkout")
    def look(connection: Any, record: Any, _proxy: Any) -> None:
        # A question to the server for each use would take longer than most uses. This sees that a server has hung up:
        # the first call reads why, the second the end.
        try:
            connection.pgconn.consume_input()
            connection.pgconn.consume_input()
            if time.monotonic() - record.info.get("used", math.inf) > _TRUSTED_SECONDS:
                engine.dialect.do_ping(connection)
        except psycopg.OperationalError:
            raise sa.exc.InvalidatePoolError from None

    @sa.event.listens_for(engine, "connect")
    def limit(connection: Any, _record: Any) -> None:
        listed = ", ".join(f"('{name}', '{limit}')" for name, limit in _SERVER_LIMITS.items())
        # In a transaction that is rolled back, they would be forgotten.
        was, connection.autocommit = connection.autocommit, True
        connection.execute(
            f"SELECT set_config(ours.name, ours.value, false) FROM (VALUES {listed}) AS ours (name, value) "
            "JOIN pg_settings AS theirs ON theirs.name = ours.name WHERE theirs.source = 'default'",
            prepare=False,
        )
        connection.autocommit = was
