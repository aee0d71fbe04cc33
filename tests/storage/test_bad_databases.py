"""Databases that are not there, not ours, damaged or not to be written: one clear line, and nothing changed."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from tests.lengths import cases, first
from tests.storage.test_upgrade import make_version
from tests.tools.patience import PATIENCE
from tests.tools.postgres import PostgresServer

import bestarm as ba
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage
from bestarm.storage.sql import schema
from bestarm.storage.sql.read_only import StandingFile
from bestarm.storage.sql.storage import SQLStorage


def new_study(path: Path | str, tests: int = 0) -> ba.Study:
    """With so many results, in a closed database: one file, without a log beside it."""
    problem = ba.Problem(arms=(ba.Arm("a"), ba.Arm("b")), objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
    study = ba.Study.create(problem, name="mine", storage=path)
    study.add([("ab"[k % 2], "gain", 0.5) for k in range(tests)])
    study.storage.close()
    return study


def refusal(act: Callable[[], object], kind: type[Exception] = ba.InvalidInput) -> str:
    """What it says: one line."""
    with pytest.raises(kind) as caught:
        act()
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith("storage")
    return said


def digests(folder: Path) -> dict[str, str]:
    """What the files hold; readers may leave SQLite's shared index and an empty log behind, which hold nothing."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.iterdir()
        if path.is_file()
        and not path.name.endswith("-shm")
        and not (path.name.endswith("-wal") and not path.stat().st_size)
    }


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("missing.db", "no such file"),
        ("no/such/folder/studies.db", "no such file"),
        ("folder", "is a folder"),
        ("fifo", "is not a file"),
        ("text.db", "is not a bestarm database"),
        ("empty.db", "holds no studies yet"),
        ("other.db", "another program"),
        ("other-wal.db", "another program"),
        ("newer.db", "newer bestarm"),
        ("x" * 300, "too long"),
    ],
)
def test_files_that_cannot_be_opened(name: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "text.db").write_text("arm,metric,value\na,gain,1\n" * 100)
    (tmp_path / "empty.db").touch()
    for other in ("other.db", "other-wal.db"):
        file = sqlite3.connect(tmp_path / other)
        if "wal" in other:
            file.execute("PRAGMA journal_mode = WAL")
        file.execute("CREATE TABLE songs (title TEXT)")
        file.commit()
        file.close()
    new_study(tmp_path / "newer.db")
    file = sqlite3.connect(tmp_path / "newer.db")
    file.execute("UPDATE bestarm_schema SET version = 999")
    file.commit()
    file.close()
    before = digests(tmp_path)
    path = tmp_path / name
    assert words in refusal(lambda: open_storage(path))
    if words not in ("no such file", "holds no studies yet"):
        assert words in refusal(lambda: open_storage(path, create=True))
    assert digests(tmp_path) == before
    assert not (tmp_path / "missing.db").exists()


def test_a_missing_folder_is_not_made(tmp_path: Path) -> None:
    assert "does not exist" in refusal(lambda: open_storage(tmp_path / "no" / "studies.db", create=True))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["mysql://host/x", "postgresql://host:port/x", "://", "http://host/studies", "a\0b", " "]
)
def test_addresses_that_mean_nothing(url: str) -> None:
    refusal(lambda: open_storage(url, create=True))


def test_passwords_are_not_shown() -> None:
    for url in ("postgresql://me:secret@127.0.0.1:9/x", "postgresql://me@127.0.0.1:9/x?password=secret"):
        assert "secret" not in refusal(functools.partial(open_storage, url), StorageError)


