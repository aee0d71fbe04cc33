"""A third-party noise, installed as a package would install it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.installed import install


@pytest.fixture(scope="session")
def plug_in_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to put on Python's path: it holds the noise and its entry point."""
    folder = tmp_path_factory.mktemp("plug-in")
    source = Path(__file__).with_name("bernstein.py").read_text(encoding="utf-8")
    install(folder, "[bestarm.noises]\nbernstein = somebody_elses_noise:Bernstein\n", somebody_elses_noise=source)
    return folder
