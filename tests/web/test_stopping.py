"""A server that stops while requests are under way."""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.tools.patience import PATIENCE, wait_until
from tests.web.service import client_at, new_study, refused

from bestarm.web import server
from bestarm.web.server import running
from bestarm.web.studies import ServedStudies


def test_requests_that_are_cut_short_are_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(server, "_STOP_SECONDS", 0.2)
    begun = 0

    async def never(*_: Any) -> Any:
        nonlocal begun
        begun += 1
        await asyncio.Event().wait()

    with ThreadPoolExecutor(2) as threads, contextlib.ExitStack() as serving:
        url = serving.enter_context(running(str(tmp_path / "x.db")))
        client = serving.enter_context(contextlib.closing(client_at(url)))
        study = new_study(client, "cut short")
        monkeypatch.setattr(ServedStudies, "study", never)
        sent = [
            threads.submit(httpx.request, method, f"{url}{study}/{act}", json=body, timeout=PATIENCE)
            for method, act, body in (("GET", "report", None), ("POST", "ask", {}))
        ]
        wait_until(lambda: begun == 2)
        serving.close()
        read, asked = (answer.result() for answer in sent)
    refused(read, 503, "the service was stopped before this was answered$")
    refused(asked, 504, "whether it was recorded is not known")
    assert "Traceback" not in caplog.text