@pytest.mark.parametrize("damage", ["middle", "truncated", "header"])
def test_damaged_files(damage: str, tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    new_study(path, tests=5000)
    size = path.stat().st_size
    with path.open("r+b") as file:
        if damage == "truncated":
            file.truncate(size // 2)
        else:
            file.seek(0 if damage == "header" else 8192)
            file.write(bytes(range(1, 251)) * (1 if damage == "header" else (size - 20_000) // 250))
    before = digests(tmp_path)

    def read() -> None:
        study = ba.Study.open("mine", storage=path)
        try:
            study.status()
            study.log()
            study.tell(1, 0.25)
        finally:
            study.storage.close()

    said = refusal(read)
    assert ("damaged" in said) or (damage == "header" and "not a bestarm database" in said)
    assert digests(tmp_path) == before


_TRY = """
import contextlib, os, pwd, sys
import bestarm as ba
problem = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1.0)))
def attempt(act):
    try:
        act()
    except Exception as error:
        print(type(error).__name__, str(error))
def change(path):
    study = ba.Study.open("mine", storage=path)
    print("tests", study.status().tests)
    study.add([("a", "gain", 1.0)])
def create(path):
    return ba.Study.create(problem, name="new", storage=path)
# Everything that is imported late, while we may still read it.
create(":memory:").status()
with contextlib.redirect_stdout(None):
    attempt(lambda: change("no such file"))
for line in sys.stdin:
    path = line.rstrip()
    if os.fork():
        os.wait()
        print("---", flush=True)
        continue
    if os.geteuid() == 0:
        # Root may write what is marked read-only.
        nobody = pwd.getpwnam("nobody")
        os.setgroups([])
        os.setgid(nobody.pw_gid)
        os.setuid(nobody.pw_uid)
    attempt(lambda: change(path))
    attempt(lambda: create(path))
    sys.exit()
"""


@pytest.fixture(scope="module")
def tried() -> Iterator[Callable[[Path], list[str]]]:
    """What a user without special rights is told who changes a study there, and then creates one."""
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    # Children of one program that has imported everything: each would take a second for that.
    with subprocess.Popen([sys.executable, "-c", _TRY], **pipes) as program:
        stdin, stdout = program.stdin, program.stdout
        assert stdin is not None
        assert stdout is not None

        def tell(path: Path) -> list[str]:
            stdin.write(f"{path}\n")
            lines = []
            while (line := stdout.readline()) != "---\n":
                assert line, "it died"
                lines.append(line.rstrip("\n"))
            return lines

        yield tell
        stdin.close()


@pytest.fixture
def open_folder() -> Path:
    """A folder that other users can reach."""
    return Path(tempfile.mkdtemp(prefix="bestarm-test-"))


def _break_off(path: Path) -> None:
    """Record two more results, and end as a killed program does: they are in the log, and the index is gone."""
    script = (
        "import os, sys, bestarm as ba; study = ba.Study.open('mine', storage=sys.argv[1]); "
        "study.add([('a', 'gain', 1.0), ('b', 'gain', 1.0)]); os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=PATIENCE)
    assert path.with_name(path.name + "-wal").stat().st_size
    path.with_name(path.name + "-shm").unlink()


@cases(1)
@pytest.mark.parametrize("how", first(3, ["file", "log", "version 2", "folder", "empty log", "index", "version 1"]))
def test_read_only(how: str, open_folder: Path, tried: Callable[[Path], list[str]]) -> None:
    """What cannot be written can be read, also in a folder that cannot be written. Nothing is changed."""
    path, tests = open_folder / "studies.db", 4
    try:
        new_study(path, tests=4)
        if how == "log":
            _break_off(path)
            tests = 6
        elif how == "empty log":
            path.with_name(path.name + "-wal").touch()
        elif how.startswith("version"):
            path.unlink()
            make_version(int(how[-1]), str(path))
            file = sqlite3.connect(path)
            file.execute(
                "UPDATE bestarm_studies SET name = 'mine', plan = replace(plan, 'safe', 'a') WHERE name = 'old'"
            )
            file.commit()
            file.close()
            tests = 2 if how[-1] == "1" else 7
        writer = ba.Study.open("mine", storage=path) if how == "index" else None
        if writer is not None:
            writer.add([("a", "gain", 1.0)])
            tests = 5
        before = digests(open_folder)
        for file_there in open_folder.iterdir():
            file_there.chmod(0o444)
        open_folder.chmod(0o777 if how == "file" else 0o555)
        copies = set(Path(tempfile.gettempdir()).glob("bestarm-read-*"))
        lines = tried(path)
        assert set(Path(tempfile.gettempdir()).glob("bestarm-read-*")) <= copies
        assert digests(open_folder) == before
        if writer is not None:
            writer.storage.close()
    finally:
        open_folder.chmod(0o755)
        shutil.rmtree(open_folder)
    said = f"InvalidInput storage = {str(path)!r}: is read-only; nothing was changed"
    assert lines == [f"tests {tests}", said, said]


def test_a_file_that_is_written_while_it_is_read_as_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "studies.db"
    study = new_study(path, tests=4)
    standing = StandingFile(str(path), "there")
    with standing.unchanged(), contextlib.closing(standing.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM bestarm_outcomes").fetchone() == (4,)

    def read() -> None:
        with standing.unchanged(), contextlib.closing(standing.connect()) as connection:
            connection.execute("SELECT count(*) FROM bestarm_outcomes").fetchone()
            study.add([("a", "gain", 1.0)])
            study.storage.close()

    assert "was written while it was read" in refusal(read, StorageError)
    # Who begins later sees what was written since.
    with contextlib.closing(standing.connect()) as connection:
        assert connection.execute("SELECT count(*) FROM bestarm_outcomes").fetchone() == (5,)


def test_a_new_file_in_a_read_only_folder(open_folder: Path, tried: Callable[[Path], list[str]]) -> None:
    open_folder.chmod(0o555)
    try:
        lines = tried(open_folder / "studies.db")
        assert "no such file" in lines[0]
        assert "cannot be opened" in lines[1]
        assert list(open_folder.iterdir()) == []
    finally:
        open_folder.chmod(0o755)
        shutil.rmtree(open_folder)


def test_servers_that_do_not_let_us_in(postgres_server: PostgresServer) -> None:
    server = postgres_server
    url = server.new_database()
    database = url.rsplit("/", 1)[1]
    assert "holds no studies yet" in refusal(lambda: open_storage(url))
    assert "password" in refusal(lambda: open_storage(server.url(database, password="wrong"), create=True))
    assert "no such database" in refusal(lambda: open_storage(server.url("nowhere"), create=True))
    assert "cannot be reached" in refusal(lambda: open_storage(server.url(database, port=9), create=True), StorageError)
    assert "option" in refusal(lambda: open_storage(url + "?color=red", create=True))
    new_study(url)
    storage = SQLStorage(url)
    with storage._database.transaction() as connection:
        connection.execute(sa.update(schema.schema).values(version=999))
    assert "newer bestarm" in refusal(lambda: open_storage(url))
    with storage._database.transaction() as connection:
        connection.execute(sa.update(schema.schema).values(version=schema.VERSION))
        connection.exec_driver_sql(f"ALTER DATABASE {database} SET default_transaction_read_only = on")
    storage.close()
    study = ba.Study.open("mine", storage=url)
    assert "read-only" in refusal(lambda: study.add([("a", "gain", 1.0)]))
    assert study.status().tests == 0
    study.storage.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_old_database_on_a_read_only_server(version: int, postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    make_version(version, url)
    engine = sa.create_engine(url.replace("postgresql://", "postgresql+psycopg://"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        name = url.rsplit("/", 1)[1]
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    engine.dispose()
    before = _columns(url)
    assert "bestarm migrate --apply" in refusal(lambda: open_storage(url))
    assert "is read-only; nothing was changed" in refusal(lambda: SQLStorage(url, upgrade="always"))
    assert _columns(url) == before


def test_without_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    said = refusal(lambda: open_storage("postgresql://me@127.0.0.1/x"))
    assert "psycopg" in said
    assert "bestarm[postgres]" in said


# ------------------------------------------------------------------------------------------------- versions


def _add_note(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE bestarm_studies ADD COLUMN note TEXT")


def _break(connection: sa.Connection) -> None:
    connection.exec_driver_sql("ALTER TABLE bestarm_studies ADD COLUMN color TEXT")
    connection.exec_driver_sql("DELETE FROM bestarm_outcomes")
    raise ZeroDivisionError


def _columns(url: str) -> tuple[int, list[str], int]:
    """Version, columns of the studies, and how many outcomes there are, as another program sees them."""
    engine = sa.create_engine(
        url.replace("postgresql://", "postgresql+psycopg://") if "://" in url else f"sqlite:///{url}"
    )
    with engine.connect() as connection:
        version = connection.exec_driver_sql("SELECT version FROM bestarm_schema").scalar_one()
        outcomes = connection.exec_driver_sql("SELECT count(*) FROM bestarm_outcomes").scalar_one()
        columns = [column["name"] for column in sa.inspect(connection).get_columns("bestarm_studies")]
    engine.dispose()
    return version, columns, outcomes


def test_older_databases_are_brought_up_to_date(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new_study(database_url, tests=3)
    version, columns, _ = _columns(database_url)
    monkeypatch.setattr(schema, "VERSION", version + 2)
    # A step that fails leaves the database as it was, with what the steps before it did undone.
    monkeypatch.setattr(schema, "STEPS", {version: _add_note, version + 1: _break})
    with pytest.raises(ZeroDivisionError):
        SQLStorage(database_url, upgrade="always")
    assert _columns(database_url) == (version, columns, 3)
    monkeypatch.setattr(schema, "STEPS", {version: _add_note, version + 1: lambda connection: None})
    SQLStorage(database_url, upgrade="always").close()
    assert _columns(database_url) == (version + 2, [*columns, "note"], 3)
    # The program that does not know the new version leaves it alone.
    monkeypatch.setattr(schema, "VERSION", version)
    assert "newer bestarm" in refusal(lambda: open_storage(database_url))


def test_a_version_without_a_way_forward(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    new_study(database_url, tests=3)
    before = _columns(database_url)
    monkeypatch.setattr(schema, "VERSION", schema.VERSION + 1)
    monkeypatch.setattr(schema, "STEPS", {})
    assert "too old" in refusal(lambda: open_storage(database_url))
    assert _columns(database_url) == before
