"""What tests and the examples in docstrings share."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator

import pytest

from bestarm.study.record import seeds

# Without numba-cuda what is written in its terms cannot be imported, and has no examples to run.
collect_ignore_glob = [] if importlib.util.find_spec("numba_cuda") else ["src/bestarm/simulation/cuda/*.py"]


@pytest.fixture(scope="session", autouse=True)
def repeatable_seeds() -> Iterator[None]:
    """Studies of this process draw 0 for every seed that a test does not state. Those of child processes draw anew."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeds, "fresh_seed", lambda: 0)
        yield
