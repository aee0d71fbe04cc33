"""Opening a storage by its path or URL; installed packages add schemes of their own."""

from __future__ import annotations

import os

from bestarm.plugins import load_plugin
from bestarm.storage.base import Storage
from bestarm.validation import UNSTATED, InvalidInput

DEFAULT_URL = "bestarm.db"


def default_url() -> str:
    """Where studies are kept when nobody says: `BESTARM_DB`, or else `bestarm.db` in the present folder."""
    return os.environ.get("BESTARM_DB") or DEFAULT_URL


def open_storage(storage: str | os.PathLike[str] | Storage | None = None, *, create: bool = False) -> Storage:
    """The storage at a path or URL; with `create`, made if it is not there.

    A path is an SQLite file and ":memory:" a database that ends with the process; "postgresql://…" is a PostgreSQL
    database. Installed packages add other schemes through the entry-point group `bestarm.storages`: a function that
    takes the URL and `create`.
    """
    if isinstance(storage, Storage):
        return storage
    url = default_url() if storage is None else os.fspath(storage)
    if not isinstance(url, str) or not url.strip() or "\0" in url:
        # Of a URL nothing is repeated: it may hold a password.
        said = UNSTATED if isinstance(url, str) and ("://" in url or "@" in url or "=" in url) else url
        raise InvalidInput("storage", said, "must be a path or a URL such as postgresql://user@host/database")
    scheme = url.split("://")[0] if "://" in url else "sqlite"
    if (make := load_plugin("bestarm.storages", scheme)) is not None:
        made: Storage = make(url, create=create)
        return made
    from bestarm.storage.sql import SQLStorage

    return SQLStorage(url, create=create)
