"""Documents, comments and messages name the person or the program: no "somebody", "nobody" or "whoever"."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "bestarm"
VAGUE = re.compile(r"\b(?:[Ss]omebody|[Nn]obody|[Ww]hoever)\b")
NAME = re.compile(r"""["']somebody["']""")
"""The holder's name where the system has none. It is in the record of studies, so it stays."""


def vague_lines(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    place = path.relative_to(ROOT)
    return [f"{place}:{k}: {line.strip()}" for k, line in enumerate(lines, 1) if VAGUE.search(NAME.sub("", line))]


def test_documents() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    assert len(documents) > 40
    assert [line for document in documents for line in vague_lines(document)] == []


def test_code() -> None:
    files = [path for ending in ("py", "js", "html") for path in PACKAGE.rglob(f"*.{ending}")]
    assert len(files) > 300
    assert [line for path in files for line in vague_lines(path)] == []


@pytest.mark.parametrize("line", ["# Nobody reads it.", "whoever asks", '"""Somebody else\'s."""'])
def test_vague_words_are_found(line: str) -> None:
    assert VAGUE.search(line)
