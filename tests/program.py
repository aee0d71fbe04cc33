"""The command line in this process: a process of its own takes a second, most of which is importing."""

from __future__ import annotations

import contextlib
import gc
import io
import os
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from unittest import mock

import httpx

from bestarm.cli.app import main
from bestarm.client.connection import Connection


class Ended(NamedTuple):
    """What the program came to, and what it wrote."""

    code: int
    out: str
    err: str


@contextlib.contextmanager
def connections_closed() -> Iterator[None]:
    """Close what is left of connections to services. To collect all garbage took longer than most commands."""
    clients: list[httpx.Client] = []
    make = Connection._new_client

    def made(connection: Connection) -> httpx.Client:
        clients.append(make(connection))
        return clients[-1]

    with mock.patch.object(Connection, "_new_client", made):
        try:
            yield
        finally:
            for client in clients:
                client.close()


def bestarm(*words: str, cwd: Path | None = None, stdin: bytes = b"", **environment: str) -> Ended:
    """Run the program. Where the process itself is the point, as with signals and pipes, start one instead."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with (
        mock.patch.object(sys, "argv", ["bestarm", *words]),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin))),
        mock.patch.object(sys, "stdout", out),
        mock.patch.object(sys, "stderr", err),
        mock.patch.dict(os.environ, {"COLUMNS": "120", **environment}),
        contextlib.chdir(cwd or Path.cwd()),
        # What a process leaves open is closed when it ends; here it is only left behind.
        warnings.catch_warnings(action="ignore", category=ResourceWarning),
        connections_closed(),
    ):
        handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 0
        finally:
            for number, handler in handlers.items():
                signal.signal(number, handler)
        if any(text.startswith("postgresql") for text in (*words, *environment.values())):
            gc.collect()
    return Ended(code, *(stream.buffer.getvalue().decode() for stream in (out, err)))
