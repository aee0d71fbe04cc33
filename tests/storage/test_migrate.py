"""`bestarm migrate`; what is upgraded without being told, with a copy beside it; what is refused."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from tests.program import bestarm
from tests.storage.test_upgrade import make_version
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.errors import OldTables
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.storage import SQLStorage


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as file:
        return int(file.execute("SELECT version FROM bestarm_schema").fetchone()[0])


def content(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as file:
        return [*file.iterdump()]


def old_tests(url: str) -> int:
    """How many tests the study has that was there before."""
    with closing(open_storage(url)) as storage:
        return ba.Study.open("old", storage=storage).status().tests


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """A file of version 2 in a folder of its own, not readable by others."""
    path = tmp_path / "lab" / "lab.db"
    path.parent.mkdir()
    make_version(2, str(path))
    path.chmod(0o640)
    return path


def test_a_file_of_ones_own_is_upgraded_and_a_copy_kept(old: Path, caplog: pytest.LogCaptureFixture) -> None:
    before = content(old)
    copy = old.with_name("lab.db.version-2.copy")
    with caplog.at_level(logging.WARNING, "bestarm.storage"), closing(open_storage(old)):
        pass
    assert version_of(old) == schema.VERSION
    assert content(copy) == before
    assert stat.S_IMODE(copy.stat().st_mode) == 0o640
    assert {path.name for path in old.parent.iterdir()} == {"lab.db", copy.name}
    [line] = caplog.messages
    assert line == f"{str(old)!r}: upgraded from version 2 to {schema.VERSION}; {str(copy)!r} has it as it was"
    # The copy can be put back, and no copy is written over.
    os.replace(copy, old)
    copy.write_text("mine")
    open_storage(old).close()
    assert copy.read_text() == "mine"
    assert content(old.with_name("lab.db.version-2.copy-2")) == before


def test_what_a_log_beside_the_file_holds_is_copied_too(old: Path) -> None:
    """A program that was killed left it."""
    script = (
        "import os, sqlite3, sys; file = sqlite3.connect(sys.argv[1]); file.execute('PRAGMA journal_mode = WAL'); "
        "file.execute(\"UPDATE bestarm_studies SET name = 'renamed' WHERE name = 'old'\"); file.commit(); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(old)], check=True, timeout=PATIENCE)
    assert old.with_name("lab.db-wal").stat().st_size
    with closing(open_storage(old)) as storage:
        assert storage.find_study("renamed")
    with closing(sqlite3.connect(old.with_name("lab.db.version-2.copy"))) as copy:
        assert ("renamed",) in copy.execute("SELECT name FROM bestarm_studies").fetchall()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_upgraded_only_when_told(old: Path) -> None:
    os.chown(old, 12345, -1)
    before = content(old)
    with pytest.raises(OldTables, match=r"earlier bestarm .* type `bestarm migrate --apply`"):
        open_storage(old)
    assert content(old) == before
    assert bestarm("migrate", "--apply", str(old)).code == 0
    open_storage(old).close()


def test_a_full_disk_leaves_all_as_it_was(old: Path) -> None:
    """Acted out in a child process, with a limit on the size of its files."""
    before = content(old)
    size = old.stat().st_size
    assert size > 8192
    script = """
import resource, signal, sys
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    open_storage(sys.argv[1])
except StorageError as error:
    print(error)
