"""What `tools/release.py` finds in the way of a release."""

from __future__ import annotations

import datetime
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from packaging.version import Version

from release import FIGURES, MOST_DAYS, faults_in_files, faults_in_history

TODAY = datetime.date(2030, 5, 17)
READY = {
    "src/bestarm/__init__.py": '__version__ = "1.2.0"\n',
    "CHANGELOG.md": "# Changelog\n\n## 1.2.0 (2030-05-16)\n- A thing.\n\n### Upgrading\nNothing to do.\n\n## 1.1.0\n",
    "CITATION.cff": "version: 1.2.0\ndate-released: 2030-05-16\n",
    "pyproject.toml": '[project]\nclassifiers = ["Development Status :: 5 - Production/Stable"]\n',
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A project that is fit to be released as 1.2.0."""
    for name, text in READY.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def found(root: Path, version: str = "1.2.0") -> list[str]:
    return list(faults_in_files(root, Version(version), TODAY))


def test_nothing_is_in_the_way_of_files_that_agree(tree: Path) -> None:
    assert found(tree) == []


@pytest.mark.parametrize(
    ("name", "old", "new", "fault"),
    [
        ("src/bestarm/__init__.py", "1.2.0", "1.1.0", "__version__ is '1.1.0'"),
        ("CHANGELOG.md", "(2030-05-16)", "(unreleased)", "the first heading is '1.2.0 (unreleased)'"),
        ("CHANGELOG.md", "2030-05-16", "2030-05-18", "2030-05-18 is in the future"),
        ("CHANGELOG.md", "### Upgrading", "### Rest", "no section 'Upgrading'"),
        ("CITATION.cff", "2030-05-16", "2030-05-15", "1.2.0 and 2030-05-15"),
        ("pyproject.toml", "5 - Production/Stable", "3 - Alpha", "5 - Production/Stable"),
    ],
)
def test_what_does_not_agree_is_named(tree: Path, name: str, old: str, new: str, fault: str) -> None:
    file = tree / name
    file.write_text(file.read_text().replace(old, new))
    faults = found(tree)
    assert any(one.startswith(f"{name}: ") and fault in one for one in faults), faults


def test_the_files_of_one_release_do_not_suit_another(tree: Path) -> None:
    named = {fault.partition(":")[0] for fault in found(tree, "0.9.0")}
    assert named == set(READY)


@pytest.fixture
def committed(tree: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Commit everything on a day, and say what is in the way after so many days more."""
    for name in ("GIT_AUTHOR", "GIT_COMMITTER"):
        monkeypatch.setenv(f"{name}_NAME", "a")
        monkeypatch.setenv(f"{name}_EMAIL", "a@b.example")
        monkeypatch.setenv(f"{name}_DATE", f"{TODAY.isoformat()}T12:00:00+00:00")
    for name in FIGURES:
        (tree / name).parent.mkdir(exist_ok=True)
        (tree / name).write_text("7.5\n")

    def git(*words: str) -> None:
        subprocess.run(["git", *words], cwd=tree, check=True, capture_output=True)

    git("init", "--quiet", "--initial-branch", "main")
    git("add", ".")
    git("commit", "--quiet", "--message", "All")

    def faults(*words: str, days: int = 0) -> list[str]:
        if words:
            git(*words)
        return list(faults_in_history(tree, Version("1.2.0"), TODAY + datetime.timedelta(days)))

    return faults


def test_the_history_is_looked_at(tree: Path, committed: Callable[..., list[str]]) -> None:
    assert committed() == []
    assert committed("tag", "1.1.9") == []
    assert committed("tag", "v1.2.0") == ["git: there is a release v1.2.0"]
    assert committed("tag", "--delete", "v1.2.0") == []
    assert committed(days=MOST_DAYS) == []
    old = committed(days=MOST_DAYS + 1)
    assert [fault.partition(":")[0] for fault in old] == list(FIGURES)
    assert committed("switch", "--create", "other") == ["git: the branch is 'other'; releases are made from main"]
    (tree / "CHANGELOG.md").write_text("")
    assert committed("switch", "main") == ["git: 1 files are not committed"]
