"""Named tokens in SQLite or PostgreSQL."""

from __future__ import annotations

import sqlalchemy as sa

from bestarm.storage.sql.database import Database
from bestarm.storage.sql.locked import retried
from bestarm.storage.sql.schema import acts, sessions, storable, tokens
from bestarm.storage.tokens import (
    DAY,
    SESSION_SECONDS,
    Grants,
    Session,
    Token,
    TokenKeeper,
    check_days,
    check_token_name,
    new_token,
    token_digest,
)
from bestarm.validation import InvalidInput

_SESSION = sa.select(*(sessions.c[name] for name in Session._fields))
_KNOWN = sa.select(*(tokens.c[name] for name in Token._fields))


class SQLTokens(TokenKeeper):
    """The part of `SQLStorage` that keeps tokens."""

    _database: Database

    def make_token(self, name: str, role: str, days: float | None = None, *, by: str = "") -> tuple[str, Token]:
        check_token_name(name)
        grants, days = Grants.of([role]), check_days(days)
        token = new_token()
        with self._database.transaction() as connection:
            if (there := self._named(name)) is not None:
                reason = "there is a token of this name" if there.revoked is None else "a revoked token had this name"
                raise InvalidInput("name", name, f"{reason}; choose another, so that logs stay clear")
            now = self._database.time(connection)
            made = Token(name, str(grants), token_digest(token), now, None if days is None else now + DAY * days)
            connection.execute(sa.insert(tokens).values(made._asdict()))
            self._note(connection, now, "token made", by, name, f"role {grants}")
        return token, made

    def tokens(self) -> list[Token]:
        return [*map(Token._make, self._database.read(_KNOWN.order_by(tokens.c.created, tokens.c.name)))]

    def find_token(self, digest: str) -> tuple[Token, float] | None:
        with self._database.connect() as connection:
            row = connection.execute(_KNOWN.where(tokens.c.digest == digest)).first()
            return None if row is None else (Token._make(row), self._database.time(connection))

    @retried
    def revoke_token(self, name: str, *, by: str = "") -> Token:
        with self._database.transaction() as connection:
            if (found := self._named(name)) is None:
                reason = f"no such token in {self._database.url!r}; `bestarm token list` lists them"
                raise InvalidInput("name", name, reason)
            if found.revoked is None:
                now = self._database.time(connection)
                found = found._replace(revoked=now)
                connection.execute(sa.update(tokens).where(tokens.c.name == name).values(revoked=now))
                self._note(connection, now, "token revoked", by, name)
        return found

    def open_session(self, digest: str, token: str) -> Session:
        with self._database.transaction() as connection:
            now = self._database.time(connection)
            connection.execute(sa.delete(sessions).where(sessions.c.expires <= now))
            made = Session(digest, token, now, now + SESSION_SECONDS)
            connection.execute(sa.insert(sessions).values(made._asdict()))
        return made

    def find_session(self, digest: str) -> Session | None:
        with self._database.connect() as connection:
            row = connection.execute(_SESSION.where(sessions.c.digest == digest)).first()
            if row is None or row.expires <= self._database.time(connection):
                return None
            return Session._make(row)

    @retried
    def end_session(self, digest: str) -> None:
        with self._database.transaction() as connection:
            connection.execute(sa.delete(sessions).where(sessions.c.digest == digest))

    def _note(self, connection: sa.Connection, now: float, kind: str, who: str, subject: str, detail: str = "") -> None:
        row = {"time": now, "kind": kind, "who": storable(who), "subject": subject, "detail": detail}
        connection.execute(sa.insert(acts).values(row))

    def _named(self, name: str) -> Token | None:
        return next(map(Token._make, self._database.read(_KNOWN.where(tokens.c.name == name))), None)