"""
    done = subprocess.run(
        [sys.executable, "-c", script, str(old), str(size // 2)], capture_output=True, text=True, timeout=PATIENCE
    )
    assert "must be upgraded, and no copy could be kept beside it" in done.stdout, done
    assert "nothing was changed" in done.stdout
    assert version_of(old) == 2
    assert content(old) == before
    assert [path.name for path in old.parent.iterdir()] == ["lab.db"]


def test_processes_that_open_an_old_file_at_once_make_one_copy(old: Path) -> None:
    script = "import sys; from bestarm.storage.opening import open_storage; open_storage(sys.argv[1]).studies()"
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(old)], stderr=subprocess.PIPE, text=True) for _ in range(4)
    ]
    said = [process.communicate(timeout=PATIENCE)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 4, said
    assert sum("upgraded" in words for words in said) == 1
    assert [path.name for path in old.parent.glob("*copy*")] == ["lab.db.version-2.copy"]
    assert version_of(old) == schema.VERSION


def test_what_a_killed_program_left_half_done_is_replaced(old: Path) -> None:
    unfinished = old.with_name("lab.db.version-2.unfinished")
    unfinished.write_bytes(b"half")
    open_storage(old).close()
    assert not unfinished.exists()
    assert version_of(old.with_name("lab.db.version-2.copy")) == 2


# ------------------------------------------------------------------------------------------------- the command


def test_check_changes_nothing(database_url: str) -> None:
    make_version(1, database_url)
    for _ in range(2):
        checked = bestarm("migrate", "--check", "--db", database_url)
        assert (checked.code, "bestarm migrate --apply" in checked.out) == (1, True), checked
        assert f"its schema is version 1, this program needs {schema.VERSION}" in checked.out
    told = json.loads(bestarm("migrate", "--check", "--json", database_url).out)
    assert told == {"found": 1, "needed": schema.VERSION, "upgraded": False, "copy": None}
    made = json.loads(bestarm("migrate", "--apply", "--json", database_url).out)
    copy = None if "://" in database_url else f"{os.path.realpath(database_url)}.version-1.copy"
    assert made == told | {"upgraded": True, "copy": copy}
    for option in ("--check", "--apply"):
        now = bestarm("migrate", option, "--db", database_url)
        assert (now.code, f"its schema is version {schema.VERSION}, which is that of this program" in now.out) == (
            0,
            True,
        )
    assert old_tests(database_url) == 2


def test_a_server_is_upgraded_only_when_told(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    make_version(2, url)
    with pytest.raises(OldTables) as refused:
        ba.Study.open("old", storage=url)
    assert (refused.value.found, refused.value.needed) == (2, schema.VERSION)
    served = bestarm("serve", "--db", url, "--port", "0")
    assert (served.code, "type `bestarm migrate --apply`" in served.err) == (2, True), served
    found = bestarm("doctor", "--db", url)
    assert (found.code, "bestarm migrate --apply" in " ".join(found.out.split())) == (1, True), found
    assert bestarm("migrate", "--apply", url).out.endswith(f"upgraded from version 2 to {schema.VERSION}.\n")
    assert old_tests(url) == 7


def test_doctor_upgrades_nothing(old: Path) -> None:
    before = content(old)
    found = bestarm("doctor", "--db", str(old))
    assert (found.code, "bestarm migrate --apply" in " ".join(found.out.split())) == (1, True), found
    assert content(old) == before


def test_a_database_without_tables_needs_no_upgrade(database_url: str) -> None:
    """So that a service can be set up with it before the first start, too."""
    if "://" not in database_url:
        Path(database_url).touch()
    for option in ("--check", "--apply"):
        ended = bestarm("migrate", option, database_url)
        assert (ended.code, "holds no studies yet" in ended.out) == (0, True), ended


def test_what_is_refused(tmp_path: Path) -> None:
    for words, said in (
        (["migrate"], "must have one of --check and --apply"),
        (["migrate", "--check", "--apply"], "must have one of --check and --apply"),
        (["migrate", "--check", "a.db", "--db", "b.db"], "--db: is given as DB, too"),
        (["migrate", "--apply", "a.db"], "no such file"),
    ):
        ended = bestarm(*words, cwd=tmp_path)
        assert (ended.code, said in ended.err) == (2, True), ended
    assert [*tmp_path.iterdir()] == []
    ba.Study.create(
        ba.Plan(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Bernoulli())),
        name="x",
        storage=tmp_path / "a.db",
    ).storage.close()
    with closing(sqlite3.connect(tmp_path / "a.db")) as file:
        file.execute("UPDATE bestarm_schema SET version = 999")
        file.commit()
    for option in ("--check", "--apply"):
        ended = bestarm("migrate", option, "a.db", cwd=tmp_path)
        assert (ended.code, "was made by a newer bestarm" in ended.err) == (2, True), ended


def test_an_open_storage_notices_other_tables(database_url: str) -> None:
    """Another program upgraded them, or put an older copy in their place."""
    with closing(SQLStorage(database_url, create=True)) as storage:
        storage.check_tables()
        for version, said in ((schema.VERSION - 1, "earlier bestarm"), (schema.VERSION + 1, "newer bestarm")):
            with storage._database.transaction() as connection:
                connection.exec_driver_sql(f"UPDATE bestarm_schema SET version = {version}")
            with pytest.raises(ba.InvalidInput, match=said):
                storage.check_tables()
