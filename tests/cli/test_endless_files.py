"""A file without end is read up to a limit, and refused in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.program import bestarm


@pytest.mark.parametrize(
    "words",
    [
        ("new", "/dev/zero"),
        ("theory", "/dev/zero", "--delta", "0.1"),
        ("status", "x", "--db", "http://127.0.0.1:9", "--token", "@/dev/zero"),
    ],
)
def test_a_file_without_end_is_refused(tmp_path: Path, words: tuple[str, ...]) -> None:
    if not Path("/dev/zero").exists():
        pytest.skip("there is no file without end here")
    ended = bestarm(*words, cwd=tmp_path)
    assert ended.code == 2, ended.err[-500:]
    assert "/dev/zero" in ended.err
    assert "is larger than 64 MiB" in ended.err or "is too large for a file with a token" in ended.err
    assert ended.err.count("\n") <= 2
