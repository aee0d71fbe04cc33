"""Machine code that another user could have written is neither loaded nor kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bestarm.kernel.compile import compiled, kernel
from bestarm.kernel.native import disk_cache
from bestarm.kernel.native.disk_cache import ENDING, NotPrivate, cache_folders, keep, private, read

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="this system has no permissions of this kind")
needs_root = pytest.mark.skipif(
    hasattr(os, "geteuid") and os.geteuid() != 0, reason="only root can make files of other users"
)
OTHER, THIRD = 65534, 1234
"""Other users."""


@kernel
def next_number(x: float) -> float:
    return x + 1.0


@kernel
def previous_number(x: float) -> float:
    return x - 1.0


root: Any = next_number


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder for machine code, not made yet, in one that only we can write."""
    monkeypatch.setenv("BESTARM_CACHE_DIR", str(tmp_path / "parent" / "kept"))
    return tmp_path / "parent" / "kept"


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def kept_code(folder: Path) -> Path:
    keep(root, "code", b"content")
    assert read(root, "code") == b"content"
    return folder / f"code{ENDING}"


def is_refused(folder: Path) -> bool:
    """Whether nothing is loaded from a folder, and nothing more is put there."""
    before = sorted(folder.iterdir())
    keep(root, "more", b"content")
    assert sorted(folder.iterdir()) == before
    assert cache_folders(root)[0].is_open
    return read(root, "code") is None


@pytest.mark.usefixtures("no_umask")
def test_what_is_made_is_closed_to_others(folder: Path) -> None:
    file = kept_code(folder)
    assert (mode(file), mode(folder), mode(folder.parent)) == (0o600, 0o700, 0o700)


@pytest.mark.parametrize("bits", [0o777, 0o757, 0o702, 0o1777], ids=oct)
def test_a_folder_that_others_can_write(folder: Path, bits: int) -> None:
    kept_code(folder)
    folder.chmod(bits)
    assert is_refused(folder)
    assert str(cache_folders(root)[0].objection) == f"other users can write to {folder}"
    folder.chmod(0o755)
    assert read(root, "code") == b"content"


def test_a_folder_further_up_that_others_can_write(folder: Path) -> None:
    kept_code(folder)
    folder.parent.chmod(0o777)
    assert is_refused(folder)
    folder.parent.chmod(0o1777)  # as /tmp
    assert read(root, "code") == b"content"


def test_a_group_that_others_are_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept_code(folder)
    folder.parent.chmod(0o775)
    monkeypatch.setattr(disk_cache, "_own_groups", lambda user: frozenset())
    assert is_refused(folder)
    monkeypatch.setattr(disk_cache, "_own_groups", lambda user: frozenset([folder.parent.stat().st_gid]))
    assert read(root, "code") == b"content"


@pytest.mark.parametrize("bits", [0o606, 0o660, 0o666, 0o602], ids=oct)
def test_a_file_that_others_can_write(folder: Path, bits: int) -> None:
    file = kept_code(folder)
    file.chmod(bits)
    assert read(root, "code") is None
    kept_code(folder)  # it is replaced by one of ours
    assert mode(file) == 0o600


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


def subfolder(file: Path) -> None:
    file.unlink()
    file.mkdir()


@pytest.mark.parametrize("change", [link, pipe, subfolder])
def test_what_is_no_file(folder: Path, change: Callable[[Path], None]) -> None:
    change(kept_code(folder))
    assert read(root, "code") is None


def test_links_of_ours_are_followed_and_what_they_lead_to_is_looked_at(folder: Path, tmp_path: Path) -> None:
    real = tmp_path / "real"
    real.mkdir(mode=0o700)
    folder.parent.mkdir(mode=0o700)
    folder.symlink_to("../real")
    kept_code(folder)
    assert private(folder) == real.resolve()
    real.chmod(0o777)
    assert is_refused(folder)
    real.rename(tmp_path / "away")
    real.symlink_to(real)
    with pytest.raises(NotPrivate, match="too many links"):
        private(folder)


def test_what_is_not_there_is_not_made_to_be_read(folder: Path) -> None:
    assert read(root, "code") is None
    assert not folder.parent.exists()


@needs_root
@pytest.mark.parametrize("path", ["parent", "parent/kept"])
def test_a_folder_of_another_user(folder: Path, tmp_path: Path, path: str) -> None:
    kept_code(folder)
    os.chown(tmp_path / path, OTHER, OTHER)
    assert is_refused(folder)
    assert cache_folders(root)[0].objection == f"{tmp_path / path} belongs to another user"


@needs_root
def test_a_file_of_another_user(folder: Path) -> None:
    file = kept_code(folder)
    os.chown(file, OTHER, OTHER)
    assert read(root, "code") is None
    kept_code(folder)
    assert file.stat().st_uid == 0


@needs_root
def test_a_link_of_another_user(folder: Path, tmp_path: Path) -> None:
    folder.parent.mkdir()
    folder.symlink_to(tmp_path)
    keep(root, "code", b"content")
    assert read(root, "code") == b"content"
    os.lchown(folder, OTHER, OTHER)
    assert read(root, "code") is None
    assert cache_folders(root)[0].objection == f"{folder} is a link of another user"


@needs_root
def test_a_user_loads_what_root_made_and_nothing_of_a_third(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = kept_code(folder)
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert read(root, "code") == b"content"
    os.chown(folder, OTHER, OTHER)
    assert read(root, "code") == b"content"
    os.chown(file, THIRD, THIRD)
    assert read(root, "code") is None
    os.chown(file, 0, 0)
    os.chown(folder, THIRD, THIRD)
    assert is_refused(folder)


@pytest.mark.parametrize(
    "plant", ["a file of another user", "a file that all can write", "a folder that all can write"]
)
def test_planted_code_does_not_run(folder: Path, plant: str) -> None:
    """Machine code of another kernel, whole and valid, is where that of `root` is looked for."""
    if plant == "a file of another user" and os.geteuid() != 0:
        pytest.skip("only root can make files of other users")

    def answer(kernel: Any = root) -> float:
        made = compiled(kernel)
        made._forms.clear()  # as in another process
        return float(made(10.0))

    assert (answer(), answer(previous_number)) == (11.0, 9.0)
    [own] = folder.glob("next_number*")
    [other] = folder.glob("previous_number*")
    own.write_bytes(other.read_bytes())
    assert answer() == 9.0  # what is ours is run
    if plant == "a file of another user":
        os.chown(own, OTHER, OTHER)
    else:
        (own if "file" in plant else folder).chmod(0o777)
    assert answer() == 11.0


def test_code_beside_the_module_can_be_read_by_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As what Python keeps there. An image compiles as root, and runs as another user."""
    monkeypatch.setattr(disk_cache, "_folders", lambda root: [tmp_path / "__pycache__"])
    before = os.umask(0)
    keep(root, "code", b"content")
    os.umask(before)
    assert mode(tmp_path / "__pycache__") == 0o755
    assert mode(tmp_path / "__pycache__" / f"code{ENDING}") == 0o644
    assert read(root, "code") == b"content"
