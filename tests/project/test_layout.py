"""Where tests lie: in a folder with the name of the package that they test, in files that can be read at a sitting."""

from __future__ import annotations

from pathlib import Path

import bestarm

TESTS = Path(__file__).parents[1]
PACKAGE = Path(bestarm.__file__).parent
MOST_LINES = 400

OTHERS = {"project", "tools", "torture"}
"""What concerns the whole: documents, examples, the built package, public names, where tests lie. What tests and
benchmarks share. Faults of every kind."""


def names(folder: Path, pattern: str) -> set[str]:
    return {path.stem for path in folder.glob(pattern) if not path.name.startswith("_")}


def test_no_file_is_too_long() -> None:
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in TESTS.rglob("*.py")}
    assert {path: lines for path, lines in lengths.items() if lines > MOST_LINES} == {}


def test_every_folder_is_a_package_or_named_otherwise_on_purpose() -> None:
    folders = {path.parent.name for path in TESTS.glob("*/*.py")}
    packages = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders <= packages | OTHERS, folders - packages
    # What lies directly in tests/ is about a module that lies directly in the package.
    assert {name.removeprefix("test_") for name in names(TESTS, "test_*.py")} <= names(PACKAGE, "*.py")


def test_no_name_repeats_the_folder() -> None:
    repeated = [path for path in TESTS.glob("*/test_*_*.py") if path.name.startswith(f"test_{path.parent.name}_")]
    assert repeated == []
