"""Parts that a machine may lack: tests that need one skip where it is missing, and fail where it is required."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable

import pytest


@pytest.fixture
def needs() -> Callable[[str], None]:
    """Call it with the name of a package that the test needs; `BESTARM_REQUIRE` lists those that must be there."""

    def check(package: str) -> None:
        if importlib.util.find_spec(package) is not None:
            return
        if package in os.environ.get("BESTARM_REQUIRE", "").split(","):
            pytest.fail(f"{package} is required here and not installed")
        pytest.skip(f"{package} is not installed")

    return check
