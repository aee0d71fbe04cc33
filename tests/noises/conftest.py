"""Somebody else's noise, installed as a package would install it."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ENTRY = "[bestarm.noises]\nbernstein = somebody_elses_noise:Bernstein\n"


@pytest.fixture(scope="session", name="install")
def install_fixture() -> Callable[[Path, str], None]:
    return install


def install(folder: Path, entry_points: str) -> None:
    """Make `folder` hold a package with these entry points."""
    about = folder / "somebody_else-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: somebody-else\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(entry_points)


@pytest.fixture(scope="session")
def plug_in_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder to put on Python's path: it holds the noise and its entry point."""
    folder = tmp_path_factory.mktemp("plug-in")
    shutil.copy(Path(__file__).with_name("bernstein.py"), folder / "somebody_elses_noise.py")
    install(folder, ENTRY)
    return folder


@pytest.fixture
def installed(plug_in_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(plug_in_folder))
    assert str(plug_in_folder) in sys.path
    return plug_in_folder
