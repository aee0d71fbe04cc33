"""A file without end is read up to a limit, and refused in one line."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.program import Ended, bestarm

import bestarm as ba
from bestarm.cli.shared import files
from bestarm.study.files.backup import write_backup
from bestarm.study.intake import csv_file
from bestarm.web.server import running


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
    check(bestarm(*words, cwd=tmp_path), "/dev/zero", "is larger than 64 MiB|is too large for a file with a token")


def check(ended: Ended, name: str, reasons: str) -> None:
    assert ended.code == 2, ended.err[-500:]
    assert name in ended.err
    assert any(reason in ended.err for reason in reasons.split("|")), ended.err[-500:]
    assert ended.err.count("\n") <= 2


@contextlib.contextmanager
def endless(folder: Path, begin: bytes, more: bytes) -> Iterator[str]:
    """A pipe that begins sensibly, and goes on for ever."""
    path = folder / "endless"
    os.mkfifo(path)

    def write() -> None:
        with contextlib.suppress(BrokenPipeError), path.open("wb") as pipe:
            pipe.write(begin)
            while True:
                pipe.write(more)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield str(path)
    finally:
        # If nothing has been read, the writer still waits for a reader.
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_RDONLY | os.O_NONBLOCK))
        thread.join()


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ba.Study:
    for module, limit in ((csv_file, "LARGEST"), (files, "_LARGEST_PIPE")):
        monkeypatch.setattr(module, limit, 2**20)
    problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    return ba.Study.create(problem, name="x", storage=tmp_path / "x.db")


@pytest.mark.parametrize("words", [("tell", "x", "--from"), ("import", "x")])
@pytest.mark.parametrize("more", [b"a,gain,0.5\n" * 1000, b"a,gain,much\n" * 1000, b"0" * 10_000, b"\n" * 10_000])
def test_results_without_end_are_refused(tmp_path: Path, study: ba.Study, words: tuple[str, ...], more: bytes) -> None:
    with endless(tmp_path, b"arm,metric,value\n", more) as path:
        ended = bestarm(*words, path, "--db", "x.db", cwd=tmp_path)
    # A line without end is refused before.
    check(ended, path, "is larger than 1 MiB|field larger than field limit")
    assert study.status().tests == 0


@pytest.mark.parametrize("words", [("tell", "x", "--from"), ("import", "x")])
def test_results_without_end_are_not_sent(tmp_path: Path, study: ba.Study, words: tuple[str, ...]) -> None:
    with running(str(tmp_path / "x.db")) as url, endless(tmp_path, b"", b"a,gain,0.5\n" * 10_000) as path:
        check(bestarm(*words, path, "--db", url, cwd=tmp_path), path, "is larger than 64 MiB")


def test_a_backup_without_end_is_refused(tmp_path: Path, study: ba.Study) -> None:
    with (tmp_path / "backup").open("w+") as file:
        write_backup(study.storage, study.record, file)
    begin = (tmp_path / "backup").read_bytes()
    with endless(tmp_path, begin, begin) as path:
        check(bestarm("import", path, "--as", "y", "--db", "x.db", cwd=tmp_path), path, "is larger than 1 MiB")
    # One that ends can come through a pipe.
    os.mkfifo(tmp_path / "ends")
    thread = threading.Thread(target=lambda: (tmp_path / "ends").write_bytes(begin))
    thread.start()
    ended = bestarm("import", "ends", "--as", "y", "--db", "x.db", cwd=tmp_path)
    thread.join()
    assert "Restored y" in ended.out, ended.err
