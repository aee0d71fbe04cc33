"""Opening a storage by its path or URL; installed packages add schemes of their own."""

from __future__ import annotations

import os

from bestarm.plugins import load_plugin
from bestarm.storage.base import Storage
from bestarm.validation import UNSTATED, InvalidInput

DEFAULT_URL = "bestarm.db"


def default_url() -> str:
    """Where studies are kept by default: `BESTARM_DB`, or else `bestarm.db` in the current folder."""
    return os.environ.get("BESTARM_DB") or DEFAULT_URL


def open_storage(
    storage: str | os.PathLike[str] | Storage | None = None, *, create: bool = False, upgrade: bool = True
) -> Storage:
    """The storage at a path or URL; with `create`, made if it is not there.

    An SQLite file of this user with old tables is upgraded, and a copy is kept beside it. Any other database with old
    tables, or any at all without `upgrade`, is `OldTables`: `bestarm migrate --apply` upgrades it.

    A path is an SQLite file and ":memory:" a database that ends with the process; "postgresql://…" is a PostgreSQL
    database. Installed packages add other schemes through the entry-point group `bestarm.storages`: a function that
    takes the URL and `create`.
    """
    if isinstance(storage, Storage):
        return storage
    url = default_url() if storage is None else os.fspath(storage)
    if not isinstance(url, str) or not url.strip() or "\0" in url:
        # Do not repeat any part of a URL: it may hold a password.
        said = UNSTATED if isinstance(url, str) and ("://" in url or "@" in url or "=" in url) else url
        raise InvalidInput("storage", said, "must be a path or a URL such as postgresql://user@host/database")
    scheme = url.split("://")[0] if "://" in url else "sqlite"
    if (make := load_plugin("bestarm.storages", scheme)) is not None:
        made: Storage = make(url, create=create)
        return made
    # SQLAlchemy is slow to load, and not every storage needs it.
    from bestarm.storage.sql.storage import SQLStorage

    return SQLStorage(url, create=create, upgrade="own files" if upgrade else "never")


def is_service(url: str) -> bool:
    """Whether this is the address of a service, and not of a database."""
    return url.partition("://")[0].lower() in ("http", "https")


def is_missing_file(url: str) -> bool:
    """Whether this is the path of a file that does not exist yet. `InvalidInput` if it is neither a path nor a URL."""
    from bestarm.storage.address import read_address

    if "://" in url:
        return False
    read_address(url)
    return not os.path.exists(url)
