"""No message, no finding and no page repeats a secret of a database's address, wherever the user has put it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.lengths import cases, examples
from tests.tools.postgres import PostgresServer
from typer.testing import CliRunner

import bestarm as ba
from bestarm.cli.app import app
from bestarm.cli.doctor import _database
from bestarm.client import Client
from bestarm.storage.address import read_address, shown_address
from bestarm.storage.errors import StorageError
from bestarm.storage.opening import open_storage

WORDS = ("s3cr3t", "hushhush")
"""What must not be seen."""

# Nothing listens there, so each attempt ends at once.
NOWHERE = "127.0.0.1:9"

PLACES = [
    "postgresql://me:{raw}@{host}/db",
    "postgresql://me:{quoted}@{host}/db",
    "postgres://me:{raw}@{host}/db",
    "postgresql+psycopg://me:{raw}@{host}/db?sslmode=disable",
    "postgresql://me@{host}/db?password={quoted}",
    "postgresql://me@{host}/db?sslpassword={quoted}&sslmode=disable",
    "postgresql://me@{host}/db?passfile={quoted}",
    "postgresql://me@{host}/db?options={quoted}",
    "postgresql://me@{host}/db?connect_timeout=1&{quoted}=1",
    "postgresql://me:{raw}@{host}/db?answer_timeout=soon",
    "postgresql://m/e:{raw}@{host}/db",
    "postgresql:/me:{raw}@{host}/db",
    "postgresql:me:{raw}@{host}/db",
    "me:{quoted}@{host}/db",
    "host=127.0.0.1 port=9 password={raw}",
    "mysql://me:{raw}@{host}/db",
    "://me:{raw}@{host}/db",
    "postgresql://me:{raw}\0@{host}/db",
    "http://me:{raw}@{host}/db",
]


def said_of(url: str) -> list[str]:
    """All that a user is told who opens it, or examines it."""
    said = [shown_address(url)]
    for create in (False, True):
        with contextlib.suppress(ValueError):
            try:
                open_storage(url, create=create).close()
            except (ba.InvalidInput, StorageError) as error:
                said.append(str(error))
    finding = _database(url)
    said += [finding.detail, str(finding.remedy)]
    return said


@cases(4)
@pytest.mark.parametrize("place", PLACES)
@examples(8, 50)
@given(parts=st.lists(st.sampled_from([*WORDS, *WORDS, *"@/:?#%&=+ é"]), min_size=1, max_size=6))
def test_secrets_are_not_shown(place: str, parts: list[str]) -> None:
    secret = "".join(parts)
    if not any(word in secret for word in WORDS):
        secret += WORDS[0]
    url = place.format(raw=secret, quoted=quote(secret, safe=""), host=NOWHERE)
    for line in said_of(url):
        assert not any(word in line for word in WORDS), f"{line!r} of {url!r}"


def test_an_address_is_shown_as_far_as_it_is_not_secret() -> None:
    url = "postgresql://me:pw@host:5/db?sslmode=require&sslpassword=x&connect_timeout=3"
    assert shown_address(url) == "postgresql://me:***@host:5/db?connect_timeout=3&sslmode=require&***"
    assert shown_address("postgresql://me@host/db?options=-csearch_path%3Dx") == "postgresql://me@host/db?***"
    assert shown_address("studies.db") == "studies.db"
    assert shown_address("postgresql://me@host/a@b") == "postgresql://me@host/a%40b"
    assert read_address("postgresql://me:p%40ss@host/db").password == "p@ss"
    with pytest.raises(ba.InvalidInput, match="write it as %40"):
        read_address("postgresql://me:pa@ss@host/db")


def test_a_server_that_repeats_a_secret(postgres_server: PostgresServer) -> None:
    """What the driver says is passed on only if it holds none."""
    url = postgres_server.new_database()
    for option in ("options=-cs3cr3t%3D1", "s3cr3t=1", "client_encoding=latin1&application_name=x&options=-chushhush"):
        for line in said_of(f"{url}?{option}"):
            assert not any(word in line for word in WORDS), line
    for line in said_of(url.replace("only-for-tests", "s3cr3t")):
        assert "s3cr3t" not in line


def test_commands_name_a_database_without_its_password(postgres_server: PostgresServer) -> None:
    url = postgres_server.new_database()
    assert "only-for-tests" in url
    plan = ba.Problem(arms=["a", "b"], objective=ba.maximize("gain", noise=ba.Gaussian(1)))
    study = ba.Study.create(plan, name="x", storage=url)
    study.archive()
    study.storage.close()
    for words in (["list"], ["list", "--all"], ["log", "x"], ["new", "exp1-a"]):
        command = [sys.executable, "-m", "bestarm", *words, "--db", url]
        ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert ended.returncode == 0, ended.stdout
        assert ended.stdout
        assert "only-for-tests" not in ended.stdout


@pytest.mark.parametrize(
    "url", ["http://me:s3cr3t@127.0.0.1:9", "http://127.0.0.1:9?token=s3cr3t", "ftp://me:s3cr3t@127.0.0.1"]
)
def test_addresses_of_services(url: str) -> None:
    with pytest.raises(ba.InvalidInput, match="must be the address of a service") as caught:
        Client(url)
    assert "s3cr3t" not in str(caught.value)


def test_an_address_given_twice_is_not_repeated() -> None:
    ended = CliRunner().invoke(app, ["list", "--db", "postgresql://me:s3cr3t@h/x", "--db", "other.db"])
    assert ended.exit_code == 2
    assert "--db is given twice" in " ".join(ended.output.replace("│", " ").split())
    assert "s3cr3t" not in ended.output
