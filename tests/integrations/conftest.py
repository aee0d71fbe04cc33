"""Fixtures of packages that need some care."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def inspect_ai(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Any]:
    import inspect_ai

    monkeypatch.setenv("INSPECT_LOG_DIR", str(tmp_path / "logs"))
    yield inspect_ai
    # What it leaves open is found now, where it is ignored, and not in a later test.
    gc.collect()
